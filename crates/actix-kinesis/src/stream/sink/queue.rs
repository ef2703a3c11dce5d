//! A sink whose senders can be kept and shared.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{AcquireError, Semaphore, TryAcquireError};

use super::door::Load;
use super::error::{OfferError, SinkError};
use super::run::{Place, Run};
use crate::producer::{Flushed, KinesisProducer, ProducerEvent};

/// A bounded queue into a producer, for senders that have no stream. Cloning gives another handle of the same queue, for
/// any thread.
///
/// An event that was offered has its place in the producer's line, behind those that were offered before, and keeps its
/// place in the queue until its outcome is known: the capacity bounds all that is accepted and not acknowledged.
///
/// ```no_run
/// # async fn run(producer: actix_kinesis::producer::KinesisProducer) -> Result<(), Box<dyn std::error::Error>> {
/// use actix_kinesis::producer::ProducerEvent;
/// use actix_kinesis::stream::sink::{KinesisSink, OfferError};
///
/// let queue = KinesisSink::builder(producer).queue(1_000)?;
/// queue.offer(ProducerEvent::new("customer-7", "order 1")).await?; // waits while the queue is full
/// match queue.try_offer(ProducerEvent::new("customer-7", "order 2")) {
///     Err(OfferError::Full(event)) => eprintln!("not now: {event:?}"),
///     offered => offered?,
/// }
/// queue.complete();
/// let counts = queue.finished().await?;
/// println!("{} are stored", counts.sent);
/// # Ok(())
/// # }
/// ```
///
/// When all handles are dropped without [`complete`](Self::complete), what was offered is still sent, and the queue ends
/// with [`SinkError::Dropped`].
#[derive(Clone)]
pub struct SinkQueue {
    queue: Arc<Queue>,
}

struct Queue {
    run: Run,
    events: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    /// What one event may take of them.
    max_bytes: u32,
}

impl SinkQueue {
    pub(super) fn new(run: Run, capacity: usize, max_bytes: u64) -> Self {
        let capacity = capacity.clamp(1, Semaphore::MAX_PERMITS);
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let (events, bytes) = (semaphore(capacity), semaphore(max_bytes));
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        Self { queue: Arc::new(Queue { run, events, bytes, max_bytes }) }
    }

    /// Offers an event, waiting for a place in the queue. Those who wait are served in order. Dropping the future before it
    /// resolves drops the event with it, unsent.
    ///
    /// # Errors
    /// [`OfferError::Closed`], with the event, when the queue takes no more, or stops to while this waits.
    pub async fn offer(&self, event: ProducerEvent) -> Result<(), OfferError> {
        let mut phases = self.queue.run.phases();
        let place = tokio::select! {
            biased;
            _ = phases.wait_for(|phase| !phase.is_open()) => None,
            place = self.queue.place(&event) => place.ok(),
        };
        match place {
            Some(place) => self.queue.run.give(event, Some(place)).map_err(OfferError::Closed),
            None => Err(OfferError::Closed(event)),
        }
    }

    /// Offers an event if there is a place for it. It may be called from anywhere, inside a runtime or not.
    ///
    /// # Errors
    /// At once, with the event: [`OfferError::Full`], or [`OfferError::Closed`] when the queue takes no more.
    pub fn try_offer(&self, event: ProducerEvent) -> Result<(), OfferError> {
        if !self.queue.run.is_open() {
            return Err(OfferError::Closed(event));
        }
        match self.queue.try_place(&event) {
            Ok(place) => self.queue.run.give(event, Some(place)).map_err(OfferError::Closed),
            Err(_) => Err(OfferError::Full(event)),
        }
    }

    /// Ends the queue for all handles: it takes no more, and has ended when all that was offered has its outcome.
    pub fn complete(&self) {
        self.queue.run.close();
    }

    /// Resolves with what became of all that was offered, when that is known and nothing more is taken. It may be kept
    /// when the handle is not, and never resolves as long as the queue is open.
    ///
    /// # Errors
    /// [`SinkError::Failed`] with the element that failed, [`SinkError::Dropped`], or [`SinkError::Died`].
    pub fn finished(&self) -> impl Future<Output = Result<Flushed, SinkError>> + Send + use<> {
        self.queue.run.finished()
    }

    /// The outcomes so far.
    pub fn counts(&self) -> Flushed {
        self.queue.run.counts()
    }

    /// The producer.
    pub fn producer(&self) -> &KinesisProducer {
        self.queue.run.producer()
    }
}

impl Queue {
    async fn place(&self, event: &ProducerEvent) -> Result<Place, AcquireError> {
        let event_place = Arc::clone(&self.events).acquire_owned().await?;
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(self.bytes_of(event)).await?;
        Ok([event_place, bytes])
    }

    fn try_place(&self, event: &ProducerEvent) -> Result<Place, TryAcquireError> {
        let event_place = Arc::clone(&self.events).try_acquire_owned()?;
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(self.bytes_of(event))?;
        Ok([event_place, bytes])
    }

    /// What is larger than all the room there is may go alone.
    fn bytes_of(&self, event: &ProducerEvent) -> u32 {
        u32::try_from(Load::of(event).bytes).unwrap_or(u32::MAX).min(self.max_bytes)
    }
}

impl fmt::Debug for SinkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkQueue")
            .field("free", &self.queue.events.available_permits())
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
