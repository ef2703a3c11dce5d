//! What is gathered of a shard before it is emitted.

use std::time::Duration;

use kinesis_record::Position;
use tokio::time::Instant;

use super::emitter::Item;
use super::stages::Failure;
use crate::consumer::Offered;

/// How much is gathered of a shard before it is emitted: whatever limit comes first. They are looked at behind each event, whose
/// values stay together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gather {
    /// Values. At least 1; default 1,000.
    pub records: usize,
    /// Payloads of the events that they were made of, in bytes. Default 1 MiB. A shard's share of `worker.max-bytes` should
    /// be at least twice that: what is not reached for want of memory is emitted when the time is over.
    pub bytes: usize,
    /// From the first value on. Default 1 s.
    pub time: Duration,
}

impl Default for Gather {
    fn default() -> Self {
        Self { records: 1_000, bytes: 1 << 20, time: Duration::from_secs(1) }
    }
}

impl Gather {
    /// So many values, with the other limits at their defaults.
    pub fn records(records: usize) -> Self {
        Self { records, ..Self::default() }
    }

    /// The same with another limit in bytes.
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The same with another limit in time.
    pub fn with_time(self, time: Duration) -> Self {
        Self { time, ..self }
    }
}

/// An event of which nothing could be made.
#[derive(Debug)]
pub(super) struct Dead {
    pub(super) place: usize,
    pub(super) failure: Failure,
    pub(super) attempts: u32,
}

/// What was gathered of a shard, in the order of the stream.
#[derive(Debug)]
pub(super) struct Buffer<T> {
    limits: Gather,
    pub(super) events: Vec<Offered>,
    pub(super) items: Vec<Item<T>>,
    pub(super) dead: Vec<Dead>,
    bytes: usize,
    due: Option<Instant>,
}

impl<T> Buffer<T> {
    pub(super) fn new(limits: Gather) -> Self {
        Self { limits, events: Vec::new(), items: Vec::new(), dead: Vec::new(), bytes: 0, due: None }
    }

    /// Adds an event and what was made of it.
    pub(super) fn add(&mut self, offered: Offered, values: Vec<T>) {
        let position = offered.event().position();
        let items = values.into_iter().enumerate();
        self.items.extend(items.map(|(index, value)| Item { position: position.clone(), index, value }));
        self.hold(offered);
    }

    /// Adds an event that goes to the dead letters.
    pub(super) fn add_dead(&mut self, offered: Offered, failure: Failure, attempts: u32) {
        self.dead.push(Dead { place: self.events.len(), failure, attempts });
        self.hold(offered);
    }

    fn hold(&mut self, offered: Offered) {
        self.bytes += offered.event().payload().len();
        self.events.push(offered);
        // Without an end if that is beyond all time.
        self.due = self.due.or_else(|| Instant::now().checked_add(self.limits.time));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= self.limits.records.max(1)
            || self.dead.len() >= self.limits.records.max(1)
            || self.bytes >= self.limits.bytes && !self.is_empty()
    }

    /// When it is to be emitted, whatever it holds by then.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// From the first to the last position.
    pub(super) fn range(&self) -> Option<(Position, Position)> {
        let (first, last) = (self.events.first()?, self.events.last()?);
        Some((first.event().position().clone(), last.event().position().clone()))
    }

    /// What it holds, leaving it empty.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.limits))
    }
}
