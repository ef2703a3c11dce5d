use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::error::ProvideErrorMetadata;
use aws_sdk_kinesis::operation::get_records::GetRecordsOutput;
use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::{
    PutRecordsRequestEntry, ScalingType, ShardFilter, ShardFilterType, ShardIteratorType, StreamStatus,
};
use kinesis_local::LocalAws;

use super::kinesis_client;

const SHARD_0: &str = "shardId-000000000000";
const SHARD_1: &str = "shardId-000000000001";

async fn started(shards: u32) -> (LocalAws, Client) {
    let aws = LocalAws::builder().stream("flights", shards).start().await.unwrap();
    let client = kinesis_client(&aws);
    (aws, client)
}

async fn iterator(client: &Client, shard: &str, kind: ShardIteratorType) -> String {
    let call = client.get_shard_iterator().stream_name("flights").shard_id(shard).shard_iterator_type(kind);
    call.send().await.unwrap().shard_iterator.unwrap()
}

async fn read(client: &Client, iterator: &str) -> GetRecordsOutput {
    client.get_records().shard_iterator(iterator).send().await.unwrap()
}

fn entry(key: impl Into<String>, data: impl Into<Vec<u8>>) -> PutRecordsRequestEntry {
    PutRecordsRequestEntry::builder().partition_key(key).data(Blob::new(data)).build().unwrap()
}

#[tokio::test]
async fn a_record_comes_out_as_it_went_in() {
    let (_aws, client) = started(1).await;
    let key = "\u{6771}\u{4eac} \"\\\n\u{1f6eb}";
    let payload: Vec<u8> = (0..=255).collect();
    let put = client.put_record().stream_name("flights").partition_key(key).data(Blob::new(payload.clone()));
    let put = put.send().await.unwrap();
    assert_eq!(put.shard_id(), SHARD_0);

    let page = read(&client, &iterator(&client, SHARD_0, ShardIteratorType::TrimHorizon).await).await;
    let [record] = page.records() else { panic!("{page:?}") };
    assert_eq!(record.data().as_ref(), payload);
    assert_eq!(record.partition_key(), Some(key));
    assert_eq!(record.sequence_number(), put.sequence_number());
    assert!(record.approximate_arrival_timestamp().is_some());
    assert_eq!(page.millis_behind_latest(), Some(0));
    assert!(page.next_shard_iterator().is_some());
}

#[tokio::test]
async fn five_hundred_records_of_a_call_are_read_in_their_order() {
    let (aws, client) = started(4).await;
    let entries = (0..500u32).map(|number| entry(format!("key {number}"), number.to_be_bytes()));
    let put = client.put_records().stream_name("flights").set_records(Some(entries.collect()));
    let put = put.send().await.unwrap();
    assert_eq!(put.failed_record_count(), Some(0));
    assert_eq!(put.records().len(), 500);

    let mut read_back = 0;
    for shard in aws.shards("flights").unwrap() {
        let page =
            read(&client, &iterator(&client, shard.id.as_str(), ShardIteratorType::TrimHorizon).await).await;
        let numbers: Vec<&[u8]> = page.records().iter().map(|record| record.data().as_ref()).collect();
        assert!(numbers.is_sorted());
        read_back += numbers.len();
    }
    assert_eq!(read_back, 500);
    assert_eq!(aws.calls("PutRecords"), 1);
    assert_eq!(aws.calls("GetRecords"), 4);
    assert_eq!(aws.calls("SubscribeToShard"), 0);
}

#[tokio::test]
async fn a_split_ends_the_parent_and_names_its_children() {
    let (_aws, client) = started(1).await;
    client
        .put_records()
        .stream_name("flights")
        .records(entry("a", "1"))
        .records(entry("b", "2"))
        .send()
        .await
        .unwrap();
    let middle = (1u128 << 127).to_string();
    let split = || {
        let call = client.split_shard().stream_name("flights").shard_to_split(SHARD_0);
        call.new_starting_hash_key(&middle).send()
    };
    split().await.unwrap();
    let again = split().await.unwrap_err().into_service_error();
    assert!(again.is_invalid_argument_exception(), "{again:?}");

    let page = client
        .get_records()
        .shard_iterator(iterator(&client, SHARD_0, ShardIteratorType::TrimHorizon).await)
        .limit(1)
        .send()
        .await
        .unwrap();
    assert_eq!((page.records().len(), page.child_shards().len()), (1, 0));
    let page = read(&client, page.next_shard_iterator().unwrap()).await;
    assert_eq!(page.records().len(), 1);
    assert_eq!(page.next_shard_iterator(), None);
    let [left, right] = page.child_shards() else { panic!("{page:?}") };
    assert_eq!((left.shard_id(), right.shard_id()), (SHARD_1, "shardId-000000000002"));
    assert_eq!(left.parent_shards(), [SHARD_0]);
    assert_eq!(left.hash_key_range().unwrap().starting_hash_key(), "0");
    assert_eq!(right.hash_key_range().unwrap().starting_hash_key(), middle);

    let shards = client.list_shards().stream_name("flights").send().await.unwrap();
    let parents: Vec<_> = shards.shards().iter().map(|shard| shard.parent_shard_id()).collect();
    assert_eq!(parents, [None, Some(SHARD_0), Some(SHARD_0)]);
}

#[tokio::test]
async fn a_merge_gives_a_shard_with_two_parents() {
    let (_aws, client) = started(2).await;
    let call = client.merge_shards().stream_name("flights").shard_to_merge(SHARD_0);
    call.adjacent_shard_to_merge(SHARD_1).send().await.unwrap();
    let page = read(&client, &iterator(&client, SHARD_1, ShardIteratorType::Latest).await).await;
    assert_eq!((page.records().len(), page.next_shard_iterator()), (0, None));
    assert_eq!(page.child_shards()[0].parent_shards(), [SHARD_0, SHARD_1]);

    let latest = ShardFilter::builder().r#type(ShardFilterType::AtLatest).build().unwrap();
    let open = client.list_shards().stream_name("flights").shard_filter(latest).send().await.unwrap();
    let [child] = open.shards() else { panic!("{open:?}") };
    assert_eq!(child.parent_shard_id(), Some(SHARD_0));
    assert_eq!(child.adjacent_parent_shard_id(), Some(SHARD_1));
    assert_eq!(child.sequence_number_range().unwrap().ending_sequence_number(), None);
}

#[tokio::test]
async fn shards_are_listed_page_by_page_with_the_token_alone() {
    let (_aws, client) = started(5).await;
    let mut page = client.list_shards().stream_name("flights").max_results(2).send().await.unwrap();
    let mut sizes = vec![page.shards().len()];
    let first_token = page.next_token().unwrap().to_owned();
    while let Some(token) = page.next_token() {
        page = client.list_shards().next_token(token).max_results(2).send().await.unwrap();
        sizes.push(page.shards().len());
    }
    assert_eq!(sizes, [2, 2, 1]);
    let both = client.list_shards().next_token(first_token).stream_name("flights").send().await;
    assert!(both.unwrap_err().into_service_error().is_invalid_argument_exception());
}

#[tokio::test]
async fn iterators_expire_by_the_clock_that_the_services_were_given() {
    let millis = Arc::new(AtomicU64::new(1_800_000_000_123));
    let clock = {
        let millis = millis.clone();
        move || -> SystemTime { UNIX_EPOCH + Duration::from_millis(millis.load(Ordering::Relaxed)) }
    };
    let aws = LocalAws::builder().stream("flights", 1).clock(clock).start().await.unwrap();
    let client = kinesis_client(&aws);
    aws.put("flights", "a", "1").unwrap();
    let start = iterator(&client, SHARD_0, ShardIteratorType::TrimHorizon).await;
    millis.fetch_add(300_000, Ordering::Relaxed);
    aws.put("flights", "a", "2").unwrap();
    let page = client.get_records().shard_iterator(&start).limit(1).send().await.unwrap();
    assert_eq!(page.millis_behind_latest(), Some(300_000));

    let arrival = *page.records()[0].approximate_arrival_timestamp().unwrap();
    let at = |instant: DateTime| {
        let call = client.get_shard_iterator().stream_name("flights").shard_id(SHARD_0);
        call.shard_iterator_type(ShardIteratorType::AtTimestamp).timestamp(instant).send()
    };
    let from_arrival = at(arrival).await.unwrap().shard_iterator.unwrap();
    assert_eq!(read(&client, &from_arrival).await.records().len(), 2);
    let later = DateTime::from_millis(1_800_000_000_124);
    let behind_arrival = at(later).await.unwrap().shard_iterator.unwrap();
    assert_eq!(read(&client, &behind_arrival).await.records().len(), 1);
    let future = at(DateTime::from_millis(1_800_000_300_124)).await.unwrap_err().into_service_error();
    assert!(future.is_invalid_argument_exception());

    millis.fetch_add(1, Ordering::Relaxed);
    let expired = client.get_records().shard_iterator(&start).send().await.unwrap_err().into_service_error();
    assert!(expired.is_expired_iterator_exception(), "{expired:?}");
}

#[tokio::test]
async fn errors_have_the_types_of_the_service() {
    let (_aws, client) = started(1).await;
    let gone = client.describe_stream_summary().stream_name("trains").send().await.unwrap_err();
    assert!(gone.into_service_error().is_resource_not_found_exception());
    let twice = client.create_stream().stream_name("flights").shard_count(1).send().await.unwrap_err();
    assert!(twice.into_service_error().is_resource_in_use_exception());
    let garbage =
        client.get_records().shard_iterator("garbage").send().await.unwrap_err().into_service_error();
    assert!(garbage.is_invalid_argument_exception());
    let call = client.get_shard_iterator().stream_name("flights").shard_id("shardId-000000000007");
    let no_shard = call.shard_iterator_type(ShardIteratorType::Latest).send().await.unwrap_err();
    assert!(no_shard.into_service_error().is_resource_not_found_exception());
    let entries = (0..501).map(|_| entry("a", "1")).collect();
    let many =
        client.put_records().stream_name("flights").set_records(Some(entries)).send().await.unwrap_err();
    assert_eq!(many.code(), Some("ValidationException"));
}

#[tokio::test]
async fn every_operation_takes_an_arn() {
    let (aws, client) = started(2).await;
    let summary = client.describe_stream_summary().stream_name("flights").send().await.unwrap();
    let summary = summary.stream_description_summary().unwrap();
    let arn = summary.stream_arn();
    assert_eq!(arn, "arn:aws:kinesis:us-east-1:000000000000:stream/flights");
    assert_eq!((summary.open_shard_count(), summary.retention_period_hours()), (2, 24));
    assert_eq!(summary.stream_status(), &StreamStatus::Active);

    client.put_record().stream_arn(arn).partition_key("a").data(Blob::new("1")).send().await.unwrap();
    client.put_records().stream_arn(arn).records(entry("a", "")).send().await.unwrap();
    let call = client.get_shard_iterator().stream_arn(arn).shard_id(SHARD_0);
    let start = call.shard_iterator_type(ShardIteratorType::TrimHorizon).send().await.unwrap();
    let call = client.get_records().stream_arn(arn).set_shard_iterator(start.shard_iterator);
    call.send().await.unwrap();
    assert_eq!(client.list_shards().stream_arn(arn).send().await.unwrap().shards().len(), 2);
    client
        .increase_stream_retention_period()
        .stream_arn(arn)
        .retention_period_hours(8_760)
        .send()
        .await
        .unwrap();
    client
        .decrease_stream_retention_period()
        .stream_arn(arn)
        .retention_period_hours(48)
        .send()
        .await
        .unwrap();
    client.update_max_record_size().stream_arn(arn).max_record_size_in_kib(10_240).send().await.unwrap();
    let call = client.update_shard_count().stream_arn(arn).scaling_type(ScalingType::UniformScaling);
    let count = call.target_shard_count(4).send().await.unwrap();
    assert_eq!((count.current_shard_count(), count.target_shard_count()), (Some(2), Some(4)));
    let described = client.describe_stream().stream_arn(arn).limit(3).send().await.unwrap();
    let described = described.stream_description().unwrap();
    assert_eq!((described.shards().len(), described.has_more_shards()), (3, true));
    assert_eq!(described.retention_period_hours(), 48);
    client
        .split_shard()
        .stream_arn(arn)
        .shard_to_split("shardId-000000000002")
        .new_starting_hash_key("9000")
        .send()
        .await
        .unwrap();
    let call = client.merge_shards().stream_arn(arn).shard_to_merge("shardId-000000000006");
    call.adjacent_shard_to_merge("shardId-000000000007").send().await.unwrap();
    client.delete_stream().stream_arn(arn).send().await.unwrap();
    assert!(aws.shards("flights").is_err());
}

#[tokio::test]
async fn streams_are_listed_page_by_page() {
    let (_aws, client) = started(1).await;
    for name in ["trains", "buses"] {
        client.create_stream().stream_name(name).shard_count(1).send().await.unwrap();
    }
    let page = client.list_streams().limit(2).send().await.unwrap();
    assert_eq!(
        (page.stream_names(), page.has_more_streams()),
        (["buses".into(), "flights".into()].as_slice(), true)
    );
    let page = client.list_streams().set_next_token(page.next_token).send().await.unwrap();
    assert_eq!((page.stream_names(), page.has_more_streams()), (["trains".into()].as_slice(), false));
    assert_eq!(page.stream_summaries()[0].stream_status(), &StreamStatus::Active);
}

#[tokio::test]
async fn a_request_of_ten_mib_passes_and_one_byte_more_does_not() {
    let (aws, client) = started(1).await;
    let put = |data: Vec<u8>| {
        let records = data.chunks(1 << 20).map(|chunk| entry("a", &chunk[..chunk.len().min((1 << 20) - 1)]));
        client.put_records().stream_name("flights").set_records(Some(records.collect())).send()
    };
    put(vec![7; 10 << 20]).await.unwrap();
    let mut records: Vec<_> = (0..10).map(|_| entry("a", vec![7; (1 << 20) - 1])).collect();
    records.push(entry("b", ""));
    let more =
        client.put_records().stream_name("flights").set_records(Some(records)).send().await.unwrap_err();
    assert!(more.into_service_error().is_invalid_argument_exception());
    let page = read(&client, &iterator(&client, SHARD_0, ShardIteratorType::TrimHorizon).await).await;
    assert_eq!(page.records().len(), 10);
    assert_eq!(aws.calls("PutRecords"), 2);
}

#[tokio::test]
async fn dropping_the_services_frees_their_ports() {
    let (aws, client) = started(1).await;
    client.list_streams().send().await.unwrap();
    let urls = [aws.kinesis_url(), aws.dynamodb_url()];
    drop(aws);
    let freed = async {
        for url in urls {
            let address = url.strip_prefix("http://").unwrap();
            while tokio::net::TcpStream::connect(address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), freed).await.unwrap();
}

#[test]
fn it_also_works_in_an_environment_of_many_threads_and_ends_with_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let url = runtime.block_on(async {
        let (aws, client) = started(1).await;
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    client
                        .put_record()
                        .stream_name("flights")
                        .partition_key(format!("{number}"))
                        .data(Blob::new("x"))
                        .send()
                        .await
                        .unwrap()
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let url = aws.kinesis_url();
        aws.stop().await;
        url
    });
    let address = url.strip_prefix("http://").unwrap();
    assert!(std::net::TcpStream::connect(address).is_err());
}
