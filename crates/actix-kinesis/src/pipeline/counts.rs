//! What has become of events.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many events a pipeline has done with, and how. An event that is delivered again, after a failure or the loss of a lease,
/// counts again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Emitted, with all that was made of them.
    pub emitted: u64,
    /// Emitted before this process began to read, as the emitter has told.
    pub already_emitted: u64,
    /// Not wanted: nothing was made of them.
    pub filtered: u64,
    /// Put to the dead letters, by this process or, as they have told, before it began to read.
    pub dead: u64,
    /// Attempts that failed, of transforms and items.
    pub failures: u64,
    /// Attempts to emit a batch of which the destination took nothing or not all just then: [`EmitError::Unavailable`] and
    /// [`EmitError::Later`].
    ///
    /// [`EmitError::Unavailable`]: super::EmitError::Unavailable
    /// [`EmitError::Later`]: super::EmitError::Later
    pub unavailable: u64,
}

impl Counts {
    /// All events that are done with.
    pub fn done(&self) -> u64 {
        self.emitted + self.already_emitted + self.filtered + self.dead
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) emitted: AtomicU64,
    pub(super) already_emitted: AtomicU64,
    pub(super) filtered: AtomicU64,
    pub(super) dead: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) unavailable: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            emitted: read(&self.emitted),
            already_emitted: read(&self.already_emitted),
            filtered: read(&self.filtered),
            dead: read(&self.dead),
            failures: read(&self.failures),
            unavailable: read(&self.unavailable),
        }
    }
}
