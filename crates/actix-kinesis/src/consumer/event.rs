//! Events on their way to the application, and its answers.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use actix::{Message, MessageResponse, Recipient};
use bytes::Bytes;
use kinesis_record::{Checkpoint, Position, ShardId};
use tokio::sync::watch;
use tokio::time::Instant;

use super::fence::Fence;
use super::status::Gauges;
use super::tracker::EventId;

/// One user record of the stream.
///
/// Cloning costs a reference count; the payload is never copied.
#[derive(Clone)]
pub struct ConsumerEvent(Arc<Contents>);

#[derive(Clone)]
pub(crate) struct Contents {
    pub(crate) shard: ShardId,
    pub(crate) position: Position,
    pub(crate) partition_key: Option<Arc<str>>,
    pub(crate) explicit_hash_key: Option<Arc<str>>,
    pub(crate) payload: Bytes,
    pub(crate) arrival: Option<SystemTime>,
    pub(crate) behind: Duration,
    pub(crate) is_aggregated: bool,
    pub(crate) fencing_token: FencingToken,
}

impl Contents {
    /// Those of an event that was read nowhere.
    pub(crate) fn nowhere(shard: ShardId, position: Position) -> Self {
        Self {
            shard,
            position,
            partition_key: None,
            explicit_hash_key: None,
            payload: Bytes::new(),
            arrival: None,
            behind: Duration::ZERO,
            is_aggregated: false,
            fencing_token: FencingToken::default(),
        }
    }
}

/// Tells the readers that a shard has had apart, by age: each acquisition of its lease has a greater one.
///
/// A process that stood still may not know yet that another one reads the shard by now. A sink that keeps the greatest
/// token it has seen of a shard, and refuses what comes with a smaller one, is safe from its writes. Tokens are
/// compared by `lease_counter`. They start again from 0 if the row, or the table, is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FencingToken {
    /// `leaseCounter` as it was when the lease was acquired.
    pub lease_counter: i64,
    /// `ownerSwitchesSinceCheckpoint` as it was then: how many readers there have been since the last checkpoint.
    pub owner_switches: i64,
}

impl ConsumerEvent {
    pub(crate) fn from_contents(contents: Contents) -> Self {
        Self(Arc::new(contents))
    }

    /// An event that came from nowhere, for tests of an event processor.
    ///
    /// ```
    /// use actix_kinesis::consumer::{ConsumerEvent, ProcessEvent};
    /// use actix_kinesis::{Position, SequenceNumber};
    ///
    /// let position = Position::new(SequenceNumber::from(7), 0);
    /// let event = ConsumerEvent::new("shardId-000000000000".into(), position, "payload")
    ///     .with_partition_key("customer-1");
    /// let message = ProcessEvent::new(event, 1);
    /// assert_eq!(message.event.partition_key(), Some("customer-1"));
    /// ```
    pub fn new(shard: ShardId, position: Position, payload: impl Into<Bytes>) -> Self {
        Self::from_contents(Contents { payload: payload.into(), ..Contents::nowhere(shard, position) })
    }

    /// The same event with a partition key.
    pub fn with_partition_key(self, partition_key: &str) -> Self {
        Self::from_contents(Contents { partition_key: Some(partition_key.into()), ..(*self.0).clone() })
    }

    /// The shard that it was read from.
    pub fn shard(&self) -> &ShardId {
        &self.0.shard
    }

    /// Its place in the shard: the sequence number, and the index in an aggregated record. Together with the shard
    /// it names the event for all time; events are delivered again under the same position.
    pub fn position(&self) -> &Position {
        &self.0.position
    }

    /// The partition key, if the producer gave one.
    pub fn partition_key(&self) -> Option<&str> {
        self.0.partition_key.as_deref()
    }

    pub(crate) fn shared_partition_key(&self) -> Option<Arc<str>> {
        self.0.partition_key.clone()
    }

    /// The explicit hash key, a decimal number below 2^128. Known only for records of an aggregate: the service
    /// does not tell that of a plain record.
    pub fn explicit_hash_key(&self) -> Option<&str> {
        self.0.explicit_hash_key.as_deref()
    }

    /// The data, perhaps empty.
    pub fn payload(&self) -> &Bytes {
        &self.0.payload
    }

    /// When the record arrived at the stream, roughly, by the service's clock.
    pub fn arrival(&self) -> Option<SystemTime> {
        self.0.arrival
    }

    /// How far the page that brought the event was behind the shard's tip when it was fetched.
    pub fn behind(&self) -> Duration {
        self.0.behind
    }

    /// Names the acquisition of the shard's lease under which it was read.
    pub fn fencing_token(&self) -> FencingToken {
        self.0.fencing_token
    }

    /// Whether it came in an aggregated record.
    pub fn is_aggregated(&self) -> bool {
        self.0.is_aggregated
    }
}

impl fmt::Debug for ConsumerEvent {
    /// Names the event without its payload and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerEvent")
            .field("shard", &self.0.shard)
            .field("position", &self.0.position)
            .field("payload_len", &self.0.payload.len())
            .finish_non_exhaustive()
    }
}

/// Asks the application's event processor to process an event. The handler's reply, given at once or as a future,
/// says how it went.
///
/// Events of a shard come in the order of the stream, many at a time: as many as the window of the shard allows are
/// under way before the first is answered. An event that is not answered in time, or whose processing failed, comes
/// again with a higher attempt. [`Concurrency`](crate::config::Concurrency) says what waits for it, and whether the
/// events of a partition key follow each other.
#[derive(Debug, Clone)]
pub struct ProcessEvent {
    /// What to process.
    pub event: ConsumerEvent,
    /// 1 at the first delivery by this shard's worker, one more with each further one.
    pub attempt: u32,
    pub(crate) delivery: DeliveryId,
    pub(crate) link: Arc<AnswerLink>,
}

/// Names one delivery of an event to its worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryId {
    pub(crate) event: EventId,
    pub(crate) attempt: u32,
    /// When it was made.
    pub(crate) sent: Instant,
    /// How many events were under way with it.
    pub(crate) among: usize,
}

impl Message for ProcessEvent {
    type Result = EventProcessed;
}

impl ProcessEvent {
    /// A delivery of an event, for tests of an event processor. Answers through a handle of it go nowhere.
    pub fn new(event: ConsumerEvent, attempt: u32) -> Self {
        let delivery = DeliveryId { event: EventId::default(), attempt, sent: Instant::now(), among: 1 };
        Self { event, attempt, delivery, link: Arc::new(AnswerLink::unconnected()) }
    }

    /// A handle by which the event can be answered later and from elsewhere. The handler then replies
    /// [`EventProcessed::Later`].
    pub fn answer_later(&self) -> EventHandle {
        EventHandle { delivery: self.delivery, link: Some(Arc::clone(&self.link)) }
    }
}

/// How the processing of an event went.
#[derive(Debug, Clone, PartialEq, Eq, MessageResponse)]
#[non_exhaustive]
pub enum EventProcessed {
    /// Done: the checkpoint may pass it.
    Processed,
    /// Not done and not wanted: the checkpoint may pass it. Counted apart.
    Skipped,
    /// Not done: it is delivered again, at most `failed-message-retries` times; then the failure policy decides.
    Failed {
        /// Why, for logs and for the failure message. It must not hold what must not be logged.
        reason: String,
    },
    /// The answer comes through an [`EventHandle`].
    Later,
}

impl EventProcessed {
    /// [`EventProcessed::Failed`] for a reason.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed { reason: reason.to_string() }
    }
}

impl<T, E: fmt::Display> From<Result<T, E>> for EventProcessed {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Processed,
            Err(error) => Self::failed(error),
        }
    }
}

/// Answers one delivery of an event, from any thread. Dropped without an answer, it answers that processing failed.
#[derive(Debug)]
pub struct EventHandle {
    pub(crate) delivery: DeliveryId,
    pub(crate) link: Option<Arc<AnswerLink>>,
}

impl EventHandle {
    /// Gives the answer. It is counted and otherwise ignored if the event has been answered before or its shard is
    /// no longer read here. [`EventProcessed::Later`] is no answer.
    pub fn answer(mut self, answer: EventProcessed) {
        if let Some(link) = self.link.take() {
            link.send(self.delivery, answer);
        }
    }
}

impl Drop for EventHandle {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            let answer = EventProcessed::failed("its handle was dropped without an answer");
            link.send(self.delivery, answer);
        }
    }
}

/// An event in an intake. Dropped there, it goes back to its worker as if it had not been offered.
#[derive(Debug)]
pub(crate) struct Offered {
    event: ConsumerEvent,
    taken: Arc<OnceLock<Instant>>,
    handle: EventHandle,
}

impl Offered {
    /// `taken` is set when the event is taken.
    pub(crate) fn new(message: ProcessEvent, taken: Arc<OnceLock<Instant>>) -> Self {
        let handle = EventHandle { delivery: message.delivery, link: Some(message.link) };
        Self { event: message.event, taken, handle }
    }

    pub(crate) fn shard(&self) -> &ShardId {
        self.event.shard()
    }

    pub(crate) fn event(&self) -> &ConsumerEvent {
        &self.event
    }

    /// Whether it may be taken.
    pub(crate) fn hold(&self) -> Hold {
        match self.link() {
            Some(link) if link.is_connected() && link.holds() => Hold::Ours,
            Some(link) if link.is_connected() => Hold::InDoubt,
            _ => Hold::Gone,
        }
    }

    /// Resolves when the lease is lost or given up.
    pub(crate) fn until_lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let stored = self.link().map(AnswerLink::stored);
        async move {
            if let Some(mut stored) = stored {
                while stored.changed().await.is_ok() {}
            }
        }
    }

    /// The shard's checkpoint that was stored last.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        self.link().map_or(Checkpoint::TrimHorizon, |link| link.stored.borrow().clone())
    }

    fn link(&self) -> Option<&AnswerLink> {
        self.handle.link.as_deref()
    }

    /// Takes the event, with the handle that answers it.
    pub(crate) fn take(mut self) -> (ConsumerEvent, EventHandle) {
        let delivery = DeliveryId { sent: Instant::now(), ..self.handle.delivery };
        (self.event.clone(), EventHandle { delivery, link: self.handle.link.take() })
    }

    /// Takes the event as [`take`](Self::take) does, and lets the time begin in which it must be answered.
    pub(crate) fn take_with_deadline(self) -> (ConsumerEvent, EventHandle) {
        let taken = Arc::clone(&self.taken);
        let (event, handle) = self.take();
        // Nobody but the taker sets it.
        let _ = taken.set(handle.delivery.sent);
        (event, handle)
    }
}

/// Whether an event may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// No other process can read the shard by now.
    Ours,
    /// Another process may read the shard. It may turn out that none does.
    InDoubt,
    /// Its worker has ended: an answer would go nowhere.
    Gone,
}

impl Drop for Offered {
    fn drop(&mut self) {
        if let Some(link) = self.handle.link.take()
            && let Some(worker) = &link.worker
        {
            worker.do_send(HandleAnswer { delivery: self.handle.delivery, answer: None });
        }
    }
}

/// An answer that came through a handle.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct HandleAnswer {
    pub(crate) delivery: DeliveryId,
    /// None if the event comes back untouched.
    pub(crate) answer: Option<EventProcessed>,
}

/// Where the handles of one worker send to, and what they can see of it.
pub(crate) struct AnswerLink {
    worker: Option<Recipient<HandleAnswer>>,
    gauges: Arc<Gauges>,
    fence: Option<Arc<Fence>>,
    stored: watch::Receiver<Checkpoint>,
}

impl AnswerLink {
    pub(crate) fn new(
        worker: Recipient<HandleAnswer>,
        gauges: Arc<Gauges>,
        fence: Arc<Fence>,
        stored: watch::Receiver<Checkpoint>,
    ) -> Self {
        Self { worker: Some(worker), gauges, fence: Some(fence), stored }
    }

    fn unconnected() -> Self {
        let gauges = Arc::new(Gauges::new(Checkpoint::TrimHorizon));
        let (_, stored) = watch::channel(Checkpoint::TrimHorizon);
        Self { worker: None, gauges, fence: None, stored }
    }

    /// The checkpoints of the shard that are stored, for as long as its lease is held.
    pub(crate) fn stored(&self) -> watch::Receiver<Checkpoint> {
        self.stored.clone()
    }

    fn is_connected(&self) -> bool {
        self.worker.as_ref().is_none_or(Recipient::connected)
    }

    fn holds(&self) -> bool {
        self.fence.as_ref().is_none_or(|fence| fence.holds())
    }

    fn send(&self, delivery: DeliveryId, answer: EventProcessed) {
        match &self.worker {
            Some(worker) if worker.connected() => {
                worker.do_send(HandleAnswer { delivery, answer: Some(answer) });
            }
            _ => self.gauges.late_answers.add(1),
        }
    }
}

impl fmt::Debug for AnswerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerLink")
    }
}
