//! What the SDK would never send.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends bytes and gives all that comes until the connection ends.
pub(crate) async fn exchange(url: &str, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await?;
    stream.write_all(request).await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    Ok(reply)
}

/// Calls an operation and gives the whole reply.
pub(crate) async fn call(url: &str, target: &str, content_type: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {content_type}\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=c, Signature=d\r\nX-Amz-Date: today\r\n\
         X-Amz-Target: {target}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    exchange(url, &[head.as_bytes(), body].concat()).await
}

/// Calls an operation in JSON and gives the whole reply.
async fn post(aws: &LocalAws, target: &str, content_type: &str, body: &str) -> String {
    let reply = call(&aws.kinesis_url(), target, content_type, body.as_bytes()).await.unwrap();
    String::from_utf8(reply).unwrap()
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

#[tokio::test]
async fn texts_that_break_the_rules_of_their_form_are_refused_before_all_else() {
    let aws = LocalAws::start().await.unwrap();
    let long = "0".repeat(513);
    let iterator = format!(r#"{{"ShardIterator": "{long}"}}"#);
    let arn = r#""StreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/flights""#;
    let by_arn = |rest: &str| format!("{{{arn}, {rest}}}");
    let at = |number: &str| {
        by_arn(&format!(
            r#""ShardId": "x", "ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "{number}""#
        ))
    };
    // There is no such stream, which would be the next thing to be told.
    let cases = [
        ("GetRecords", r#"{"ShardIterator": ""}"#.to_owned(), "shardIterator"),
        ("GetRecords", iterator, "shardIterator"),
        ("GetRecords", r#"{"StreamARN": "flights", "ShardIterator": "x"}"#.to_owned(), "streamARN"),
        ("GetShardIterator", by_arn(r#""ShardId": "a b", "ShardIteratorType": "LATEST""#), "shardId"),
        ("GetShardIterator", at("seven"), "startingSequenceNumber"),
        ("GetShardIterator", at("07"), "startingSequenceNumber"),
        ("GetShardIterator", at(&"1".repeat(130)), "startingSequenceNumber"),
        ("PutRecord", by_arn(r#""SequenceNumberForOrdering": "x""#), "sequenceNumberForOrdering"),
        ("SplitShard", by_arn(r#""ShardToSplit": """#), "shardToSplit"),
        (
            "MergeShards",
            by_arn(r#""ShardToMerge": "a", "AdjacentShardToMerge": "?""#),
            "adjacentShardToMerge",
        ),
        ("DescribeStream", by_arn(r#""ExclusiveStartShardId": """#), "exclusiveStartShardId"),
        (
            "ListShards",
            by_arn(r#""ShardFilter": {"Type": "AFTER_SHARD_ID", "ShardId": "?"}"#),
            "shardFilter.shardId",
        ),
        ("ListShards", by_arn(r#""ShardFilter": {"ShardId": "a"}"#), "shardFilter.type"),
        ("ListShards", r#"{"NextToken": ""}"#.to_owned(), "nextToken"),
        ("ListStreams", r#"{"ExclusiveStartStreamName": "a b"}"#.to_owned(), "exclusiveStartStreamName"),
        ("ListTagsForStream", by_arn(r#""ExclusiveStartTagKey": """#), "exclusiveStartTagKey"),
        ("ListTagsForResource", r#"{"ResourceARN": "flights"}"#.to_owned(), "resourceARN"),
        (
            "TagResource",
            r#"{"ResourceARN": "flights/consumer/a:1", "Tags": {"a": ""}}"#.to_owned(),
            "resourceARN",
        ),
        ("AddTagsToStream", by_arn(r#""Tags": {"": ""}"#), "'tags'"),
        ("CreateStream", r#"{"StreamName": "flights", "ShardCount": 1, "Tags": {}}"#.to_owned(), "'tags'"),
        ("UpdateStreamMode", by_arn(r#""StreamModeDetails": {}"#), "streamModeDetails.streamMode"),
        (
            "UpdateStreamMode",
            r#"{"StreamName": "flights", "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}"#.to_owned(),
            "streamARN",
        ),
        (
            "RegisterStreamConsumer",
            r#"{"StreamName": "flights", "ConsumerName": "a"}"#.to_owned(),
            "streamARN",
        ),
        ("ListStreamConsumers", r#"{"StreamName": "flights"}"#.to_owned(), "streamARN"),
        (
            "SubscribeToShard",
            r#"{"ConsumerARN": "arn:aws:kinesis:us-east-1:000000000000:stream/flights/consumer/a:1",
                "ShardId": "a", "StartingPosition": {}}"#
                .to_owned(),
            "startingPosition.type",
        ),
    ];
    for (operation, body, word) in cases {
        let reply = post(&aws, &format!("Kinesis_20131202.{operation}"), JSON, &body).await;
        let told = reply.contains(r#""__type":"ValidationException""#) && reply.contains(word);
        assert!(told, "{operation} {body}: {reply}");
        assert!(!reply.contains(&long), "{reply}");
    }
}

/// A call of each service whose reply has a body.
fn reads(aws: &LocalAws) -> [(String, &'static str, &'static str); 2] {
    [
        (aws.kinesis_url(), "Kinesis_20131202.ListStreams", JSON),
        (aws.dynamodb_url(), "DynamoDB_20120810.ListTables", "application/x-amz-json-1.0"),
    ]
}

#[tokio::test]
async fn a_lost_reply_is_a_connection_that_ends_without_a_byte() {
    let aws = LocalAws::start().await.unwrap();
    aws.faults().add(Fault::on_any().lose_reply());
    for (url, target, kind) in reads(&aws) {
        assert_eq!(call(&url, target, kind, b"{}").await.unwrap(), b"", "{target}");
    }
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    let aws = LocalAws::start().await.unwrap();
    aws.faults().add(Fault::on_any().reset());
    for (url, target, kind) in reads(&aws) {
        let error = call(&url, target, kind, b"{}").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{target}");
    }
}

#[tokio::test]
async fn half_a_body_promises_the_whole() {
    let aws = LocalAws::start().await.unwrap();
    for (url, target, kind) in reads(&aws) {
        let whole = String::from_utf8(call(&url, target, kind, b"{}").await.unwrap()).unwrap();
        let fault = aws.faults().add(Fault::on_any().half_body());
        let half = String::from_utf8(call(&url, target, kind, b"{}").await.unwrap()).unwrap();
        fault.remove();
        let [(_, whole), (head, half)] = [whole, half].map(|reply| {
            let (head, body) = reply.split_once("\r\n\r\n").unwrap();
            (head.to_owned(), body.to_owned())
        });
        assert_eq!(half, whole[..whole.len() / 2], "{target}");
        assert!(head.contains(&format!("\r\ncontent-length: {}", whole.len())), "{head}");
    }
}

#[tokio::test]
async fn a_request_that_says_it_is_too_long_is_refused_before_it_is_read() {
    let aws = LocalAws::start().await.unwrap();
    for (url, target, status) in [
        (aws.kinesis_url(), "Kinesis_20131202.PutRecords", "400"),
        (aws.dynamodb_url(), "DynamoDB_20120810.BatchWriteItem", "413"),
    ] {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: {target}\r\nContent-Length: {}\r\n\r\n",
            (16 << 20) + 1
        );
        let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(std::str::from_utf8(&reply).unwrap(), format!("HTTP/1.1 {status}"));
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_read_still_meets_the_faults_of_its_stream() {
    let aws = LocalAws::start().await.unwrap();
    let fault = aws.faults().add(Fault::on("PutRecord").stream("flights").throttle());
    let body = r#"{"StreamName": "flights", "PartitionKey": "a", "Data": "%%%"}"#;
    let reply = post(&aws, "Kinesis_20131202.PutRecord", JSON, body).await;
    assert!(reply.contains("ProvisionedThroughputExceededException"), "{reply}");
    assert_eq!(fault.fired(), 1);
}

#[tokio::test]
async fn the_present_is_not_in_the_future_however_finely_it_is_told() {
    let clock = || UNIX_EPOCH + Duration::from_millis(1_700_000_000_122);
    let aws = LocalAws::builder().clock(clock).stream("flights", 1).start().await.unwrap();
    for fraction in ["122", "1225", "122999"] {
        let body = format!(
            r#"{{"StreamName": "flights", "ShardId": "shardId-000000000000", "ShardIteratorType": "AT_TIMESTAMP",
                "Timestamp": 1700000000.{fraction}}}"#
        );
        let reply = post(&aws, "Kinesis_20131202.GetShardIterator", JSON, &body).await;
        assert!(reply.starts_with("HTTP/1.1 200 "), "{fraction}: {reply}");
    }
}
