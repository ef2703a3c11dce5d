//! Where events wait until somebody wants them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

use crate::consumer::{Intake, Offered, ShardNews};

/// A queue of events with one taker. The windows of the shards bound it.
pub(crate) struct Queue {
    /// Whether it serves one worker of one shard, with which it ends; else all shards of a consumer.
    is_of_one_shard: bool,
    state: Mutex<State>,
    taker: AtomicWaker,
}

#[derive(Default)]
struct State {
    offered: VecDeque<Offered>,
    /// The taker is gone, or has seen the end.
    is_closed: bool,
    /// Events wait although the taker asks for them.
    is_paused: bool,
    /// What is here may be taken although its worker drains.
    keeps: bool,
    /// The worker has nothing more to offer, but for what could not be taken.
    is_all_offered: bool,
    /// The worker offers no more in any case.
    is_ended: bool,
    /// Events that could not be taken, since the lease did not hold just then. They are offered again.
    withheld: usize,
}

impl Queue {
    pub(crate) fn of_one_shard() -> Self {
        Self { is_of_one_shard: true, state: Mutex::default(), taker: AtomicWaker::new() }
    }

    pub(crate) fn of_all_shards() -> Self {
        Self { is_of_one_shard: false, ..Self::of_one_shard() }
    }

    /// The next event, by `take`, which gives none for one that must not be processed here just now. None at the end
    /// of the one shard.
    pub(crate) fn poll_take<T>(
        &self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(Offered) -> Option<T>,
    ) -> Poll<Option<T>> {
        self.taker.register(cx.waker());
        loop {
            let mut state = self.lock();
            if state.is_paused && !state.is_ended {
                return Poll::Pending;
            }
            let Some(offered) = state.offered.pop_front() else {
                let is_end = state.is_ended || state.is_all_offered && state.withheld == 0;
                if self.is_of_one_shard && is_end {
                    state.is_closed = true;
                    return Poll::Ready(None);
                }
                return Poll::Pending;
            };
            drop(state);
            match take(offered) {
                Some(event) => return Poll::Ready(Some(event)),
                None => self.lock().withheld += 1,
            }
        }
    }

    /// Whether its one shard will never have anything to take.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_ended && state.offered.is_empty()
    }

    /// Lets events wait, or lets them be taken again.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.lock().is_paused = is_paused;
        self.taker.wake();
    }

    /// From now on, what is here may be taken although its worker drains.
    pub(crate) fn keep(&self) {
        self.lock().keeps = true;
    }

    /// The taker is gone: gives back what is here.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let given_back = std::mem::take(&mut state.offered);
        drop(state);
        drop(given_back);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, mut state: MutexGuard<'_, State>, is_of_shard: impl Fn(&Offered) -> bool) {
        let (given_back, kept) = std::mem::take(&mut state.offered).into_iter().partition(is_of_shard);
        state.offered = kept;
        drop(state);
        let _: VecDeque<Offered> = given_back;
    }
}

impl Intake for Queue {
    fn offer(&self, event: Offered) {
        let mut state = self.lock();
        state.withheld = state.withheld.saturating_sub(1);
        if !state.is_closed {
            state.offered.push_back(event);
            drop(state);
            self.taker.wake();
        }
    }

    fn is_open(&self) -> bool {
        !self.lock().is_closed
    }

    fn tell(&self, news: ShardNews) {
        let mut state = self.lock();
        match news {
            ShardNews::AllOffered => state.is_all_offered = true,
            ShardNews::Draining(shard) => {
                state.is_ended = self.is_of_one_shard;
                if !state.keeps {
                    self.give_back(state, |offered| *offered.shard() == shard);
                }
            }
            ShardNews::Ended(shard) => {
                state.is_ended = self.is_of_one_shard;
                self.give_back(state, |offered| *offered.shard() == shard);
            }
        }
        self.taker.wake();
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.lock().offered.len()).finish_non_exhaustive()
    }
}
