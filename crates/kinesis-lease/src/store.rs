//! Where lease rows are kept.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_record::ShardId;
use serde::{Deserialize, Serialize};

use crate::lease::{Lease, LeaseWrite, NewLease, WorkerId};

/// A table of lease rows. The production one is DynamoDB.
///
/// An implementation bounds every call in time and does not retry a write by itself: a write that was applied and
/// then repeated would fail its condition and look like a lost lease.
pub trait LeaseStore: Send + Sync + std::fmt::Debug + 'static {
    /// The name of the table, for messages to people.
    fn name(&self) -> &str;

    /// Makes sure that the table exists and can be used: describes it, creates it only if it is missing, and waits
    /// until it is active.
    fn ensure(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Reads all rows. Rows that are no leases, which newer KCLs keep in the same table, are left out, counted and logged.
    fn scan(&self) -> BoxFuture<'_, Result<Scan, StoreError>>;

    /// Reads one row as it is now (consistently).
    fn read<'a>(&'a self, shard: &'a ShardId) -> BoxFuture<'a, Result<Option<Lease>, StoreError>>;

    /// Creates a row unless there is one for the shard.
    fn create<'a>(&'a self, lease: &'a NewLease) -> BoxFuture<'a, Result<Created, StoreError>>;

    /// Changes a row if its counter is as expected.
    fn write<'a>(&'a self, write: &'a LeaseWrite) -> BoxFuture<'a, Result<Written, StoreError>>;

    /// Deletes a row if its counter is as expected and its checkpoint is `SHARD_END`.
    fn delete<'a>(
        &'a self,
        shard: &'a ShardId,
        expected_counter: i64,
    ) -> BoxFuture<'a, Result<Deleted, StoreError>>;

    /// Looks for the leader of a KCL 3.x fleet on the same table and, if the worker `wants_leases`, reports it: then the
    /// leader counts it among the workers that it gives leases to. Nothing is reported where the leader cannot be looked
    /// for. A store that no KCL uses has nothing to do.
    fn report<'a>(
        &'a self,
        _worker: &'a WorkerId,
        _wants_leases: bool,
    ) -> BoxFuture<'a, Result<Reported, StoreError>> {
        async { Ok(Reported::Unwanted) }.boxed()
    }

    /// Tells the leader what shards of the worker carry, in kilobytes per second. Those that it does not own any more
    /// are passed over.
    fn tell_throughput<'a>(
        &'a self,
        _worker: &'a WorkerId,
        _figures: &'a [(ShardId, f64)],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }

    /// Takes back what was reported of a worker that wants no more leases.
    fn retire<'a>(&'a self, _worker: &'a WorkerId) -> BoxFuture<'a, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

/// What [`LeaseStore::scan`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// The rows that could be read.
    pub leases: Vec<Lease>,
    /// The keys of rows that should be leases and cannot be read as such. Their shards have rows, of which nothing is known.
    pub unreadable: Vec<ShardId>,
}

impl From<Vec<Lease>> for Scan {
    fn from(leases: Vec<Lease>) -> Self {
        Self { leases, unreadable: Vec::new() }
    }
}

/// How [`LeaseStore::report`] ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reported {
    /// There is no KCL 3.x that keeps reports.
    Unwanted,
    /// The worker is reported, if it was to be. Holds what a leader shows, if there is one.
    Stored(Option<LeaderPulse>),
}

/// What the leader of a KCL 3.x fleet shows while it lives: its lock, the version of which it changes each half minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderPulse {
    /// The version.
    pub version: String,
    /// A leader whose version has stood still for so long is dead to the KCL.
    pub valid_for: Duration,
}

/// How [`LeaseStore::create`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Created {
    /// The row is new.
    New,
    /// There was a row already; it is as it was.
    Existed,
}

/// How [`LeaseStore::write`] ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Written {
    /// The row is changed. Holds the row as it is now, where the store told it.
    Applied(Option<Box<Lease>>),
    /// The condition did not hold, and nothing is changed. Holds the row as it is, where the store told it.
    Refused(Option<Box<Lease>>),
}

/// How [`LeaseStore::delete`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deleted {
    /// The row is gone.
    Gone,
    /// The condition did not hold: the row is another one by now, or was gone before.
    Refused,
}

/// Why a call to the lease table failed. The text names the table, what was tried and what can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum StoreError {
    /// The table's capacity is exceeded. Nothing was changed; later it will work.
    #[error("{0}")]
    Throttled(String),
    /// The table does not exist. Nothing was changed.
    #[error("{0}")]
    TableMissing(String),
    /// The table holds the leases of another stream. Nothing was changed; a person has to act.
    #[error("{0}")]
    OtherStream(String),
    /// The row cannot be read as a lease. A write to it may have been applied; a person has to act.
    #[error("{0}")]
    Unreadable(String),
    /// The service refused the call: no permission, bad credentials, invalid request. Nothing was changed; a person
    /// has to act.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether the call was applied: it timed out, the connection broke, or the service failed.
    #[error("{0}")]
    Unknown(String),
}

impl StoreError {
    /// Whether a write that ended with this error may have been applied.
    pub fn may_have_applied(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Whether the same call can succeed later without a person's help.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Throttled(_) | Self::Unknown(_))
    }
}
