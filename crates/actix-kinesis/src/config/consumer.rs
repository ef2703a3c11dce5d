//! The settings of a consumer, typed, with their defaults.

use std::time::{Duration, SystemTime};

use super::aws::AwsConf;
use super::checks::Checks;
use super::error::ConfigError;

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// The settings of one consumer: an application's reading of one stream.
///
/// [`KinesisConfig::consumer`](super::KinesisConfig::consumer) gives it from a file, [`new`](Self::new) without one:
///
/// ```
/// use std::time::Duration;
/// use actix_kinesis::config::{ConsumerConf, InitialPosition};
///
/// let mut conf = ConsumerConf::new("billing", "orders");
/// conf.initial_position = InitialPosition::Latest;
/// conf.worker.batch_timeout = Duration::from_secs(30);
/// conf.worker.shutdown_timeout = Duration::from_secs(90);
/// conf.validate()?;
/// assert_eq!(conf.table_name(), "billing-orders");
/// # Ok::<(), actix_kinesis::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConsumerConf {
    /// `kinesis.application-name`: the application whose instances share the stream. Not empty.
    pub application_name: String,
    /// `stream-name`: 1 to 128 of the characters `a-z A-Z 0-9 _ . -`, as Kinesis has it.
    pub stream_name: String,
    /// `aws`: services and credentials, key by key over `kinesis.aws`.
    pub aws: AwsConf,
    /// `initial-position` and `initial-timestamp`: where a shard starts that was never checkpointed; a checkpoint
    /// always wins. Default trim horizon. KCL: `initialPositionInStream`, `timestampAtInitialPositionInStream`.
    pub initial_position: InitialPosition,
    /// `worker`: delivery to the event processor.
    pub worker: WorkerConf,
    /// `checkpointer`: how often progress is stored.
    pub checkpointer: CheckpointerConf,
    /// `lease`: how the shards are shared with other instances.
    pub lease: LeaseConf,
    /// `polling`: how the stream is read.
    pub polling: PollingConf,
}

/// Where reading starts in a shard without a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialPosition {
    /// `trim-horizon`: at the oldest record that the stream retains.
    #[default]
    TrimHorizon,
    /// `latest`: behind the newest record.
    Latest,
    /// `at-timestamp`: at the first record that arrived at this instant or later. An instant in the future is
    /// accepted here.
    AtTimestamp(SystemTime),
}

/// What is done about an event that is unanswered or failed after its last delivery, once a batch holds more of them
/// than [`failure_tolerance_percentage`](WorkerConf::failure_tolerance_percentage) allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailurePolicy {
    /// `restart-shard`: the shard starts again from its last checkpoint, after a pause. Nothing is lost, and nothing
    /// behind the event is reached until it succeeds.
    #[default]
    RestartShard,
    /// `skip`: the event is given up, openly, and the checkpoint may pass it.
    Skip,
    /// `stop-shard`: the shard is read no further; others go on.
    StopShard,
    /// `stop-consumer`: the whole consumer stops, as in reactive-kinesis.
    StopConsumer,
}

/// How many events of a shard are under way at once, and in what order they are then processed.
///
/// *Under way* is an event that was delivered and is neither settled nor given up. An event that fails is delivered
/// again at once; the others wait for it, or not, as each value says. The checkpoint never passes an open event with any
/// of them.
///
/// An event that was not answered within [`batch_timeout`](WorkerConf::batch_timeout) is delivered again although its
/// former delivery may still be worked on, and once either is answered with success the next event follows. Only then
/// can two deliveries of one shard or key overlap: a processor that must rule it out gives up its work earlier by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Concurrency {
    /// `none`: no event waits for another one. Each is started in the order of the stream, as many as are answered in
    /// good time; one that is delivered again comes behind later ones.
    #[default]
    None,
    /// `shard`: one event after the other, in the order of the stream, failures included.
    Shard,
    /// `key(n)`: up to so many events, each of another partition key; those of one key one after the other, failures
    /// included. 1 to 10000, below which the shard's share of
    /// [`max_in_flight_events`](WorkerConf::max_in_flight_events) may be. Events without a partition key follow each
    /// other as if they had the same one.
    ///
    /// An event's time to be answered begins with its delivery, and no fewer than `n` are delivered where there are as
    /// many keys: `n` is how many events of each shard the processor really works on at once. Events behind one that is
    /// held up are reached as far as [`max_bytes`](WorkerConf::max_bytes) lets the shard be read ahead.
    ///
    /// When the shard is handed over, paused or stopped, events that wait while later ones have been delivered are caught
    /// up with, for half of the time that this may take, so that the later ones do not come again.
    Key(usize),
}

/// A pause that doubles from `min` to `max` while something keeps failing. Each is drawn from the upper half of its
/// length, so that not all who failed at once try again at once: the first lasts half of `min` to `min`. `min` is at
/// most `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffConf {
    /// `min`: the first pause. 1 ms to 1 h.
    pub min: Duration,
    /// `max`: the longest pause. 1 ms to 1 h.
    pub max: Duration,
}

/// Delivery to the event processor: the section `worker`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WorkerConf {
    /// `batch-timeout`: an event must be answered within this time, at each delivery. 1 ms to 1 day; default 10 s.
    /// reactive-kinesis: `worker.batchTimeoutSeconds`.
    pub batch_timeout: Duration,
    /// `failed-message-retries`: deliveries after the first. 0 to 1000; default 1.
    /// reactive-kinesis: `worker.failedMessageRetries`.
    pub failed_message_retries: u32,
    /// `failure-tolerance-percentage`: how many events of a batch may be given up after their last delivery. Percent,
    /// 0 to 100; default 0.25, which is one event in 400. reactive-kinesis: `worker.failureTolerancePercentage`.
    pub failure_tolerance_percentage: f64,
    /// `failure-policy`: what is done when more fail. Default restart-shard.
    pub failure_policy: FailurePolicy,
    /// `concurrency`: how many events of a shard are under way at once, and in what order. Default none: no event waits
    /// for another one.
    ///
    /// With shard or key, an event that fails for good within the tolerance is given up at once, since others wait for
    /// it; else that is done when nothing else of the batch is open.
    pub concurrency: Concurrency,
    /// `restart-backoff`: the pause before a shard starts again. Default 1 s to 60 s.
    pub restart_backoff: BackoffConf,
    /// `max-restarts`: restarts of a shard in a row, without progress, before it is stopped. Default `None`: no limit.
    pub max_restarts: Option<u32>,
    /// `graceful-shutdown-hook`: SIGTERM and ctrl-c stop the consumer. Default false.
    /// reactive-kinesis: `worker.gracefulShutdownHook`, there true.
    pub graceful_shutdown_hook: bool,
    /// `shutdown-timeout`: the longest that stopping may take. 1 ms to 1 day; default 25 s. It should not be below
    /// `batch_timeout` × (`failed_message_retries` + 1). reactive-kinesis: `worker.shutdownTimeoutSeconds`.
    pub shutdown_timeout: Duration,
    /// `max-in-flight-events`: events delivered and not yet answered, over all shards of the process. Each shard may have
    /// one, whatever the others have. 1 to 1000000; default 4096.
    pub max_in_flight_events: usize,
    /// `max-bytes`: record data fetched and not yet answered, over all shards of the process, in equal shares. Bytes, 1 MiB
    /// to 1 TiB; default 64 MiB. A page of GetRecords is taken whole, so each shard may hold one more page than its share,
    /// of up to 10 MiB.
    pub max_bytes: u64,
    /// `arbiters`: threads that run the shards' workers. 1 to 64; default 1.
    pub arbiters: usize,
}

/// How often progress is stored: the section `checkpointer`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointerConf {
    /// `interval`: the shortest time between two checkpoints of a shard. 1 ms to 1 h; default 2 s.
    /// reactive-kinesis: `checkpointer.intervalMillis`.
    pub interval: Duration,
    /// `backoff`: the pause after a checkpoint that failed. Default 500 ms to 30 s.
    /// `min` in reactive-kinesis: `checkpointer.backoffMillis`.
    pub backoff: BackoffConf,
}

/// How shards are shared with other instances: the section `lease`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseConf {
    /// `table-name`: the DynamoDB table of the leases, 3 to 255 of the characters `a-z A-Z 0-9 _ . -`. Default `None`:
    /// [`ConsumerConf::table_name`] puts it together. KCL: `tableName`.
    pub table_name: Option<String>,
    /// `worker-id`: the owner's name in the lease table. No two running consumers of a table may share one. Default
    /// `None`: a consumer makes one at its start, of the host's name and a random UUID. KCL: `workerId`.
    pub worker_id: Option<String>,
    /// `failover-time`: a lease that was not renewed for this long may be taken by others. 1 s to 10 min; default
    /// 10 s. Must be the same in all instances. KCL: `failoverTimeMillis`.
    pub failover_time: Duration,
    /// `shard-sync-interval`: how often the list of shards is read. 1 s to 1 day; default 60 s.
    /// KCL: `shardSyncIntervalMillis`.
    pub shard_sync_interval: Duration,
    /// `max-leases`: the most shards that this process takes. 1 or more; default `None`: no limit. With too few
    /// instances, shards stay unread, which is told. KCL: `maxLeasesForWorker`.
    pub max_leases: Option<u32>,
    /// `max-steals`: the most leases that this process asks other instances for, or takes from a KCL, after one look at
    /// the table. 1 or more; default `None`: a fifth of its share. KCL: `maxLeasesToStealAtOneTime`.
    pub max_steals: Option<u32>,
    /// `hand-over-timeout`: how long an instance may go on with what is under way in a shard that another one has asked
    /// for. What is not done by then is delivered again there. 1 s to 10 min; default 30 s. Should be the same in all
    /// instances. KCL: `gracefulLeaseHandoffTimeoutMillis`.
    pub hand_over_timeout: Duration,
}

/// How the stream is read: the section `polling`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollingConf {
    /// `max-records`: Kinesis records asked for in one GetRecords call. 1 to 10000; default 10000. KCL: `maxRecords`.
    pub max_records: u32,
    /// `idle-time`: the pause between two GetRecords calls on a shard that has nothing new. 200 ms (Kinesis allows
    /// five calls per second and shard) to 1 h; default 1 s. KCL: `idleTimeBetweenReadsInMillis`.
    pub idle_time: Duration,
}

impl Default for WorkerConf {
    fn default() -> Self {
        Self {
            batch_timeout: 10 * SECOND,
            failed_message_retries: 1,
            failure_tolerance_percentage: 0.25,
            failure_policy: FailurePolicy::default(),
            concurrency: Concurrency::default(),
            restart_backoff: BackoffConf { min: SECOND, max: 60 * SECOND },
            max_restarts: None,
            graceful_shutdown_hook: false,
            shutdown_timeout: 25 * SECOND,
            max_in_flight_events: 4096,
            max_bytes: 64 * MIB,
            arbiters: 1,
        }
    }
}

impl Default for CheckpointerConf {
    fn default() -> Self {
        Self {
            interval: 2 * SECOND,
            backoff: BackoffConf { min: Duration::from_millis(500), max: 30 * SECOND },
        }
    }
}

impl Default for LeaseConf {
    fn default() -> Self {
        Self {
            table_name: None,
            worker_id: None,
            failover_time: 10 * SECOND,
            shard_sync_interval: 60 * SECOND,
            max_leases: None,
            max_steals: None,
            hand_over_timeout: 30 * SECOND,
        }
    }
}

impl Default for PollingConf {
    fn default() -> Self {
        Self { max_records: 10_000, idle_time: SECOND }
    }
}

impl ConsumerConf {
    /// The default settings for `application_name` reading `stream_name`.
    pub fn new(application_name: impl Into<String>, stream_name: impl Into<String>) -> Self {
        Self {
            application_name: application_name.into(),
            stream_name: stream_name.into(),
            aws: AwsConf::default(),
            initial_position: InitialPosition::default(),
            worker: WorkerConf::default(),
            checkpointer: CheckpointerConf::default(),
            lease: LeaseConf::default(),
            polling: PollingConf::default(),
        }
    }

    /// The DynamoDB table of the leases: [`LeaseConf::table_name`] or, as in reactive-kinesis,
    /// `<application-name>-<stream-name>`. Two consumers of an application on one stream need a name each.
    pub fn table_name(&self) -> String {
        self.lease
            .table_name
            .clone()
            .unwrap_or_else(|| format!("{}-{}", self.application_name, self.stream_name))
    }

    /// Checks every setting against its range.
    ///
    /// # Errors
    /// Names each setting that is out of range, by its key in a file relative to the consumer's section, with what
    /// is allowed: [`ConfigError::Value`], or [`ConfigError::Several`] of them.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::of(Checks::of(self))
    }

    /// What is allowed and yet unwise in these settings, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let worker = &self.worker;
        let deliveries = worker.failed_message_retries.saturating_add(1);
        let longest = worker.batch_timeout.saturating_mul(deliveries);
        if worker.shutdown_timeout >= longest {
            return Vec::new();
        }
        vec![format!(
            "worker.shutdown-timeout is {:?}, but an event may take worker.batch-timeout {:?} × {deliveries} \
             deliveries = {longest:?}: events in flight at a stop may be cut off and delivered again elsewhere",
            worker.shutdown_timeout, worker.batch_timeout,
        )]
    }
}
