//! The calls to Kinesis that a consumer makes.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;
use kinesis_record::{HashRange, SequenceNumber, Shard, ShardId};
use serde::{Deserialize, Serialize};

/// One stream. The production one is Kinesis through the AWS SDK.
///
/// An implementation bounds every call in time and may retry; the caller keeps to the service's limits.
pub trait StreamApi: Send + Sync + std::fmt::Debug + 'static {
    /// The name of the stream, for messages to people.
    fn name(&self) -> &str;

    /// All shards that the stream knows, open and closed, in the service's order. A failing page fails the whole
    /// call: part of a list is never returned.
    fn list_shards(&self) -> BoxFuture<'_, Result<Vec<Shard>, StreamError>>;

    /// An iterator, good for five minutes.
    fn shard_iterator<'a>(
        &'a self,
        shard: &'a ShardId,
        start: &'a StartAt,
    ) -> BoxFuture<'a, Result<ShardIterator, StreamError>>;

    /// The records behind `iterator`, at most `limit` (1 to 10,000) and 10 MiB.
    fn get_records<'a>(
        &'a self,
        iterator: &'a ShardIterator,
        limit: u32,
    ) -> BoxFuture<'a, Result<RecordsPage, StreamError>>;
}

/// Where reading of a shard starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartAt {
    /// At the oldest record that the stream retains.
    TrimHorizon,
    /// Behind the newest record.
    Latest,
    /// At the first record that arrived at this instant or later.
    Timestamp(SystemTime),
    /// At the record with this sequence number.
    At(SequenceNumber),
    /// Behind the record with this sequence number.
    After(SequenceNumber),
}

/// The service's own, opaque mark of a place in a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIterator(pub String);

/// A reply to [`StreamApi::get_records`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsPage {
    /// The records, in order.
    pub records: Vec<RawRecord>,
    /// Where to go on; none at the end of a closed shard.
    pub next: Option<ShardIterator>,
    /// How far the last record is behind the shard's tip.
    pub behind: Duration,
    /// The shards that came from this one; told at the end of a closed shard.
    pub children: Vec<ChildShard>,
}

/// A record as Kinesis keeps it: perhaps an aggregate of many user records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRecord {
    /// Its sequence number.
    pub sequence: SequenceNumber,
    /// Its partition key. Streams whose records are spread by the service may have none.
    pub partition_key: Option<String>,
    /// Its data.
    pub data: Bytes,
    /// When it arrived, roughly, by the service's clock.
    pub arrival: Option<SystemTime>,
}

/// A child shard as the end of its parent tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildShard {
    /// Its name.
    pub id: ShardId,
    /// The shards that it came from: one after a split, two after a merge.
    pub parents: Vec<ShardId>,
    /// The hash keys that it takes.
    pub hash_range: HashRange,
}

impl From<&Shard> for ChildShard {
    fn from(shard: &Shard) -> Self {
        Self { id: shard.id.clone(), parents: shard.parents.clone(), hash_range: shard.hash_range }
    }
}

/// Why a call to Kinesis failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct StreamError {
    /// What to do about it.
    pub kind: StreamErrorKind,
    /// The operation, the stream, the shard and the cause, for people.
    pub message: String,
}

/// The kinds of [`StreamError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamErrorKind {
    /// A limit of the shard, the stream or the account is exceeded; later it will work.
    Throttled,
    /// The iterator is older than five minutes.
    ExpiredIterator,
    /// The stream or the shard does not exist.
    NotFound,
    /// An argument was refused, such as a sequence number that the shard does not know.
    InvalidArgument,
    /// The stream's encryption key cannot be used; a person has to act.
    Encryption,
    /// No permission, or bad credentials; a person has to act.
    Denied,
    /// It timed out, the connection broke, or the service failed; later it may work.
    Unavailable,
}
