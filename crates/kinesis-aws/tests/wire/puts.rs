//! Records put into the Kinesis on loopback, as a producer puts them.

use std::time::Duration;

use kinesis_aws::{AwsSettings, Clients, KinesisPuts};
use kinesis_lease::put::PutRecord;
use kinesis_lease::{PutApi, StreamErrorKind};
use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;
use kinesis_record::HashKey;

use crate::support::{deserted, settings, settings_for};

async fn local(shards: u32) -> (LocalAws, KinesisPuts) {
    let aws = LocalAws::builder().stream("orders", shards).start().await.unwrap();
    let puts = KinesisPuts::new(&Clients::connect(&settings_for(&aws)).await.unwrap());
    (aws, puts)
}

fn record(key: &str, data: &'static str) -> PutRecord {
    PutRecord { partition_key: key.into(), explicit_hash_key: None, data: data.into() }
}

#[tokio::test]
async fn each_record_is_answered_with_its_place_or_its_refusal() {
    let (aws, puts) = local(4).await;
    aws.faults().add(Fault::on("PutRecords").fail_records([1]));
    let explicit = PutRecord { explicit_hash_key: Some(HashKey::MAX), ..record("b", "") };
    let replies =
        puts.put_records("orders", vec![record("a", "1"), record("a", "2"), explicit]).await.unwrap();
    let refusal = replies[1].as_ref().unwrap_err();
    assert!(refusal.is_throttled() && refusal.code == "ProvisionedThroughputExceededException");
    assert_eq!(replies[2].as_ref().unwrap().shard.as_str(), "shardId-000000000003");
    let stored = aws.records("orders").unwrap();
    assert_eq!(stored.len(), 2);
    for (reply, data) in [(&replies[0], "1"), (&replies[2], "")] {
        let place = reply.as_ref().unwrap();
        let found = stored.iter().find(|(_, record)| record.sequence_number == place.sequence).unwrap();
        assert_eq!((&found.0, &found.1.data[..]), (&place.shard, data.as_bytes()));
    }
}

#[tokio::test]
async fn shards_are_listed_and_a_stream_can_be_named_by_its_arn() {
    let (aws, puts) = local(3).await;
    let clients = Clients::connect(&settings_for(&aws)).await.unwrap();
    let summary = clients.kinesis().describe_stream_summary().stream_name("orders").send().await.unwrap();
    let arn = summary.stream_description_summary.unwrap().stream_arn;
    assert_eq!(puts.list_shards(&arn).await.unwrap(), aws.shards("orders").unwrap());
    puts.put_records(&arn, vec![record("a", "1")]).await.unwrap();
    assert_eq!(aws.records("orders").unwrap().len(), 1);
}

#[tokio::test]
async fn failed_calls_are_told_apart_and_made_once() {
    let (aws, puts) = local(1).await;
    for (code, kind) in [
        ("ProvisionedThroughputExceededException", StreamErrorKind::Throttled),
        ("AccessDeniedException", StreamErrorKind::Denied),
        ("ResourceNotFoundException", StreamErrorKind::NotFound),
        ("ValidationException", StreamErrorKind::InvalidArgument),
        ("KMSDisabledException", StreamErrorKind::Encryption),
        ("InternalFailure", StreamErrorKind::Unavailable),
    ] {
        let fault = aws.faults().add(Fault::on("PutRecords").times(1).error(code));
        let error = puts.put_records("orders", vec![record("a", "1")]).await.unwrap_err();
        assert_eq!((error.kind, fault.fired()), (kind, 1), "{error}");
        assert!(error.to_string().contains("PutRecords of the stream \"orders\""), "{error}");
        assert!(!error.to_string().contains("\"a\""), "{error}");
    }
    assert_eq!((aws.calls("PutRecords"), aws.records("orders").unwrap().len()), (6, 0));
}

#[tokio::test]
async fn a_call_ends_in_time() {
    let (aws, _) = local(1).await;
    let limited = AwsSettings { request_timeout: Duration::from_millis(300), ..settings_for(&aws) };
    let puts = KinesisPuts::new(&Clients::connect(&limited).await.unwrap());
    aws.faults().add(Fault::on("PutRecords").hang());
    let error = puts.put_records("orders", vec![record("a", "1")]).await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::Unavailable, "{error}");
    let nowhere = AwsSettings { endpoint_url: Some(deserted()), ..settings() };
    let puts = KinesisPuts::new(&Clients::connect(&nowhere).await.unwrap());
    let error = puts.put_records("orders", vec![record("a", "1")]).await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn replies_that_do_not_fit_the_request_are_not_believed() {
    let (aws, puts) = local(1).await;
    let rewrites: [fn(&mut serde_json::Value); 2] = [
        |reply| drop(reply["Records"].as_array_mut().unwrap().pop()),
        |reply| reply["Records"][0] = serde_json::json!({}),
    ];
    for (rewrite, holds) in rewrites.into_iter().zip(["1 results for 2", "neither an error nor a place"]) {
        aws.faults().add(Fault::on("PutRecords").times(1).rewrite(rewrite));
        let error = puts.put_records("orders", vec![record("a", "1"), record("b", "2")]).await.unwrap_err();
        assert_eq!(error.kind, StreamErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(holds), "{error}");
    }
}
