//! GetShardIterator, and what an iterator holds.

use kinesis_record::ShardId;

use super::error::KinesisError;
use super::opaque::{Seal, open, seal};
use super::sequence::SequenceParts;
use super::service::Kinesis;
use super::shard::{ShardState, shard_id};
use super::stream::Stream;
use super::target::StreamTarget;
use super::time::Timestamp;

/// Where in a shard reading starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartingPosition {
    /// The oldest record that is still there.
    TrimHorizon,
    /// Behind the newest record at the moment of the call.
    Latest,
    /// The record with this sequence number; the oldest that is still there if the retention has outlived it.
    AtSequenceNumber(String),
    /// Behind the record with this sequence number; likewise.
    AfterSequenceNumber(String),
    /// The first record that came at this instant or later; the instant must not lie in the future.
    AtTimestamp(Timestamp),
}

/// A call of GetShardIterator.
#[derive(Debug, Clone)]
pub struct GetShardIteratorRequest {
    /// The stream.
    pub stream: StreamTarget,
    /// The shard, open or closed.
    pub shard_id: ShardId,
    /// Where to start.
    pub position: StartingPosition,
}

/// A place in a shard. As an opaque text it is a shard iterator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) stream: String,
    /// Tells a stream from one of the same name before it.
    pub(crate) stream_epoch: u64,
    pub(crate) shard: u64,
    /// The index of the next record to read.
    pub(crate) index: u64,
    pub(crate) issued: Timestamp,
}

impl Cursor {
    pub(crate) fn new(stream: &Stream, shard: u64, index: u64, now: Timestamp) -> Self {
        Self { stream: stream.name.clone(), stream_epoch: stream.epoch, shard, index, issued: now }
    }

    pub(crate) fn seal(&self) -> String {
        let numbers = [self.stream_epoch, self.shard, self.index, self.issued.as_millis()];
        seal(Seal::ShardIterator, &numbers, &self.stream)
    }

    pub(crate) fn open(text: &str) -> Result<Self, KinesisError> {
        let ([stream_epoch, shard, index, issued], stream) = open(Seal::ShardIterator, text)
            .ok_or_else(|| KinesisError::InvalidArgument("Invalid ShardIterator.".to_owned()))?;
        Ok(Self { stream, stream_epoch, shard, index, issued: Timestamp::from_millis(issued) })
    }
}

impl Kinesis {
    /// An iterator for reading a shard from a place on. It is good for five minutes.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream or shard; `InvalidArgumentException` for a sequence
    /// number that the shard cannot have given and for an instant in the future;
    /// `ProvisionedThroughputExceededException` under limits.
    pub fn get_shard_iterator(
        &mut self,
        request: GetShardIteratorRequest,
        now: Timestamp,
    ) -> Result<String, KinesisError> {
        let limits = self.settings.limits;
        let stream = self.live_stream(&request.stream, now)?;
        let shard = stream.trimmed_shard(&request.shard_id, now)?;
        let number = shard.number;
        if limits && !shard.reads.admit_iterator(now) {
            return Err(stream.rate_exceeded(number));
        }
        let shard = stream.shard(&request.shard_id)?;
        let index = starting_index(stream, shard, &request.position, "GetShardIterator", now)?;
        Ok(Cursor::new(stream, number, index, now).seal())
    }
}

/// The index that `position` means now in a call of `operation`.
pub(crate) fn starting_index(
    stream: &Stream,
    shard: &ShardState,
    position: &StartingPosition,
    operation: &str,
    now: Timestamp,
) -> Result<u64, KinesisError> {
    match position {
        StartingPosition::TrimHorizon => Ok(0),
        StartingPosition::Latest => Ok(shard.next_index()),
        StartingPosition::AtSequenceNumber(text) => {
            index_of(stream, shard, text, operation).map(|(index, _)| index)
        }
        StartingPosition::AfterSequenceNumber(text) => {
            index_of(stream, shard, text, operation).map(|(index, exact)| index + u64::from(exact))
        }
        StartingPosition::AtTimestamp(instant) if *instant > now => {
            Err(KinesisError::InvalidArgument(format!(
                "The timestamp of an AT_TIMESTAMP iterator must not be in the future: it is {instant}, \
                 while right now it is {now}."
            )))
        }
        StartingPosition::AtTimestamp(instant) => Ok(shard.index_at(*instant)),
    }
}

/// The index of the first record that is not below the sequence number, and whether it is the very record.
fn index_of(
    stream: &Stream,
    shard: &ShardState,
    text: &str,
    operation: &str,
) -> Result<(u64, bool), KinesisError> {
    let refuse = |why: &str| {
        Err(KinesisError::InvalidArgument(format!(
            "StartingSequenceNumber {text} used in {operation} on shard {} in stream {} under account \
             {} is invalid{why}.",
            shard.id, stream.name, stream.account
        )))
    };
    let Some(parts) = SequenceParts::parse(text) else { return refuse("") };
    if parts.shard != shard.number {
        return Err(KinesisError::InvalidArgument(format!(
            "Invalid StartingSequenceNumber. It encodes {}, while it was used in a call to a shard with {}",
            shard_id(parts.shard),
            shard.id
        )));
    }
    if parts.epoch != shard.epoch {
        return refuse(" because it did not come from this stream");
    }
    let number = parts.number();
    // The ending number of a closed shard belongs to it as its starting number does, without a record of its
    // own.
    let is_ending = shard.closed.as_ref().is_some_and(|closed| closed.ending == number);
    if parts.index >= shard.next_index() && !is_ending {
        return refuse(" because the shard has not come to it");
    }
    Ok(shard.index_of(parts))
}
