//! What a directory keeps from one start to the next.

use std::io::Write;
use std::path::Path;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use kinesis_local::faults::Fault;
use kinesis_local::model::Settings;
use kinesis_local::{LocalAws, StartError};

use super::dynamodb::create_leases;
use super::{dynamodb_client, kinesis_client};

async fn start(directory: &Path) -> LocalAws {
    LocalAws::builder().stream("flights", 2).data(directory).start().await.unwrap()
}

/// All records of the stream, by shard: sequence number, arrival and payload.
async fn records(aws: &LocalAws) -> Vec<String> {
    let client = kinesis_client(aws);
    let mut records = Vec::new();
    for shard in aws.shards("flights").unwrap() {
        let call = client.get_shard_iterator().stream_name("flights").shard_id(shard.id.as_str());
        let iterator = call.shard_iterator_type("TRIM_HORIZON".into()).send().await.unwrap();
        let page = client.get_records().set_shard_iterator(iterator.shard_iterator).send().await.unwrap();
        records.extend(page.records().iter().map(|record| format!("{} {record:?}", shard.id)));
    }
    records
}

#[tokio::test]
async fn streams_and_tables_are_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let aws = start(directory.path()).await;
    let (kinesis, dynamodb) = (kinesis_client(&aws), dynamodb_client(&aws));
    create_leases(&dynamodb).await;
    let key = AttributeValue::S("shard".into());
    dynamodb.put_item().table_name("leases").item("leaseKey", key).send().await.unwrap();
    let entries = (0..40).map(|number: u8| {
        let entry = PutRecordsRequestEntry::builder().partition_key(number.to_string());
        entry.data(Blob::new([number])).build().unwrap()
    });
    kinesis.put_records().stream_name("flights").set_records(Some(entries.collect())).send().await.unwrap();
    aws.put("flights", "a \u{6771}\n", vec![0xff, 0]).unwrap();
    let [left, right] = aws.split("flights", "shardId-000000000001").unwrap();
    aws.merge("flights", left.as_str(), right.as_str()).unwrap();
    kinesis.put_record().stream_name("flights").partition_key("a").data(Blob::new("x")).send().await.unwrap();
    let (shards, before) = (aws.shards("flights").unwrap(), records(&aws).await);
    assert_eq!(before.len(), 42);
    aws.stop().await;

    let aws = start(directory.path()).await;
    assert_eq!(aws.shards("flights").unwrap(), shards);
    assert_eq!(records(&aws).await, before);
    assert_eq!(dynamodb_client(&aws).scan().table_name("leases").send().await.unwrap().count(), 1);
    let next = aws.put("flights", "a", "y").unwrap();
    assert!(!before.iter().any(|record| record.contains(next.sequence_number.as_str())));
    aws.stop().await;
    assert_eq!(records(&start(directory.path()).await).await.len(), 43);
}

#[tokio::test]
async fn what_was_refused_or_failed_is_not_kept_and_a_lost_reply_is() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { limits: true, ..Settings::default() };
    let aws = LocalAws::builder().settings(settings).stream("flights", 2).data(directory.path());
    let aws = aws.start().await.unwrap();
    let client = kinesis_client(&aws);
    let put = || {
        // Beyond what a shard takes in a second, so that some fail.
        let entry = PutRecordsRequestEntry::builder().partition_key("a").data(Blob::new(vec![1; 500_000]));
        let entries = vec![entry.build().unwrap(); 4];
        client.put_records().stream_name("flights").set_records(Some(entries)).send()
    };
    assert!(put().await.unwrap().failed_record_count().unwrap() > 0);
    aws.faults().add(Fault::on("PutRecord").times(1).error("InternalFailure"));
    aws.faults().add(Fault::on("PutRecord").times(1).lose_reply());
    for _ in 0..2 {
        let call = client.put_record().stream_name("flights").partition_key("0").data(Blob::new("x"));
        call.send().await.unwrap_err();
    }
    let before = records(&aws).await;
    aws.stop().await;
    assert_eq!(records(&start(directory.path()).await).await, before);
}

#[tokio::test]
async fn a_line_that_was_not_finished_is_dropped_and_anything_else_is_told() {
    let directory = tempfile::tempdir().unwrap();
    start(directory.path()).await.stop().await;
    let path = directory.path().join("kinesis.jsonl");
    let write = |text: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    write(r#"{"at":5,"operation":"DeleteStream","request":{"StreamName":"fli"#);
    let aws = start(directory.path()).await;
    aws.put("flights", "a", "1").unwrap();
    aws.stop().await;
    let aws = start(directory.path()).await;
    assert_eq!(records(&aws).await.len(), 1);
    aws.stop().await;

    write("what\n");
    let error = LocalAws::builder().data(directory.path()).start().await.unwrap_err();
    assert!(matches!(&error, StartError::Data(why) if why.to_string().contains("line 3")), "{error:?}");
}

#[tokio::test]
async fn a_stream_made_again_at_once_is_the_same_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let clock = || std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_500);
    let start = || LocalAws::builder().data(directory.path()).clock(clock).start();
    let aws = start().await.unwrap();
    let client = kinesis_client(&aws);
    let mut numbers = Vec::new();
    for stream in ["trains", "flights", "flights"] {
        aws.create_stream(stream, 1).unwrap();
        numbers.push(aws.put(stream, "a", "1").unwrap().sequence_number);
        if numbers.len() < 3 {
            client.delete_stream().stream_name(stream).send().await.unwrap();
            // It is forgotten here already, and at the next start only when its name is used.
            client.list_streams().send().await.unwrap();
        }
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    let before = records(&aws).await;
    let call = client.get_shard_iterator().stream_name("flights").shard_id("shardId-000000000000");
    let iterator = call.shard_iterator_type("TRIM_HORIZON".into()).send().await.unwrap().shard_iterator;
    aws.stop().await;
    let aws = start().await.unwrap();
    assert_eq!(records(&aws).await, before);
    let read = kinesis_client(&aws).get_records().set_shard_iterator(iterator).send().await.unwrap();
    assert_eq!(read.records().len(), 1);
}

#[tokio::test]
async fn a_directory_that_is_none_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = LocalAws::builder().data(file.path()).start().await.unwrap_err();
    let path = file.path().to_str().unwrap();
    assert!(matches!(&error, StartError::Data(why) if why.to_string().contains(path)), "{error:?}");
}
