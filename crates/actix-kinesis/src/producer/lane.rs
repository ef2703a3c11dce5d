//! What is on its way to one shard.

use std::collections::VecDeque;
use std::time::Duration;

use kinesis_record::{HashRange, ShardId};
use tokio::time::Instant;

use super::aggregate::{Batch, Gathering, Limits};
use super::limit::Bucket;
use super::shard_map::Target;

/// A lane that has used up its rate is looked at again after this time at the earliest, so that its records go in
/// bunches and not one by one. Once after the rate has fallen it is up to twice as long, by chance: who always came right
/// behind another producer with the same beat would find the shard used up each time, and give way more and more.
const PACE: Duration = Duration::from_millis(50);

/// One is looked at again after this time at the latest: the rate may have risen meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// The name of a lane, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneId(pub(crate) u64);

/// The records for one shard: an open aggregate, those that are ready to go, and how fast they may.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    /// None for records whose shard is not known.
    pub(crate) shard: Option<ShardId>,
    pub(crate) range: HashRange,
    pub(crate) gathering: Gathering,
    pub(crate) bucket: Bucket,
    /// Kinesis records that the shard refused for want of throughput.
    pub(crate) refused: u64,
    queue: VecDeque<Batch>,
    queued_bytes: usize,
    blocked_until: Option<Instant>,
    /// Whether the rate has fallen since it was last waited for.
    has_fallen: bool,
    random: fastrand::Rng,
}

/// What a lane can give to a call.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    pub(crate) due: Option<Instant>,
}

impl Lane {
    pub(crate) fn new(
        id: LaneId,
        shard: Option<ShardId>,
        range: HashRange,
        limits: Limits,
        bucket: Bucket,
        random: fastrand::Rng,
    ) -> Self {
        Self {
            id,
            shard,
            range,
            gathering: Gathering::new(limits),
            bucket,
            refused: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            blocked_until: None,
            has_fallen: false,
            random,
        }
    }

    /// The shard that its records are meant for.
    pub(crate) fn target(&self) -> Option<Target> {
        Some(Target { id: self.shard.clone()?, range: self.range })
    }

    pub(crate) fn push(&mut self, batch: Batch) {
        self.queued_bytes += batch.size();
        self.queue.push_back(batch);
    }

    /// For what has been tried before.
    pub(crate) fn push_first(&mut self, batch: Batch) {
        self.queued_bytes += batch.size();
        self.queue.push_front(batch);
    }

    /// What may go now.
    pub(crate) fn ready(&mut self, now: Instant) -> Ready {
        let Some(first) = self.queue.front() else { return Ready::default() };
        if self.blocked_until.is_some_and(|until| now < until) {
            return Ready::default();
        }
        self.blocked_until = None;
        self.bucket.fill(now);
        if !self.bucket.allows(first.size()) {
            let beat = if std::mem::take(&mut self.has_fallen) { 1.0 + self.random.f64() } else { 1.0 };
            self.blocked_until = Some(now + self.bucket.wait(first.size()).clamp(PACE.mul_f64(beat), LOOK));
            return Ready::default();
        }
        let (records, bytes) = self.bucket.room();
        Ready {
            count: self.queue.len().min(records.max(1)),
            bytes: self.queued_bytes.min(bytes.max(first.size())),
            due: Some(first.due),
        }
    }

    /// So many records, of so many bytes, were refused for want of throughput: this share of what went to the shard in
    /// one call.
    pub(crate) fn refuse(&mut self, records: usize, bytes: usize, share: f64, now: Instant) {
        self.refused += records as u64;
        self.bucket.forgive(bytes);
        let falls = self.bucket.refused(share, now);
        // What goes to many shards has no beat with any of them.
        self.has_fallen |= falls && self.shard.is_some();
    }

    /// Whether a record of an epoch before this one waits here.
    pub(crate) fn holds_before(&self, epoch: u64) -> bool {
        epoch > 0 && self.queue.iter().any(|batch| batch.is_before(epoch))
    }

    /// The next one, if the rate allows it and it is no larger than `room`.
    pub(crate) fn take(&mut self, room: usize, now: Instant) -> Option<Batch> {
        let size = self.queue.front()?.size();
        if self.blocked_until.is_some_and(|until| now < until) || size > room || !self.bucket.allows(size) {
            return None;
        }
        self.bucket.take(size);
        self.pop()
    }

    /// When the lane has to be looked at again, if what is ready now has been taken or is not due.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let first = self.queue.front()?;
        Some(self.blocked_until.unwrap_or(first.due))
    }

    /// Takes out all that is ready or waits for the rate.
    pub(crate) fn drain(&mut self) -> Vec<Batch> {
        self.queued_bytes = 0;
        std::mem::take(&mut self.queue).into()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    fn pop(&mut self) -> Option<Batch> {
        let batch = self.queue.pop_front()?;
        self.queued_bytes -= batch.size();
        Some(batch)
    }
}
