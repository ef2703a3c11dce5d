//! A reply's JSON.
//!
//! Small replies go through `serde_json`. A page of records is written by hand into one buffer: its payloads
//! are turned into base64 where they end up, and nothing is copied before.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kinesis_record::{HashRange, Shard};
use serde_json::{Map, Value, json};

use crate::model::{
    ChildShard, DescribeStreamResponse, EncryptionType, GetRecordsResponse, KinesisError, ListShardsResponse,
    ListStreamsResponse, PutRecordResponse, PutRecordsResponse, Record, StreamSummary, SubscribeToShardEvent,
    Timestamp, UpdateShardCountResponse,
};

/// The body of an error.
pub(super) fn error(error: &KinesisError) -> String {
    json!({ "__type": error.code(), "message": error.message() }).to_string()
}

/// The body of an operation without a reply.
pub(super) fn empty() -> String {
    String::new()
}

pub(super) fn describe_stream(response: &DescribeStreamResponse) -> String {
    let mut description = summary(&response.summary);
    description.insert("Shards".into(), response.shards.iter().map(shard).collect());
    description.insert("HasMoreShards".into(), response.has_more_shards.into());
    json!({ "StreamDescription": description }).to_string()
}

pub(super) fn describe_stream_summary(stream: &StreamSummary) -> String {
    let mut description = summary(stream);
    description.insert("OpenShardCount".into(), stream.open_shard_count.into());
    description.insert("ConsumerCount".into(), stream.consumer_count.into());
    description.insert("MaxRecordSizeInKiB".into(), stream.max_record_kib.into());
    description.insert("RecordDistributionStrategy".into(), stream.distribution.as_str().into());
    json!({ "StreamDescriptionSummary": description }).to_string()
}

pub(super) fn list_streams(response: &ListStreamsResponse) -> String {
    let names: Vec<&str> = response.streams.iter().map(|stream| stream.stream_name.as_str()).collect();
    let summaries = response.streams.iter().map(|stream| {
        json!({
            "StreamName": stream.stream_name,
            "StreamARN": stream.stream_arn,
            "StreamStatus": stream.status.as_str(),
            "StreamModeDetails": { "StreamMode": stream.mode.as_str() },
            "StreamCreationTimestamp": seconds(stream.created),
        })
    });
    let summaries: Vec<Value> = summaries.collect();
    json!({
        "StreamNames": names,
        "StreamSummaries": summaries,
        "HasMoreStreams": response.next_token.is_some(),
        "NextToken": response.next_token,
    })
    .to_string()
}

pub(super) fn list_shards(response: &ListShardsResponse) -> String {
    let shards: Vec<Value> = response.shards.iter().map(shard).collect();
    json!({ "Shards": shards, "NextToken": response.next_token }).to_string()
}

pub(super) fn get_shard_iterator(iterator: &str) -> String {
    json!({ "ShardIterator": iterator }).to_string()
}

pub(super) fn put_record(response: &PutRecordResponse) -> String {
    let place = json!({
        "ShardId": response.shard_id.as_str(),
        "SequenceNumber": response.sequence_number.as_str(),
    });
    encrypted(place, response.encryption).to_string()
}

pub(super) fn put_records(response: &PutRecordsResponse) -> String {
    let records = response.records.iter().map(|record| match record {
        Ok(place) => json!({
            "ShardId": place.shard_id.as_str(),
            "SequenceNumber": place.sequence_number.as_str(),
        }),
        Err(error) => json!({ "ErrorCode": error.code(), "ErrorMessage": error.message() }),
    });
    let records: Vec<Value> = records.collect();
    let reply = json!({ "FailedRecordCount": response.failed_record_count(), "Records": records });
    encrypted(reply, response.encryption).to_string()
}

/// As in the service, only what is encrypted says so.
fn encrypted(mut reply: Value, encryption: EncryptionType) -> Value {
    if encryption == EncryptionType::Kms {
        reply["EncryptionType"] = encryption.as_str().into();
    }
    reply
}

pub(super) fn update_shard_count(response: &UpdateShardCountResponse) -> String {
    json!({
        "StreamName": response.stream_name,
        "StreamARN": response.stream_arn,
        "CurrentShardCount": response.current_shard_count,
        "TargetShardCount": response.target_shard_count,
    })
    .to_string()
}

pub(super) fn get_records(response: &GetRecordsResponse) -> String {
    let mut body = String::with_capacity(room(&response.records));
    body.push('{');
    write_records(&mut body, &response.records);
    body.push_str(",\"NextShardIterator\":");
    match &response.next_shard_iterator {
        Some(iterator) => write_text(&mut body, iterator),
        None => body.push_str("null"),
    }
    body.push_str(",\"MillisBehindLatest\":");
    write_shown(&mut body, response.millis_behind_latest);
    write_children(&mut body, &response.child_shards);
    body.push('}');
    body
}

/// The payload of an event of SubscribeToShard.
pub(crate) fn subscribe_event(event: &SubscribeToShardEvent) -> String {
    let mut body = String::with_capacity(room(&event.records));
    body.push('{');
    write_records(&mut body, &event.records);
    if let Some(number) = &event.continuation_sequence_number {
        body.push_str(",\"ContinuationSequenceNumber\":");
        write_text(&mut body, number.as_str());
    }
    body.push_str(",\"MillisBehindLatest\":");
    write_shown(&mut body, event.millis_behind_latest);
    write_children(&mut body, &event.child_shards);
    body.push('}');
    body
}

/// What records need in a body, with what is around them.
fn room(records: &[Record]) -> usize {
    // A record has some 180 bytes around its partition key and payload.
    records.iter().map(|record| 180 + record.size() * 4 / 3).sum::<usize>() + 1_024
}

fn write_records(body: &mut String, records: &[Record]) {
    body.push_str("\"Records\":[");
    for (index, record) in records.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        write_record(body, record);
    }
    body.push(']');
}

fn write_children(body: &mut String, children: &[ChildShard]) {
    if !children.is_empty() {
        let children: Value = children.iter().map(child_shard).collect();
        body.push_str(",\"ChildShards\":");
        write_shown(body, children);
    }
}

fn write_record(body: &mut String, record: &Record) {
    body.push_str("{\"SequenceNumber\":\"");
    body.push_str(record.sequence_number.as_str());
    body.push_str("\",\"ApproximateArrivalTimestamp\":");
    write_shown(body, record.arrival);
    if let Some(key) = &record.partition_key {
        body.push_str(",\"PartitionKey\":");
        write_text(body, key);
    }
    body.push_str(",\"Data\":\"");
    STANDARD.encode_string(&record.data, body);
    body.push('"');
    if record.encryption == EncryptionType::Kms {
        body.push_str(",\"EncryptionType\":\"KMS\"");
    }
    body.push('}');
}

fn write_text(body: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        write_shown(body, Value::from(text));
    } else {
        body.push('"');
        body.push_str(text);
        body.push('"');
    }
}

fn write_shown(body: &mut String, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(body, "{value}");
}

fn child_shard(child: &ChildShard) -> Value {
    let parents: Vec<&str> = child.parent_shards.iter().map(|parent| parent.as_str()).collect();
    json!({
        "ShardId": child.shard_id.as_str(),
        "ParentShards": parents,
        "HashKeyRange": hash_key_range(child.hash_range),
    })
}

fn shard(shard: &Shard) -> Value {
    let mut numbers = json!({ "StartingSequenceNumber": shard.starting_sequence.as_str() });
    if let Some(ending) = &shard.ending_sequence {
        numbers["EndingSequenceNumber"] = ending.as_str().into();
    }
    let mut value = json!({
        "ShardId": shard.id.as_str(),
        "HashKeyRange": hash_key_range(shard.hash_range),
        "SequenceNumberRange": numbers,
    });
    for (member, parent) in ["ParentShardId", "AdjacentParentShardId"].into_iter().zip(&shard.parents) {
        value[member] = parent.as_str().into();
    }
    value
}

fn hash_key_range(range: HashRange) -> Value {
    json!({ "StartingHashKey": range.start.to_string(), "EndingHashKey": range.end.to_string() })
}

fn summary(stream: &StreamSummary) -> Map<String, Value> {
    let members = [
        ("StreamName", stream.stream_name.as_str().into()),
        ("StreamARN", stream.stream_arn.as_str().into()),
        ("StreamStatus", stream.status.as_str().into()),
        ("StreamModeDetails", json!({ "StreamMode": stream.mode.as_str() })),
        ("RetentionPeriodHours", stream.retention_hours.into()),
        ("StreamCreationTimestamp", seconds(stream.created)),
        ("EnhancedMonitoring", json!([{ "ShardLevelMetrics": stream.metrics }])),
        ("EncryptionType", stream.encryption.as_str().into()),
    ];
    let key = stream.key_id.as_ref().map(|key| ("KeyId", key.as_str().into()));
    members.into_iter().chain(key).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// An instant in seconds with a fraction.
pub(super) fn seconds(instant: Timestamp) -> Value {
    (instant.as_millis() as f64 / 1_000.0).into()
}
