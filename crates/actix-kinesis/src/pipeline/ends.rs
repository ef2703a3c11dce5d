//! Where the values of all shards go, and what is done until they are there.

use std::collections::{BTreeSet, HashSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kinesis_record::Position;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::Retry;
use super::buffer::Buffer;
use super::counts::{Counters, add};
use super::dead_letter::{DeadLetter, DeadLetters, Stage};
use super::emitter::{Batch, EmitError, Emitter, FailedItem};
use super::stages::Failure;
use crate::backoff::Backoff;
use crate::consumer::{EventProcessed, Hold, Offered};
use crate::stream::Queue;

/// How often a lease in doubt is looked at.
const DOUBT: Duration = Duration::from_millis(100);

/// After which time a call of the emitter is worth a warning. Nothing limits it: it may wait for room, and says so by not answering.
const LONG: Duration = Duration::from_secs(60);

/// Where the values of all shards go.
pub(super) struct Ends<E, D> {
    pub(super) stream: Arc<str>,
    pub(super) emitter: E,
    pub(super) dead_letters: D,
    pub(super) retry: Retry,
    pub(super) counters: Arc<Counters>,
}

/// The shard's worker has ended, or the lease is lost. So ends the task, and all that was taken comes again, here or elsewhere.
pub(super) struct Lost;

/// Events that were taken of one shard, and the queue that they are from. To be waited for in the task that takes from it.
struct Held {
    events: Vec<Offered>,
    queue: Arc<Queue>,
}

impl Held {
    /// Waits while the lease is in doubt.
    async fn until_ours(&self) -> Result<(), Lost> {
        loop {
            match self.events.first().map(Offered::hold) {
                Some(Hold::InDoubt) => self.pause(DOUBT).await?,
                Some(Hold::Gone) => return Err(Lost),
                Some(Hold::Ours) | None => return Ok(()),
            }
        }
    }

    async fn pause(&self, pause: Duration) -> Result<(), Lost> {
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = poll_fn(|cx| self.queue.poll_gone(cx)) => Err(Lost),
        }
    }
}

impl<E, D> Ends<E, D> {
    pub(super) fn backoff(&self) -> Backoff {
        Backoff::new(self.retry.backoff.min, self.retry.backoff.max, fastrand::Rng::new())
    }
}

impl<E, D: DeadLetters> Ends<E, D> {
    /// Emits what was gathered, and puts to the dead letters what cannot be.
    pub(super) async fn emit<T>(&self, full: Buffer<T>, queue: Arc<Queue>) -> Result<(), Lost>
    where
        T: Send + Sync + 'static,
        E: Emitter<T>,
    {
        let Some((first, last)) = full.range() else { return Ok(()) };
        let (held, mut dead_places) = (Held { events: full.events, queue }, HashSet::new());
        for dead in full.dead {
            let letter = self.letter(&held.events[dead.place], dead.failure, Vec::new(), dead.attempts);
            self.put(&letter, &held).await?;
            dead_places.insert(dead.place);
        }
        let shard = held.events[0].shard().clone();
        let mut batch = Batch::new(shard, first..=last, full.items, false);
        let refused = self.emit_batch(&mut batch, &held).await?;
        for (position, (failed, cause)) in refused {
            let Some(place) = held.events.iter().position(|offered| *offered.event().position() == position)
            else {
                continue;
            };
            let failure = Failure { stage: Stage::Emit, cause };
            let letter = self.letter(&held.events[place], failure, failed, batch.attempt());
            self.put(&letter, &held).await?;
            dead_places.insert(place);
        }
        add(&self.counters.dead, dead_places.len());
        add(&self.counters.emitted, held.events.len() - dead_places.len());
        for (place, offered) in held.events.into_iter().enumerate() {
            let is_dead = dead_places.contains(&place);
            answer(offered, if is_dead { EventProcessed::Skipped } else { EventProcessed::Processed });
        }
        Ok(())
    }

    /// Emits a batch. Returns what was refused as often as allowed: for each event the values, and a cause.
    async fn emit_batch<T>(
        &self,
        batch: &mut Batch<T>,
        held: &Held,
    ) -> Result<Vec<(Position, (Vec<usize>, String))>, Lost>
    where
        T: Send + Sync + 'static,
        E: Emitter<T>,
    {
        let (mut backoff, mut failures) = (self.backoff(), 0);
        while !batch.is_empty() {
            held.until_ours().await?;
            let emitted = tokio::select! {
                emitted = with_a_warning(self.emitter.emit(batch), batch) => emitted,
                () = held.events[0].until_lost() => return Err(Lost),
            };
            match emitted {
                Ok(()) => break,
                Err(EmitError::Later(failed)) => {
                    if backoff.failures() == 0 {
                        let cause = failed.first().map_or("", |failed| &failed.cause);
                        warn!(
                            items = failed.len(),
                            cause, "the destination does not take everything, trying again"
                        );
                    }
                    add(&self.counters.unavailable, 1);
                    batch.retain(&places(batch, &failed));
                }
                Err(EmitError::Unavailable(cause)) => {
                    add(&self.counters.unavailable, 1);
                    if backoff.failures() == 0 {
                        warn!(cause, "the destination takes nothing, trying again");
                    }
                }
                Err(EmitError::Items(failed)) => {
                    let mut failed: Vec<_> =
                        failed.into_iter().filter(|failed| failed.place < batch.items().len()).collect();
                    failed.sort_by_key(|failed| failed.place);
                    failed.dedup_by_key(|failed| failed.place);
                    add(&self.counters.failures, failed.len());
                    failures += 1;
                    if failures >= self.retry.attempts {
                        return Ok(by_event(batch, failed));
                    }
                    batch.retain(&places(batch, &failed));
                }
            }
            batch.begin_next_attempt();
            held.pause(backoff.next_pause()).await?;
        }
        Ok(Vec::new())
    }

    fn letter(&self, offered: &Offered, failure: Failure, failed: Vec<usize>, attempts: u32) -> DeadLetter {
        let Failure { stage, cause } = failure;
        let (stream, event) = (Arc::clone(&self.stream), offered.event().clone());
        DeadLetter { stream, event, stage, failed, cause, attempts }
    }

    /// Puts a letter, however long it takes.
    async fn put(&self, letter: &DeadLetter, held: &Held) -> Result<(), Lost> {
        let mut backoff = self.backoff();
        loop {
            held.until_ours().await?;
            match self.dead_letters.put(letter).await {
                Ok(()) => {
                    warn!(position = %letter.position(), stage = ?letter.stage(), "put to the dead letters");
                    return Ok(());
                }
                Err(error) => {
                    warn!(position = %letter.position(), %error, "the dead letters take nothing, trying again");
                    held.pause(backoff.next_pause()).await?;
                }
            }
        }
    }
}

/// Waits for a call of the emitter, and says once if that takes long.
async fn with_a_warning<T>(
    emitting: impl Future<Output = Result<(), EmitError>>,
    batch: &Batch<T>,
) -> Result<(), EmitError> {
    let mut emitting = pin!(emitting);
    if let Ok(emitted) = timeout(LONG, &mut emitting).await {
        return emitted;
    }
    let (items, attempt) = (batch.items().len(), batch.attempt());
    warn!(items, attempt, since = ?LONG, "the emitter has not answered: the shard waits for it");
    emitting.await
}

pub(super) fn answer(offered: Offered, answer: EventProcessed) {
    offered.take().1.answer(answer);
}

/// Where failed items are in a batch, in order.
fn places<T>(batch: &Batch<T>, failed: &[FailedItem]) -> Vec<usize> {
    let places = failed.iter().map(|failed| failed.place).filter(|place| *place < batch.items.len());
    places.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The failed items of a batch by their events, in order.
fn by_event<T>(batch: &Batch<T>, failed: Vec<FailedItem>) -> Vec<(Position, (Vec<usize>, String))> {
    let mut by_event: Vec<(Position, (Vec<usize>, String))> = Vec::new();
    for (item, failed) in failed.into_iter().map(|failed| (&batch.items[failed.place], failed)) {
        match by_event.last_mut() {
            Some((position, (indexes, _))) if *position == item.position => indexes.push(item.index),
            _ => by_event.push((item.position.clone(), (vec![item.index], failed.cause))),
        }
    }
    by_event
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::consumer::offering::Offering;

    fn held(worker: &Offering) -> Held {
        Held { events: vec![worker.offer(1), worker.offer(2)], queue: Arc::new(Queue::of_one_shard()) }
    }

    #[actix::test]
    async fn what_is_held_under_a_lease_in_doubt_waits_until_it_holds_again() {
        tokio::time::pause();
        let worker = Offering::new("one");
        let held = held(&worker);
        assert!(matches!(held.until_ours().now_or_never(), Some(Ok(()))));
        worker.doubt();
        let mut waiting = pin!(held.until_ours());
        assert!(waiting.as_mut().now_or_never().is_none());
        worker.hold();
        assert!(waiting.await.is_ok());
        assert_eq!(worker.answers().await, []);
    }

    #[actix::test]
    async fn what_is_held_of_a_worker_that_has_ended_is_lost() {
        tokio::time::pause();
        let worker = Offering::new("one");
        let held = held(&worker);
        worker.doubt();
        let mut waiting = pin!(held.until_ours());
        assert!(waiting.as_mut().now_or_never().is_none());
        worker.end().await;
        assert!(waiting.await.is_err());
    }
}
