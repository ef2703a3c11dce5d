//! What goes into the coordinator once, and what comes out of it.

use std::time::Duration;

use kinesis_record::{Checkpoint, ShardId};
use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::Coordinator;
use crate::lease::{Lease, LeaseWrite, NewLease, WorkerId};
use crate::store::StoreError;

/// What the coordinator is told once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The name under which this process owns leases.
    pub worker: WorkerId,
    /// After this time without a renewal a lease may be taken. All workers of an application must agree on it.
    pub failover: Duration,
    /// How often the stream's shards are listed, give or take a tenth.
    pub shard_sync_interval: Duration,
    /// Where the shards of the first start are read from: `TRIM_HORIZON`, `LATEST` or `AT_TIMESTAMP`.
    pub initial: Checkpoint,
    /// The most leases to hold at once.
    pub max_leases: usize,
    /// The most leases of other workers to ask for or to steal after one scan; without it, a fifth of this worker's
    /// share.
    pub max_steals: Option<usize>,
    /// The row of a finished shard that nobody needs any more is deleted after this time. Within it, no process may act on
    /// what it has read of the table before: one that stood still meanwhile could create the row again.
    pub clean_up_after: Duration,
    /// How long another worker is given to finish what is under way in a shard it was asked for. All workers of an
    /// application should agree on it.
    pub hand_over_timeout: Duration,
}

/// One acquisition of a lease by this process, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Acquisition(pub(super) u64);

/// Names a request of a shard's worker in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub(super) u64);

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Scan the table and report to [`Coordinator::scanned`].
    Scan,
    /// List the shards and report to [`Coordinator::listed`].
    ListShards,
    /// Create a row and report to [`Coordinator::created`].
    Create(NewLease),
    /// Write to a row and report to [`Coordinator::written`].
    Write(Acquisition, LeaseWrite),
    /// Delete the row of a finished shard, if it has this counter, and report to [`Coordinator::deleted`].
    Delete(ShardId, i64),
    /// Read a row and report to [`Coordinator::looked_up`].
    LookUp(Acquisition, ShardId),
    /// Look for the leader of a KCL 3.x fleet, report this worker to it, and tell [`Coordinator::reported`].
    Report {
        /// Whether it is to be reported. If not, it is only looked for a leader.
        wants_leases: bool,
    },
    /// Take back what was reported of this worker, and tell [`Coordinator::retired`].
    Retire,
    /// The lease is ours: start a worker for its shard, at its checkpoint. Until when it is ours follows at once.
    Gained(Acquisition, Box<Lease>),
    /// The lease is ours until that time at least.
    Extended(ShardId, Acquisition, Duration),
    /// The lease is no longer ours: stop the shard's worker at once.
    Lost(ShardId, Acquisition, Loss),
    /// Another worker is to have the lease, one that has asked for it or one that a KCL 3.x leader has chosen: within
    /// [`Settings::hand_over_timeout`], drain the shard, store the last checkpoint and call [`Coordinator::release`].
    Drain(ShardId, Acquisition),
    /// Begin the row of a finished shard anew, and report to [`Coordinator::begun_anew`].
    BeginAnew(LeaseWrite),
    /// The shard is open, yet its row says `SHARD_END`: the stream was deleted and made again under its name. The row is
    /// begun anew, to be read from the shard's oldest record. Told once.
    Contradicted(ShardId),
    /// Another process holds leases under this worker's name and renews them; here is one of their shards. Told once.
    SharedName(ShardId),
    /// These shards could be read, and nobody has taken their leases for more than twice the failover time, or their rows
    /// cannot be read for as long. Told when it changes; none means that all are read again.
    Unread(Vec<ShardId>),
    /// The answer to a request.
    Answer(RequestId, Result<(), RequestError>),
}

/// Why a lease is no longer ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Loss {
    /// Another worker took it, or its owner was removed by hand.
    #[error("the lease was taken by {}", .by.as_ref().map_or("nobody (its owner was removed)", WorkerId::as_str))]
    Taken {
        /// The worker that reads the shard now.
        by: Option<WorkerId>,
    },
    /// It could not be renewed in time, so that another worker may take it.
    #[error("the lease could not be renewed within the failover time")]
    Expired,
    /// Its row was deleted, or deleted and made anew.
    #[error("the lease row was deleted")]
    RowDeleted,
    /// Its row cannot be read as a lease any more. A person has to act.
    #[error("the lease row cannot be read any more")]
    RowUnreadable,
}

/// Why a request of a shard's worker failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RequestError {
    /// The lease is not held any more: the worker must stop.
    #[error("the lease is not held any more")]
    NotHeld,
    /// The checkpoint lies before the stored one. Nothing was written.
    #[error("the checkpoint would go back")]
    Backwards,
    /// Nothing was written; it can be tried again.
    #[error("{0}")]
    Store(StoreError),
}
