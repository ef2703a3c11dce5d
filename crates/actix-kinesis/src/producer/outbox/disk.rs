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

use super::error::OutboxError;
use super::outcome::{Accepted, Parked};
use super::store::{Change, Entry, Kept, OutboxStore, StoreError};
use crate::backoff::Backoff;

/// The most steps that are done together.
const MAX_STEPS: usize = 4_096;
/// The most bytes of new events that are kept together.
const MAX_BYTES: u64 = 8 << 20;
/// The pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Something that the disk has to do.
#[derive(Debug)]
pub(super) enum Step {
    /// Keep a new event.
    Accept { number: u64, kept: Kept, done: oneshot::Sender<Result<Accepted, OutboxError>> },
    /// Take out an event that is sent, or that was refused and may be there all the same.
    Remove { number: u64 },
    /// Note that an event is refused for good.
    Park { parked: Parked },
    /// Send a parked event after all, as another.
    Retry { from: u64, entry: Entry, done: oneshot::Sender<bool> },
    /// Take out a parked event.
    Discard { entry: Entry, done: oneshot::Sender<bool> },
    /// Read parked events.
    List { numbers: Vec<u64>, done: oneshot::Sender<Result<Vec<Parked>, Arc<StoreError>>> },
    /// Read an event that is to be sent.
    Read { number: u64 },
}

impl Step {
    fn change(&self) -> Option<Change> {
        match self {
            Self::Accept { number, kept, .. } => Some(Change::Add { number: *number, kept: kept.clone() }),
            Self::Remove { number } => Some(Change::Remove { number: *number }),
            Self::Park { parked } => {
                Some(Change::Park { number: parked.number, reason: Arc::clone(&parked.reason) })
            }
            Self::Retry { from, entry, .. } => Some(Change::Move { number: *from, to: entry.number }),
            Self::Discard { entry, .. } => Some(Change::Remove { number: entry.number }),
            Self::List { .. } | Self::Read { .. } => None,
        }
    }

    fn reads(&self) -> &[u64] {
        match self {
            Self::List { numbers, .. } => numbers,
            Self::Read { number } => std::slice::from_ref(number),
            _ => &[],
        }
    }

    fn added(&self) -> u64 {
        if let Self::Accept { kept, .. } = self { kept.bytes() } else { 0 }
    }
}

/// Steps that were done or failed, all together.
#[derive(Debug)]
pub(super) struct Turn {
    /// With what was read for each.
    pub(super) steps: Vec<(Step, Vec<Option<Kept>>)>,
    pub(super) failed: Option<Arc<StoreError>>,
}

/// A turn, and the store that it had.
#[derive(Debug)]
pub(super) struct Finished {
    turn: Turn,
    store: Box<dyn OutboxStore>,
}

/// The store and what it has to do.
#[derive(Debug)]
pub(super) struct Disk {
    store: Option<Box<dyn OutboxStore>>,
    work: Option<JoinHandle<Finished>>,
    queue: VecDeque<Step>,
    ailing: Option<(Arc<StoreError>, Instant)>,
    backoff: Backoff,
}

impl Disk {
    pub(super) fn new(store: Box<dyn OutboxStore>, random: fastrand::Rng) -> Self {
        let backoff = Backoff::new(PAUSES.0, PAUSES.1, random);
        Self { store: Some(store), work: None, queue: VecDeque::new(), ailing: None, backoff }
    }

    pub(super) fn push(&mut self, step: Step) {
        self.queue.push_back(step);
    }

    /// Puts steps that failed before all others.
    pub(super) fn push_first(&mut self, steps: Vec<Step>) {
        steps.into_iter().rev().for_each(|step| self.queue.push_front(step));
    }

    /// Steps that wait for the next turn.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is nothing to do and nothing under way.
    pub(super) fn is_idle(&self) -> bool {
        self.work.is_none() && self.queue.is_empty()
    }

    /// What the last turn failed with, if it did.
    pub(super) fn error(&self) -> Option<&Arc<StoreError>> {
        self.ailing.as_ref().map(|(error, _)| error)
    }

    /// When the pause after a failure is over.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.ailing.as_ref().filter(|_| self.work.is_none()).map(|(_, at)| *at)
    }

    /// After the pause, with nothing to do, the disk counts as usable until the next turn shows.
    pub(super) fn ease(&mut self, now: Instant) {
        if self.queue.is_empty() && self.is_free(now) {
            self.ailing = None;
        }
    }

    /// Whether a turn can begin.
    fn is_free(&self, now: Instant) -> bool {
        self.store.is_some() && self.ailing.as_ref().is_none_or(|(_, at)| *at <= now)
    }

    /// Begins the next turn, if there is something to do and nothing under way.
    pub(super) fn turn(&mut self, now: Instant) {
        if self.queue.is_empty() || !self.is_free(now) {
            return;
        }
        let Some(mut store) = self.store.take() else { return };
        let (mut count, mut bytes) = (0, 0);
        while let Some(step) = self.queue.get(count) {
            bytes += step.added();
            if count == MAX_STEPS || (count > 0 && bytes > MAX_BYTES) {
                break;
            }
            count += 1;
        }
        let steps: Vec<Step> = self.queue.drain(..count).collect();
        self.work = Some(spawn_blocking(move || {
            let work = AssertUnwindSafe(|| work(store.as_mut(), &steps));
            let panicked = || Err(StoreError::failed(Path::new("the store"), "it panicked"));
            let (read, failed) = match catch_unwind(work).unwrap_or_else(|_| panicked()) {
                Ok(read) => (read, None),
                Err(error) => (Vec::new(), Some(Arc::new(error))),
            };
            let mut read = read.into_iter();
            let steps = steps.into_iter().map(|step| {
                let own = read.by_ref().take(step.reads().len()).collect();
                (step, own)
            });
            Finished { turn: Turn { steps: steps.collect(), failed }, store }
        }));
    }

    /// The end of the turn under way. Pending if there is none; `None` if the runtime is shutting down.
    pub(super) async fn finished(&mut self) -> Option<Finished> {
        match &mut self.work {
            Some(work) => work.await.ok(),
            None => std::future::pending().await,
        }
    }

    /// Takes the store back.
    pub(super) fn back(&mut self, finished: Finished, now: Instant) -> Turn {
        let Finished { turn, store } = finished;
        (self.store, self.work) = (Some(store), None);
        match &turn.failed {
            Some(error) => {
                if self.ailing.is_none() {
                    tracing::error!(%error, "the outbox cannot use its disk; no event is accepted meanwhile");
                }
                self.ailing = Some((Arc::clone(error), now + self.backoff.next_pause()));
            }
            None => {
                if self.ailing.take().is_some() {
                    tracing::info!("the outbox can use its disk again");
                }
                self.backoff.reset();
            }
        }
        turn
    }

    /// Ends a pause early, for the last turn.
    pub(super) fn hurry(&mut self, now: Instant) {
        if let Some((_, at)) = &mut self.ailing {
            *at = now;
        }
    }

    /// Takes out what has not begun.
    pub(super) fn drain(&mut self) -> Vec<Step> {
        self.queue.drain(..).collect()
    }

    /// Closes the store.
    pub(super) async fn close(mut self) {
        if let Some(store) = self.store.take() {
            // It ends with the runtime at the latest.
            let _ = spawn_blocking(move || drop(store)).await;
        }
    }
}

fn work(store: &mut dyn OutboxStore, steps: &[Step]) -> Result<Vec<Option<Kept>>, StoreError> {
    let changes: Vec<Change> = steps.iter().filter_map(Step::change).collect();
    if !changes.is_empty() {
        store.apply(&changes)?;
    }
    let numbers: Vec<u64> = steps.iter().flat_map(Step::reads).copied().collect();
    if numbers.is_empty() { Ok(Vec::new()) } else { store.read(&numbers) }
}
