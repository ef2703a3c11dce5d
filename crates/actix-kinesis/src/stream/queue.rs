//! Where events wait until somebody wants them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use kinesis_record::ShardId;

use crate::consumer::{Hold, Intake, Offered, ShardNews};

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
    /// The worker has nothing more to offer.
    is_all_offered: bool,
    /// The worker offers no more in any case.
    is_ended: bool,
    /// The worker has ended: answers go nowhere.
    is_gone: bool,
}

impl Queue {
    pub(crate) fn of_one_shard() -> Self {
        Self { is_of_one_shard: true, state: Mutex::default(), taker: AtomicWaker::new() }
    }

    pub(crate) fn of_all_shards() -> Self {
        Self { is_of_one_shard: false, ..Self::of_one_shard() }
    }

    /// The next event; none at the end of the one shard.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Offered>> {
        self.taker.register(cx.waker());
        let mut state = self.lock();
        if state.is_paused && !state.is_ended {
            return Poll::Pending;
        }
        if let Some(offered) = state.take() {
            return Poll::Ready(Some(offered));
        }
        let is_end = state.offered.is_empty() && (state.is_ended || state.is_all_offered);
        if self.is_of_one_shard && is_end {
            state.is_closed = true;
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    /// Resolves when the worker of the one shard has ended. To be polled by the taker's task alone.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.taker.register(cx.waker());
        if self.lock().is_gone { Poll::Ready(()) } else { Poll::Pending }
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

impl State {
    /// The oldest event of a shard whose lease holds. While that of a shard is in doubt, its events wait here, in their order.
    fn take(&mut self) -> Option<Offered> {
        if self.offered.front()?.hold() == Hold::Ours {
            return self.offered.pop_front();
        }
        // A worker that ends while its lease is lost has nobody who could say so here.
        self.offered.retain(|offered| offered.hold() != Hold::Gone);
        let mut in_doubt: Vec<&ShardId> = Vec::new();
        let place = self.offered.iter().position(|offered| {
            // A lease that holds again in the middle of the search must not let a later event through.
            let is_ours = !in_doubt.contains(&offered.shard()) && offered.hold() == Hold::Ours;
            if !is_ours && !in_doubt.contains(&offered.shard()) {
                in_doubt.push(offered.shard());
            }
            is_ours
        })?;
        self.offered.remove(place)
    }
}

/// The end of a queue of one shard where its worker offers events. The queue ends with it.
pub(crate) struct Feed(pub(crate) Arc<Queue>);

impl Drop for Feed {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        (state.is_ended, state.is_gone) = (true, true);
        self.0.give_back(state, |_| true);
        self.0.taker.wake();
    }
}

impl Intake for Feed {
    fn offer(&self, event: Offered) {
        self.0.offer(event);
    }

    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    fn tell(&self, news: ShardNews) {
        self.0.tell(news);
    }
}

impl Intake for Queue {
    fn offer(&self, event: Offered) {
        let mut state = self.lock();
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
            ShardNews::LeaseHolds => {}
            ShardNews::AllOffered => state.is_all_offered = true,
            ShardNews::Draining(shard) => {
                state.is_ended = self.is_of_one_shard;
                if !state.keeps {
                    self.give_back(state, |offered| *offered.shard() == shard);
                }
            }
            ShardNews::Ended(shard) => {
                (state.is_ended, state.is_gone) = (self.is_of_one_shard, self.is_of_one_shard);
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::FutureExt;

    use super::*;
    use crate::consumer::EventProcessed;
    use crate::consumer::offering::Offering;

    /// What can be taken now.
    fn takeable(queue: &Queue) -> Vec<String> {
        let taken = std::iter::from_fn(|| poll_fn(|cx| queue.poll_take(cx)).now_or_never().flatten());
        taken
            .map(|offered| {
                let (event, handle) = offered.take();
                handle.answer(EventProcessed::Processed);
                format!("{}:{}", event.shard(), String::from_utf8_lossy(event.payload()))
            })
            .collect()
    }

    #[actix::test]
    async fn events_of_a_lease_in_doubt_wait_in_their_order_and_hold_up_no_other_shard() {
        let (queue, one, other) = (Queue::of_all_shards(), Offering::new("one"), Offering::new("other"));
        [one.offer(1), other.offer(2), one.offer(3)].into_iter().for_each(|event| queue.offer(event));
        one.doubt();
        assert_eq!(takeable(&queue), ["other:2"]);
        one.hold();
        assert_eq!(takeable(&queue), ["one:1", "one:3"]);
    }

    #[actix::test]
    async fn a_worker_that_ended_without_a_word_leaves_nothing_in_the_way_of_the_next_one() {
        let (queue, former, next) = (Queue::of_all_shards(), Offering::new("one"), Offering::new("one"));
        queue.offer(former.offer(1));
        queue.offer(former.offer(2));
        former.doubt();
        former.end().await;
        queue.offer(next.offer(1));
        assert_eq!(takeable(&queue), ["one:1"]);
        assert_eq!(next.answers().await.len(), 1);
    }

    #[actix::test]
    async fn the_queue_of_a_shard_ends_with_its_worker_whatever_it_held() {
        let (queue, worker) = (Arc::new(Queue::of_one_shard()), Offering::new("one"));
        let feed = Feed(Arc::clone(&queue));
        feed.offer(worker.offer(1));
        worker.doubt();
        assert!(poll_fn(|cx| queue.poll_take(cx)).now_or_never().is_none());
        assert!(poll_fn(|cx| queue.poll_gone(cx)).now_or_never().is_none());
        drop(feed);
        assert!(queue.is_over());
        assert!(matches!(poll_fn(|cx| queue.poll_take(cx)).now_or_never(), Some(None)));
        assert!(poll_fn(|cx| queue.poll_gone(cx)).now_or_never().is_some());
        assert_eq!(worker.answers().await, [None]);
    }
}
