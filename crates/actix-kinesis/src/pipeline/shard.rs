//! The task of one shard.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::sync::Arc;

use futures::future::{BoxFuture, OptionFuture};
use futures::stream::{FuturesOrdered, StreamExt};
use kinesis_record::Position;
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};
use tracing::{debug, warn};

use super::Retry;
use super::buffer::{Buffer, Gather};
use super::counts::{Counters, add};
use super::dead_letter::{DeadLetter, DeadLetters, Stage};
use super::emitter::{Batch, EmitError, Emitter};
use super::stages::{Failure, Stages};
use crate::backoff::Backoff;
use crate::consumer::{EventProcessed, Offered};
use crate::stream::Taker;

/// Where the values of all shards go.
pub(super) struct Ends<E, D> {
    pub(super) stream: Arc<str>,
    pub(super) emitter: E,
    pub(super) dead_letters: D,
    pub(super) retry: Retry,
    pub(super) counters: Arc<Counters>,
}

/// An event, and what was made of it at the last attempt.
struct Made<T> {
    offered: Offered,
    values: Result<Vec<T>, Failure>,
    attempts: u32,
}

/// The shard may be read by another process: what is under way here is given back.
struct Lost;

/// Takes the events of one shard through the pipeline.
pub(super) struct ShardTask<T, E, D> {
    taker: Taker,
    stages: Stages<T>,
    at_once: usize,
    ends: Arc<Ends<E, D>>,
    making: FuturesOrdered<BoxFuture<'static, Made<T>>>,
    /// For each key the end of its last event that is being made something of.
    keys: HashMap<Arc<str>, oneshot::Receiver<()>>,
    buffer: Buffer<T>,
    emitting: OptionFuture<BoxFuture<'static, Result<(), Lost>>>,
    is_emitting: bool,
    /// What the emitter has emitted before, in order; unknown before the first event.
    emitted: Option<Vec<RangeInclusive<Position>>>,
}

impl<T, E, D> ShardTask<T, E, D>
where
    T: Send + Sync + 'static,
    E: Emitter<T>,
    D: DeadLetters,
{
    pub(super) fn new(
        taker: Taker,
        stages: Stages<T>,
        gather: Gather,
        at_once: usize,
        ends: Arc<Ends<E, D>>,
    ) -> Self {
        Self {
            taker,
            stages,
            at_once,
            ends,
            making: FuturesOrdered::new(),
            keys: HashMap::new(),
            buffer: Buffer::new(gather),
            emitting: None.into(),
            is_emitting: false,
            emitted: None,
        }
    }

    /// Runs until the shard offers nothing more, and what was taken is emitted or given back.
    pub(super) async fn run(mut self) {
        let (mut is_ended, mut is_due) = (false, false);
        loop {
            let is_last = is_ended && self.making.is_empty();
            if !self.is_emitting && !self.buffer.is_empty() && (self.buffer.is_full() || is_due || is_last) {
                self.emit();
                is_due = false;
            }
            if is_last && self.buffer.is_empty() && !self.is_emitting {
                return;
            }
            let has_room = !self.buffer.is_full();
            let may_take = has_room && !is_ended && self.making.len() < self.at_once;
            let due = self.buffer.due().filter(|_| !self.is_emitting && !is_due);
            let take = poll_fn(|cx| self.taker.0.poll_take(cx, |it| it.is_ours().then_some(it)));
            tokio::select! {
                biased;
                Some(emitted) = &mut self.emitting, if self.is_emitting => {
                    (self.emitting, self.is_emitting) = (None.into(), false);
                    if let Err(Lost) = emitted {
                        self.abandon();
                        is_due = false;
                    }
                }
                Some(made) = self.making.next(), if has_room && !self.making.is_empty() => self.gather(made),
                offered = take, if may_take => match offered {
                    Some(offered) => self.begin(offered).await,
                    None => is_ended = true,
                },
                Some(()) = OptionFuture::from(due.map(sleep_until)), if due.is_some() => is_due = true,
            }
        }
    }

    /// Begins to make something of an event, behind the last one of its key.
    async fn begin(&mut self, offered: Offered) {
        if self.was_emitted(&offered).await {
            add(&self.ends.counters.already_emitted, 1);
            return answer(offered, EventProcessed::Processed);
        }
        let (done, until_done) = oneshot::channel::<()>();
        let key = offered.event().shared_partition_key();
        let before = key.and_then(|key| self.keys.insert(key, until_done));
        if self.keys.len() > 2 * self.at_once {
            // Of those that have ended the sender is gone.
            self.keys
                .retain(|_, until_done| until_done.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        }
        let (stages, ends) = (self.stages.clone(), Arc::clone(&self.ends));
        self.making.push_back(Box::pin(async move {
            if let Some(before) = before {
                // It never sends anything: the other end is dropped.
                let _ = before.await;
            }
            let made = make(offered, &stages, &ends).await;
            drop(done);
            made
        }));
    }

    /// Whether the event was emitted before this process began to read.
    async fn was_emitted(&mut self, offered: &Offered) -> bool {
        let emitted = match &mut self.emitted {
            Some(emitted) => emitted,
            unknown => {
                let (shard, checkpoint) = (offered.shard(), offered.checkpoint());
                let mut backoff = self.ends.backoff();
                let mut emitted = loop {
                    match self.ends.emitter.emitted(shard, &checkpoint).await {
                        Ok(emitted) => break emitted,
                        Err(error) => {
                            warn!(%error, "what was emitted of the shard cannot be told, trying again");
                            sleep(backoff.next_pause()).await;
                        }
                    }
                };
                emitted.sort_by(|one, other| one.start().cmp(other.start()));
                debug!(ranges = emitted.len(), "emitted before");
                unknown.insert(emitted)
            }
        };
        let position = offered.event().position();
        let behind = emitted.partition_point(|range| range.start() <= position);
        emitted[..behind].last().is_some_and(|range| range.contains(position))
    }

    fn gather(&mut self, made: Made<T>) {
        let Made { offered, values, attempts } = made;
        match values {
            Ok(values) if values.is_empty() => {
                add(&self.ends.counters.filtered, 1);
                answer(offered, EventProcessed::Skipped);
            }
            Ok(values) => self.buffer.add(offered, values),
            Err(failure) => self.buffer.add_dead(offered, failure, attempts),
        }
    }

    fn emit(&mut self) {
        let full = self.buffer.take();
        let ends = Arc::clone(&self.ends);
        let emitting: BoxFuture<'static, Result<(), Lost>> = Box::pin(async move { ends.emit(full).await });
        (self.emitting, self.is_emitting) = (Some(emitting).into(), true);
    }

    /// Gives back all that was taken.
    fn abandon(&mut self) {
        debug!("the lease does not hold: what was taken is given back");
        self.making.clear();
        self.keys.clear();
        self.buffer.take();
    }
}

/// Makes something of an event, at as many attempts as it takes and as are allowed.
async fn make<T: Send + 'static, E, D>(offered: Offered, stages: &Stages<T>, ends: &Ends<E, D>) -> Made<T> {
    let mut backoff = ends.backoff();
    let mut attempts = 1;
    loop {
        let values = stages.run(offered.event().clone()).await;
        match &values {
            Err(failure) if failure.stage != Stage::Decode && attempts < ends.retry.attempts => {
                add(&ends.counters.failures, 1);
                attempts += 1;
                sleep(backoff.next_pause()).await;
            }
            _ => return Made { offered, values, attempts },
        }
    }
}

fn answer(offered: Offered, answer: EventProcessed) {
    if let Some((_, handle)) = offered.take() {
        handle.answer(answer);
    }
}

impl<E, D> Ends<E, D> {
    fn backoff(&self) -> Backoff {
        Backoff::new(self.retry.backoff.min, self.retry.backoff.max, fastrand::Rng::new())
    }
}

impl<E, D: DeadLetters> Ends<E, D> {
    /// Emits what was gathered, and puts to the dead letters what cannot be.
    async fn emit<T>(&self, full: Buffer<T>) -> Result<(), Lost>
    where
        T: Send + Sync + 'static,
        E: Emitter<T>,
    {
        let Some((first, last)) = full.range() else { return Ok(()) };
        let (events, mut dead_places) = (full.events, HashSet::new());
        for dead in full.dead {
            let letter = self.letter(&events[dead.place], dead.failure, Vec::new(), dead.attempts);
            self.put(&letter, &events).await?;
            dead_places.insert(dead.place);
        }
        let shard = events[0].shard().clone();
        let mut batch = Batch::new(shard, first..=last, full.items, false);
        let refused = self.emit_batch(&mut batch, &events).await?;
        for (position, (failed, cause)) in refused {
            let Ok(place) = events.binary_search_by(|event| event.event().position().cmp(&position)) else {
                continue;
            };
            let failure = Failure { stage: Stage::Emit, cause };
            let letter = self.letter(&events[place], failure, failed, batch.attempt());
            self.put(&letter, &events).await?;
            dead_places.insert(place);
        }
        add(&self.counters.dead, dead_places.len());
        add(&self.counters.emitted, events.len() - dead_places.len());
        for (place, offered) in events.into_iter().enumerate() {
            let is_dead = dead_places.contains(&place);
            answer(offered, if is_dead { EventProcessed::Skipped } else { EventProcessed::Processed });
        }
        Ok(())
    }

    /// Emits a batch. Returns what was refused as often as allowed: for each event the values, and a cause.
    async fn emit_batch<T>(
        &self,
        batch: &mut Batch<T>,
        events: &[Offered],
    ) -> Result<Vec<(Position, (Vec<usize>, String))>, Lost>
    where
        T: Send + Sync + 'static,
        E: Emitter<T>,
    {
        let (mut backoff, mut failures) = (self.backoff(), 0);
        while !batch.is_empty() {
            if !events.iter().all(Offered::is_ours) {
                return Err(Lost);
            }
            match self.emitter.emit(batch).await {
                Ok(()) => break,
                Err(EmitError::Unavailable(cause)) => {
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
                    let places: Vec<_> = failed.iter().map(|failed| failed.place).collect();
                    batch.retain(&places);
                }
            }
            batch.begin_next_attempt();
            sleep(backoff.next_pause()).await;
        }
        Ok(Vec::new())
    }

    fn letter(&self, offered: &Offered, failure: Failure, failed: Vec<usize>, attempts: u32) -> DeadLetter {
        let Failure { stage, cause } = failure;
        let (stream, event) = (Arc::clone(&self.stream), offered.event().clone());
        DeadLetter { stream, event, stage, failed, cause, attempts }
    }

    /// Puts a letter, however long it takes.
    async fn put(&self, letter: &DeadLetter, events: &[Offered]) -> Result<(), Lost> {
        let mut backoff = self.backoff();
        loop {
            if !events.iter().all(Offered::is_ours) {
                return Err(Lost);
            }
            match self.dead_letters.put(letter).await {
                Ok(()) => {
                    warn!(position = %letter.position(), stage = ?letter.stage(), "put to the dead letters");
                    return Ok(());
                }
                Err(error) => {
                    warn!(position = %letter.position(), %error, "the dead letters take nothing, trying again");
                    sleep(backoff.next_pause()).await;
                }
            }
        }
    }
}

/// The failed items of a batch by their events, in order.
fn by_event<T>(
    batch: &Batch<T>,
    failed: Vec<super::emitter::FailedItem>,
) -> Vec<(Position, (Vec<usize>, String))> {
    let mut by_event: Vec<(Position, (Vec<usize>, String))> = Vec::new();
    for (item, failed) in failed.into_iter().map(|failed| (&batch.items[failed.place], failed)) {
        match by_event.last_mut() {
            Some((position, (indexes, _))) if *position == item.position => indexes.push(item.index),
            _ => by_event.push((item.position.clone(), (vec![item.index], failed.cause))),
        }
    }
    by_event
}
