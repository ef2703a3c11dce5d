//! How much may be under way: events and bytes, with those who wait for room in the order in which they came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use super::driver::Command;
use super::outcome::SendReason;
use super::record::Record;

/// Beyond a limit nothing more is taken until both are below this part of it, in tenths.
const RESUME_BELOW: u64 = 9;

/// The door of a producer: lets events through to its task, as many as may be under way at once.
#[derive(Debug)]
pub(crate) struct Admission {
    state: Mutex<State>,
    max_records: u64,
    max_bytes: u64,
    throttled: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    records: u64,
    bytes: u64,
    throttled: bool,
    /// Why nothing is taken any more.
    closed: Option<SendReason>,
    waiting: BTreeMap<u64, Record>,
    next_ticket: u64,
    task: mpsc::UnboundedSender<Command>,
}

/// What became of an event at the door.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// It is through.
    Now,
    /// It waits for room under this number.
    Later(u64),
    /// There is no room, and it was not to wait.
    Full(Record),
    /// Nothing is taken any more, for this reason.
    Closed(Record, SendReason),
}

/// The room that an event takes until its outcome is known.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    bytes: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.release(self.bytes);
    }
}

/// What is under way, and what waits for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) waiting: usize,
    pub(crate) throttled: bool,
}

impl Admission {
    pub(crate) fn new(max_records: u64, max_bytes: u64, task: mpsc::UnboundedSender<Command>) -> Arc<Self> {
        let state = State {
            records: 0,
            bytes: 0,
            throttled: false,
            closed: None,
            waiting: BTreeMap::new(),
            next_ticket: 0,
            task,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            max_records,
            max_bytes,
            throttled: watch::Sender::new(false),
        })
    }

    /// Lets the record through if there is room and nobody waits before it. Otherwise it takes its place among those
    /// who wait, if it `may_wait`.
    pub(crate) fn admit(self: &Arc<Self>, record: Record, may_wait: bool) -> Admitted {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Admitted::Closed(record, reason.clone());
        }
        if !state.throttled && self.fits(&state, size(&record)) {
            let unsent = self.let_through(&mut state, record);
            self.tell(&state);
            drop(state);
            // Only now: it gives its room back.
            drop(unsent);
            return Admitted::Now;
        }
        state.throttled = true;
        self.tell(&state);
        if !may_wait {
            return Admitted::Full(record);
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.insert(ticket, record);
        Admitted::Later(ticket)
    }

    /// Takes a waiting record back. `None` if it is through.
    pub(crate) fn withdraw(&self, ticket: u64) -> Option<Record> {
        self.lock().waiting.remove(&ticket)
    }

    /// Takes no more, and gives back what waits.
    pub(crate) fn close(&self, reason: SendReason) -> Vec<Record> {
        let mut state = self.lock();
        state.closed.get_or_insert(reason);
        state.throttled = false;
        self.tell(&state);
        std::mem::take(&mut state.waiting).into_values().collect()
    }

    /// Hands something else to the task, behind all events that are through. False if the task has ended.
    pub(crate) fn command(&self, command: Command) -> bool {
        self.lock().task.send(command).is_ok()
    }

    /// Whether a limit was reached, and there is not room enough again.
    pub(crate) fn is_throttled(&self) -> bool {
        *self.throttled.borrow()
    }

    /// Changes whenever the limit is reached, and when there is room again.
    pub(crate) fn throttled(&self) -> watch::Receiver<bool> {
        self.throttled.subscribe()
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.lock();
        let (records, bytes) = (state.records, state.bytes);
        Load { records, bytes, waiting: state.waiting.len(), throttled: state.throttled }
    }

    fn release(self: &Arc<Self>, bytes: u64) {
        let mut unsent = Vec::new();
        let mut state = self.lock();
        state.records = state.records.saturating_sub(1);
        state.bytes = state.bytes.saturating_sub(bytes);
        let is_below =
            |used: u64, max: u64| used == 0 || used.saturating_mul(10) < max.saturating_mul(RESUME_BELOW);
        if state.throttled
            && is_below(state.records, self.max_records)
            && is_below(state.bytes, self.max_bytes)
        {
            state.throttled = false;
            while let Some(next) = state.waiting.first_entry() {
                let bytes = size(next.get());
                if state.throttled || state.closed.is_some() || !self.fits(&state, bytes) {
                    state.throttled = true;
                    break;
                }
                if let Some((_, record)) = state.waiting.pop_first() {
                    unsent.extend(self.let_through(&mut state, record));
                }
            }
            if state.closed.is_some() {
                // Without the task nobody else would give them back.
                unsent.extend(std::mem::take(&mut state.waiting).into_values());
                state.throttled = false;
            }
            self.tell(&state);
        }
        drop(state);
        drop(unsent);
    }

    /// Under the lock, so that events reach the task in the order in which they were let through. Gives the record back
    /// if the task has ended.
    fn let_through(self: &Arc<Self>, state: &mut State, mut record: Record) -> Option<Record> {
        let bytes = size(&record);
        state.records += 1;
        state.bytes += bytes;
        state.throttled = state.records >= self.max_records || state.bytes >= self.max_bytes;
        record.hold(Permit { admission: Arc::clone(self), bytes });
        let Err(mpsc::error::SendError(unsent)) = state.task.send(Command::Put(Box::new(record))) else {
            return None;
        };
        state.closed.get_or_insert(SendReason::Died);
        if let Command::Put(record) = unsent { Some(*record) } else { None }
    }

    /// What is larger than all the room there is may go alone.
    fn fits(&self, state: &State, bytes: u64) -> bool {
        state.records < self.max_records && (state.bytes == 0 || state.bytes + bytes <= self.max_bytes)
    }

    fn tell(&self, state: &State) {
        self.throttled
            .send_if_modified(|throttled| std::mem::replace(throttled, state.throttled) != state.throttled);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(record: &Record) -> u64 {
    record.event().map_or(0, |event| event.size() as u64)
}

#[cfg(test)]
mod tests;
