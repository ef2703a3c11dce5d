//! From a request to the model and back.

mod manage;

use kinesis_record::ShardId;

use super::Shared;
use super::answer;
use super::parameters::{Instant, Parameters, count, not_in_enum, required};
use super::reply::Reply;
use crate::faults::Failures;
use crate::model::{
    CreateStreamRequest, DescribeStreamRequest, GetRecordsRequest, GetShardIteratorRequest, KinesisError,
    ListShardsRequest, ListStreamsRequest, MergeShardsRequest, Operation, PutRecordRequest,
    PutRecordsRequest, ShardFilter, SplitShardRequest, StartingPosition, SubscribeToShardRequest, Timestamp,
    UpdateShardCountRequest,
};

/// Does what a request asks for, except for the records of PutRecords that fail. The model is held only while it works, not while requests are read or replies
/// written.
pub(crate) fn dispatch(
    shared: &Shared,
    operation: Operation,
    mut p: Parameters,
    failures: &Failures,
    now: Timestamp,
) -> Result<Reply, KinesisError> {
    match operation {
        Operation::PutRecords => {
            let request = PutRecordsRequest { stream: p.target(), records: p.entries()? };
            let response = shared.model().put_records_except(request, failures, now)?;
            Ok(Reply::Places(response))
        }
        Operation::GetRecords => {
            let request = GetRecordsRequest {
                stream: p.target(),
                shard_iterator: required(p.shard_iterator, "shardIterator")?,
                limit: count(p.limit, "limit")?,
            };
            let response = shared.model().get_records(request, now)?;
            Ok(Reply::Page(response))
        }
        other => small(shared, other, p, now).map(Reply::Json),
    }
}

/// As [`dispatch`], for the operations whose replies are small, in JSON.
fn small(
    shared: &Shared,
    operation: Operation,
    mut p: Parameters,
    now: Timestamp,
) -> Result<String, KinesisError> {
    match operation {
        Operation::CreateStream => {
            let request = CreateStreamRequest {
                mode: p.mode()?.unwrap_or_default(),
                distribution: p.distribution()?.unwrap_or_default(),
                stream_name: required(p.stream_name, "streamName")?,
                shard_count: count(p.shard_count, "shardCount")?,
                max_record_kib: count(p.max_record_size_in_kib, "maxRecordSizeInKiB")?,
                tags: p.tags.unwrap_or_default(),
            };
            shared.model().create_stream(request, now)?;
            Ok(answer::empty())
        }
        Operation::DeleteStream => {
            if p.enforce_consumer_deletion == Some(true) {
                shared.model().delete_stream_and_consumers(&p.target(), now)?;
            } else {
                shared.model().delete_stream(&p.target(), now)?;
            }
            Ok(answer::empty())
        }
        Operation::DescribeStream => {
            let request = DescribeStreamRequest {
                stream: p.target(),
                exclusive_start_shard_id: p.exclusive_start_shard_id.map(ShardId::from),
                limit: count(p.limit, "limit")?,
            };
            let response = shared.model().describe_stream(request, now)?;
            Ok(answer::describe_stream(&response))
        }
        Operation::DescribeStreamSummary => {
            let summary = shared.model().describe_stream_summary(&p.target(), now)?;
            Ok(answer::describe_stream_summary(&summary))
        }
        Operation::ListStreams => {
            let request = ListStreamsRequest {
                exclusive_start_stream_name: p.exclusive_start_stream_name,
                next_token: p.next_token,
                limit: count(p.limit, "limit")?,
            };
            let response = shared.model().list_streams(request, now)?;
            Ok(answer::list_streams(&response))
        }
        Operation::IncreaseStreamRetentionPeriod => {
            let hours =
                required(count(p.retention_period_hours, "retentionPeriodHours")?, "retentionPeriodHours")?;
            shared.model().increase_stream_retention_period(&p.target(), hours, now)?;
            Ok(answer::empty())
        }
        Operation::DecreaseStreamRetentionPeriod => {
            let hours =
                required(count(p.retention_period_hours, "retentionPeriodHours")?, "retentionPeriodHours")?;
            shared.model().decrease_stream_retention_period(&p.target(), hours, now)?;
            Ok(answer::empty())
        }
        Operation::UpdateMaxRecordSize => {
            let kib = required(count(p.max_record_size_in_kib, "maxRecordSizeInKiB")?, "maxRecordSizeInKiB")?;
            shared.model().update_max_record_size(&p.target(), kib, now)?;
            Ok(answer::empty())
        }
        Operation::UpdateStreamRecordDistributionStrategy => {
            let distribution = required(p.distribution()?, "recordDistributionStrategy")?;
            let stream = p.target_by_arn()?;
            shared.model().update_stream_record_distribution_strategy(&stream, distribution, now)?;
            Ok(answer::empty())
        }
        Operation::PutRecord => {
            let request = PutRecordRequest {
                stream: p.target(),
                record: p.record()?,
                sequence_number_for_ordering: p.sequence_number_for_ordering,
            };
            let response = shared.model().put_record(request, now)?;
            Ok(answer::put_record(&response))
        }
        Operation::GetShardIterator => {
            let request = GetShardIteratorRequest {
                stream: p.target(),
                position: position(&mut p)?,
                shard_id: required(p.shard_id, "shardId")?.into(),
            };
            let iterator = shared.model().get_shard_iterator(request, now)?;
            Ok(answer::get_shard_iterator(&iterator))
        }
        Operation::ListShards => {
            let request = ListShardsRequest {
                stream: p.target(),
                filter: filter(&mut p)?,
                next_token: p.next_token,
                exclusive_start_shard_id: p.exclusive_start_shard_id.map(ShardId::from),
                max_results: count(p.max_results, "maxResults")?,
                stream_created: p.stream_creation_timestamp.map(|instant| instant.0),
            };
            let response = shared.model().list_shards(request, now)?;
            Ok(answer::list_shards(&response))
        }
        Operation::SplitShard => {
            let request = SplitShardRequest {
                stream: p.target(),
                shard_to_split: required(p.shard_to_split, "shardToSplit")?.into(),
                new_starting_hash_key: required(p.new_starting_hash_key, "newStartingHashKey")?,
            };
            shared.model().split_shard(request, now)?;
            Ok(answer::empty())
        }
        Operation::MergeShards => {
            let request = MergeShardsRequest {
                stream: p.target(),
                shard_to_merge: required(p.shard_to_merge, "shardToMerge")?.into(),
                adjacent_shard_to_merge: required(p.adjacent_shard_to_merge, "adjacentShardToMerge")?.into(),
            };
            shared.model().merge_shards(request, now)?;
            Ok(answer::empty())
        }
        Operation::UpdateShardCount => {
            let scaling_type = required(p.scaling_type.take(), "scalingType")?;
            if scaling_type != "UNIFORM_SCALING" {
                return Err(not_in_enum(&scaling_type, "scalingType", "UNIFORM_SCALING"));
            }
            let request = UpdateShardCountRequest {
                stream: p.target(),
                target_shard_count: required(
                    count(p.target_shard_count, "targetShardCount")?,
                    "targetShardCount",
                )?,
            };
            let response = shared.model().update_shard_count(request, now)?;
            Ok(answer::update_shard_count(&response))
        }
        other => manage::manage(shared, other, p, now),
    }
}

/// The request of SubscribeToShard, whose reply is no single text.
pub(crate) fn subscription(mut p: Parameters) -> Result<SubscribeToShardRequest, KinesisError> {
    let start = required(p.starting_position.take(), "startingPosition")?;
    let member = "startingPosition.type";
    let kind = required(start.r#type, member)?;
    Ok(SubscribeToShardRequest {
        consumer_arn: required(p.consumer_arn, "consumerARN")?,
        shard_id: required(p.shard_id, "shardId")?.into(),
        position: starting(&kind, start.sequence_number, start.timestamp, member)?,
    })
}

/// Where an iterator starts.
fn position(p: &mut Parameters) -> Result<StartingPosition, KinesisError> {
    let kind = required(p.shard_iterator_type.take(), "shardIteratorType")?;
    starting(&kind, p.starting_sequence_number.take(), p.timestamp.take(), "shardIteratorType")
}

/// A starting position of type `kind`, the request's `member`. Each type takes its own argument and no other.
fn starting(
    kind: &str,
    number: Option<String>,
    timestamp: Option<Instant>,
    member: &str,
) -> Result<StartingPosition, KinesisError> {
    match (kind, number, timestamp) {
        ("TRIM_HORIZON", None, None) => Ok(StartingPosition::TrimHorizon),
        ("LATEST", None, None) => Ok(StartingPosition::Latest),
        ("AT_SEQUENCE_NUMBER", Some(number), None) => Ok(StartingPosition::AtSequenceNumber(number)),
        ("AFTER_SEQUENCE_NUMBER", Some(number), None) => Ok(StartingPosition::AfterSequenceNumber(number)),
        ("AT_TIMESTAMP", None, Some(instant)) => Ok(StartingPosition::AtTimestamp(instant.0)),
        (
            "TRIM_HORIZON" | "LATEST" | "AT_SEQUENCE_NUMBER" | "AFTER_SEQUENCE_NUMBER" | "AT_TIMESTAMP",
            _,
            _,
        ) => Err(KinesisError::InvalidArgument(format!(
            "AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER take a sequence number, AT_TIMESTAMP \
                 takes a Timestamp, TRIM_HORIZON and LATEST take neither. The request does not fit {kind}."
        ))),
        (other, _, _) => {
            let values = "AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, AT_SEQUENCE_NUMBER, TRIM_HORIZON";
            Err(not_in_enum(other, member, values))
        }
    }
}

fn filter(p: &mut Parameters) -> Result<Option<ShardFilter>, KinesisError> {
    let Some(filter) = p.shard_filter.take() else { return Ok(None) };
    let kind = required(filter.r#type, "shardFilter.type")?;
    let lacks =
        |what: &str| KinesisError::InvalidArgument(format!("A shard filter of type {kind} takes a {what}."));
    let timestamp = || filter.timestamp.map(|instant| instant.0).ok_or_else(|| lacks("Timestamp"));
    Ok(Some(match kind.as_str() {
        "AFTER_SHARD_ID" => {
            let id = filter.shard_id.as_deref().ok_or_else(|| lacks("ShardId"))?;
            ShardFilter::AfterShardId(ShardId::new(id))
        }
        "AT_TRIM_HORIZON" => ShardFilter::AtTrimHorizon,
        "FROM_TRIM_HORIZON" => ShardFilter::FromTrimHorizon,
        "AT_LATEST" => ShardFilter::AtLatest,
        "AT_TIMESTAMP" => ShardFilter::AtTimestamp(timestamp()?),
        "FROM_TIMESTAMP" => ShardFilter::FromTimestamp(timestamp()?),
        other => {
            let values =
                "AFTER_SHARD_ID, AT_TRIM_HORIZON, FROM_TRIM_HORIZON, AT_LATEST, AT_TIMESTAMP, FROM_TIMESTAMP";
            return Err(not_in_enum(other, "shardFilter.type", values));
        }
    }))
}
