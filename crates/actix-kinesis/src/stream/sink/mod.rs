//! Sending events as a `futures` [`Sink`], through a queue, or on the way of a stream.
//!
//! ```no_run
//! use actix_kinesis::config::KinesisConfig;
//! use actix_kinesis::producer::ProducerEvent;
//! use actix_kinesis::stream::sink::KinesisSink;
//! use futures::{SinkExt, StreamExt, stream};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = KinesisConfig::load("application.conf")?;
//! let sink = KinesisSink::start(config.producer("orders")?).await?;
//! let finished = sink.finished();
//! let orders = stream::iter(0..1_000).map(|order| ProducerEvent::new("customer-7", format!("order {order}")));
//! orders.map(Ok).forward(sink).await?; // returns when all of them are acknowledged
//! println!("{} are stored", finished.await?.sent);
//! # Ok(())
//! # }
//! ```
//!
//! - [`KinesisSink`] takes elements as long as its producer has room, and has ended when each is acknowledged.
//! - [`SinkQueue`] is a sink that many senders share, bounded by itself.
//! - [`PassThrough`] sends the elements of a stream and yields what became of each, with whatever came beside it.
//!
//! What failed comes back whole, with the reason and the calls that were made. [`SinkBuilder`] says what is done about it:
//! the sink fails (the default), skips and reports it, or sends it again.
//!
//! | file | holds |
//! |---|---|
//! | `builder`, `error` | what an application says and is told |
//! | `queue` | [`SinkQueue`] |
//! | `pass_through` | [`PassThrough`] |
//! | `door` | when there is room for one more element |
//! | `run` | the task that waits for the outcomes |
//! | `resend` | sending again what failed for a reason that passes |

mod builder;
mod door;
mod error;
mod pass_through;
mod queue;
mod resend;
mod run;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Sink;

use crate::config::ProducerConf;
use crate::producer::{Flushed, KinesisProducer, ProducerError, ProducerEvent};
use door::Door;
use run::{Phase, Run};

pub use builder::SinkBuilder;
pub use error::{OfferError, SinkError};
pub use pass_through::PassThrough;
pub use queue::SinkQueue;

/// A `futures` [`Sink`] of events.
///
/// - **Ready** when the producer has room: fewer elements are under way, and fewer bytes, than `max-outstanding-requests`
///   and `max-outstanding-bytes` allow. A sink that has nothing under way may give one element to a producer that others
///   keep full; it waits in their line.
/// - **Flushed** when all elements so far have their outcome. They wait for `record-max-buffered-time` meanwhile, so that
///   `SinkExt::send`, which flushes after each element, sends each alone: use `feed`, `send_all` or `forward` for many.
/// - **Closed** when all elements have their outcome and, if the sink has started it, the producer is stopped. Closing
///   waits for no buffered time.
/// - **Failed** when an element fails that is not to be skipped. The sink then takes no more, sends nothing again, and tells
///   the error when all that was under way has its outcome, which `record-ttl` bounds. From then on each call gives it
///   again. The error is the same wherever it is told. `forward` drops the element that it holds when the sink fails.
/// - **Dropped** without being closed, the sink takes nothing back. What it was given is still sent, and by its policy
///   sent again, as long as the runtime lives, and [`finished`](Self::finished) tells the outcome, as
///   [`SinkError::Dropped`]. That is what `forward` leaves behind when its stream fails.
///
/// To forward a stream with an error of its own, change that of the sink:
///
/// ```no_run
/// use actix_kinesis::producer::ProducerEvent;
/// use actix_kinesis::stream::sink::{KinesisSink, SinkError};
/// use futures::{SinkExt, Stream, StreamExt};
///
/// #[derive(Debug)]
/// enum CopyError {
///     Read(std::io::Error),
///     Send(SinkError),
/// }
///
/// async fn copy(
///     events: impl Stream<Item = Result<ProducerEvent, std::io::Error>>,
///     sink: KinesisSink,
/// ) -> Result<(), CopyError> {
///     events.map(|event| event.map_err(CopyError::Read)).forward(sink.sink_map_err(CopyError::Send)).await
/// }
/// ```
#[derive(Debug)]
pub struct KinesisSink {
    run: Run,
    door: Door,
}

impl KinesisSink {
    /// Starts a producer and a sink on it that fails at the first element that fails. The producer is stopped at the end of
    /// the sink.
    ///
    /// # Errors
    /// When the producer cannot be started; see [`KinesisProducer::start`].
    pub async fn start(conf: ProducerConf) -> Result<Self, ProducerError> {
        let producer = KinesisProducer::start(conf).await?;
        Self::builder(producer).stop_producer().build().map_err(|_| ProducerError::NoRuntime)
    }

    /// A sink on a producer that runs, which may be used directly as well and by other sinks.
    pub fn builder(producer: KinesisProducer) -> SinkBuilder {
        SinkBuilder::new(producer)
    }

    /// Resolves with what became of all elements when the sink has ended: closed, failed or dropped. Each sink has its own
    /// end. The future may be kept when the sink is given away or dropped.
    ///
    /// # Errors
    /// [`SinkError::Failed`] with the element that failed, [`SinkError::Dropped`], or [`SinkError::Died`].
    pub fn finished(&self) -> impl Future<Output = Result<Flushed, SinkError>> + Send + use<> {
        self.run.finished()
    }

    /// The outcomes so far.
    pub fn counts(&self) -> Flushed {
        self.run.counts()
    }

    /// The producer.
    pub fn producer(&self) -> &KinesisProducer {
        self.door.producer()
    }
}

impl Sink<ProducerEvent> for KinesisSink {
    type Error = SinkError;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let sink = self.get_mut();
        sink.run.waker().register(context.waker());
        loop {
            match sink.run.look() {
                (under_way, Phase::Open) => {
                    ready!(sink.door.poll_open(under_way, context));
                    if sink.run.reserve() {
                        return Poll::Ready(Ok(()));
                    }
                }
                (_, Phase::Failed) => {
                    sink.run.unreserve();
                    return Poll::Pending;
                }
                (_, Phase::Closed | Phase::Ended(Ok(_))) => {
                    return Poll::Ready(Err(SinkError::Closed { event: None }));
                }
                (_, Phase::Ended(Err(error))) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// # Errors
    /// [`SinkError::Closed`] with the event, if the sink was not ready for it.
    fn start_send(self: Pin<&mut Self>, event: ProducerEvent) -> Result<(), SinkError> {
        let closed = |event| SinkError::Closed { event: Some(Box::new(event)) };
        self.run.give(event, None).map_err(closed)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.run.waker().register(context.waker());
        match self.run.look() {
            (_, Phase::Ended(end)) => Poll::Ready(end.map(drop)),
            (_, Phase::Failed) => {
                self.run.unreserve();
                Poll::Pending
            }
            (under_way, _) if under_way.events == 0 => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.run.waker().register(context.waker());
        self.run.close();
        match self.run.look() {
            (_, Phase::Ended(end)) => Poll::Ready(end.map(drop)),
            _ => Poll::Pending,
        }
    }
}
