//! A consumer as a stream of streams, one for each shard.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use kinesis_record::ShardId;

use super::committable::CommittableEvent;
use super::queue::{Feed, Queue};
use super::source::{finished, poll_end};
use crate::config::ConsumerConf;
use crate::consumer::{
    ConsumerBuilder, ConsumerError, EventProcessor, EventProcessors, KinesisConsumer, Stopped,
};

/// The shards that this process reads, as a stream: a shard comes whenever this process begins to read it, after a failure of
/// it or a pause, too.
///
/// It ends, and stops its consumer when it is dropped, as a [`Source`](super::Source) does.
#[must_use = "a stream does nothing unless it is polled, and dropping it stops the consumer"]
pub struct ShardSources {
    begun: Begun,
}

impl ShardSources {
    starts!("its shards", |conf, configure| Ok(Self { begun: Begun::start_with(conf, configure)? }));

    /// The consumer underneath: it stops, pauses shards and tells how it is doing.
    pub fn consumer(&self) -> &KinesisConsumer {
        &self.begun.consumer
    }
}

impl Stream for ShardSources {
    type Item = Result<ShardSource, ConsumerError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.begun.poll_next(cx).map_ok(|(shard, taker)| ShardSource { shard, taker })
    }
}

impl fmt::Debug for ShardSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardSources").field("consumer", self.consumer()).finish_non_exhaustive()
    }
}

/// The events of one shard, in order, for as long as this process reads it without a break.
///
/// It ends when no more events come by it: all of a closed shard are taken, another process is to read the shard, it is paused,
/// or the consumer stops. Those that were taken should be committed then. One that fails after the end, or is failed once too
/// often before, comes by the shard's next stream, which [`ShardSources`] gives. So does what follows when this is dropped.
#[derive(Debug)]
#[must_use = "a stream does nothing unless it is polled, and dropping it starts the shard again"]
pub struct ShardSource {
    shard: ShardId,
    taker: Taker,
}

impl ShardSource {
    /// The shard.
    pub fn shard(&self) -> &ShardId {
        &self.shard
    }
}

impl Stream for ShardSource {
    type Item = CommittableEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.taker.0.poll_take(cx).map(|offered| offered.map(CommittableEvent::take))
    }
}

/// The end of a shard's queue where events are taken.
#[derive(Debug)]
pub(crate) struct Taker(pub(crate) Arc<Queue>);

impl Drop for Taker {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The shards that a consumer begins to read.
pub(crate) struct Begun {
    pub(crate) consumer: KinesisConsumer,
    shards: Arc<Waiting>,
    finished: Option<BoxFuture<'static, Result<Stopped, ConsumerError>>>,
}

impl Begun {
    pub(crate) fn start_with(
        conf: ConsumerConf,
        configure: impl FnOnce(ConsumerBuilder) -> ConsumerBuilder,
    ) -> Result<Self, ConsumerError> {
        let shards = Arc::new(Waiting::default());
        let begun = Arc::downgrade(&shards);
        let processors = EventProcessors::per_shard(move |shard| {
            let queue = Arc::new(Queue::of_one_shard());
            let taker = Taker(Arc::clone(&queue));
            // Without anybody who asks for shards the taker is dropped, which closes the queue.
            if let Some(begun) = begun.upgrade() {
                begun.add(shard.clone(), taker);
            }
            EventProcessor::of_intake(Arc::new(Feed(queue)))
        });
        let consumer = configure(KinesisConsumer::builder(conf, processors)).start()?;
        let finished = Some(finished(&consumer));
        Ok(Self { consumer, shards, finished })
    }

    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(ShardId, Taker), ConsumerError>>> {
        if let Poll::Ready(begun) = self.shards.poll_next(cx) {
            return Poll::Ready(Some(Ok(begun)));
        }
        poll_end(&mut self.finished, cx)
    }
}

/// Shards that nobody has asked for yet. Those that are read no more are forgotten, so there are never more than shards are read.
#[derive(Default)]
struct Waiting {
    shards: Mutex<VecDeque<(ShardId, Taker)>>,
    asking: AtomicWaker,
}

impl Waiting {
    fn add(&self, shard: ShardId, taker: Taker) {
        let mut shards = self.lock();
        shards.retain(|(_, taker)| !taker.0.is_over());
        shards.push_back((shard, taker));
        drop(shards);
        self.asking.wake();
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<(ShardId, Taker)> {
        self.asking.register(cx.waker());
        let mut shards = self.lock();
        shards.retain(|(_, taker)| !taker.0.is_over());
        shards.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(ShardId, Taker)>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.consumer.begin_stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_begin_and_end_unasked_for_are_forgotten() {
        let waiting = Waiting::default();
        let mut feeds = Vec::new();
        for number in 0..1_000 {
            let queue = Arc::new(Queue::of_one_shard());
            let taker = Taker(Arc::clone(&queue));
            waiting.add(ShardId::from("one"), taker);
            // Of the last one, the worker lives.
            feeds.push(Feed(queue));
            feeds.truncate(if number == 999 { 1 } else { 0 });
        }
        assert_eq!(waiting.lock().len(), 1);
        assert!(!waiting.lock()[0].1.0.is_over());
    }
}
