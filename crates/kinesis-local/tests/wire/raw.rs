//! What the SDK would never send.

use kinesis_local::LocalAws;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends one request and gives the whole reply.
async fn post(aws: &LocalAws, target: &str, content_type: &str, body: &str) -> String {
    let url = aws.kinesis_url();
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: {content_type}\r\n\
         X-Amz-Target: {target}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

const JSON: &str = "application/x-amz-json-1.1";

#[tokio::test]
async fn unsigned_requests_and_members_that_nobody_knows_are_fine() {
    let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
    let body = r#"{"StreamName": "flights", "Hologram": {"Depth": [1, 2]}, "DryRun": true}"#;
    let reply = post(&aws, "Kinesis_20131202.ListShards", JSON, body).await;
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(reply.contains("\r\nx-amzn-requestid: "), "{reply}");
    assert!(reply.contains("\r\ncontent-type: application/x-amz-json-1.1\r\n"), "{reply}");
    assert!(reply.contains(r#""ShardId":"shardId-000000000000""#), "{reply}");
}

#[tokio::test]
async fn what_cannot_be_read_is_a_serialization_error() {
    let aws = LocalAws::start().await.unwrap();
    let unread = [
        "",
        "{",
        "[]",
        "null",
        r#"{"StreamName": 5}"#,
        r#"{"StreamName": "flights", "PartitionKey": "a", "Data": "%%%"}"#,
    ];
    for body in unread {
        let reply = post(&aws, "Kinesis_20131202.PutRecord", JSON, body).await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "{body}: {reply}");
        assert!(reply.contains(r#""__type":"SerializationException""#), "{body}: {reply}");
        assert!(!reply.contains("%%%"), "{reply}");
    }
    let reply = post(&aws, "Kinesis_20131202.PutRecord", "application/x-amz-cbor-1.1", "").await;
    assert!(reply.contains("SerializationException"), "{reply}");
}

#[tokio::test]
async fn an_operation_that_is_not_served_is_named_as_such() {
    let aws = LocalAws::start().await.unwrap();
    for target in ["Kinesis_20131202.Fly", "DynamoDB_20120810.ListTables", ""] {
        let reply = post(&aws, target, JSON, "{}").await;
        assert!(reply.contains(r#""__type":"UnknownOperationException""#), "{target}: {reply}");
    }
}

#[tokio::test]
async fn missing_and_misfit_members_are_told_by_name() {
    let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
    let cases = [
        ("PutRecord", r#"{"StreamName": "flights", "Data": ""}"#, "ValidationException", "partitionKey"),
        (
            "PutRecords",
            r#"{"StreamName": "flights", "Records": [{"PartitionKey": "a"}]}"#,
            "ValidationException",
            "records.1.member.data",
        ),
        ("ListShards", r#"{"StreamName": "flights", "MaxResults": -1}"#, "ValidationException", "maxResults"),
        ("ListShards", "{}", "InvalidArgumentException", "StreamName"),
        (
            "GetShardIterator",
            r#"{"StreamName": "flights", "ShardId": "x", "ShardIteratorType": "AT_TIMESTAMP"}"#,
            "InvalidArgumentException",
            "Timestamp",
        ),
        (
            "GetShardIterator",
            r#"{"StreamName": "flights", "ShardId": "x", "ShardIteratorType": "latest"}"#,
            "ValidationException",
            "shardIteratorType",
        ),
        (
            "GetShardIterator",
            r#"{"StreamName": "flights", "ShardId": "x", "ShardIteratorType": "LATEST",
                "StartingSequenceNumber": "5"}"#,
            "InvalidArgumentException",
            "LATEST",
        ),
        ("CreateStream", r#"{"StreamName": "trains"}"#, "ValidationException", "shardCount"),
        (
            "UpdateShardCount",
            r#"{"StreamName": "flights", "TargetShardCount": 2, "ScalingType": "MAGIC"}"#,
            "ValidationException",
            "scalingType",
        ),
    ];
    for (operation, body, code, word) in cases {
        let reply = post(&aws, &format!("Kinesis_20131202.{operation}"), JSON, body).await;
        assert!(reply.contains(code) && reply.contains(word), "{operation} {body}: {reply}");
    }
}
