//! Consuming a stream: the records of every shard, in order, at least once, as messages to an actor.
//!
//! [`KinesisConsumer::start`] starts, on threads of its own, a supervisor that holds the leases of this process. Per
//! lease there is a worker, which sends [`ProcessEvent`] to the application's [`EventProcessor`] and awaits
//! [`EventProcessed`], and a checkpoint worker, which stores how far everything is answered.
//!
//! | file | holds |
//! |---|---|
//! | `event` | events and their answers |
//! | `processor` | the application's side, as the consumer addresses it |
//! | `failure`, `notice`, `observe`, `status`, `error` | what the application is told |
//! | `fleet` | all instances of the application, as the lease table shows them |
//! | `supervisor` | leases, workers, restarts, pausing, stopping |
//! | `worker`, `tracker`, `window`, `load` | delivery of one shard's events, and its limits |
//! | `fetch` | reading ahead from Kinesis |
//! | `checkpoint` | storing positions |

mod checkpoint;
mod clock;
mod error;
mod event;
mod failure;
mod fence;
mod fetch;
mod fleet;
mod load;
mod notice;
mod notifier;
mod observe;
#[cfg(test)]
pub(crate) mod offering;
mod placement;
mod processor;
mod status;
mod supervisor;
mod tracker;
mod window;
mod worker;
mod world;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::{Addr, Arbiter, Recipient};
use aws_credential_types::provider::SharedCredentialsProvider;
use kinesis_record::ShardId;
use tokio::sync::watch;
use tracing::error_span;

use crate::config::ConsumerConf;
use clock::WallClock;
use observe::Observer;
use placement::Arbiters;
use status::StatusBoard;
use supervisor::{Ending, Operate, Operation, Parts, Stop, Supervisor};

pub use error::{ConsumerError, OperationError, Stopped};
#[cfg(feature = "object-store")]
pub(crate) use event::Contents;
pub(crate) use event::{AnswerLink, Hold, Offered};
pub use event::{ConsumerEvent, EventHandle, EventProcessed, FencingToken, ProcessEvent};
pub use failure::{
    ConsumerShutdown, ConsumerWorkerFailure, FailedEvent, FailureCause, FailureDecision, ShutdownReason,
};
pub use fleet::{Fleet, FleetLease, FleetShard, FleetWorker, ShardLife};
pub use notice::ConsumerNotice;
pub use observe::{DeliveryOutcome, Observation};
pub use placement::Placement;
pub use processor::{EventProcessor, EventProcessors};
pub(crate) use processor::{Intake, ShardNews};
pub use status::{ConsumerState, ConsumerStatus, ShardState, ShardStatus, StoppedShard};
pub use world::World;

pub use kinesis_lease::coordinator::Loss;
pub use kinesis_lease::{LeaseStore, StreamApi, WorkerId};

/// A running consumer: the shards of one stream that this process reads for its application.
///
/// Cloning gives another handle of the same consumer. Dropping all handles does not stop it.
#[derive(Clone)]
pub struct KinesisConsumer {
    supervisor: Addr<Supervisor>,
    board: Arc<StatusBoard>,
    status: watch::Receiver<ConsumerStatus>,
    ending: watch::Receiver<Ending>,
    shutdown_timeout: Duration,
}

impl KinesisConsumer {
    /// Starts a consumer whose events go to `processors`. It must be called inside an actix system.
    ///
    /// Returns at once. Connecting goes on in the background, and is tried again for as long as it fails for a
    /// passing reason; what needs a person ends the consumer, see [`KinesisConsumer::finished`].
    ///
    /// # Errors
    /// When the settings are impossible, or there is no actix system.
    pub fn start(conf: ConsumerConf, processors: impl Into<EventProcessors>) -> Result<Self, ConsumerError> {
        Self::builder(conf, processors).start()
    }

    /// Starts a consumer with more said about it.
    pub fn builder(conf: ConsumerConf, processors: impl Into<EventProcessors>) -> ConsumerBuilder {
        ConsumerBuilder {
            conf,
            processors: processors.into(),
            notices: None,
            observer: None,
            credentials: None,
            world: None,
            placement: Placement::default(),
            seed: None,
            wall_clock: WallClock::default(),
        }
    }

    /// Stops within the `shutdown-timeout` of the configuration; see [`KinesisConsumer::stop_within`].
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn stop(&self) -> Result<Stopped, ConsumerError> {
        self.stop_within(self.shutdown_timeout).await
    }

    /// Stops: no more events are delivered ([but for those left behind](crate::config::Concurrency::Key)), those under way
    /// may be answered until near the deadline, the last checkpoints are stored and the leases released. Returns when that is done or the deadline has come. A second
    /// call waits for the first stop.
    ///
    /// If other instances hold leases, the shards are offered to them before: for up to 0.6 of the failover time, and a
    /// quarter of `deadline` at most, events go on, and each shard that is asked for is drained and handed over.
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn stop_within(&self, deadline: Duration) -> Result<Stopped, ConsumerError> {
        self.supervisor.do_send(Stop { within: deadline });
        self.finished().await
    }

    /// Begins to stop as [`KinesisConsumer::stop`] does, for whoever cannot wait.
    pub(crate) fn begin_stop(&self) {
        self.supervisor.do_send(Stop { within: self.shutdown_timeout });
    }

    /// Waits until the consumer has ended, because it was stopped or because it failed.
    ///
    /// # Errors
    /// Why it failed, when it did.
    pub async fn finished(&self) -> Result<Stopped, ConsumerError> {
        let mut ending = self.ending.clone();
        match ending.wait_for(Option::is_some).await {
            Ok(ending) => ending.clone().unwrap_or(Err(ConsumerError::Died)),
            Err(_) => Err(ConsumerError::Died),
        }
    }

    /// Reads a shard no further, for as long as this process holds its lease: no more of its events are delivered
    /// ([but for those left behind](crate::config::Concurrency::Key)).
    /// Those under way may be answered within `batch-timeout`, as ever, and the checkpoint behind them is stored. Returns
    /// then. The processor is told by [`ShutdownReason::Paused`].
    ///
    /// The lease is renewed meanwhile, so that no other instance reads the shard unless it asks for it, which the pause
    /// does not hinder. The pause ends with the lease: when that is handed over or lost, or the consumer stops, whoever
    /// reads the shard next begins behind the checkpoint, this process too if the lease comes back. A shard that fails
    /// just then, or that waits to be started again after a failure, is started again when it is resumed. A second pause
    /// waits for the first.
    ///
    /// # Errors
    /// [`OperationError::NotHeld`] if this process does not read the shard, or no longer does when all is answered.
    pub async fn pause(&self, shard: &ShardId) -> Result<(), OperationError> {
        self.operate(shard, Operation::Pause).await
    }

    /// Gives a shard to another instance: offers it, goes on reading it until one asks, which begins right behind what
    /// is finished here. Returns as soon as the offer is noted; it can be seen in [`KinesisConsumer::status`]. From now
    /// on this process does not take the shard by itself, not even when no other instance reads it, until
    /// [`KinesisConsumer::resume`].
    ///
    /// The instance with the fewest shards asks, and may ask for another one in exchange. If none asks, because there is
    /// none or all have as many shards as they may, the shard is still read here. A KCL worker does not ask.
    ///
    /// # Errors
    /// [`OperationError::NotHeld`] if this process does not read the shard.
    pub async fn drain(&self, shard: &ShardId) -> Result<(), OperationError> {
        self.operate(shard, Operation::Drain).await
    }

    /// Lets this process read a shard as any other: takes back what [`KinesisConsumer::pause`],
    /// [`KinesisConsumer::drain`] or a failure that stopped the shard has done. A paused shard is read on right behind
    /// its checkpoint. An offer that no other instance has taken up yet is withdrawn; a shard that another one reads by
    /// now stays there until the shards are shared anew. A shard that is read anyway goes on.
    ///
    /// # Errors
    /// [`OperationError::NotHeld`] if this process does not read the shard, and none of these is why.
    pub async fn resume(&self, shard: &ShardId) -> Result<(), OperationError> {
        self.operate(shard, Operation::Resume).await
    }

    async fn operate(&self, shard: &ShardId, operation: Operation) -> Result<(), OperationError> {
        let shard = shard.clone();
        self.supervisor.send(Operate { shard, operation }).await.unwrap_or(Err(OperationError::Stopping))
    }

    /// How it is doing now.
    pub fn status(&self) -> ConsumerStatus {
        self.board.status()
    }

    /// How it is doing, brought up to date when something happens and about once a second.
    pub fn watch(&self) -> watch::Receiver<ConsumerStatus> {
        self.status.clone()
    }

    /// The name under which this process owns leases.
    pub fn worker_id(&self) -> &WorkerId {
        self.board.worker_id()
    }
}

impl fmt::Debug for KinesisConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KinesisConsumer").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// What is said about a consumer before it starts.
#[must_use = "a consumer starts with `start`"]
pub struct ConsumerBuilder {
    conf: ConsumerConf,
    processors: EventProcessors,
    notices: Option<Recipient<ConsumerNotice>>,
    observer: Option<Observer>,
    credentials: Option<SharedCredentialsProvider>,
    world: Option<World>,
    placement: Placement,
    seed: Option<u64>,
    wall_clock: WallClock,
}

impl ConsumerBuilder {
    /// Sends a [`ConsumerNotice`] of whatever happens to the consumer and its shards.
    pub fn notices(mut self, recipient: Recipient<ConsumerNotice>) -> Self {
        self.notices = Some(recipient);
        self
    }

    /// Shows each message to a processor, how each delivery ended, each lease that is taken, each checkpoint that is
    /// stored, each notice, and the end to `observer`, on the thread where it happens and in its order: a message before
    /// the processor has it, a notice before its recipient. What the consumer does is the same as without. The observer
    /// holds up the shard, or the leases, for as long as it takes, and must not panic: that would end the actor that
    /// shows the step.
    ///
    /// The consumer drops it when the last of its actors has ended.
    pub fn observer(mut self, observer: impl Fn(Observation) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Takes AWS credentials from here instead of the SDK's default chain.
    pub fn credentials(mut self, provider: SharedCredentialsProvider) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// Reads another stream and lease table than those of AWS, a simulated one for instance.
    pub fn world(mut self, world: World) -> Self {
        self.world = Some(world);
        self
    }

    /// Where the consumer's actors run.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Makes all that is left to chance (jitter, the order in which leases are taken) follow from a number.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Takes the time of day from `read` instead of the host's clock, a simulated one for instance. It says from where
    /// `LATEST` and instants are read, and nothing that keeps two instances apart. It is read when the consumer starts and
    /// whenever a shard does.
    pub fn wall_clock(mut self, read: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.wall_clock = WallClock::new(read);
        self
    }

    /// Starts the consumer; see [`KinesisConsumer::start`].
    ///
    /// # Errors
    /// When the settings are impossible, or there is no actix system.
    pub fn start(self) -> Result<KinesisConsumer, ConsumerError> {
        self.conf.validate()?;
        let home = Arbiter::try_current();
        if self.placement == Placement::OwnArbiters && home.is_none() {
            return Err(ConsumerError::NoSystem);
        }
        let home = home.filter(|_| self.placement == Placement::OwnArbiters);
        let conf = Arc::new(self.conf);
        let worker_id = conf.lease.worker_id.as_deref().map_or_else(unique_worker_id, WorkerId::new);
        // Of the highest level, so that whatever is logged says where it belongs.
        let span = error_span!("consumer", stream = conf.stream_name, worker = %worker_id);
        let board = Arc::new(StatusBoard::new(conf.stream_name.clone(), conf.table_name(), worker_id));
        let (status_sender, status) = watch::channel(board.status());
        let (ending_sender, ending) = watch::channel(None);
        let arbiters = Arbiters::new(self.placement, conf.worker.arbiters);
        let coordination = arbiters.coordination.clone();
        let parts = Parts {
            connect: match self.world {
                Some(world) => Box::new(|| Box::pin(std::future::ready(Ok(world)))),
                None => {
                    let (conf, credentials) = (Arc::clone(&conf), self.credentials);
                    Box::new(|| Box::pin(async move { World::connect(&conf, credentials).await }))
                }
            },
            processors: self.processors.placed(home),
            notifier: notifier::Notifier::new(self.notices, self.observer),
            arbiters,
            board: Arc::clone(&board),
            status: status_sender,
            ending: ending_sender,
            random: self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed),
            wall_clock: self.wall_clock,
            span,
            conf: Arc::clone(&conf),
        };
        let supervisor = coordination.start(|_| Supervisor::new(parts));
        let shutdown_timeout = conf.worker.shutdown_timeout;
        Ok(KinesisConsumer { supervisor, board, status, ending, shutdown_timeout })
    }
}

impl fmt::Debug for ConsumerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerBuilder")
            .field("conf", &self.conf)
            .field("processors", &self.processors)
            .field("placement", &self.placement)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// A name that no other process has: the host's, and a random part.
fn unique_worker_id() -> WorkerId {
    let host = gethostname::gethostname();
    WorkerId::from(format!("{}:{}", host.to_string_lossy(), uuid::Uuid::new_v4()))
}
