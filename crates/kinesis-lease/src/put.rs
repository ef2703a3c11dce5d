//! The calls to Kinesis that a producer makes.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use kinesis_record::{HashKey, SequenceNumber, Shard, ShardId};

use crate::stream::StreamError;

/// Writing to streams. The production one is Kinesis through the AWS SDK.
///
/// An implementation bounds every call in time and makes it once: the caller decides what is repeated and when. Calls
/// run at the same time, and one that is dropped is given up.
pub trait PutApi: Send + Sync + std::fmt::Debug + 'static {
    /// All shards that the stream knows, open and closed. A failing page fails the whole call: part of a list is never
    /// returned.
    fn list_shards<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<Vec<Shard>, StreamError>>;

    /// Puts 1 to 500 records, of at most 10 MiB with their partition keys. The replies are in the order of the records
    /// and as many.
    ///
    /// # Errors
    /// When the call failed as a whole. Unless the service refused it, the records may be stored all the same.
    fn put_records<'a>(
        &'a self,
        stream: &'a str,
        records: Vec<PutRecord>,
    ) -> BoxFuture<'a, Result<Vec<PutReply>, StreamError>>;
}

/// A Kinesis record to put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutRecord {
    /// Its partition key: 1 to 256 characters.
    pub partition_key: Arc<str>,
    /// The hash key that decides the shard in place of that of the partition key.
    pub explicit_hash_key: Option<HashKey>,
    /// Its data.
    pub data: Bytes,
}

/// What became of a record in a call that did not fail as a whole.
pub type PutReply = Result<PutPlace, PutRefusal>;

/// Where a record went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutPlace {
    /// The shard.
    pub shard: ShardId,
    /// The record's number in it.
    pub sequence: SequenceNumber,
}

/// Why a record was not taken. It is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutRefusal {
    /// The service's error code, such as `InternalFailure`.
    pub code: String,
    /// The service's message.
    pub message: String,
}

impl PutRefusal {
    /// Whether the throughput of the record's shard is exceeded.
    pub fn is_throttled(&self) -> bool {
        ["ProvisionedThroughputExceededException", "KMSThrottlingException", "ThrottlingException"]
            .contains(&self.code.as_str())
    }
}
