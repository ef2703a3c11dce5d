//! How a consumer is doing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinesis_lease::WorkerId;
use kinesis_record::{Checkpoint, ShardId};

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
    /// The shards that it reads, by name.
    pub shards: Vec<ShardStatus>,
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

/// How one shard is doing. Counts are of this acquisition of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// The shard.
    pub shard: ShardId,
    /// The checkpoint in the lease table.
    pub checkpoint: Checkpoint,
    /// How far the last page was behind the shard's tip; none before the first page.
    pub behind: Option<Duration>,
    /// Events delivered and not answered.
    pub in_flight: u64,
    /// Memory held by events fetched and not answered, in bytes, estimated.
    pub buffered_bytes: u64,
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
    behind_ms: Gauge,
    pub(crate) in_flight: Gauge,
    pub(crate) buffered_bytes: Gauge,
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
            behind_ms,
            in_flight: Gauge::default(),
            buffered_bytes: Gauge::default(),
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

    pub(crate) fn set_behind(&self, behind: Duration) {
        self.behind_ms.set(u64::try_from(behind.as_millis()).unwrap_or(u64::MAX - 1));
    }

    fn snapshot(&self, shard: ShardId) -> ShardStatus {
        let behind_ms = self.behind_ms.get();
        ShardStatus {
            shard,
            checkpoint: self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            behind: (behind_ms != u64::MAX).then(|| Duration::from_millis(behind_ms)),
            in_flight: self.in_flight.get(),
            buffered_bytes: self.buffered_bytes.get(),
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
    shards: BTreeMap<ShardId, Arc<Gauges>>,
}

impl StatusBoard {
    pub(crate) fn new(stream: String, table: String, worker_id: WorkerId) -> Self {
        let contents = Mutex::new(Contents { state: ConsumerState::Starting, shards: BTreeMap::new() });
        Self { stream, table, worker_id, contents }
    }

    pub(crate) fn worker_id(&self) -> &WorkerId {
        &self.worker_id
    }

    pub(crate) fn set_state(&self, state: ConsumerState) {
        self.contents().state = state;
    }

    pub(crate) fn add_shard(&self, shard: ShardId, gauges: Arc<Gauges>) {
        self.contents().shards.insert(shard, gauges);
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
            shards: contents.shards.iter().map(|(shard, gauges)| gauges.snapshot(shard.clone())).collect(),
        }
    }

    fn contents(&self) -> std::sync::MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
