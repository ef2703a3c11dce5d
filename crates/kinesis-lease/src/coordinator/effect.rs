//! What goes into the coordinator once, and what comes out of it.

use std::time::Duration;

use kinesis_record::{Checkpoint, ShardId};

#[cfg(doc)]
use super::Coordinator;
use crate::lease::{Lease, LeaseWrite, NewLease, WorkerId};
use crate::store::StoreError;

/// What the coordinator is told once.
#[derive(Debug, Clone)]
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
}

/// One acquisition of a lease by this process, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Acquisition(pub(super) u64);

/// Names a request of a shard's worker in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Scan the table and report to [`Coordinator::scanned`].
    Scan,
    /// List the shards and report to [`Coordinator::listed`].
    ListShards,
    /// Create a row and report to [`Coordinator::created`].
    Create(NewLease),
    /// Write to a row and report to [`Coordinator::written`].
    Write(Acquisition, LeaseWrite),
    /// Read a row and report to [`Coordinator::looked_up`].
    LookUp(Acquisition, ShardId),
    /// The lease is ours: start a worker for its shard, at its checkpoint. Until when it is ours follows at once.
    Gained(Acquisition, Box<Lease>),
    /// The lease is ours until that time at least.
    Extended(ShardId, Acquisition, Duration),
    /// The lease is no longer ours: stop the shard's worker at once.
    Lost(ShardId, Acquisition, Loss),
    /// A KCL 3.x leader has promised the lease to another worker: drain the shard, store the last checkpoint and
    /// call [`Coordinator::hand_over`].
    Drain(ShardId, Acquisition),
    /// The answer to a request.
    Answer(RequestId, Result<(), RequestError>),
}

/// Why a lease is no longer ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// Its row was deleted.
    #[error("the lease row was deleted")]
    RowDeleted,
}

/// Why a request of a shard's worker failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
