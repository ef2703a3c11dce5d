//! The way of records to one stream, as a state machine without I/O or clock: it is told the time, the records and the
//! replies, and says which calls to make and when to look again.
//!
//! ```text
//!  accept ─► order ─► lane of the predicted shard ─► collect ─► call ─► replied ─► outcome
//!                       open aggregate, queue, rate    ▲                    │
//!                                                      └──── a pause ◄──────┘ refused, or the call failed
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use kinesis_lease::StreamError;
use kinesis_lease::put::PutRecord;
use kinesis_record::{HashKey, HashRange, Shard, ShardId};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use super::aggregate::{Batch, Limits};
use super::collect::CallPause;
use super::flushes::Flushes;
use super::lane::{Lane, LaneId};
use super::limit::Bucket;
use super::order::{self, Order};
use super::outcome::{AttemptError, Flushed, PutResult, SendReason};
use super::record::Record;
use super::send::{Call, Part, Undecided};
use super::shard_map::{ShardMap, Target};
use super::status::{ProducedShard, ProducedStream};
use crate::config::{Ordering, ProducerConf};

/// How much longer than the client's own limit a call may take.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// What has to be done for a stream.
#[derive(Debug)]
pub(crate) enum Action {
    /// List its shards.
    List,
    /// Put these records in one call.
    Put {
        /// Names the call in its reply.
        call: u64,
        /// In the order in which the replies must be.
        records: Vec<PutRecord>,
    },
}

/// All that is on its way to one stream.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(super) conf: Arc<ProducerConf>,
    pub(super) limits: Limits,
    pub(super) map: ShardMap,
    /// By the ends of their ranges, as in the map.
    pub(super) lanes: Vec<Lane>,
    /// For records whose shard is not known.
    pub(super) unrouted: Lane,
    /// The shards that replies have shown, and when last, while there is no list.
    pub(super) seen: BTreeMap<ShardId, Instant>,
    pub(super) order: Option<Order>,
    /// What waits for its next attempt.
    pub(super) delayed: BTreeMap<(Instant, u64), Batch>,
    /// Parts of calls that were refused as a whole.
    pub(super) parts: VecDeque<Part>,
    /// The newest call that the service took, whatever became of its records.
    pub(super) accepted: u64,
    /// Calls that it refused as invalid since.
    pub(super) refusals: u32,
    /// Whether the last call was a part.
    pub(super) tried_part: bool,
    /// Aggregates that went to a shard of which nothing is known yet.
    pub(super) undecided: Vec<Undecided>,
    pub(super) calls: HashMap<u64, Call>,
    pub(super) pause: CallPause,
    pub(super) cursor: usize,
    pub(super) next_id: u64,
    pub(super) random: fastrand::Rng,
    pub(super) last_error: Option<String>,
    /// Why the stream takes no calls, for events that are never part of one. None as soon as it takes one.
    pub(super) failing: Option<Arc<AttemptError>>,
    pub(super) sweep_at: Option<Instant>,
    pub(super) flushes: Flushes,
    pub(super) failed_attempts: u64,
    pub(super) calls_made: u64,
}

impl Pipeline {
    pub(crate) fn new(conf: Arc<ProducerConf>, now: Instant, mut random: fastrand::Rng) -> Self {
        let limits = Limits::of(&conf);
        let bucket = Bucket::new(conf.rate_limit as f64, now);
        Self {
            limits,
            map: ShardMap::new(now, conf.request_timeout + GRACE, random.fork()),
            lanes: Vec::new(),
            unrouted: Lane::new(LaneId(0), None, HashRange::ALL, limits, bucket, random.fork()),
            seen: BTreeMap::new(),
            order: (conf.ordering == Ordering::PartitionKey).then(Order::default),
            delayed: BTreeMap::new(),
            parts: VecDeque::new(),
            accepted: 0,
            refusals: 0,
            tried_part: false,
            undecided: Vec::new(),
            calls: HashMap::new(),
            pause: CallPause::new(&conf, random.fork()),
            cursor: 0,
            next_id: 1,
            random,
            last_error: None,
            failing: None,
            sweep_at: None,
            flushes: Flushes::default(),
            failed_attempts: 0,
            calls_made: 0,
            conf,
        }
    }

    /// Takes a record.
    pub(crate) fn accept(&mut self, mut record: Record, now: Instant) {
        record.arrived = now;
        record.expires = now.checked_add(self.conf.record_ttl).unwrap_or_else(super::far_away);
        record.epoch = self.flushes.accepted();
        self.sweep_by(record.expires);
        match &mut self.order {
            Some(order) if order.has_waiting(record.group) => order.wait(record),
            _ => {
                if let Some(record) = self.place(record)
                    && let Some(order) = &mut self.order
                {
                    order.wait(record);
                }
            }
        }
    }

    /// The reply to [`Action::List`].
    pub(crate) fn listed(&mut self, reply: Result<Vec<Shard>, StreamError>, now: Instant) {
        if let Err(error) = &reply {
            self.last_error = Some(error.message.clone());
        }
        if self.map.listed(reply, now) {
            self.reroute(now);
        }
        self.decide(now);
    }

    /// Does what is due, and says which calls to make.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.map.asks(now) {
            actions.push(Action::List);
        }
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let batch = entry.remove();
            self.again(batch);
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now);
        }
        let flushed = self.flushes.before();
        for index in 0..self.lanes.len() {
            let gathering = &self.lanes[index].gathering;
            let is_flushed = gathering.records().iter().any(|record| record.epoch < flushed);
            if is_flushed || gathering.deadline().is_some_and(|deadline| deadline <= now) {
                self.close(index);
            }
        }
        self.collect(now, &mut actions);
        actions
    }

    /// When to [`poll`](Self::poll) again, if nothing comes before.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let gathering = self.lanes.iter().filter_map(|lane| lane.gathering.deadline());
        let delayed = self.delayed.first_key_value().map(|((at, _), _)| *at);
        let times = gathering.chain(delayed).chain(self.map.wake_at()).chain(self.sweep_at);
        times.chain(self.collect_at()).min()
    }

    /// Sends all that is here as soon as possible, and reports to `done` when the outcome of each is known.
    pub(crate) fn flush(&mut self, done: mpsc::UnboundedSender<Flushed>) {
        self.flushes.flush(done);
    }

    /// Gives up everything.
    pub(crate) fn abandon(&mut self, now: Instant) {
        let lost = Arc::new(super::send::cut_off());
        let mut records = Vec::new();
        for (_, mut call) in std::mem::take(&mut self.calls) {
            for batch in &mut call.batches {
                batch
                    .records_mut()
                    .iter_mut()
                    .for_each(|it| it.attempted(call.began, now, Some(Arc::clone(&lost))));
            }
            records.extend(call.batches.into_iter().flat_map(Batch::into_records));
        }
        let mut batches: Vec<_> = std::mem::take(&mut self.delayed).into_values().collect();
        batches.extend(std::mem::take(&mut self.parts).into_iter().flat_map(|part| part.batches));
        batches.extend(self.give_up_undecided(now));
        for lane in self.lanes.iter_mut().chain([&mut self.unrouted]) {
            batches.extend(lane.drain());
            batches.extend(lane.gathering.close(None));
        }
        records.extend(batches.into_iter().flat_map(Batch::into_records));
        records.extend(self.order.as_mut().map(Order::take_all).unwrap_or_default());
        for record in records {
            let reason = SendReason::Stopped(self.cause(&record));
            self.fail(record, reason);
        }
    }

    /// Why a record is not stored yet: what its last attempt failed with, or what keeps it from having one.
    pub(super) fn cause(&self, record: &Record) -> Option<Arc<AttemptError>> {
        record.last_error().or_else(|| self.failing.clone())
    }

    /// Records whose outcome is not known yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.flushes.outstanding()
    }

    /// What has become of records since the start.
    pub(crate) fn totals(&self) -> Flushed {
        self.flushes.totals()
    }

    pub(crate) fn status(&self, stream: &str) -> ProducedStream {
        let shard = |lane: &Lane| {
            Some(ProducedShard {
                shard: lane.shard.clone()?,
                queued: lane.queued(),
                rate: lane.bucket.rate(),
                refused: lane.refused,
            })
        };
        ProducedStream {
            stream: stream.to_owned(),
            outstanding: self.flushes.outstanding(),
            calls_under_way: self.calls.len(),
            calls: self.calls_made,
            failed_attempts: self.failed_attempts,
            listed: self.map.has_list(),
            shards: self.lanes.iter().filter_map(shard).collect(),
            last_error: self.last_error.clone(),
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The lane for a hash key, as far as the shard is known.
    pub(super) fn route(&self, key: HashKey) -> Option<usize> {
        let index = self.lanes.partition_point(|lane| lane.range.end < key);
        self.lanes.get(index).filter(|lane| lane.range.contains(key)).map(|_| index)
    }

    /// Puts a record where it goes next, or gives it back if it has to wait for others of its key.
    fn place(&mut self, record: Record) -> Option<Record> {
        let lane = self.route(record.hash_key);
        let Some(index) = lane.filter(|_| self.limits.allow(&record)) else {
            return self.place_alone(record, lane);
        };
        let id = self.lanes[index].id;
        if self.order.as_ref().is_some_and(|order| !order.allows(record.group, Some(id))) {
            return Some(record);
        }
        if !self.lanes[index].gathering.fits(&record) {
            self.close(index);
            if self.order.as_ref().is_some_and(|order| !order.allows(record.group, Some(id))) {
                return Some(record);
            }
        }
        if let Some(order) = &mut self.order {
            order.opened(record.group, id);
        }
        self.lanes[index].gathering.push(record);
        if self.lanes[index].gathering.is_full() {
            self.close(index);
        }
        None
    }

    fn place_alone(&mut self, record: Record, lane: Option<usize>) -> Option<Record> {
        if let Some(order) = &mut self.order {
            if !order.allows(record.group, None) {
                return Some(record);
            }
            order.closed(record.group);
        }
        let due = self.limits.due(&record);
        let lane = match lane {
            Some(index) => &mut self.lanes[index],
            None => &mut self.unrouted,
        };
        let target = lane.target();
        lane.push(Batch::single(record, target, due));
        None
    }

    /// Closes the open aggregate of a lane.
    fn close(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let Some(batch) = lane.gathering.close(lane.target()) else { return };
        if let Some(order) = &mut self.order {
            batch.records().iter().for_each(|record| order.closed(record.group));
        }
        lane.push(batch);
    }

    /// Puts a batch into its lane again, before all others. Without the lane, its records are placed anew.
    fn again(&mut self, batch: Batch) {
        match self.lane_of(&batch) {
            Some(index) => self.lane(index).push_first(batch),
            None => self.dissolve(batch.into_records()),
        }
    }

    /// The lane of a batch, if that is still for the shard which the batch is meant for.
    pub(super) fn lane_of(&self, batch: &Batch) -> Option<usize> {
        match batch.records().first().and_then(|first| self.route(first.hash_key)) {
            Some(index) => (self.lanes[index].target() == batch.shard).then_some(index),
            None => batch.shard.is_none().then_some(self.lanes.len()),
        }
    }

    /// Places records anew that were together, before all others of their keys.
    pub(super) fn dissolve(&mut self, records: Vec<Record>) {
        let Some(order) = &mut self.order else {
            for record in records {
                // Without order nothing has to wait.
                let waits = self.place(record);
                debug_assert!(waits.is_none());
            }
            return;
        };
        let keys = order::keys(&records);
        records.into_iter().rev().for_each(|record| order.wait_first(record));
        self.freed(keys);
    }

    /// Nothing of these keys is on its way any more: the next records of each may go.
    pub(super) fn freed(&mut self, keys: Vec<HashKey>) {
        for key in keys {
            if let Some(order) = &mut self.order {
                order.freed(key);
            }
            while let Some(next) = self.order.as_mut().and_then(|order| order.next(key)) {
                if let Some(record) = self.place(next) {
                    if let Some(order) = &mut self.order {
                        order.wait_first(record);
                    }
                    break;
                }
            }
        }
    }

    /// Makes the lanes those of the map. What was meant for shards that are gone is placed anew.
    pub(super) fn reroute(&mut self, now: Instant) {
        let mut former: BTreeMap<ShardId, Lane> = BTreeMap::new();
        for lane in std::mem::take(&mut self.lanes) {
            if let Some(shard) = lane.shard.clone() {
                former.insert(shard, lane);
            }
        }
        let open = self.map.open().to_vec();
        for Target { id, range } in open {
            let is_same = former.get(&id).is_some_and(|lane| lane.range == range);
            let lane = match is_same.then(|| former.remove(&id)).flatten() {
                Some(lane) => lane,
                None => {
                    let bucket = Bucket::new(self.conf.rate_limit as f64, now);
                    let id_of_lane = LaneId(self.new_id());
                    Lane::new(id_of_lane, Some(id), range, self.limits, bucket, self.random.fork())
                }
            };
            self.lanes.push(lane);
        }
        let mut homeless: Vec<Batch> = self.unrouted.drain();
        for mut lane in former.into_values() {
            homeless.extend(lane.drain());
            homeless.extend(lane.gathering.close(None));
        }
        self.seen.clear();
        self.unrouted.bucket.widen(self.conf.rate_limit as f64, self.lanes.len());
        homeless.into_iter().for_each(|batch| self.dissolve(batch.into_records()));
    }

    /// The lane of this index; behind the last one, that for records whose shard is not known.
    pub(super) fn lane(&mut self, index: usize) -> &mut Lane {
        if index < self.lanes.len() { &mut self.lanes[index] } else { &mut self.unrouted }
    }

    /// Ends a record that is stored.
    pub(super) fn store(
        &mut self,
        record: Record,
        shard: ShardId,
        place: &super::send::Place,
        index: Option<u32>,
    ) {
        self.flushes.settled(record.epoch, true);
        record.stored(|attempts| PutResult {
            shard,
            sequence: place.sequence.clone(),
            sub_sequence: index,
            attempts,
        });
    }

    /// Ends a record that is not.
    pub(super) fn fail(&mut self, record: Record, reason: SendReason) {
        self.flushes.settled(record.epoch, false);
        record.failed(reason);
    }
}

#[cfg(test)]
mod tests;
