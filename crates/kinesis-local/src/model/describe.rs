//! DescribeStream, DescribeStreamSummary and ListStreams.

use std::ops::Bound;

use kinesis_record::{Shard, ShardId};

use super::encryption::EncryptionType;
use super::error::{KinesisError, within};
use super::opaque::{Seal, TOKEN_LIFETIME, open, seal};
use super::operation::Operation;
use super::service::Kinesis;
use super::shard::shard_number;
use super::stream::{RecordDistribution, Stream, StreamMode, StreamStatus};
use super::target::StreamTarget;
use super::time::Timestamp;

/// What there is to know of a stream, its shards aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSummary {
    /// Its name.
    pub stream_name: String,
    /// Its ARN.
    pub stream_arn: String,
    /// Its state.
    pub status: StreamStatus,
    /// Who decides on the number of shards.
    pub mode: StreamMode,
    /// What decides to which shard a record goes.
    pub distribution: RecordDistribution,
    /// When it was created.
    pub created: Timestamp,
    /// How long it keeps records.
    pub retention_hours: u32,
    /// The greatest record that it takes, in KiB.
    pub max_record_kib: u32,
    /// Its open shards.
    pub open_shard_count: u32,
    /// Its registered consumers.
    pub consumer_count: u32,
    /// Whether it encrypts its records.
    pub encryption: EncryptionType,
    /// The key that it encrypts them with.
    pub key_id: Option<String>,
    /// The metrics of enhanced monitoring.
    pub metrics: Vec<&'static str>,
}

/// A call of DescribeStream.
#[derive(Debug, Clone, Default)]
pub struct DescribeStreamRequest {
    /// The stream.
    pub stream: StreamTarget,
    /// The shards behind this one.
    pub exclusive_start_shard_id: Option<ShardId>,
    /// At most so many shards, from 1. A reply has no more than 100.
    pub limit: Option<u32>,
}

/// The answer to DescribeStream.
#[derive(Debug, Clone)]
pub struct DescribeStreamResponse {
    /// The stream.
    pub summary: StreamSummary,
    /// Shards, open and closed, by their ids.
    pub shards: Vec<Shard>,
    /// Whether there are more behind them.
    pub has_more_shards: bool,
}

/// A call of ListStreams.
#[derive(Debug, Clone, Default)]
pub struct ListStreamsRequest {
    /// The streams behind this name.
    pub exclusive_start_stream_name: Option<String>,
    /// From the reply before.
    pub next_token: Option<String>,
    /// At most so many streams, 1 to 10,000; 100 by default.
    pub limit: Option<u32>,
}

/// The answer to ListStreams.
#[derive(Debug, Clone)]
pub struct ListStreamsResponse {
    /// Streams by their names.
    pub streams: Vec<StreamSummary>,
    /// Where to go on, if there are more.
    pub next_token: Option<String>,
}

impl Kinesis {
    /// Describes a stream without its shards.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream.
    pub fn describe_stream_summary(
        &mut self,
        target: &StreamTarget,
        now: Timestamp,
    ) -> Result<StreamSummary, KinesisError> {
        self.admit(Operation::DescribeStreamSummary, now)?;
        Ok(summary(self.any_stream(target, now)?, now))
    }

    /// Describes a stream and its shards, of which a stream that is still being created shows none.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ValidationException` for a limit out of range.
    pub fn describe_stream(
        &mut self,
        request: DescribeStreamRequest,
        now: Timestamp,
    ) -> Result<DescribeStreamResponse, KinesisError> {
        let limit = within(request.limit.unwrap_or(100), "limit", 1..=10_000)?.min(100) as usize;
        self.admit(Operation::DescribeStream, now)?;
        let stream = self.any_stream(&request.stream, now)?;
        let summary = summary(stream, now);
        if summary.status == StreamStatus::Creating {
            return Ok(DescribeStreamResponse { summary, shards: Vec::new(), has_more_shards: false });
        }
        let start = start_behind(request.exclusive_start_shard_id.as_ref())?;
        let mut rest = stream.shards.range((start, Bound::Unbounded));
        let shards = rest.by_ref().take(limit).map(|(_, shard)| shard.describe()).collect();
        let has_more_shards = rest.next().is_some();
        Ok(DescribeStreamResponse { summary, shards, has_more_shards })
    }

    /// Lists the streams.
    ///
    /// # Errors
    /// `ValidationException` for a limit out of range, `InvalidArgumentException` for what is no token,
    /// `ExpiredNextTokenException` for a token older than five minutes.
    pub fn list_streams(
        &mut self,
        request: ListStreamsRequest,
        now: Timestamp,
    ) -> Result<ListStreamsResponse, KinesisError> {
        let limit = within(request.limit.unwrap_or(100), "limit", 1..=10_000)? as usize;
        self.admit(Operation::ListStreams, now)?;
        self.streams.retain(|_, stream| !stream.is_gone(now));
        let start = match request.next_token {
            Some(token) => {
                let ([issued], name) = open(Seal::ListStreams, &token)
                    .ok_or_else(|| KinesisError::InvalidArgument("Invalid NextToken.".to_owned()))?;
                if now.as_millis() > issued.saturating_add(TOKEN_LIFETIME) {
                    return Err(KinesisError::expired_token());
                }
                Some(name)
            }
            None => request.exclusive_start_stream_name,
        };
        let bound = start.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.streams.range((bound, Bound::Unbounded));
        let streams: Vec<_> = rest.by_ref().take(limit).map(|(_, stream)| summary(stream, now)).collect();
        let last = streams.last().filter(|_| rest.next().is_some());
        let next_token = last.map(|last| seal(Seal::ListStreams, &[now.as_millis()], &last.stream_name));
        Ok(ListStreamsResponse { streams, next_token })
    }
}

fn summary(stream: &Stream, now: Timestamp) -> StreamSummary {
    StreamSummary {
        stream_name: stream.name.clone(),
        stream_arn: stream.arn.clone(),
        status: stream.status(now),
        mode: stream.mode,
        distribution: stream.distribution,
        created: stream.created,
        retention_hours: stream.retention_hours,
        max_record_kib: stream.max_record_kib,
        open_shard_count: stream.open_count() as u32,
        consumer_count: stream.consumers.len() as u32,
        encryption: stream.encryption(),
        key_id: stream.key_id.clone(),
        metrics: stream.metrics.iter().copied().collect(),
    }
}

/// Where a list starts that leaves out everything up to this shard. The shard itself need not exist any more.
pub(crate) fn start_behind(id: Option<&ShardId>) -> Result<Bound<u64>, KinesisError> {
    let Some(id) = id else { return Ok(Bound::Unbounded) };
    let number = shard_number(id.as_str()).ok_or_else(|| {
        KinesisError::InvalidArgument(format!("{id} is not the id of a shard of this service."))
    })?;
    Ok(Bound::Excluded(number))
}
