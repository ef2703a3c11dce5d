//! The journal of a coordinator: all that it was told and all that it asked for, so that a run can be run again.
//!
//! The coordinator has no clock, no I/O and no threads, and its chance comes from a seed. The same inputs at the same
//! times lead to the same effects, on another machine too. [`Coordinator::recorded`] writes a line of JSON for each
//! input before it acts on it, and one for each effect that is taken from it; [`Replay`] tells the lines to a new
//! coordinator and compares.
//!
//! An entry holds names of shards, workers and tables, positions, and messages of errors; never a record or a credential.

mod replay;

use std::fmt;
use std::time::Duration;

use kinesis_record::{Checkpoint, Shard, ShardId};
use serde::{Deserialize, Serialize};

#[cfg(doc)]
use crate::coordinator::Coordinator;
use crate::coordinator::{Acquisition, Effect, Settings};
use crate::lease::{Lease, LeaseWrite, NewLease};
use crate::store::{Created, Deleted, Reported, Scan, StoreError, Written};
use crate::stream::{ChildShard, StreamError};
pub use replay::{Difference, JournalError, Replay, Run};

/// The form of the entries. It changes with whatever an older or newer replay would misread.
pub const VERSION: u32 = 1;

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`VERSION`]. The first key of the line, by which entries are found in a log.
    #[serde(rename = "lease_journal")]
    pub version: u32,
    /// Tells the coordinators apart whose entries are in one log: the worker id and what begins the tokens of its
    /// acquisitions.
    pub run: String,
    /// What happened.
    pub event: Event,
}

/// What happened to a coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
}

/// A call of a method of [`Coordinator`], with its arguments in their order.
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

/// Who gets the lines.
type Sink = Box<dyn FnMut(&str) + Send + Sync>;

/// Writes the entries of one run.
pub(crate) struct Journal {
    run: String,
    at: Duration,
    sink: Option<Sink>,
}

impl Journal {
    pub(crate) fn new(run: &str, sink: impl FnMut(&str) + Send + Sync + 'static) -> Self {
        Self { run: run.to_owned(), at: Duration::ZERO, sink: Some(Box::new(sink)) }
    }

    pub(crate) fn begin(&mut self, seed: u64, settings: Settings) {
        self.write(Event::Begin { seed, settings });
    }

    pub(crate) fn input(&mut self, now: Option<Duration>, untaken: usize, input: Input) {
        self.at = now.unwrap_or(self.at);
        self.write(Event::In { at: self.at, untaken, input });
    }

    pub(crate) fn effect(&mut self, effect: &Effect) {
        self.write(Event::Out(effect.clone()));
    }

    fn write(&mut self, event: Event) {
        let Some(sink) = &mut self.sink else { return };
        match serde_json::to_string(&Entry { version: VERSION, run: self.run.clone(), event }) {
            Ok(line) => sink(&line),
            // A time before 1970. A journal that ends can be replayed, one with a hole cannot.
            Err(_) => self.sink = None,
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("run", &self.run).finish_non_exhaustive()
    }
}
