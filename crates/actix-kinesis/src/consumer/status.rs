//! How a consumer is doing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kinesis_lease::WorkerId;
use kinesis_record::{Checkpoint, ShardId};

use super::event::FencingToken;

/// How a consumer is doing, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerStatus {
    /// The stream.
    pub stream: String,
    /// The lease table.
    pub table: String,
    /// The name under which this process owns leases.
    pub worker_id: WorkerId,
    /// What it is doing.
    pub state: ConsumerState,
    /// The shards whose leases it holds, by name.
    pub shards: Vec<ShardStatus>,
    /// The shards that it does not take by itself, by name: stopped after a failure, or drained.
    pub stopped: Vec<StoppedShard>,
    /// The shards that no instance reads, as the notice [`Unread`](super::ConsumerNotice::Unread) told last.
    pub unread: Vec<ShardId>,
}

/// What a consumer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerState {
    /// It connects, makes sure that the lease table is there and lists the stream's shards.
    Starting,
    /// It reads the shards whose leases it holds, perhaps none.
    Running,
    /// It lets go of its shards.
    Stopping,
    /// It has stopped, because it was asked to or because it failed.
    Stopped,
}

/// What a consumer does with a shard whose lease it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardState {
    /// It reads it.
    Reading,
    /// It delivers no more of it until [`KinesisConsumer::resume`](super::KinesisConsumer::resume). As long as there are
    /// events in flight, they may be answered.
    Paused,
    /// The shard has failed, and is started again after a pause.
    Restarting,
    /// Another instance is to have it: events in flight may be answered, then the lease is given away.
    HandingOver,
    /// The consumer stops, or the shard is stopped after a failure: events in flight may be answered, then the lease is
    /// released.
    Stopping,
}

/// A shard that a consumer does not take by itself any more, until
/// [`KinesisConsumer::resume`](super::KinesisConsumer::resume).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoppedShard {
    /// The shard.
    pub shard: ShardId,
    /// When its lease was given away or lost, by the host's clock.
    pub since: SystemTime,
    /// The failure that stopped it; none if it was drained.
    pub error: Option<String>,
}

/// How one shard is doing. Counts are of this acquisition of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// The shard.
    pub shard: ShardId,
    /// What the consumer does with it.
    pub state: ShardState,
    /// Since when, by the host's clock as it was when the consumer started.
    pub since: SystemTime,
    /// Why the shard failed, or could not be read, the last time since its lease was acquired. Later success leaves it.
    pub last_error: Option<String>,
    /// The token of this acquisition, which its events carry, too.
    pub fencing_token: FencingToken,
    /// Whether other instances are offered it, because it is drained or the consumer stops.
    pub is_offered: bool,
    /// The checkpoint in the lease table.
    pub checkpoint: Checkpoint,
    /// How far the last page was behind the shard's tip; none before the first page.
    pub behind: Option<Duration>,
    /// Events delivered and not answered.
    pub in_flight: u64,
    /// Memory held by events fetched and not answered, in bytes, estimated.
    pub buffered_bytes: u64,
    /// Bytes of payload fetched, those of aggregated records as they came.
    pub fetched_bytes: u64,
    /// Deliveries of events, repeated ones included.
    pub delivered: u64,
    /// Events answered as processed.
    pub processed: u64,
    /// Events answered as skipped.
    pub skipped: u64,
    /// Deliveries that failed or were not answered in time.
    pub failed: u64,
    /// Events given up, each of which the application was told of.
    pub given_up: u64,
    /// Answers to events that had been answered before or are not read here any more.
    pub late_answers: u64,
    /// User records left out of an aggregate since their hash key belongs to another shard. A KPL sends them there, too.
    pub left_out: u64,
    /// Aggregated records that could not be taken apart and were delivered whole.
    pub broken_aggregates: u64,
    /// Times that the shard was started again after a failure.
    pub restarts: u64,
}

/// A number that one thread changes and others read.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the parts of one shard count.
#[derive(Debug)]
pub(crate) struct Gauges {
    checkpoint: Mutex<Checkpoint>,
    last_error: Mutex<Option<String>>,
    behind_ms: Gauge,
    pub(crate) in_flight: Gauge,
    pub(crate) buffered_bytes: Gauge,
    pub(crate) fetched_bytes: Gauge,
    pub(crate) delivered: Gauge,
    pub(crate) processed: Gauge,
    pub(crate) skipped: Gauge,
    pub(crate) failed: Gauge,
    pub(crate) given_up: Gauge,
    pub(crate) late_answers: Gauge,
    pub(crate) left_out: Gauge,
    pub(crate) broken_aggregates: Gauge,
    pub(crate) restarts: Gauge,
}

impl Gauges {
    pub(crate) fn new(checkpoint: Checkpoint) -> Self {
        let behind_ms = Gauge::default();
        behind_ms.set(u64::MAX);
        Self {
            checkpoint: Mutex::new(checkpoint),
            last_error: Mutex::default(),
            behind_ms,
            in_flight: Gauge::default(),
            buffered_bytes: Gauge::default(),
            fetched_bytes: Gauge::default(),
            delivered: Gauge::default(),
            processed: Gauge::default(),
            skipped: Gauge::default(),
            failed: Gauge::default(),
            given_up: Gauge::default(),
            late_answers: Gauge::default(),
            left_out: Gauge::default(),
            broken_aggregates: Gauge::default(),
            restarts: Gauge::default(),
        }
    }

    pub(crate) fn set_checkpoint(&self, checkpoint: Checkpoint) {
        *self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = checkpoint;
    }

    pub(crate) fn set_last_error(&self, error: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn set_behind(&self, behind: Duration) {
        self.behind_ms.set(u64::try_from(behind.as_millis()).unwrap_or(u64::MAX - 1));
    }

    fn snapshot(&self, shard: ShardId, standing: Standing) -> ShardStatus {
        let behind_ms = self.behind_ms.get();
        let Standing { state, since, fencing_token, is_offered } = standing;
        ShardStatus {
            shard,
            state,
            since,
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            fencing_token,
            is_offered,
            checkpoint: self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            behind: (behind_ms != u64::MAX).then(|| Duration::from_millis(behind_ms)),
            in_flight: self.in_flight.get(),
            buffered_bytes: self.buffered_bytes.get(),
            fetched_bytes: self.fetched_bytes.get(),
            delivered: self.delivered.get(),
            processed: self.processed.get(),
            skipped: self.skipped.get(),
            failed: self.failed.get(),
            given_up: self.given_up.get(),
            late_answers: self.late_answers.get(),
            left_out: self.left_out.get(),
            broken_aggregates: self.broken_aggregates.get(),
            restarts: self.restarts.get(),
        }
    }
}

/// What the supervisor does with a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) state: ShardState,
    pub(crate) since: SystemTime,
    pub(crate) fencing_token: FencingToken,
    pub(crate) is_offered: bool,
}

/// Where the supervisor notes what [`ConsumerStatus`] is made of.
#[derive(Debug)]
pub(crate) struct StatusBoard {
    stream: String,
    table: String,
    worker_id: WorkerId,
    contents: Mutex<Contents>,
}

#[derive(Debug)]
struct Contents {
    state: ConsumerState,
    shards: BTreeMap<ShardId, (Standing, Arc<Gauges>)>,
    stopped: BTreeMap<ShardId, StoppedShard>,
    unread: Vec<ShardId>,
}

impl StatusBoard {
    pub(crate) fn new(stream: String, table: String, worker_id: WorkerId) -> Self {
        let contents = Mutex::new(Contents {
            state: ConsumerState::Starting,
            shards: BTreeMap::new(),
            stopped: BTreeMap::new(),
            unread: Vec::new(),
        });
        Self { stream, table, worker_id, contents }
    }

    pub(crate) fn worker_id(&self) -> &WorkerId {
        &self.worker_id
    }

    pub(crate) fn set_state(&self, state: ConsumerState) {
        self.contents().state = state;
    }

    pub(crate) fn set_unread(&self, shards: Vec<ShardId>) {
        self.contents().unread = shards;
    }

    pub(crate) fn add_shard(&self, shard: ShardId, standing: Standing, gauges: Arc<Gauges>) {
        self.contents().shards.insert(shard, (standing, gauges));
    }

    /// Notes what is done with a shard from `now` on.
    pub(crate) fn set_standing(&self, shard: &ShardId, state: ShardState, is_offered: bool, now: SystemTime) {
        if let Some((standing, _)) = self.contents().shards.get_mut(shard) {
            let since = if standing.state == state { standing.since } else { now };
            *standing = Standing { state, since, is_offered, ..*standing };
        }
    }

    pub(crate) fn add_stopped(&self, stopped: StoppedShard) {
        self.contents().stopped.insert(stopped.shard.clone(), stopped);
    }

    /// Takes out the stopped shards that are `over`.
    pub(crate) fn remove_stopped(&self, mut over: impl FnMut(&ShardId) -> bool) -> Vec<ShardId> {
        self.contents().stopped.extract_if(.., |shard, _| over(shard)).map(|(shard, _)| shard).collect()
    }

    pub(crate) fn remove_shard(&self, shard: &ShardId) {
        self.contents().shards.remove(shard);
    }

    pub(crate) fn status(&self) -> ConsumerStatus {
        let contents = self.contents();
        ConsumerStatus {
            stream: self.stream.clone(),
            table: self.table.clone(),
            worker_id: self.worker_id.clone(),
            state: contents.state,
            shards: contents
                .shards
                .iter()
                .map(|(shard, (standing, gauges))| gauges.snapshot(shard.clone(), *standing))
                .collect(),
            stopped: contents.stopped.values().cloned().collect(),
            unread: contents.unread.clone(),
        }
    }

    fn contents(&self) -> std::sync::MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
