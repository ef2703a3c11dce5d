//! The store behind a queue: what waits while it works is done together, on a thread for blocking work, so that many
//! events share one fsync.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use super::keeper::Answers;
use super::outcome::Parked;
use super::store::{Change, Entry, Kept, OutboxStore, Row, StoreError};
use crate::backoff::Backoff;

/// The most changes of a kind that are made together.
const MAX_STEPS: usize = 4_096;
/// The most bytes of new events that are kept together.
const MAX_BYTES: u64 = 8 << 20;
/// The pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A change that somebody is told of.
#[derive(Debug)]
pub(super) enum Step {
    /// Keep a new event.
    Accept { number: u64, kept: Kept, answers: Answers },
    /// Note that an event is refused for good.
    Park { parked: Parked },
    /// Send a parked event after all, as another.
    Retry { from: u64, entry: Entry, done: oneshot::Sender<bool> },
    /// Take out an event that is not to be sent.
    Discard { number: u64, bytes: u64, done: oneshot::Sender<bool> },
}

impl Step {
    fn change(&self) -> Change {
        match self {
            Self::Accept { number, kept, .. } => Change::Add { number: *number, kept: kept.clone() },
            Self::Park { parked } => {
                Change::Park { number: parked.number, reason: Arc::clone(&parked.reason) }
            }
            Self::Retry { from, entry, .. } => Change::Move { number: *from, to: entry.number },
            Self::Discard { number, .. } => Change::Remove { number: *number },
        }
    }

    fn added(&self) -> u64 {
        if let Self::Accept { kept, .. } = self { kept.bytes() } else { 0 }
    }
}

/// An event to take out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Removal {
    pub(super) number: u64,
    /// What is counted of it if it is sent. None: it was refused, and may be there all the same.
    pub(super) bytes: Option<u64>,
}

/// Something to read.
#[derive(Debug)]
pub(super) enum Look {
    /// Parked events.
    List { numbers: Vec<u64>, done: oneshot::Sender<Result<Vec<Parked>, Arc<StoreError>>> },
    /// An event that is to be sent.
    Read { number: u64 },
}

impl Look {
    fn numbers(&self) -> &[u64] {
        match self {
            Self::List { numbers, .. } => numbers,
            Self::Read { number } => std::slice::from_ref(number),
        }
    }
}

type Failure = Arc<StoreError>;

/// What was written together and read together.
#[derive(Debug, Default)]
struct Turn {
    steps: Vec<Step>,
    removals: Vec<Removal>,
    looks: Vec<Look>,
}

/// How a turn ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) steps: Vec<Step>,
    pub(super) removals: Vec<Removal>,
    pub(super) written: Result<(), Failure>,
    /// What was looked for, with what is kept of each.
    pub(super) looks: Vec<(Look, Vec<Row>)>,
}

/// The work of a turn, and the store that it had.
#[derive(Debug)]
pub(super) struct Finished {
    written: Result<(), Failure>,
    read: Result<Vec<Row>, Failure>,
    store: Box<dyn OutboxStore>,
}

/// Whether one of writing and reading can be done.
#[derive(Debug)]
struct Health {
    /// What the last turn failed with, and when the pause after it is over.
    ailing: Option<(Failure, Instant)>,
    backoff: Backoff,
}

impl Health {
    fn new(random: fastrand::Rng) -> Self {
        Self { ailing: None, backoff: Backoff::new(PAUSES.0, PAUSES.1, random) }
    }

    fn error(&self) -> Option<&Failure> {
        self.ailing.as_ref().map(|(error, _)| error)
    }

    fn wake_at(&self) -> Option<Instant> {
        self.ailing.as_ref().map(|(_, at)| *at)
    }

    fn is_free(&self, now: Instant) -> bool {
        self.wake_at().is_none_or(|at| at <= now)
    }

    fn note<T>(&mut self, result: &Result<T, Failure>, now: Instant, what: &str) {
        match result {
            Err(error) => {
                if self.ailing.is_none() {
                    tracing::error!(%error, "the outbox cannot {what} its disk");
                }
                self.ailing = Some((Arc::clone(error), now + self.backoff.next_pause()));
            }
            Ok(_) => {
                if self.ailing.take().is_some() {
                    tracing::info!("the outbox can {what} its disk again");
                }
                self.backoff.reset();
            }
        }
    }

    fn hurry(&mut self, now: Instant) {
        if let Some((_, at)) = &mut self.ailing {
            *at = now;
        }
    }
}

/// The store and what it has to do. What is read is read although nothing can be written.
#[derive(Debug)]
pub(super) struct Disk {
    /// None while a turn has it.
    store: Option<Box<dyn OutboxStore>>,
    work: Option<JoinHandle<Finished>>,
    turn: Turn,
    steps: VecDeque<Step>,
    removals: VecDeque<Removal>,
    looks: VecDeque<Look>,
    writing: Health,
    reading: Health,
}

impl Disk {
    pub(super) fn new(store: Box<dyn OutboxStore>, mut random: fastrand::Rng) -> Self {
        let (writing, reading) = (Health::new(random.fork()), Health::new(random));
        let (turn, steps, removals, looks) = Default::default();
        Self { store: Some(store), work: None, turn, steps, removals, looks, writing, reading }
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    pub(super) fn remove(&mut self, removal: Removal) {
        self.removals.push_back(removal);
    }

    pub(super) fn look(&mut self, look: Look) {
        self.looks.push_back(look);
    }

    /// Puts what could not be written before all others.
    pub(super) fn again(&mut self, steps: Vec<Step>, removals: Vec<Removal>) {
        steps.into_iter().rev().for_each(|step| self.steps.push_front(step));
        removals.into_iter().rev().for_each(|removal| self.removals.push_front(removal));
    }

    /// What waits to be read.
    pub(super) fn looks(&self) -> usize {
        self.looks.len()
    }

    /// Whether there is nothing to do and nothing under way.
    pub(super) fn is_idle(&self) -> bool {
        self.work.is_none() && !self.has_changes() && self.looks.is_empty()
    }

    fn has_changes(&self) -> bool {
        !self.steps.is_empty() || !self.removals.is_empty()
    }

    /// Why the last turn could not write, if it could not.
    pub(super) fn cannot_write(&self) -> Option<&Failure> {
        self.writing.error()
    }

    /// Why the last turn could not read, if it could not.
    pub(super) fn cannot_read(&self) -> Option<&Failure> {
        self.reading.error()
    }

    /// When the first pause after a failure is over.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let pauses = [self.writing.wake_at(), self.reading.wake_at()];
        pauses.into_iter().flatten().min().filter(|_| self.work.is_none())
    }

    /// After the pause, with nothing to do, the disk counts as usable until the next turn shows.
    pub(super) fn ease(&mut self, now: Instant) {
        if !self.has_changes() && self.store.is_some() && self.writing.is_free(now) {
            self.writing.ailing = None;
        }
        if self.looks.is_empty() && self.store.is_some() && self.reading.is_free(now) {
            self.reading.ailing = None;
        }
    }

    /// Begins the next turn, if there is something to do and nothing under way.
    pub(super) fn turn(&mut self, now: Instant) {
        let writes = self.has_changes() && self.writing.is_free(now);
        let reads = !self.looks.is_empty() && self.reading.is_free(now);
        if !writes && !reads {
            return;
        }
        let Some(mut store) = self.store.take() else { return };
        self.turn = Turn::default();
        if writes {
            self.turn.removals = self.removals.drain(..self.removals.len().min(MAX_STEPS)).collect();
            self.turn.steps = self.steps.drain(..self.fitting()).collect();
        }
        if reads {
            self.turn.looks = self.looks.drain(..).collect();
        }
        let removals = self.turn.removals.iter().map(|it| Change::Remove { number: it.number });
        let changes: Vec<Change> = removals.chain(self.turn.steps.iter().map(Step::change)).collect();
        let numbers: Vec<u64> = self.turn.looks.iter().flat_map(Look::numbers).copied().collect();
        self.work = Some(spawn_blocking(move || {
            let written = if changes.is_empty() { Ok(()) } else { guarded(|| store.apply(&changes)) };
            let read = if numbers.is_empty() { Ok(Vec::new()) } else { guarded(|| store.read(&numbers)) };
            Finished { written, read, store }
        }));
    }

    /// How many steps are done together.
    fn fitting(&self) -> usize {
        let (mut count, mut bytes) = (0, 0);
        for step in self.steps.iter().take(MAX_STEPS) {
            bytes += step.added();
            if count > 0 && bytes > MAX_BYTES {
                break;
            }
            count += 1;
        }
        count
    }

    /// The end of the turn under way. Pending if there is none; `None` if the runtime is shutting down.
    pub(super) async fn finished(&mut self) -> Option<Finished> {
        match &mut self.work {
            Some(work) => work.await.ok(),
            None => std::future::pending().await,
        }
    }

    /// Takes the store back. What could not be read is read later.
    pub(super) fn back(&mut self, finished: Finished, now: Instant) -> Ended {
        let Finished { written, read, store } = finished;
        (self.store, self.work) = (Some(store), None);
        let Turn { steps, removals, looks } = std::mem::take(&mut self.turn);
        if !steps.is_empty() || !removals.is_empty() {
            self.writing.note(&written, now, "write to");
        }
        let mut found = Vec::new();
        if !looks.is_empty() {
            self.reading.note(&read, now, "read from");
            match read {
                Ok(rows) => {
                    let mut rows = rows.into_iter();
                    let own = |look: Look| {
                        let own = rows.by_ref().take(look.numbers().len()).collect();
                        (look, own)
                    };
                    found = looks.into_iter().map(own).collect();
                }
                Err(error) => self.unread(looks, &error),
            }
        }
        Ended { steps, removals, written, looks: found }
    }

    fn unread(&mut self, looks: Vec<Look>, error: &Failure) {
        for look in looks.into_iter().rev() {
            match look {
                Look::List { done, .. } => drop(done.send(Err(Arc::clone(error)))),
                look @ Look::Read { .. } => self.looks.push_front(look),
            }
        }
    }

    /// Ends a pause early, for the last turn, and reads no more.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.looks.clear();
        self.writing.hurry(now);
    }

    /// Takes out what has not begun.
    pub(super) fn drain(&mut self) -> Vec<Step> {
        self.steps.drain(..).collect()
    }

    /// Takes out what has begun and does not come to an end.
    pub(super) fn give_up(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.turn.steps)
    }

    /// Closes the store.
    pub(super) async fn close(mut self) {
        if let Some(store) = self.store.take() {
            // It ends with the runtime at the latest.
            let _ = spawn_blocking(move || drop(store)).await;
        }
    }
}

/// A store that panics fails.
fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, Failure> {
    let panicked = || Err(StoreError::failed(Path::new("the store"), "it panicked"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| panicked()).map_err(Arc::new)
}
