//! How often an operation may be called, and how much goes in and out of a shard. All of it holds only when
//! [`Settings::limits`](super::Settings) says so.
//!
//! | what | limit | refused with |
//! |---|---|---|
//! | written to a shard | 1,000 records and 1 MiB per second | `ProvisionedThroughputExceededException` |
//! | GetRecords | 5 calls and 2 MiB per second and shard | `ProvisionedThroughputExceededException` |
//! | GetShardIterator | 5 calls per second and shard | `ProvisionedThroughputExceededException` |
//! | most other operations | 5 calls per second and account, or stream | `LimitExceededException` |

use std::collections::{BTreeMap, VecDeque};

use super::error::KinesisError;
use super::operation::Operation;
use super::service::Kinesis;
use super::target::StreamTarget;
use super::time::Timestamp;

/// Records per second that a shard takes.
const WRITE_RECORDS: u64 = 1_000;
/// Bytes per second that a shard takes.
const WRITE_BYTES: u64 = 1 << 20;
/// Bytes per second that a shard gives.
const READ_BYTES: u64 = 2 << 20;
/// Calls of GetRecords, and of GetShardIterator, per second and shard.
const READ_CALLS: usize = 5;
/// So many windows are kept before those are dropped that nobody has called in lately.
const MAX_WINDOWS: usize = 10_000;
const SECOND: u64 = 1_000;
const DAY: u64 = 24 * 3_600_000;

/// For whom calls of an operation are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Account,
    Stream,
}

/// The calls per second of an operation, and whether the account or each stream has so many. None if they are
/// not counted, or by shard.
fn rate(operation: Operation) -> Option<(Scope, usize)> {
    use Operation as O;
    Some(match operation {
        O::DescribeLimits => (Scope::Account, 1),
        O::DescribeStream => (Scope::Account, 10),
        O::DescribeStreamSummary => (Scope::Account, 20),
        O::ListShards => (Scope::Stream, 1_000),
        O::DescribeStreamConsumer => (Scope::Stream, 20),
        O::AddTagsToStream
        | O::CreateStream
        | O::DeleteResourcePolicy
        | O::DeleteStream
        | O::DescribeAccountSettings
        | O::GetResourcePolicy
        | O::ListStreams
        | O::ListTagsForResource
        | O::ListTagsForStream
        | O::MergeShards
        | O::PutResourcePolicy
        | O::RegisterStreamConsumer
        | O::RemoveTagsFromStream
        | O::SplitShard
        | O::TagResource
        | O::UntagResource => (Scope::Account, 5),
        O::UpdateShardCount => (Scope::Account, 10),
        O::DecreaseStreamRetentionPeriod
        | O::DeregisterStreamConsumer
        | O::DisableEnhancedMonitoring
        | O::EnableEnhancedMonitoring
        | O::IncreaseStreamRetentionPeriod
        | O::ListStreamConsumers
        | O::StartStreamEncryption
        | O::StopStreamEncryption
        | O::UpdateMaxRecordSize
        | O::UpdateStreamMode
        | O::UpdateStreamRecordDistributionStrategy => (Scope::Stream, 5),
        // Subscriptions are limited more tightly by how soon one may take over from another.
        O::GetRecords | O::GetShardIterator | O::PutRecord | O::PutRecords | O::SubscribeToShard => {
            return None;
        }
    })
}

/// The calls in 24 hours of an operation on one stream.
fn daily(operation: Operation) -> Option<usize> {
    match operation {
        Operation::UpdateShardCount => Some(10),
        Operation::UpdateStreamMode => Some(2),
        Operation::StartStreamEncryption | Operation::StopStreamEncryption => Some(25),
        _ => None,
    }
}

/// The calls that were admitted lately: at most so many in any span.
#[derive(Debug, Default)]
struct Window(VecDeque<Timestamp>);

impl Window {
    fn has_room(&mut self, calls: usize, span: u64, now: Timestamp) -> bool {
        while self.0.front().is_some_and(|call| now.millis_since(*call) >= span) {
            self.0.pop_front();
        }
        self.0.len() < calls
    }

    fn count(&mut self, now: Timestamp) {
        self.0.push_back(now);
    }

    fn admits(&mut self, calls: usize, span: u64, now: Timestamp) -> bool {
        let room = self.has_room(calls, span, now);
        if room {
            self.count(now);
        }
        room
    }
}

/// The windows of all operations, by stream where streams count for themselves.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    second: BTreeMap<(Operation, String), Window>,
    day: BTreeMap<(Operation, String), Window>,
}

impl Rates {
    fn admit(&mut self, operation: Operation, stream: &str, now: Timestamp) -> bool {
        let Some((scope, calls)) = rate(operation) else { return true };
        if self.second.len() > MAX_WINDOWS {
            self.second.retain(|_, window| !window.has_room(1, SECOND, now));
        }
        let key = if scope == Scope::Account { "" } else { stream };
        let second = self.second.entry((operation, key.to_owned())).or_default();
        if let Some(daily) = daily(operation) {
            let day = self.day.entry((operation, stream.to_owned())).or_default();
            if !day.has_room(daily, DAY, now) || !second.has_room(calls, SECOND, now) {
                return false;
            }
            day.count(now);
        }
        second.admits(calls, SECOND, now)
    }
}

/// What may go into a shard: two buckets that fill up all the time.
#[derive(Debug, Default)]
pub(crate) struct WriteLimit {
    /// What is missing from a full bucket, in thousandths of a record and of a byte.
    missing_records: u64,
    missing_bytes: u64,
    at: Timestamp,
}

impl WriteLimit {
    /// Whether a record of `size` bytes fits in now; then it is counted. The greatest record of the stream,
    /// but no less than 1 MiB, fits into a full bucket.
    pub(crate) fn admit(&mut self, size: usize, max_record: usize, now: Timestamp) -> bool {
        let passed = now.millis_since(self.at);
        self.at = now;
        self.missing_records = self.missing_records.saturating_sub(passed.saturating_mul(WRITE_RECORDS));
        self.missing_bytes = self.missing_bytes.saturating_sub(passed.saturating_mul(WRITE_BYTES));
        let capacity = WRITE_BYTES.max(max_record as u64) * 1_000;
        let records = self.missing_records + 1_000;
        let bytes = self.missing_bytes + size as u64 * 1_000;
        let fits = records <= WRITE_RECORDS * 1_000 && bytes <= capacity;
        if fits {
            (self.missing_records, self.missing_bytes) = (records, bytes);
        }
        fits
    }
}

/// What may come out of a shard other than by subscriptions.
#[derive(Debug, Default)]
pub(crate) struct ReadLimit {
    reads: Window,
    iterators: Window,
    /// Since when bytes are counted, and how many.
    since: Timestamp,
    bytes: u64,
}

impl ReadLimit {
    /// Whether an iterator may be made now; then it is counted.
    pub(crate) fn admit_iterator(&mut self, now: Timestamp) -> bool {
        self.iterators.admits(READ_CALLS, SECOND, now)
    }

    /// Whether a page may be read now; then the call is counted. Pages are counted together until their bytes
    /// are paid for, which takes a second at least: after one of 10 MiB nothing is read for five seconds.
    pub(crate) fn admit_read(&mut self, now: Timestamp) -> bool {
        let paid_after = SECOND.max(self.bytes.saturating_mul(SECOND).div_ceil(READ_BYTES));
        if now.millis_since(self.since) >= paid_after {
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes < READ_BYTES && self.reads.admits(READ_CALLS, SECOND, now)
    }

    /// Counts the bytes of a page.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }
}

impl Kinesis {
    /// Under limits, counts a call for the account or refuses it.
    pub(crate) fn admit(&mut self, operation: Operation, now: Timestamp) -> Result<(), KinesisError> {
        if !self.settings.limits || self.rates.admit(operation, "", now) {
            return Ok(());
        }
        Err(KinesisError::LimitExceeded(format!(
            "Rate exceeded for {operation} under account {}.",
            self.settings.account
        )))
    }

    /// Under limits, counts a call for a stream, or for the account, or refuses it.
    pub(crate) fn admit_for_stream(
        &mut self,
        operation: Operation,
        target: &StreamTarget,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        if !self.settings.limits {
            return Ok(());
        }
        let stream = target.stream_name()?;
        if self.rates.admit(operation, stream, now) {
            return Ok(());
        }
        Err(KinesisError::LimitExceeded(format!(
            "Rate exceeded for {operation} on stream {stream} under account {}.",
            self.settings.account
        )))
    }
}
