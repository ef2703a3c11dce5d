//! How a sink is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::KinesisSink;
use super::door::Door;
use super::error::SinkError;
use super::queue::SinkQueue;
use super::resend::Resend;
use super::run::{Policy, Run};
use crate::producer::{KinesisProducer, SendError};

/// A sink or a queue on a running producer. By itself it fails at the first element that fails, and leaves the producer
/// running.
///
/// ```no_run
/// # async fn run(producer: actix_kinesis::producer::KinesisProducer) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use actix_kinesis::stream::sink::KinesisSink;
///
/// let sink = KinesisSink::builder(producer)
///     .resend_within(Duration::from_secs(600))
///     .skip_failures(|failed| eprintln!("{:?}: {failed}", failed.event))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is started yet"]
pub struct SinkBuilder {
    producer: KinesisProducer,
    policy: Policy,
    stops_producer: bool,
    seed: Option<u64>,
}

impl SinkBuilder {
    pub(super) fn new(producer: KinesisProducer) -> Self {
        let policy = Policy { skips: false, resend: Resend::Never, report: None };
        Self { producer, policy, stops_producer: false, seed: None }
    }

    /// Goes on when an element fails, and gives each one that did to `report`. Only the end of the producer still fails
    /// the sink: every element to come would fail.
    ///
    /// `report` is called by the sink's task, before the failure is counted, and must not block. It can send the event
    /// to an actor:
    ///
    /// ```no_run
    /// use actix::Recipient;
    /// use actix_kinesis::producer::{KinesisProducer, SendError};
    /// use actix_kinesis::stream::sink::{KinesisSink, SinkBuilder};
    ///
    /// fn skipping(producer: KinesisProducer, unsent: Recipient<SendError>) -> SinkBuilder {
    ///     KinesisSink::builder(producer).skip_failures(move |failed| unsent.do_send(failed))
    /// }
    /// ```
    pub fn skip_failures(mut self, report: impl Fn(SendError) + Send + Sync + 'static) -> Self {
        self.policy.skips = true;
        self.report_failures(report)
    }

    /// Gives each element that fails to `report`, as [`skip_failures`](Self::skip_failures) does, and changes nothing
    /// else: a sink that fails tells of one element, and others may fail that were under way beside it. Of several
    /// functions, the last one is called.
    pub fn report_failures(mut self, report: impl Fn(SendError) + Send + Sync + 'static) -> Self {
        self.policy.report = Some(Arc::new(report));
        self
    }

    /// Sends an element again that failed for a reason that may pass, [`Expired`] or [`Throttled`], with the pauses of
    /// the producer's `retry-backoff`, as long as less than `limit` has gone by since it was given. Then it has failed,
    /// with the calls of all sends in its attempts. One that is invalid or refused fails at once.
    ///
    /// An element that is sent again goes behind those that were given after it, whatever the producer's `ordering`.
    /// Meanwhile it counts against `max-outstanding-requests` and `max-outstanding-bytes`. When the sink fails, nothing is
    /// sent again any more.
    ///
    /// [`Expired`]: crate::producer::SendReason::Expired
    /// [`Throttled`]: crate::producer::SendReason::Throttled
    pub fn resend_within(mut self, limit: Duration) -> Self {
        self.policy.resend = Resend::Within(limit);
        self
    }

    /// The same without a limit: an outage of any length holds the sink up, and fails nothing.
    pub fn resend_for_ever(mut self) -> Self {
        self.policy.resend = Resend::ForEver;
        self
    }

    /// Stops the producer when the sink has ended, for whatever reason. The sink's end is told when the producer has stopped, but
    /// after a panic of a report it is told at once.
    pub fn stop_producer(mut self) -> Self {
        self.stops_producer = true;
        self
    }

    /// Makes all that is left to chance (the jitter of pauses) follow from a number.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the sink.
    ///
    /// # Errors
    /// [`SinkError::NoRuntime`] outside of a tokio runtime.
    pub fn build(self) -> Result<KinesisSink, SinkError> {
        let door = Door::new(self.producer.clone());
        Ok(KinesisSink { run: self.start()?, door })
    }

    /// Starts a queue that holds `capacity` events that were offered and have no outcome yet: 1 or more, and 0 counts as
    /// 1. Their payloads and partition keys are limited by the producer's `max-outstanding-bytes`.
    ///
    /// An event may wait for others in the producer for `record-max-buffered-time`. A capacity below what fills a record makes
    /// it wait for nothing: no more than `capacity` events get through in each such time.
    ///
    /// # Errors
    /// [`SinkError::NoRuntime`] outside of a tokio runtime.
    pub fn queue(self, capacity: usize) -> Result<SinkQueue, SinkError> {
        let max_bytes = self.producer.conf().max_outstanding_bytes;
        Ok(SinkQueue::new(self.start()?, capacity, max_bytes))
    }

    fn start(self) -> Result<Run, SinkError> {
        let random = self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Run::start(self.producer, self.policy, random, self.stops_producer)
    }
}

impl fmt::Debug for SinkBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkBuilder")
            .field("skips", &self.policy.skips)
            .field("resend", &self.policy.resend)
            .field("stops_producer", &self.stops_producer)
            .finish_non_exhaustive()
    }
}
