//! The JSON of small replies.

use kinesis_record::{HashRange, Shard};
use serde_json::{Map, Value, json};

use crate::model::{
    DescribeStreamResponse, EncryptionType, KinesisError, ListShardsResponse, ListStreamsResponse,
    PutRecordResponse, StreamSummary, Timestamp, UpdateShardCountResponse,
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
