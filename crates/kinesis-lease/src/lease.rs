//! Rows of the lease table, in the schema of the Java KCL 1.x to 3.x.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use kinesis_record::{Checkpoint, HashRange, ShardId};
use serde::{Deserialize, Serialize};

use crate::store::Written;
use crate::stream::ChildShard;

/// The name under which a process owns leases. It must be unique per life of a process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// a write whose reply was lost can be told from that of another process under the same worker id. It begins with the
    /// worker id, which tells it from one that is left over from before a KCL took the lease.
    pub token: Option<String>,
    /// `handOverTo`, which no KCL knows: the worker of this library that has asked the owner, another one, to finish
    /// what is under way and to give the lease to it.
    pub asked_by: Option<WorkerId>,
    /// `handOverOffered`, which no KCL knows: the owner, a worker of this library, wants to be asked for the lease.
    pub is_offered: bool,
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

    fn end_hand_over(&mut self) {
        self.checkpoint_owner = None;
        self.asked_by = None;
        self.is_offered = false;
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

    /// Whether a KCL 3.x leader wants the reader to give the lease to the owner.
    pub fn is_promised(&self) -> bool {
        self.checkpoint_owner.is_some() && self.owner != self.checkpoint_owner
    }

    /// Whether the reader is a worker of this library.
    pub fn is_read_by_peer(&self) -> bool {
        let rest = self.reader().zip(self.token.as_ref());
        let rest = rest.and_then(|(reader, token)| token.strip_prefix(reader.as_str()));
        rest.is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether the owner is a worker of this library, which can be asked for the lease.
    pub fn is_of_peer(&self) -> bool {
        self.checkpoint_owner.is_none() && self.is_read_by_peer()
    }

    /// Whether `worker` was made the owner by another one, and has not begun.
    pub(crate) fn is_given_to(&self, worker: &WorkerId) -> bool {
        self.reader() == Some(worker) && self.token.as_ref().is_none_or(|token| *token == given_token(worker))
    }

    /// Whether everything in the shard is processed.
    pub fn is_finished(&self) -> bool {
        self.checkpoint == Checkpoint::ShardEnd
    }
}

/// A row to be created for a shard that has none, with `leaseCounter` 0 and no owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
            asked_by: None,
            is_offered: false,
            latest_since: new.latest_since,
        }
    }
}

/// The token of a lease that its owner has given to `worker`.
pub(crate) fn given_token(worker: &WorkerId) -> String {
    format!("{worker}/given")
}

/// What a fenced write does to a row, besides raising `leaseCounter` by 1 unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseChange {
    /// Nothing else: shows the others that the owner is alive.
    Renew,
    /// Sets `leaseOwner` and `acquisitionToken`, removes `checkpointOwner`, `handOverTo` and `handOverOffered`, and adds
    /// `owner_switches` to `ownerSwitchesSinceCheckpoint`.
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
    /// Stores a checkpoint instead of `SHARD_END`, which was that of another stream under the same name, and removes the
    /// owner, the children and all that tells of a hand-over. Refused on a row that is not at `SHARD_END`.
    BeginAnew(Checkpoint),
    /// Removes `leaseOwner`, `checkpointOwner`, `acquisitionToken`, `handOverTo` and `handOverOffered`, keeps the
    /// checkpoint.
    Release,
    /// Ends a hand-over that a KCL 3.x leader began: removes `checkpointOwner`, `acquisitionToken`, `handOverTo` and
    /// `handOverOffered`, so that `leaseOwner` may start.
    HandOver,
    /// Asks the owner for the lease: sets `handOverTo`, and leaves `leaseCounter` as it is. Refused if another worker
    /// has asked already.
    Ask {
        /// The worker that asks.
        by: WorkerId,
    },
    /// Takes back what `by` has asked for: removes `handOverTo`, and leaves `leaseCounter` as it is. Refused if
    /// another worker has asked.
    Withdraw {
        /// The worker that had asked.
        by: WorkerId,
    },
    /// Renews the lease and sets `handOverOffered`, so that another worker may ask for it.
    Offer,
    /// Renews the lease and removes `handOverOffered`. Whoever has asked for it meanwhile is still to have it.
    Keep,
    /// Makes another worker the owner, which may begin at once: sets `leaseOwner` and `acquisitionToken`, removes
    /// `checkpointOwner`, `handOverTo` and `handOverOffered`, and adds 1 to `ownerSwitchesSinceCheckpoint`.
    Give {
        /// The worker that has asked.
        to: WorkerId,
        /// Tells that the lease was given.
        token: String,
    },
}

impl LeaseChange {
    /// Whether the write raises `leaseCounter`. One that does not leaves the lease as valid as it was.
    pub fn raises_counter(&self) -> bool {
        !matches!(self, Self::Ask { .. } | Self::Withdraw { .. })
    }

    /// Whether the row is as the change wants it, besides its counter.
    fn is_fit_for(&self, lease: &Lease) -> bool {
        match self {
            Self::Checkpoint(_) | Self::End { .. } => !lease.is_finished(),
            Self::BeginAnew(_) => lease.is_finished(),
            Self::Ask { .. } => lease.asked_by.is_none(),
            Self::Withdraw { by: asker } | Self::Give { to: asker, .. } => {
                lease.asked_by.as_ref() == Some(asker)
            }
            Self::Renew | Self::Take { .. } | Self::Release | Self::HandOver | Self::Offer | Self::Keep => {
                true
            }
        }
    }

    /// Does to a row in memory what the write does to the stored one, without its counter.
    pub(crate) fn apply_to(&self, lease: &mut Lease) {
        match self {
            Self::Renew => {}
            Self::Take { owner, token, owner_switches } => {
                lease.owner = Some(owner.clone());
                lease.token = Some(token.clone());
                lease.owner_switches = lease.owner_switches.saturating_add(*owner_switches);
                lease.end_hand_over();
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
            Self::BeginAnew(checkpoint) => {
                lease.checkpoint = checkpoint.clone();
                lease.owner_switches = 0;
                lease.owner = None;
                lease.token = None;
                lease.children.clear();
                lease.end_hand_over();
            }
            Self::Release => {
                lease.owner = None;
                lease.token = None;
                lease.end_hand_over();
            }
            Self::HandOver => {
                lease.token = None;
                lease.end_hand_over();
            }
            Self::Ask { by } => lease.asked_by = Some(by.clone()),
            Self::Withdraw { .. } => lease.asked_by = None,
            Self::Offer => lease.is_offered = true,
            Self::Keep => lease.is_offered = false,
            Self::Give { to, token } => {
                lease.owner = Some(to.clone());
                lease.token = Some(token.clone());
                lease.owner_switches = lease.owner_switches.saturating_add(1);
                lease.end_hand_over();
            }
        }
    }
}

/// A write to a row that holds only while `leaseCounter` is as expected. It names the attributes that it changes, so that
/// those that others keep in the row survive, and never creates a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseWrite {
    /// The row.
    pub shard: ShardId,
    /// The `leaseCounter` that the row must have; it has one more afterwards, if the change raises it.
    pub expected_counter: i64,
    /// What is written.
    pub change: LeaseChange,
}

impl LeaseWrite {
    /// Does to a row in memory what the write does to the stored one, under the same conditions. For stores that are not
    /// DynamoDB.
    pub fn apply_to(&self, row: Option<&mut Lease>) -> Written {
        let Some(row) = row else { return Written::Refused(None) };
        if row.counter != self.expected_counter || !self.change.is_fit_for(row) {
            return Written::Refused(Some(Box::new(row.clone())));
        }
        let Some(counter) = row.counter.checked_add(i64::from(self.change.raises_counter())) else {
            return Written::Refused(Some(Box::new(row.clone())));
        };
        row.counter = counter;
        self.change.apply_to(row);
        Written::Applied(Some(Box::new(row.clone())))
    }
}
