//! Faults that only Kinesis has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::{PutRecordsRequestEntry, ShardFilter, ShardFilterType};
use kinesis_local::LocalAws;
use kinesis_local::faults::{Fault, RecordFailure};

use super::kinesis_client;

const SHARD_0: &str = "shardId-000000000000";

async fn listed(client: &Client, filter: Option<ShardFilterType>) -> Vec<String> {
    let filter = filter.map(|kind| ShardFilter::builder().r#type(kind).build().unwrap());
    let reply = client.list_shards().stream_name("flights").set_shard_filter(filter).send().await.unwrap();
    assert_eq!(reply.next_token(), None);
    let shown = |shard: &aws_sdk_kinesis::types::Shard| {
        let open = shard.sequence_number_range().unwrap().ending_sequence_number().is_none();
        format!(
            "{}{}",
            shard.shard_id().trim_start_matches("shardId-00000000000"),
            if open { "" } else { "x" }
        )
    };
    reply.shards().iter().map(shown).collect()
}

async fn iterator(client: &Client) -> String {
    let call = client.get_shard_iterator().stream_name("flights").shard_id(SHARD_0);
    call.shard_iterator_type("TRIM_HORIZON".into()).send().await.unwrap().shard_iterator.unwrap()
}

#[tokio::test]
async fn a_stale_shard_list_is_the_one_of_when_the_fault_was_added() {
    let aws = LocalAws::builder().stream("flights", 2).start().await.unwrap();
    let client = kinesis_client(&aws);
    let fault = aws.faults().add(Fault::on_any().stale_shards());
    aws.split("flights", SHARD_0).unwrap();
    assert_eq!(listed(&client, None).await, ["0", "1"]);
    assert_eq!(listed(&client, Some(ShardFilterType::AtLatest)).await, ["0", "1"]);
    let described = client.describe_stream().stream_name("flights").send().await.unwrap();
    assert_eq!(described.stream_description().unwrap().shards().len(), 2);
    fault.remove();
    assert_eq!(listed(&client, None).await, ["0x", "1", "2", "3"]);
    assert_eq!(listed(&client, Some(ShardFilterType::AtLatest)).await, ["1", "2", "3"]);
}

#[tokio::test]
async fn a_partial_shard_list_lacks_the_named_shards_or_its_end() {
    let aws = LocalAws::builder().stream("flights", 4).start().await.unwrap();
    let client = kinesis_client(&aws);
    aws.faults().add(Fault::on("ListShards").times(1).hide_shards([SHARD_0, "shardId-000000000002"]));
    assert_eq!(listed(&client, None).await, ["1", "3"]);
    aws.faults().add(Fault::on_any().first_shards(3));
    assert_eq!(listed(&client, None).await, ["0", "1", "2"]);
    let described = client.describe_stream().stream_name("flights").limit(3).send().await.unwrap();
    assert!(!described.stream_description().unwrap().has_more_shards());
}

#[tokio::test]
async fn an_empty_page_loses_nothing_and_tells_the_lag() {
    let time = Arc::new(AtomicU64::new(1_000_000));
    let clock = {
        let time = time.clone();
        move || UNIX_EPOCH + Duration::from_millis(time.load(Ordering::Relaxed))
    };
    let aws = LocalAws::builder().clock(clock).stream("flights", 1).start().await.unwrap();
    let client = kinesis_client(&aws);
    aws.put("flights", "a", "1").unwrap();
    aws.put("flights", "a", "2").unwrap();
    time.fetch_add(5_000, Ordering::Relaxed);
    aws.split("flights", SHARD_0).unwrap();
    aws.faults().add(Fault::on("GetRecords").times(2).empty_page());
    let mut next = Some(iterator(&client).await);
    let mut pages = Vec::new();
    while let Some(iterator) = next {
        // Beyond what the first iterator would have lived.
        time.fetch_add(200_000, Ordering::Relaxed);
        let page = client.get_records().shard_iterator(iterator).send().await.unwrap();
        pages.push((page.records().len(), page.millis_behind_latest().unwrap(), page.child_shards().len()));
        next = page.next_shard_iterator;
    }
    assert_eq!(pages, [(0, 205_000, 0), (0, 405_000, 0), (2, 0, 2)]);
}

#[tokio::test]
async fn iterators_expire_sooner_when_told_to() {
    let time = Arc::new(AtomicU64::new(1_000_000));
    let clock = {
        let time = time.clone();
        move || UNIX_EPOCH + Duration::from_millis(time.load(Ordering::Relaxed))
    };
    let aws = LocalAws::builder().clock(clock).stream("flights", 1).start().await.unwrap();
    let client = kinesis_client(&aws);
    let fault = aws.faults().add(Fault::on("GetRecords").expire_iterators(Duration::from_secs(2)));
    let iterator = iterator(&client).await;
    let read = || client.get_records().shard_iterator(&iterator).send();
    time.fetch_add(2_000, Ordering::Relaxed);
    read().await.unwrap();
    assert_eq!((fault.seen(), fault.fired()), (0, 0));
    time.fetch_add(1, Ordering::Relaxed);
    assert!(read().await.unwrap_err().into_service_error().is_expired_iterator_exception());
    assert_eq!(fault.fired(), 1);
}

#[tokio::test]
async fn records_fail_by_their_place_and_only_the_others_are_stored() {
    let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
    let client = kinesis_client(&aws);
    let put = || {
        let entry = |data| PutRecordsRequestEntry::builder().partition_key("a").data(Blob::new(data)).build();
        let records = ["0", "1", "2"].map(|data| entry(data).unwrap());
        client.put_records().stream_name("flights").set_records(Some(records.into())).send()
    };
    aws.faults().add(Fault::on("PutRecords").times(1).fail_records([0]));
    let refused = Fault::on("PutRecords").times(1);
    aws.faults().add(refused.fail_records_with([2, 9], RecordFailure::InternalFailure, "why not"));
    let reply = put().await.unwrap();
    assert_eq!(reply.failed_record_count(), Some(2));
    let codes: Vec<_> = reply.records().iter().map(|record| record.error_code()).collect();
    let throttled = Some("ProvisionedThroughputExceededException");
    assert_eq!(codes, [throttled, None, Some("InternalFailure")]);
    assert_eq!(reply.records()[2].error_message(), Some("why not"));
    assert!(reply.records()[1].sequence_number().is_some());

    aws.faults().add(Fault::on("PutRecords").times(1).fail_records(0..500));
    assert_eq!(put().await.unwrap().failed_record_count(), Some(3));
    // What the service would refuse is refused, even if every record is to fail.
    aws.faults().add(Fault::on("PutRecords").times(2).fail_records(0..500));
    let entry = PutRecordsRequestEntry::builder().partition_key("a").data(Blob::new(vec![0; 2 << 20]));
    let call = client.put_records().stream_name("flights").records(entry.build().unwrap());
    assert!(call.send().await.unwrap_err().into_service_error().meta().code().is_some());
    let entry = PutRecordsRequestEntry::builder().partition_key("a").data(Blob::new("x"));
    let call = client.put_records().stream_name("nowhere").records(entry.build().unwrap());
    assert!(call.send().await.unwrap_err().into_service_error().is_resource_not_found_exception());
    let page = client.get_records().shard_iterator(iterator(&client).await).send().await.unwrap();
    let stored: Vec<&[u8]> = page.records().iter().map(|record| record.data().as_ref()).collect();
    assert_eq!(stored, [b"1"]);
}
