//! A consumer as channels: for each shard one that brings its records, and one that takes how far they are finished.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kinesis_record::{Position, ShardId};

use super::shards::{Begun, Taker};
use crate::consumer::{ConsumerError, ConsumerEvent, EventHandle, EventProcessed, KinesisConsumer};

/// The shards that this process reads, each as a pair of channels.
///
/// This is the leanest way to consume: nothing is delivered twice while a shard is read without a break, no event has a
/// time-out, and none can fail by itself. An application says how far it is, and no more.
///
/// Dropping it stops the consumer in the background; a program should wait for [`KinesisConsumer::stop`] before it
/// exits.
///
/// ```no_run
/// use actix_kinesis::stream::Kinesis;
///
/// #[actix::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let mut channels = Kinesis::load("application.conf")?.channels("flights")?;
///     while let Some(shard) = channels.recv().await? {
///         actix::spawn(async move {
///             let (mut records, checkpoints) = shard.split();
///             while let Some(record) = records.recv().await {
///                 println!("{} bytes at {}", record.event.payload().len(), record.event.position());
///                 checkpoints.put(record.position);
///             }
///         });
///     }
///     Ok(())
/// }
/// ```
#[must_use = "dropping it stops the consumer"]
pub struct Channels {
    begun: Begun,
}

impl Channels {
    starts!("its shards as channels", |conf, configure| Ok(Self {
        begun: Begun::start_with(conf, configure)?
    }));

    /// The next shard that this process begins to read, after a failure of it or a pause, too. None when the consumer has
    /// ended.
    ///
    /// # Errors
    /// Why the consumer failed, when it did.
    pub async fn recv(&mut self) -> Result<Option<ShardChannel>, ConsumerError> {
        let begun = poll_fn(|cx| self.begun.poll_next(cx)).await.transpose()?;
        Ok(begun.map(|(shard, taker)| {
            let under_way = Arc::new(UnderWay::default());
            let checkpoints = Checkpoints { _under_way: Arc::clone(&under_way) };
            ShardChannel { shard: shard.clone(), records: Records { shard, taker, under_way }, checkpoints }
        }))
    }

    /// The consumer underneath: it stops, pauses shards and tells how it is doing.
    pub fn consumer(&self) -> &KinesisConsumer {
        &self.begun.consumer
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").field("consumer", self.consumer()).finish_non_exhaustive()
    }
}

/// The two channels of one shard, for as long as this process reads it without a break.
#[derive(Debug)]
pub struct ShardChannel {
    shard: ShardId,
    records: Records,
    checkpoints: Checkpoints,
}

impl ShardChannel {
    /// The shard.
    pub fn shard(&self) -> &ShardId {
        &self.shard
    }

    /// The channel that brings records, and the one that takes positions.
    pub fn split(self) -> (Records, Checkpoints) {
        (self.records, self.checkpoints)
    }
}

/// Brings the records of one shard, in order. What waits in it is bounded by `worker.max-in-flight-events` and
/// `worker.max-bytes`, divided among the shards, and when it is full nothing more is fetched. What was received and is not
/// finished counts as well.
///
/// Dropped, it brings no more; what was received can still be finished by [`Checkpoints`].
#[derive(Debug)]
pub struct Records {
    shard: ShardId,
    taker: Taker,
    under_way: Arc<UnderWay>,
}

impl Records {
    /// The shard.
    pub fn shard(&self) -> &ShardId {
        &self.shard
    }

    /// The next record. None when no more come by this channel: all of a closed shard are received, the shard is to be
    /// read by another process, it is paused, or the consumer stops. What was received should be finished then; the end of
    /// a closed shard is marked when everything in it is.
    ///
    /// Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<ShardRecord> {
        let (event, handle) = poll_fn(|cx| self.taker.0.poll_take(cx)).await?.take();
        let position = event.position().clone();
        self.under_way.add(position.clone(), handle);
        let position = ShardPosition { position, under_way: Arc::downgrade(&self.under_way) };
        Some(ShardRecord { event, position })
    }
}

/// A record of a shard, and its place.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShardRecord {
    /// The record.
    pub event: ConsumerEvent,
    /// Its place, to be put into [`Checkpoints`] when it and everything before it is finished.
    pub position: ShardPosition,
}

/// A place in one shard, known by having received the record there. It belongs to its shard: no other's checkpoint can move
/// by it.
#[derive(Clone)]
pub struct ShardPosition {
    position: Position,
    under_way: Weak<UnderWay>,
}

impl ShardPosition {
    /// The sequence number and the index in an aggregate.
    pub fn position(&self) -> &Position {
        &self.position
    }
}

impl fmt::Debug for ShardPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShardPosition").field(&self.position).finish()
    }
}

/// Takes how far a shard is finished. Cheap to clone; works from any thread.
///
/// When this and [`Records`] are dropped while the shard is read on here, with records received and not finished, the shard is
/// started again behind its checkpoint after a pause, by new channels.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    /// What is received and not finished stays under way for as long as anybody can finish it.
    _under_way: Arc<UnderWay>,
}

impl Checkpoints {
    /// Everything in the position's shard up to it is finished: the newest position wins, and one that is not newer changes
    /// nothing. Never waits. The checkpoint is stored in the background, at most once per `checkpointer.interval`, also when no
    /// more records come.
    pub fn put(&self, finished: ShardPosition) {
        if let Some(under_way) = finished.under_way.upgrade() {
            under_way.finish(&finished.position);
        }
    }
}

/// The records of one shard that were received and are not finished, in their order.
#[derive(Default)]
struct UnderWay(Mutex<VecDeque<(Position, EventHandle)>>);

impl UnderWay {
    fn add(&self, position: Position, handle: EventHandle) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((position, handle));
    }

    fn finish(&self, finished: &Position) {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, handle)) = under_way.pop_front_if(|(position, _)| *position <= *finished) {
            handle.answer(EventProcessed::Processed);
        }
    }
}

impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_tuple("UnderWay").field(&under_way).finish()
    }
}
