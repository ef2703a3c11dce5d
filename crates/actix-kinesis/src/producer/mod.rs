//! Producing: events to streams, batched, aggregated as the KPL does, limited per shard, and repeated until they are
//! stored or their time is over.
//!
//! ```no_run
//! use actix_kinesis::config::KinesisConfig;
//! use actix_kinesis::producer::{KinesisProducer, ProducerEvent};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = KinesisConfig::load("application.conf")?;
//! let producer = KinesisProducer::start(config.producer("orders")?).await?;
//! let stored = producer.send(ProducerEvent::new("customer-7", "order 1")).await?;
//! println!("{} of {}", stored.position(), stored.shard);
//! producer.stop(std::time::Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! - **One outcome.** Each event that is sent has exactly one outcome, whatever happens: a [`PutResult`], or a
//!   [`SendError`] with the event in it.
//! - **At least once.** An event whose reply is lost is sent again, and may then be stored twice. So may the events of
//!   an aggregate that arrives while its shard is split or merged.
//! - **Order.** With `ordering = partition-key`, the first copies of the stored events of a partition key are in the order
//!   in which they were sent; see [`PartitionKey`](crate::config::Ordering::PartitionKey). An event that fails leaves a
//!   gap; sent again, it goes behind the others.
//! - **Bounds.** What is under way is limited in events and bytes. Beyond a limit, sends wait or are refused, until the
//!   load is below 0.9 of it. Among several streams, each may have three quarters of the room that the others leave, so
//!   that one which is not there or takes little holds no other up. Shards of one stream share its room: events for a
//!   shard that takes less than it gets fill it in the end, and then all its senders wait. More room, a shorter
//!   `record-ttl`, `fail-if-throttled` or better spread keys help; no bounded memory does. At a limit, what is buffered
//!   still waits for `record-max-buffered-time`, so that throughput is at most the limit by this time.
//! - **Refused.** An event that the stream refuses for what it is, such as its size, is found out by sending it alone,
//!   which takes up to a quarter of a minute.
//!
//! | file | holds |
//! |---|---|
//! | `event`, `outcome`, `status`, `error` | what goes in, and what an application is told |
//! | `actor` | [`KinesisProducerActor`] |
//! | `admission` | how much is under way |
//! | `driver` | the task between the pipelines and Kinesis |
//! | `outbox` | keeping events on the disk until they are sent, with the feature `outbox` |
//! | `pipeline` | the way of records to one stream: `order`, `shard_map`, `aggregate`, `lane`, `limit`, `collect`, `send`, `expiry`, `flushes` |

mod actor;
mod admission;
mod aggregate;
mod collect;
mod driver;
mod error;
mod event;
mod expiry;
mod flushes;
mod lane;
mod limit;
mod order;
#[cfg(feature = "outbox")]
pub mod outbox;
mod outcome;
mod pipeline;
mod record;
mod send;
mod sending;
mod shard_map;
mod status;
#[cfg(test)]
mod testing;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use kinesis_aws::{AwsSettings, Clients, KinesisPuts};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::config::ProducerConf;
use admission::{Admission, Admitted};
use driver::{Board, Command, Driver};
use record::Record;

pub use actor::{
    KinesisProducerActor, MessageId, Send, SendFailed, SendSuccessful, SendWithCallback, StopProducer,
};
pub use error::ProducerError;
pub use event::{InvalidEvent, ProducerEvent};
pub use outcome::{Attempt, AttemptError, Flushed, Outcome, PutResult, SendError, SendReason};
pub use sending::Sending;
pub use status::{ProducedShard, ProducedStream, ProducerStatus};

/// What an implementation of [`PutApi`] is made of.
pub use kinesis_lease::put::{PutPlace, PutRecord, PutRefusal, PutReply};
pub use kinesis_lease::{PutApi, StreamError, StreamErrorKind};
pub use kinesis_record::Shard;

/// Sends events to one stream or to many. Cloning gives another handle of the same producer.
///
/// Its work is done by a task on the runtime that it was started on. When all handles are gone, what was taken is still
/// sent, as long as that runtime lives.
#[derive(Clone)]
pub struct KinesisProducer {
    conf: Arc<ProducerConf>,
    admission: Arc<Admission>,
    board: Board,
}

impl KinesisProducer {
    /// Starts a producer on the current tokio runtime. Nothing is asked of Kinesis before the first event.
    ///
    /// # Errors
    /// When the settings are impossible, no region or profile can be found, or there is no tokio runtime.
    pub async fn start(conf: ProducerConf) -> Result<Self, ProducerError> {
        Self::builder(conf).start().await
    }

    /// Starts a producer with more said about it.
    pub fn builder(conf: ProducerConf) -> ProducerBuilder {
        ProducerBuilder { conf, credentials: None, api: None, seed: None }
    }

    /// Sends an event. It takes its place behind the events that were sent before by the time that this returns; the
    /// future gives the outcome.
    ///
    /// Without room, the event waits for it. Dropping the future takes an event back that waits; one that does not is
    /// sent all the same.
    pub fn send(&self, event: ProducerEvent) -> Sending {
        self.submit(event, true)
    }

    /// Sends an event if there is room.
    ///
    /// # Errors
    /// At once, with the event: [`SendReason::Full`], [`SendReason::Invalid`], or the producer does not run.
    pub fn try_send(&self, event: ProducerEvent) -> Result<Sending, Box<SendError>> {
        self.submit(event, false).refused_at_once()
    }

    /// Sends an event, waiting at most `wait` for room. From then on `record-ttl` bounds it.
    ///
    /// # Errors
    /// As the outcome of [`send`](Self::send); [`SendReason::Full`] if no room came in time.
    pub async fn send_timeout(&self, event: ProducerEvent, wait: Duration) -> Outcome {
        self.send(event).waiting_at_most(wait).await
    }

    /// Resolves when there is room for events for the stream of the configuration, or nothing is taken any more.
    ///
    /// It has its turn among the sends that wait for room, behind those that came before it; dropping the future gives the
    /// place up. It keeps no room free: when more sends wait behind it, they may take what there is, and a
    /// [`send`](Self::send) takes its place behind them.
    pub async fn room(&self) {
        self.admission.room(&self.conf.stream_name).await;
    }

    /// The same for another stream, as events name it.
    pub async fn room_for(&self, stream: &str) {
        self.admission.room(stream).await;
    }

    /// Sends what has been taken so far without waiting for more to go with it, and resolves with what became of it
    /// when the last outcome is known, which `record-ttl` bounds. Events that wait for room are not part of it.
    pub async fn flush(&self) -> Flushed {
        let (done, mut reports) = mpsc::unbounded_channel();
        let mut flushed = Flushed::default();
        self.admission.command(Command::Flush(done));
        while let Some(report) = reports.recv().await {
            flushed += report;
        }
        flushed
    }

    /// Stops for all handles: takes no more events, gives those back that wait for room, sends what was taken, and at
    /// the deadline gives the rest back as [`SendReason::Stopped`]. Resolves with what became of the events that had
    /// been taken and were not through. A stop of a producer that has ended resolves at once, with nothing.
    pub async fn stop(&self, within: Duration) -> Flushed {
        let deadline = Instant::now().checked_add(within).unwrap_or_else(far_away);
        for record in self.admission.close(SendReason::Stopped(None)) {
            record.failed(SendReason::Stopped(None));
        }
        let (done, stopped) = oneshot::channel();
        self.admission.command(Command::Stop { deadline, done });
        stopped.await.unwrap_or_default()
    }

    /// How it is doing, at most a quarter of a second ago.
    pub fn status(&self) -> ProducerStatus {
        let shown = self.board.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let load = self.admission.load();
        ProducerStatus {
            outstanding: load.records,
            outstanding_bytes: load.bytes,
            waiting: load.waiting,
            throttled: load.throttled,
            ..shown
        }
    }

    /// The settings.
    pub fn conf(&self) -> &ProducerConf {
        &self.conf
    }

    fn stream_of<'a>(&'a self, event: &'a ProducerEvent) -> &'a str {
        event.stream.as_deref().unwrap_or(&self.conf.stream_name)
    }

    fn submit(&self, event: ProducerEvent, may_wait: bool) -> Sending {
        if let Err(invalid) = event.check(self.conf.max_record_size) {
            return Sending::refused(SendError::new(event, SendReason::Invalid(Arc::new(invalid))));
        }
        // A sender that is refused over and over costs little.
        if !may_wait && self.admission.is_throttled(self.stream_of(&event)) {
            return Sending::refused(SendError::new(event, SendReason::Full));
        }
        let (record, outcome) = Record::new(event, Instant::now());
        let (record, reason) = match self.admission.admit(record, may_wait) {
            Admitted::Now => return Sending::accepted(outcome),
            Admitted::Later(ticket) => return Sending::waiting(outcome, Arc::clone(&self.admission), ticket),
            Admitted::Full(record) => (record, SendReason::Full),
            Admitted::Closed(record, reason) => (record, reason),
        };
        match record.into_event() {
            Some(event) => Sending::refused(SendError::new(event, reason)),
            None => Sending::accepted(outcome),
        }
    }
}

impl fmt::Debug for KinesisProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KinesisProducer")
            .field("stream", &self.conf.stream_name)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// What is said about a producer before it starts.
#[derive(Debug)]
#[must_use = "a producer starts with `start`"]
pub struct ProducerBuilder {
    conf: ProducerConf,
    credentials: Option<SharedCredentialsProvider>,
    api: Option<Arc<dyn PutApi>>,
    seed: Option<u64>,
}

impl ProducerBuilder {
    /// Takes AWS credentials from here instead of the SDK's default chain.
    pub fn credentials(mut self, provider: SharedCredentialsProvider) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// Writes to other streams than those of AWS, simulated ones for instance.
    pub fn api(mut self, api: Arc<dyn PutApi>) -> Self {
        self.api = Some(api);
        self
    }

    /// Makes all that is left to chance (jitter) follow from a number.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the producer; see [`KinesisProducer::start`]. Settings that are allowed and yet unwise are logged, see
    /// [`ProducerConf::warnings`].
    ///
    /// # Errors
    /// When the settings are impossible, no region or profile can be found, or there is no tokio runtime.
    pub async fn start(self) -> Result<KinesisProducer, ProducerError> {
        self.conf.validate()?;
        if self.conf.outbox.path.is_some() {
            return Err(ProducerError::Outbox);
        }
        self.conf
            .warnings()
            .iter()
            .for_each(|warning| tracing::warn!(stream = self.conf.stream_name, "{warning}"));
        let runtime = Handle::try_current().map_err(|_| ProducerError::NoRuntime)?;
        let conf = Arc::new(self.conf);
        let api = match self.api {
            Some(api) => api,
            None => {
                let settings = AwsSettings {
                    request_timeout: conf.request_timeout,
                    ..crate::aws::settings(&conf.aws, self.credentials)
                };
                Arc::new(KinesisPuts::new(&Clients::connect(&settings).await?))
            }
        };
        let random = self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let (task, commands) = mpsc::unbounded_channel();
        let stream = Arc::from(conf.stream_name.as_str());
        let admission =
            Admission::new(stream, conf.max_outstanding_requests, conf.max_outstanding_bytes, task);
        let board: Board = Arc::new(Mutex::new(ProducerStatus::default()));
        let driver = Driver::new(Arc::clone(&conf), api, commands, random, Arc::clone(&board));
        runtime.spawn(driver.run());
        Ok(KinesisProducer { conf, admission, board })
    }
}

/// A time that does not come.
fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(100 * 365 * 24 * 60 * 60)
}
