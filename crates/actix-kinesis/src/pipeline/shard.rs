//! The task of one shard.

use std::future::poll_fn;
use std::sync::Arc;

use futures::future::{BoxFuture, OptionFuture};
use futures::stream::{FuturesOrdered, StreamExt};
use tokio::time::{sleep, sleep_until};
use tracing::debug;

use super::before::{Before, Fate};
use super::buffer::{Buffer, Gather};
use super::counts::add;
use super::dead_letter::{DeadLetters, Stage};
use super::emitter::Emitter;
use super::ends::{Ends, Lost, answer};
use super::stages::{Failure, Stages};
use super::turns::{Turn, Turns};
use crate::consumer::{EventProcessed, Offered};
use crate::stream::Taker;

/// An event, and what was made of it at the last attempt.
struct Made<T> {
    offered: Offered,
    values: Result<Vec<T>, Failure>,
    attempts: u32,
}

/// Takes the events of one shard through the pipeline.
pub(super) struct ShardTask<T, E, D> {
    taker: Taker,
    stages: Stages<T>,
    at_once: usize,
    ends: Arc<Ends<E, D>>,
    making: FuturesOrdered<BoxFuture<'static, Made<T>>>,
    keys: Turns<Arc<str>>,
    buffer: Buffer<T>,
    emitting: OptionFuture<BoxFuture<'static, Result<(), Lost>>>,
    is_emitting: bool,
    /// Unknown before the first event.
    before: Option<Before>,
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
            keys: Turns::new(),
            buffer: Buffer::new(gather),
            emitting: None.into(),
            is_emitting: false,
            before: None,
        }
    }

    /// Runs until the shard offers nothing more and what was taken is emitted, or until the shard's worker has ended.
    pub(super) async fn run(mut self, mut turn: Turn) {
        turn.come().await;
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
            let may_take = !self.buffer.is_full() && !is_ended && self.making.len() < self.at_once;
            let due = self.buffer.due().filter(|_| !self.is_emitting && !is_due);
            let take = poll_fn(|cx| self.taker.0.poll_take(cx));
            let gone = poll_fn(|cx| self.taker.0.poll_gone(cx));
            tokio::select! {
                biased;
                () = gone => {
                    // The shard's next task asks what was emitted. By then, this must be or never be.
                    if self.is_emitting {
                        let _ = (&mut self.emitting).await;
                    }
                    return;
                }
                Some(emitted) = &mut self.emitting, if self.is_emitting => {
                    (self.emitting, self.is_emitting) = (None.into(), false);
                    if let Err(Lost) = emitted {
                        debug!("the shard is read no more: what was taken is given back");
                        return;
                    }
                }
                // Also while the buffer is full: what is being made may hold what the emitter needs.
                Some(made) = self.making.next(), if !self.making.is_empty() => self.gather(made),
                offered = take, if may_take => match offered {
                    Some(offered) => if let Err(Lost) = self.begin(offered).await {
                        return;
                    },
                    None => is_ended = true,
                },
                Some(()) = OptionFuture::from(due.map(sleep_until)), if due.is_some() => is_due = true,
            }
        }
    }

    /// Begins to make something of an event, behind the last one of its key.
    async fn begin(&mut self, offered: Offered) -> Result<(), Lost> {
        let before = match &self.before {
            Some(before) => before,
            None => {
                let before = Before::ask(&*self.ends, &offered, &self.taker.0).await?;
                self.before.insert(before)
            }
        };
        let counters = &self.ends.counters;
        match before.fate(offered.event().position()) {
            Some(Fate::Dead) => {
                add(&counters.dead, 1);
                answer(offered, EventProcessed::Skipped);
                return Ok(());
            }
            Some(Fate::Emitted) => {
                add(&counters.already_emitted, 1);
                answer(offered, EventProcessed::Processed);
                return Ok(());
            }
            None => {}
        }
        let mut turn = offered.event().shared_partition_key().map(|key| self.keys.next(key));
        let (stages, ends) = (self.stages.clone(), Arc::clone(&self.ends));
        self.making.push_back(Box::pin(async move {
            if let Some(turn) = &mut turn {
                turn.come().await;
            }
            make(offered, &stages, &ends).await
        }));
        Ok(())
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
        let (ends, queue) = (Arc::clone(&self.ends), Arc::clone(&self.taker.0));
        let emitting: BoxFuture<'static, Result<(), Lost>> =
            Box::pin(async move { ends.emit(full, queue).await });
        (self.emitting, self.is_emitting) = (Some(emitting).into(), true);
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
