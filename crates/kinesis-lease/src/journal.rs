//! The journal of a coordinator: all that it was told and all that it asked for, so that a run can be run again.
//!
//! The coordinator has no clock, no I/O and no threads, and its chance comes from a seed. The same inputs at the same
//! times lead to the same effects, on another machine too. [`Coordinator::recorded`] writes a line of JSON for each
//! input before it acts on it, with the effects that were taken from it since the one before; [`Replay`] tells the inputs
//! to a new coordinator and compares the effects.
//!
//! An entry holds names of shards, workers and tables, positions, and messages of errors; never a record or a credential.
//!
//! It is made for what logs go through. No line is longer than 8 KiB, whatever the number of shards: what is longer is
//! spread over several. The entries of a run are numbered, so that one that was lost is not taken for a difference. A
//! journal that cannot go on ends with an entry that says why.

mod entry;
mod form;
mod read;
mod replay;
mod write;

use std::time::Duration;

use kinesis_record::{Checkpoint, Shard, ShardId};
use serde::{Deserialize, Serialize};

#[cfg(doc)]
use crate::coordinator::Coordinator;
use crate::coordinator::{Acquisition, Effect, Settings};
use crate::lease::{Lease, LeaseWrite, NewLease};
use crate::store::{Created, Deleted, Reported, Scan, StoreError, Written};
use crate::stream::{ChildShard, StreamError};
pub(crate) use entry::name_of;
pub use entry::{Entry, Unreadable};
pub use replay::{Difference, JournalError, Replay, Run};
pub(crate) use write::Journal;

/// The form of the entries. It changes with whatever an older or newer replay would misread.
pub const VERSION: u32 = 2;

/// What happened to a coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It was made. The first entry of a run.
    Begin {
        /// The state of its generator.
        seed: u64,
        /// What it was told once.
        settings: Settings,
    },
    /// It was told something.
    In {
        /// When, on the driver's clock. An input without a time of its own has that of the one before.
        at: Duration,
        /// How many effects had not been taken yet.
        untaken: usize,
        /// What it was told.
        input: Input,
    },
    /// An effect was taken from it.
    Out(Effect),
    /// It went on, but its journal did not. The last entry of a run.
    Ended(Ending),
}

/// Why a journal ended before its coordinator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The sink refused a line.
    #[error("the log did not take it in time")]
    NotTaken,
    /// A value has no form in JSON.
    #[error("an entry could not be written: {0}")]
    Unwritable(String),
}

/// A call of a method of [`Coordinator`], with its arguments in their order. Of ticks only those are written at which
/// something was due: others change nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Input {
    Tick,
    Scanned(Result<Scan, StoreError>),
    Listed(Result<Vec<Shard>, StreamError>),
    Created(NewLease, Result<Created, StoreError>),
    Written(Acquisition, LeaseWrite, Result<Written, StoreError>),
    Deleted(ShardId, Result<Deleted, StoreError>),
    BegunAnew(ShardId, Result<Written, StoreError>),
    LookedUp(Acquisition, ShardId, Result<Option<Lease>, StoreError>),
    Reported(Result<Reported, StoreError>),
    Retired,
    /// One at `SHARD_END` is an `End`.
    Checkpoint(ShardId, Acquisition, Checkpoint),
    End(ShardId, Acquisition, Vec<ChildShard>),
    Release(ShardId, Acquisition),
    Offer(ShardId, Acquisition),
    Keep(ShardId, Acquisition),
    Leave,
    Shun(ShardId),
    Unshun(ShardId),
    StopTaking,
}
