//! GetRecords.

use kinesis_record::{HashRange, ShardId};

use super::error::{KinesisError, within};
use super::iterator::Cursor;
use super::record::Record;
use super::service::{Kinesis, ShardEnd};
use super::stream::Stream;
use super::target::StreamTarget;
use super::time::Timestamp;

/// Records in one reply of GetRecords.
pub const MAX_GET_RECORDS: u32 = 10_000;
/// Bytes of payload and partition keys in one reply of GetRecords: 10 MiB.
pub const MAX_GET_BYTES: usize = 10 << 20;

/// A call of GetRecords.
#[derive(Debug, Clone, Default)]
pub struct GetRecordsRequest {
    /// An iterator from GetShardIterator or from the reply before.
    pub shard_iterator: String,
    /// The stream of the iterator, which need not be named.
    pub stream: StreamTarget,
    /// At most so many records, 1 to [`MAX_GET_RECORDS`], which is the default.
    pub limit: Option<u32>,
}

/// A shard that goes on where a closed one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildShard {
    /// The shard.
    pub shard_id: ShardId,
    /// All its parents, one after a split and two after a merge.
    pub parent_shards: Vec<ShardId>,
    /// The hash keys that it takes.
    pub hash_range: HashRange,
}

/// The answer to GetRecords.
#[derive(Debug, Clone)]
pub struct GetRecordsResponse {
    /// The records, by sequence number.
    pub records: Vec<Record>,
    /// Where to go on reading. None at the end of a closed shard.
    pub next_shard_iterator: Option<String>,
    /// Milliseconds from the arrival of the last record here to now; 0 if there is nothing behind it.
    pub millis_behind_latest: u64,
    /// With the end of a closed shard, the shards that go on from there.
    pub child_shards: Vec<ChildShard>,
}

impl Kinesis {
    /// All records that the stream retains, shard by shard in the order of their sequence numbers: a look from outside
    /// of the service, for which no limit holds.
    ///
    /// # Errors
    /// `ResourceNotFoundException` when there is no such stream.
    pub fn records(
        &mut self,
        stream: &StreamTarget,
        now: Timestamp,
    ) -> Result<Vec<(ShardId, Record)>, KinesisError> {
        let stream = self.any_stream(stream, now)?;
        let horizon = stream.horizon(now);
        let mut all = Vec::new();
        for shard in stream.shards.values_mut() {
            shard.trim(horizon);
            all.extend(shard.records().into_iter().map(|record| (shard.id.clone(), record)));
        }
        Ok(all)
    }

    /// Reads records.
    ///
    /// # Errors
    /// `ExpiredIteratorException` for an iterator older than five minutes, `InvalidArgumentException` for
    /// what is no iterator, `ResourceNotFoundException` when the stream or the shard is gone,
    /// `ProvisionedThroughputExceededException` under limits.
    pub fn get_records(
        &mut self,
        request: GetRecordsRequest,
        now: Timestamp,
    ) -> Result<GetRecordsResponse, KinesisError> {
        let limit = within(request.limit.unwrap_or(MAX_GET_RECORDS), "limit", 1..=MAX_GET_RECORDS)?;
        let cursor = Cursor::open(&request.shard_iterator)?;
        if !request.stream.is_empty() && request.stream.stream_name()? != cursor.stream {
            return Err(KinesisError::InvalidArgument(
                "The shard iterator does not belong to the stream that the request names.".to_owned(),
            ));
        }
        if now > cursor.issued.after(self.settings.iterator_lifetime) {
            return Err(KinesisError::ExpiredIterator(format!(
                "Iterator expired. The iterator was created at time {} while right now it is {now} which \
                 is further in the future than the tolerated delay of {} milliseconds.",
                cursor.issued,
                self.settings.iterator_lifetime.as_millis()
            )));
        }
        let (limits, shard_end) = (self.settings.limits, self.settings.shard_end);
        let stream = self.live_stream(&StreamTarget::from(cursor.stream.as_str()), now)?;
        let horizon = stream.horizon(now);
        let same_stream = stream.epoch == cursor.stream_epoch;
        let Some(shard) = stream.shards.get_mut(&cursor.shard).filter(|_| same_stream) else {
            return Err(KinesisError::ResourceNotFound(format!(
                "The shard of the iterator in stream {} under account {} does not exist",
                stream.name, stream.account
            )));
        };
        if limits && !shard.reads.admit_read(now) {
            return Err(stream.rate_exceeded(cursor.shard));
        }
        shard.trim(horizon);

        let (records, next) = shard.page(cursor.index, limit as usize, MAX_GET_BYTES);
        if limits {
            shard.reads.count(records.iter().map(Record::size).sum());
        }
        let caught_up = next == shard.next_index();
        let millis_behind_latest = match records.last() {
            Some(last) if !caught_up => now.millis_since(last.arrival),
            _ => 0,
        };
        let ended =
            !shard.is_open() && caught_up && (records.is_empty() || shard_end == ShardEnd::WithLastRecord);
        if !ended {
            let next_shard_iterator = Some(Cursor { index: next, issued: now, ..cursor }.seal());
            return Ok(GetRecordsResponse {
                records,
                next_shard_iterator,
                millis_behind_latest,
                child_shards: Vec::new(),
            });
        }
        Ok(GetRecordsResponse {
            records,
            next_shard_iterator: None,
            millis_behind_latest,
            child_shards: child_shards(stream, cursor.shard),
        })
    }
}

/// The shards that go on where this one ended.
pub(crate) fn child_shards(stream: &Stream, shard: u64) -> Vec<ChildShard> {
    let children = stream.shards.get(&shard).map(|shard| shard.children.as_slice()).unwrap_or_default();
    let known = children.iter().filter_map(|child| stream.shards.get(child));
    known
        .map(|child| ChildShard {
            shard_id: child.id.clone(),
            parent_shards: child.parents.clone(),
            hash_range: child.range,
        })
        .collect()
}
