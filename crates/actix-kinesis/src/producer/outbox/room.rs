//! How much an outbox may keep, and how much of it may wait for the disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::backlog::Load;
use super::error::OutboxReason;

/// The door of an outbox.
#[derive(Debug)]
pub(super) struct Room {
    state: Mutex<State>,
    max: Load,
    /// What may be in memory on its way to the disk.
    max_unsaved: Load,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    kept: Load,
    unsaved: Load,
    /// Why nothing is taken any more.
    closed: Option<OutboxReason>,
}

impl Room {
    pub(super) fn new(max: Load, max_unsaved: Load) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), max, max_unsaved, freed: Notify::new() })
    }

    /// Takes room for an event that is on its way to the disk.
    pub(super) fn take(&self, bytes: u64) -> Result<(), OutboxReason> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Err(reason.clone());
        }
        let fits = |used: Load, max: Load| used.events < max.events && used.bytes + bytes <= max.bytes;
        // One alone may wait for the disk, whatever its size.
        if !fits(state.kept, self.max) || (state.unsaved.events > 0 && !fits(state.unsaved, self.max_unsaved))
        {
            return Err(OutboxReason::Full);
        }
        state.kept.add(bytes);
        state.unsaved.add(bytes);
        Ok(())
    }

    /// Whether one more event of so many bytes may have to wait for the disk to keep up.
    pub(super) fn is_behind(&self, bytes: u64) -> bool {
        let State { unsaved, closed, .. } = &*self.lock();
        let fits =
            unsaved.events < self.max_unsaved.events && unsaved.bytes + bytes <= self.max_unsaved.bytes;
        closed.is_none() && unsaved.events > 0 && !fits
    }

    /// An event was there at the start, whether or not there is room for it.
    pub(super) fn found(&self, bytes: u64) {
        self.lock().kept.add(bytes);
    }

    /// An event no longer waits for the disk: it is kept, or was refused.
    pub(super) fn saved(&self, bytes: u64, is_kept: bool) {
        let mut state = self.lock();
        state.unsaved.remove(bytes);
        if !is_kept {
            state.kept.remove(bytes);
        }
        drop(state);
        self.freed.notify_waiters();
    }

    /// An event is kept no longer.
    pub(super) fn give_back(&self, bytes: u64) {
        self.lock().kept.remove(bytes);
        self.freed.notify_waiters();
    }

    /// Takes no more.
    pub(super) fn close(&self, reason: OutboxReason) {
        self.lock().closed.get_or_insert(reason);
        self.freed.notify_waiters();
    }

    /// Why nothing is taken any more, if so.
    pub(super) fn closed(&self) -> Option<OutboxReason> {
        self.lock().closed.clone()
    }

    /// Resolves when something has changed since this was called. It has to be enabled to count from then.
    pub(super) fn freed(&self) -> tokio::sync::futures::Notified<'_> {
        self.freed.notified()
    }

    pub(super) fn kept(&self) -> Load {
        self.lock().kept
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
