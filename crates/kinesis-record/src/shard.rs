//! Shards of a stream.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hash::HashRange;
use crate::sequence::SequenceNumber;

/// The name of a shard, such as `shardId-000000000000`: unique within its stream for all time.
///
/// Cloning costs a reference count.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(Arc<str>);

impl ShardId {
    /// The shard with this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ShardId {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for ShardId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl Borrow<str> for ShardId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ShardId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A shard as the stream describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its name.
    pub id: ShardId,
    /// The hash keys that it takes or took.
    pub hash_range: HashRange,
    /// The shards from whose closing it came: none for a first shard, one after a split, two after a merge.
    /// Parents that the stream's retention has outlived are still named.
    pub parents: Vec<ShardId>,
    /// Below every record's sequence number in the shard.
    pub starting_sequence: SequenceNumber,
    /// Set once the shard is closed: not below any record's sequence number in the shard.
    pub ending_sequence: Option<SequenceNumber>,
}

impl Shard {
    /// Whether the shard still takes records.
    pub fn is_open(&self) -> bool {
        self.ending_sequence.is_none()
    }
}
