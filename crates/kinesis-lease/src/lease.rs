//! Rows of the lease table, in the schema of the Java KCL 1.x to 3.x.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use kinesis_record::{Checkpoint, HashRange, ShardId};

use crate::stream::ChildShard;

/// The name under which a process owns leases. It must be unique per life of a process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    /// The worker with this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for WorkerId {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for WorkerId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One row of the lease table: who reads a shard, and how far it has been processed.
///
/// An absent attribute is `None` or an empty list; the KCL would read an empty text as an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// `leaseKey`: the shard.
    pub shard: ShardId,
    /// `leaseOwner`: the worker that reads the shard, or that will once `checkpoint_owner` has finished.
    pub owner: Option<WorkerId>,
    /// `leaseCounter`: raised by exactly 1 with every fenced write, never reset.
    pub counter: i64,
    /// `ownerSwitchesSinceCheckpoint`: for information, yet the KCL refuses a row without it.
    pub owner_switches: i64,
    /// `checkpoint` and `checkpointSubSequenceNumber`.
    pub checkpoint: Checkpoint,
    /// `parentShardId`.
    pub parents: Vec<ShardId>,
    /// `childShardIds`.
    pub children: Vec<ShardId>,
    /// `startingHashKey` and `endingHashKey`. KCL 1.x before 1.14 does not write them.
    pub hash_range: Option<HashRange>,
    /// `checkpointOwner`: set by a KCL 3.x leader while this worker drains the shard for the next `owner`.
    pub checkpoint_owner: Option<WorkerId>,
    /// `acquisitionToken`, which no KCL knows: drawn anew with each acquisition by a worker of this library, so that
    /// a write whose reply was lost can be told from that of another process under the same worker id.
    pub token: Option<String>,
    /// `latestSince`, which no KCL knows: when the row was created at `LATEST`, by the clock of the host that did. Until
    /// a first position is stored, another start reads from there, where a KCL would take the newest record of that
    /// later moment and skip what came in between.
    pub latest_since: Option<SystemTime>,
}

impl Lease {
    /// The worker that reads the shard at present: the one that drains it, if a hand-over is going on.
    pub fn reader(&self) -> Option<&WorkerId> {
        self.checkpoint_owner.as_ref().or(self.owner.as_ref())
    }

    /// The row as it is created once more after it was deleted. `hash_range` is the stream's own word.
    pub(crate) fn recreated(&self, hash_range: HashRange) -> NewLease {
        NewLease {
            shard: self.shard.clone(),
            checkpoint: self.checkpoint.clone(),
            parents: self.parents.clone(),
            hash_range,
            latest_since: self.latest_since,
        }
    }

    /// Whether everything in the shard is processed.
    pub fn is_finished(&self) -> bool {
        self.checkpoint == Checkpoint::ShardEnd
    }
}

/// A row to be created for a shard that has none, with `leaseCounter` 0 and no owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLease {
    /// The shard.
    pub shard: ShardId,
    /// Where reading starts: a sentinel, or for a row that was deleted the checkpoint that it had.
    pub checkpoint: Checkpoint,
    /// The shard's parents, as the stream names them.
    pub parents: Vec<ShardId>,
    /// The shard's hash keys.
    pub hash_range: HashRange,
    /// As in [`Lease`].
    pub latest_since: Option<SystemTime>,
}

impl NewLease {
    /// The row for `shard`, to be read from `checkpoint`.
    pub fn new(shard: ChildShard, checkpoint: Checkpoint) -> Self {
        Self {
            shard: shard.id,
            checkpoint,
            parents: shard.parents,
            hash_range: shard.hash_range,
            latest_since: None,
        }
    }
}

impl From<NewLease> for Lease {
    fn from(new: NewLease) -> Self {
        Self {
            shard: new.shard,
            owner: None,
            counter: 0,
            owner_switches: 0,
            checkpoint: new.checkpoint,
            parents: new.parents,
            children: Vec::new(),
            hash_range: Some(new.hash_range),
            checkpoint_owner: None,
            token: None,
            latest_since: new.latest_since,
        }
    }
}

/// What a fenced write does to a row, besides raising `leaseCounter` by 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseChange {
    /// Nothing else: shows the others that the owner is alive.
    Renew,
    /// Sets `leaseOwner` and `acquisitionToken`, removes `checkpointOwner`, and adds `owner_switches` to
    /// `ownerSwitchesSinceCheckpoint`.
    Take {
        /// The new owner.
        owner: WorkerId,
        /// The token of this acquisition.
        token: String,
        /// 1 if another worker owned the row, else 0.
        owner_switches: i64,
    },
    /// Stores the checkpoint and sets `ownerSwitchesSinceCheckpoint` to 0, removes a pending checkpoint. Refused
    /// on a row at `SHARD_END`.
    Checkpoint(Checkpoint),
    /// Stores `SHARD_END` as [`LeaseChange::Checkpoint`] does, together with `childShardIds`.
    End {
        /// The shards that came from this one.
        children: Vec<ShardId>,
    },
    /// Removes `leaseOwner`, `checkpointOwner` and `acquisitionToken`, keeps the checkpoint.
    Release,
    /// Ends a hand-over that a KCL 3.x leader began: removes `checkpointOwner` and `acquisitionToken`, so that
    /// `leaseOwner` may start.
    HandOver,
}

impl LeaseChange {
    /// Does to a row in memory what the write does to the stored one, without its counter.
    pub fn apply_to(&self, lease: &mut Lease) {
        match self {
            Self::Renew => {}
            Self::Take { owner, token, owner_switches } => {
                lease.owner = Some(owner.clone());
                lease.token = Some(token.clone());
                lease.checkpoint_owner = None;
                lease.owner_switches += owner_switches;
            }
            Self::Checkpoint(checkpoint) => {
                lease.checkpoint = checkpoint.clone();
                lease.owner_switches = 0;
            }
            Self::End { children } => {
                lease.checkpoint = Checkpoint::ShardEnd;
                lease.owner_switches = 0;
                lease.children = children.clone();
            }
            Self::Release => {
                lease.owner = None;
                lease.checkpoint_owner = None;
                lease.token = None;
            }
            Self::HandOver => {
                lease.checkpoint_owner = None;
                lease.token = None;
            }
        }
    }
}

/// A write to a row that holds only while `leaseCounter` is as expected. It names the attributes that it changes, so that
/// those that others keep in the row survive, and never creates a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseWrite {
    /// The row.
    pub shard: ShardId,
    /// The `leaseCounter` that the row must have; it has one more afterwards.
    pub expected_counter: i64,
    /// What is written.
    pub change: LeaseChange,
}
