//! Sending the elements of a stream on their way.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::{BoxFuture, pending};
use futures::stream::{FuturesOrdered, FuturesUnordered};
use futures::{FutureExt, Stream, StreamExt};

use super::door::{Door, Load};
use super::resend::{self, Resend};
use crate::producer::{KinesisProducer, Outcome, ProducerEvent};

/// Elements that are taken from the stream without a look at anything else.
const BURST: usize = 128;

/// A stream that sends the events of another one and yields the outcome of each, with what came beside it, such as a
/// handle that commits what the event was made of:
///
/// ```no_run
/// use actix_kinesis::producer::{KinesisProducer, ProducerEvent};
/// use actix_kinesis::stream::sink::PassThrough;
/// use futures::{StreamExt, stream};
///
/// # async fn run(producer: KinesisProducer) {
/// let orders = stream::iter(0..1_000).map(|order| (ProducerEvent::new("customer-7", "an order"), order));
/// let mut sent = PassThrough::new(producer, orders);
/// while let Some((outcome, order)) = sent.next().await {
///     match outcome {
///         Ok(stored) => println!("order {order} is at {}", stored.position()),
///         Err(failed) => eprintln!("order {order} is not stored: {failed}"),
///     }
/// }
/// # }
/// ```
///
/// Each element of the stream comes out once, in the order of the outcomes or, with [`in_order`](Self::in_order), in that of
/// the stream. A failure ends nothing. The stream is polled only while the producer has room: fewer elements are under way
/// or yet to be taken from here, and fewer bytes, than `max-outstanding-requests` and `max-outstanding-bytes` allow.
///
/// Dropping it drops what came beside the elements. An event that the producer has taken is sent all the same; one that
/// waits for room, or to be sent again, is not.
#[must_use = "a stream does nothing unless it is polled"]
pub struct PassThrough<S, T> {
    /// Until it ends.
    stream: Option<Pin<Box<S>>>,
    door: Door,
    resend: Resend,
    random: fastrand::Rng,
    under_way: UnderWay<T>,
    load: Load,
}

impl<S: Stream<Item = (ProducerEvent, T)>, T> PassThrough<S, T> {
    /// Sends the events of `stream` by `producer`, which is left running at the end.
    pub fn new(producer: KinesisProducer, stream: S) -> Self {
        Self {
            stream: Some(Box::pin(stream)),
            door: Door::new(producer),
            resend: Resend::Never,
            random: fastrand::Rng::new(),
            under_way: UnderWay::Any(FuturesUnordered::new()),
            load: Load::default(),
        }
    }

    /// Yields the elements in the order of the stream, for what follows them in order: those that are through wait for
    /// the slowest one before them.
    pub fn in_order(self) -> Self {
        Self { under_way: UnderWay::InOrder(FuturesOrdered::new()), ..self }
    }

    /// Sends an element again that failed for a reason that may pass; see
    /// [`SinkBuilder::resend_within`](super::SinkBuilder::resend_within).
    pub fn resend_within(self, limit: Duration) -> Self {
        Self { resend: Resend::Within(limit), ..self }
    }

    /// The same without a limit.
    pub fn resend_for_ever(self) -> Self {
        Self { resend: Resend::ForEver, ..self }
    }

    /// Makes all that is left to chance (the jitter of pauses) follow from a number.
    pub fn seed(self, seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), ..self }
    }

    /// Sends what the stream has and there is room for.
    fn fill(&mut self, context: &mut Context<'_>) {
        for _ in 0..BURST {
            let Some(stream) = &mut self.stream else { return };
            if self.door.poll_open(self.load, context).is_pending() {
                return;
            }
            match stream.as_mut().poll_next(context) {
                Poll::Pending => return,
                Poll::Ready(Some((event, beside))) => self.send(event, beside),
                Poll::Ready(None) => {
                    self.stream = None;
                    // Nothing comes that could go with what waits. It is told at the first poll, and its end is that of the
                    // outcomes.
                    let _ = self.door.producer().flush().now_or_never();
                    return;
                }
            }
        }
        context.waker().wake_by_ref();
    }

    fn send(&mut self, event: ProducerEvent, beside: T) {
        let load = Load::of(&event);
        self.load.add(load);
        let producer = self.door.producer();
        let sending = producer.send(event);
        let outcome = resend::outcome(sending, producer.clone(), self.resend, self.random.fork(), pending());
        self.under_way.push(UnderWayOne { outcome: outcome.boxed(), rest: Some((load, beside)) });
    }
}

impl<S: Stream<Item = (ProducerEvent, T)>, T> Stream for PassThrough<S, T> {
    type Item = (Outcome, T);

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.fill(context);
        match ready!(this.under_way.poll_next(context)) {
            Some((outcome, load, beside)) => {
                this.load.remove(load);
                Poll::Ready(Some((outcome, beside)))
            }
            None if this.stream.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

// Only the box that the stream is in is ever moved.
impl<S, T> Unpin for PassThrough<S, T> {}

impl<S, T> fmt::Debug for PassThrough<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassThrough")
            .field("under_way", &self.load)
            .field("is_at_end", &self.stream.is_none())
            .finish_non_exhaustive()
    }
}

enum UnderWay<T> {
    Any(FuturesUnordered<UnderWayOne<T>>),
    InOrder(FuturesOrdered<UnderWayOne<T>>),
}

impl<T> UnderWay<T> {
    fn push(&mut self, one: UnderWayOne<T>) {
        match self {
            Self::Any(all) => all.push(one),
            Self::InOrder(all) => all.push_back(one),
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(Outcome, Load, T)>> {
        match self {
            Self::Any(all) => all.poll_next_unpin(context),
            Self::InOrder(all) => all.poll_next_unpin(context),
        }
    }
}

struct UnderWayOne<T> {
    outcome: BoxFuture<'static, Outcome>,
    rest: Option<(Load, T)>,
}

impl<T> Future for UnderWayOne<T> {
    type Output = (Outcome, Load, T);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // There is nothing left after the outcome.
        let Some((load, beside)) = self.rest.take() else { return Poll::Pending };
        match self.outcome.poll_unpin(context) {
            Poll::Ready(outcome) => Poll::Ready((outcome, load, beside)),
            Poll::Pending => {
                self.rest = Some((load, beside));
                Poll::Pending
            }
        }
    }
}

// What came beside an element is never pinned.
impl<T> Unpin for UnderWayOne<T> {}
