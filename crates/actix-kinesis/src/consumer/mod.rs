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
//! | `supervisor` | leases, workers, restarts, stopping |
//! | `worker`, `tracker`, `window`, `load` | delivery of one shard's events, and its limits |
//! | `fetch` | reading ahead from Kinesis |
//! | `checkpoint` | storing positions |

mod backoff;
mod checkpoint;
mod clock;
mod error;
mod event;
mod failure;
mod fence;
mod fetch;
mod load;
mod notice;
mod notifier;
mod observe;
mod placement;
mod processor;
mod status;
mod supervisor;
mod tracker;
mod window;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Arbiter, Recipient};
use aws_credential_types::provider::SharedCredentialsProvider;
use kinesis_aws::{AwsSettings, Clients, DynamoLeaseStore, KinesisStream};
use tokio::sync::watch;
use tracing::error_span;

use crate::config::{AwsConf, ConsumerConf};
use observe::Observer;
use placement::Arbiters;
use status::StatusBoard;
use supervisor::{Connect, Ending, Parts, Stop, Supervisor};

pub use error::{ConsumerError, Stopped};
pub use event::{ConsumerEvent, EventHandle, EventProcessed, ProcessEvent};
pub use failure::{
    ConsumerShutdown, ConsumerWorkerFailure, FailedEvent, FailureCause, FailureDecision, ShutdownReason,
};
pub use notice::ConsumerNotice;
pub use observe::{DeliveryOutcome, Observation};
pub use placement::Placement;
pub use processor::{EventProcessor, EventProcessors};
pub use status::{ConsumerState, ConsumerStatus, ShardStatus};
pub use supervisor::World;

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
        }
    }

    /// Stops within the `shutdown-timeout` of the configuration; see [`KinesisConsumer::stop_within`].
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn stop(&self) -> Result<Stopped, ConsumerError> {
        self.stop_within(self.shutdown_timeout).await
    }

    /// Stops: no more events are delivered, those under way may be answered until near the deadline, the last
    /// checkpoints are stored and the leases released. Returns when that is done or the deadline has come. A second
    /// call waits for the first stop.
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn stop_within(&self, deadline: Duration) -> Result<Stopped, ConsumerError> {
        self.supervisor.do_send(Stop { within: deadline });
        self.finished().await
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
}

impl ConsumerBuilder {
    /// Sends a [`ConsumerNotice`] of whatever happens to the consumer and its shards.
    pub fn notices(mut self, recipient: Recipient<ConsumerNotice>) -> Self {
        self.notices = Some(recipient);
        self
    }

    /// Shows each message to a processor, how each delivery ended, and each notice to `observer`, on the thread where
    /// it happens and in its order: a message before the processor has it, a notice before its recipient. What the
    /// consumer does is the same as without. The observer holds up the shard for as long as it takes, and must not
    /// panic: that would end the actor that shows the step.
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
                None => connect_to_aws(&conf, self.credentials),
            },
            processors: self.processors.placed(home),
            notifier: notifier::Notifier::new(self.notices, self.observer),
            arbiters,
            board: Arc::clone(&board),
            status: status_sender,
            ending: ending_sender,
            random: self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed),
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

fn connect_to_aws(conf: &ConsumerConf, credentials: Option<SharedCredentialsProvider>) -> Connect {
    let (stream, table) = (conf.stream_name.clone(), conf.table_name());
    // A renewal that takes longer than this would come too late to be tried again.
    let call_timeout = conf.aws.request_timeout.min(conf.lease.failover_time / 3);
    let settings = settings(&conf.aws, credentials);
    Box::new(move || {
        Box::pin(async move {
            let clients = Clients::connect(&settings).await?;
            Ok(World {
                stream: Arc::new(KinesisStream::new(&clients, &stream)),
                leases: Arc::new(DynamoLeaseStore::new(&clients, &table, call_timeout)),
            })
        })
    })
}

fn settings(conf: &AwsConf, credentials: Option<SharedCredentialsProvider>) -> AwsSettings {
    AwsSettings {
        region: conf.region.clone(),
        profile: conf.profile.clone(),
        credentials,
        endpoint_url: conf.endpoint_url.clone(),
        kinesis_endpoint: conf.kinesis_endpoint.clone(),
        dynamodb_endpoint: conf.dynamodb_endpoint.clone(),
        role_arn: conf.role_arn.clone(),
        role_session_name: conf.role_session_name.clone(),
        external_id: conf.external_id.clone(),
        connect_timeout: conf.connect_timeout,
        request_timeout: conf.request_timeout,
    }
}
