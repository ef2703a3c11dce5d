//! The CBOR of the Java SDKs, byte by byte.

use std::time::{Duration, UNIX_EPOCH};

use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;
use kinesis_local::model::{
    GetRecordsRequest, GetShardIteratorRequest, RegisterStreamConsumerRequest, StartingPosition,
};
use serde_json::json;

use super::raw::call;

const CBOR: &str = "application/x-amz-cbor-1.1";

/// Status and body of a reply.
async fn post(aws: &LocalAws, operation: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let target = format!("Kinesis_20131202.{operation}");
    let reply = call(&aws.kinesis_url(), &target, CBOR, body).await.unwrap();
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&reply[..end]).unwrap();
    assert!(head.contains(&format!("\r\ncontent-type: {CBOR}")), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), reply[end + 4..].to_vec())
}

/// A text of up to 255 bytes.
fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    let head = if length < 24 { vec![0x60 | length] } else { vec![0x78, length] };
    [head, text.into()].concat()
}

fn contains(bytes: &[u8], piece: &[u8]) -> bool {
    bytes.windows(piece.len()).any(|window| window == piece)
}

#[tokio::test]
async fn a_record_goes_in_and_comes_out_as_a_byte_string_with_milliseconds() {
    let clock = || UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let aws = LocalAws::builder().clock(clock).stream("flights", 1).start().await.unwrap();
    let put = b"\xbf\x6aStreamName\x67flights\x64Data\x43\x00\xff\x10\x6cPartitionKey\x61a\xff";
    let (status, reply) = post(&aws, "PutRecord", put).await;
    assert_eq!(status, 200);
    assert!(reply.starts_with(b"\xbf") && reply.ends_with(b"\xff"));
    assert!(contains(&reply, &[text("ShardId"), text("shardId-000000000000")].concat()));

    // AT_TIMESTAMP with the instant of the record, under the tag that Jackson writes.
    let at = b"\xbf\x6aStreamName\x67flights\x67ShardId\x74shardId-000000000000\x71ShardIteratorType\
        \x6cAT_TIMESTAMP\x69Timestamp\xc1\x1b\x00\x00\x01\x8b\xcf\xe5\x68\x7b\xff";
    let (status, reply) = post(&aws, "GetShardIterator", at).await;
    assert_eq!(status, 200);
    let [0xbf, inner @ .., 0xff] = &reply[..] else { panic!("{reply:?}") };
    let read = [b"\xa1", inner].concat();
    let (status, page) = post(&aws, "GetRecords", &read).await;
    assert_eq!(status, 200);
    for piece in [
        &b"\x64Data\x43\x00\xff\x10"[..],
        b"\x78\x1bApproximateArrivalTimestamp\x1b\x00\x00\x01\x8b\xcf\xe5\x68\x7b",
        b"\x72MillisBehindLatest\x00",
        b"\x6cPartitionKey\x61a",
    ] {
        assert!(contains(&page, piece), "{piece:?} in {page:?}");
    }
}

#[tokio::test]
async fn an_empty_reply_is_empty_and_an_error_has_the_shape_of_the_others() {
    let aws = LocalAws::start().await.unwrap();
    let create = b"\xbf\x6aStreamName\x67flights\x6aShardCount\x01\xff";
    assert_eq!(post(&aws, "CreateStream", create).await, (200, Vec::new()));
    let (status, error) = post(&aws, "CreateStream", create).await;
    assert_eq!(status, 400);
    assert!(contains(&error, &[text("__type"), text("ResourceInUseException")].concat()), "{error:?}");
    assert!(contains(&error, &text("message")), "{error:?}");
}

#[tokio::test]
async fn what_is_not_cbor_is_a_serialization_error() {
    let aws = LocalAws::start().await.unwrap();
    for body in [&b""[..], b"{}", b"\xbf", b"\xa1\x6aStreamName\x05"] {
        let (status, error) = post(&aws, "PutRecord", body).await;
        assert!(status == 400 && contains(&error, b"SerializationException"), "{body:?}: {error:?}");
    }
}

/// Puts two records, of which the second has an explicit hash key at the end of the range.
const PUT_TWO: &[u8] = b"\xa2\x6aStreamName\x67flights\x67Records\x82\xbf\x64Data\x43\x00\xff\x10\
    \x6cPartitionKey\x61a\xff\xa3\x64Data\x40\x6cPartitionKey\x61b\x6fExplicitHashKey\
    \x78\x27340282366920938463463374607431768211455";

#[tokio::test]
async fn several_records_go_in_at_once_and_are_kept_for_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let start = || LocalAws::builder().stream("flights", 1).data(directory.path()).start();
    let aws = start().await.unwrap();
    let (status, reply) = post(&aws, "PutRecords", PUT_TWO).await;
    assert_eq!(status, 200);
    assert!(reply.starts_with(&[b"\xbf", &text("FailedRecordCount")[..], b"\0"].concat()), "{reply:?}");
    let places = reply.windows(7).filter(|window| window == b"ShardId").count();
    assert_eq!(places, 2);
    aws.stop().await;

    let aws = start().await.unwrap();
    let records = aws.with_model(|model, now| {
        let request = GetShardIteratorRequest {
            stream: "flights".into(),
            shard_id: "shardId-000000000000".into(),
            position: StartingPosition::TrimHorizon,
        };
        let shard_iterator = model.get_shard_iterator(request, now).unwrap();
        model.get_records(GetRecordsRequest { shard_iterator, ..Default::default() }, now).unwrap().records
    });
    let [first, second] = &records[..] else { panic!("{records:?}") };
    assert_eq!((&first.data[..], first.partition_key.as_deref()), (&b"\x00\xff\x10"[..], Some("a")));
    assert_eq!((&second.data[..], second.partition_key.as_deref()), (&b""[..], Some("b")));
}

#[tokio::test]
async fn a_fault_fails_records_of_a_call_in_cbor() {
    let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
    aws.faults().add(Fault::on("PutRecords").fail_records([0]));
    let (status, reply) = post(&aws, "PutRecords", PUT_TWO).await;
    assert_eq!(status, 200);
    assert!(contains(&reply, &[&text("FailedRecordCount")[..], b"\x01"].concat()), "{reply:?}");
    assert!(contains(&reply, &text("ErrorCode")) && contains(&reply, &text("SequenceNumber")), "{reply:?}");
}

#[tokio::test]
async fn faults_strike_and_change_replies_in_cbor_as_well() {
    let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
    let faults = aws.faults();
    let list = b"\xa1\x6aStreamName\x67flights";
    let fault = faults.add(Fault::on("ListShards").stream("flights").error("LimitExceededException"));
    let (status, error) = post(&aws, "ListShards", list).await;
    assert!(status == 400 && contains(&error, &text("LimitExceededException")));
    fault.remove();
    faults.add(Fault::on("ListShards").first_shards(0));
    let (_, reply) = post(&aws, "ListShards", list).await;
    assert!(contains(&reply, b"\x66Shards\x9f\xff"), "{reply:?}");
}

#[tokio::test]
async fn events_of_a_subscription_are_in_the_form_of_its_request() {
    let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
    aws.put("flights", "a", b"\x00\xff\x10".to_vec()).unwrap();
    let shard = "shardId-000000000000";
    // So that the stream of events comes to an end.
    aws.split("flights", shard).unwrap();
    let consumer = |name: &str| {
        let request = RegisterStreamConsumerRequest {
            stream: "flights".into(),
            consumer_name: name.to_owned(),
            ..RegisterStreamConsumerRequest::default()
        };
        aws.with_model(|model, now| model.register_stream_consumer(request, now)).unwrap().consumer_arn
    };
    // The Java SDK subscribes in JSON, even if it says all else in CBOR.
    let json = "application/x-amz-json-1.1";
    let start = json!({"Type": "TRIM_HORIZON"});
    let in_json = json!({"ConsumerARN": consumer("one"), "ShardId": shard, "StartingPosition": start});
    let in_cbor = [
        &b"\xbf"[..],
        &[text("ConsumerARN"), text(&consumer("other")), text("ShardId"), text(shard)].concat(),
        &[text("StartingPosition"), b"\xa1".to_vec(), text("Type"), text("TRIM_HORIZON")].concat(),
        b"\xff",
    ]
    .concat();
    for (form, request, opening, payload) in [
        (json, in_json.to_string().into_bytes(), &b"{}"[..], &b"\"Data\":\"AP8Q\""[..]),
        (CBOR, in_cbor, b"\xbf\xff", b"\x64Data\x43\x00\xff\x10"),
    ] {
        let target = "Kinesis_20131202.SubscribeToShard";
        let reply = call(&aws.kinesis_url(), target, form, &request).await.unwrap();
        assert!(reply.starts_with(b"HTTP/1.1 200 OK\r\n"), "{reply:?}");
        assert!(contains(&reply, b"\r\ncontent-type: application/vnd.amazon.eventstream\r\n"), "{reply:?}");
        let kind = [b"\x0d:content-type\x07\x00\x1a", form.as_bytes()].concat();
        assert_eq!(reply.windows(kind.len()).filter(|window| *window == kind).count(), 2, "{reply:?}");
        let opened = [b"\x0b:event-type\x07\x00\x10initial-response", &kind[..], opening].concat();
        assert!(contains(&reply, &opened), "{reply:?}");
        assert!(contains(&reply, payload), "{reply:?}");
    }
}
