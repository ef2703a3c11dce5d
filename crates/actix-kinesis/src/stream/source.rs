//! A consumer as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::FusedStream;

use super::committable::CommittableEvent;
use super::queue::Queue;
use crate::consumer::{
    ConsumerError, ConsumerStatus, EventProcessor, EventProcessors, KinesisConsumer, Stopped,
};

/// The events of all shards that this process reads, as a stream: those of a shard in order.
///
/// It is a [`KinesisConsumer`] underneath, and all that is said there of leases, retries and checkpoints holds. Events are read
/// ahead within `worker.max-bytes`; at most `worker.max-in-flight-events`, over all shards, wait here or are taken and not yet
/// committed. `batch-timeout` begins for an event when it is taken, not while it waits.
///
/// It ends when the consumer has ended, with one error if the consumer failed. Dropping it stops the consumer in the
/// background; [`SourceControl::finished`] tells when that is done, and a program should wait for it, or for
/// [`Source::stop`], before it exits.
///
/// ```no_run
/// use actix_kinesis::stream::Kinesis;
/// use futures::TryStreamExt;
///
/// #[actix::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let mut source = Kinesis::load("application.conf")?.source("flights")?;
///     while let Some(event) = source.try_next().await? {
///         println!("{} bytes at {}", event.value().payload().len(), event.value().position());
///         event.commit();
///     }
///     Ok(())
/// }
/// ```
#[must_use = "a stream does nothing unless it is polled, and dropping it stops the consumer"]
pub struct Source {
    control: SourceControl,
    finished: Option<BoxFuture<'static, Result<Stopped, ConsumerError>>>,
}

impl Source {
    starts!("its events", |conf, configure| {
        let queue = Arc::new(Queue::of_all_shards());
        let for_shards = Arc::clone(&queue);
        let processors = EventProcessors::per_shard(move |_| EventProcessor::of_intake(for_shards.clone()));
        let consumer = configure(KinesisConsumer::builder(conf, processors)).start()?;
        let finished = Some(finished(&consumer));
        Ok(Self { control: SourceControl { consumer, queue }, finished })
    });

    /// The handle that goes on working while the stream is polled elsewhere.
    pub fn control(&self) -> SourceControl {
        self.control.clone()
    }

    /// Ends the stream here and stops the consumer; see [`SourceControl::stop`].
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn stop(self) -> Result<Stopped, ConsumerError> {
        self.control.stop().await
    }
}

impl Stream for Source {
    type Item = Result<CommittableEvent, ConsumerError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.finished.is_none() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(Some(offered)) = self.control.queue.poll_take(cx) {
            return Poll::Ready(Some(Ok(CommittableEvent::take(offered))));
        }
        poll_end(&mut self.finished, cx)
    }
}

impl FusedStream for Source {
    fn is_terminated(&self) -> bool {
        self.finished.is_none()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.control.consumer.begin_stop();
        self.control.queue.close();
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("control", &self.control).finish_non_exhaustive()
    }
}

/// Resolves when the consumer has ended.
pub(super) fn finished(consumer: &KinesisConsumer) -> BoxFuture<'static, Result<Stopped, ConsumerError>> {
    let consumer = consumer.clone();
    Box::pin(async move { consumer.finished().await })
}

/// The end of a stream whose consumer has ended: its error, if it failed, and then nothing.
pub(super) fn poll_end<T>(
    finished: &mut Option<BoxFuture<'static, Result<Stopped, ConsumerError>>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<T, ConsumerError>>> {
    let Some(future) = finished else { return Poll::Ready(None) };
    let ended = std::task::ready!(future.as_mut().poll(cx));
    *finished = None;
    Poll::Ready(ended.err().map(Err))
}

/// Stops, drains and pauses a [`Source`], and tells how it is doing. It is cheap to clone and works from any thread.
#[derive(Debug, Clone)]
pub struct SourceControl {
    consumer: KinesisConsumer,
    queue: Arc<Queue>,
}

impl SourceControl {
    /// Stops: no more events come; those that were taken are waited for; the last checkpoints are stored and the leases
    /// released. The stream ends then. It need not be polled meanwhile.
    ///
    /// An event that was taken may be committed until its `batch-timeout` is over, which began when it was taken, or until near
    /// the `shutdown-timeout` if that is earlier. Later, it may have been given up: then it is among the
    /// [unsettled](Stopped::unsettled), as one that failed meanwhile is, and comes again at the next start.
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn stop(&self) -> Result<Stopped, ConsumerError> {
        self.queue.pause(false);
        self.consumer.stop().await
    }

    /// Stops as [`stop`](Self::stop) does, and still gives the events that wait to be taken. The stream must be polled
    /// meanwhile, until its end.
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn drain(&self) -> Result<Stopped, ConsumerError> {
        self.queue.keep();
        self.stop().await
    }

    /// Lets all events wait until [`resume`](Self::resume). The leases are kept. [`KinesisConsumer::pause`] does it for one
    /// shard.
    pub fn pause(&self) {
        self.queue.pause(true);
    }

    /// Gives events again.
    pub fn resume(&self) {
        self.queue.pause(false);
    }

    /// How it is doing now; see [`KinesisConsumer::status`].
    pub fn status(&self) -> ConsumerStatus {
        self.consumer.status()
    }

    /// Waits until the consumer has ended.
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn finished(&self) -> Result<Stopped, ConsumerError> {
        self.consumer.finished().await
    }

    /// The consumer underneath, to pause or drain one shard, or to watch its status.
    pub fn consumer(&self) -> &KinesisConsumer {
        &self.consumer
    }
}
