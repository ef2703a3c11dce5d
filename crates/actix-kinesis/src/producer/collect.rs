//! Filling calls with what is ready.

use kinesis_lease::put::PutRecord;
use tokio::time::Instant;

use super::aggregate::Batch;
use super::pipeline::{Action, Pipeline};
use super::send::{Call, Part, Trial};
use crate::backoff::Backoff;
use crate::config::ProducerConf;

/// The pause after calls that failed as a whole. It grows while none succeeds; meanwhile one call at a time tries.
#[derive(Debug)]
pub(super) struct CallPause {
    backoff: Backoff,
    /// When it was made, and its end.
    pause: Option<(Instant, Instant)>,
}

impl CallPause {
    pub(super) fn new(conf: &ProducerConf, random: fastrand::Rng) -> Self {
        Self { backoff: Backoff::new(conf.retry_backoff.min, conf.retry_backoff.max, random), pause: None }
    }

    /// A call that began then has failed. Calls from before the pause are old news.
    pub(super) fn failed(&mut self, began: Instant, now: Instant) {
        if self.pause.is_none_or(|(made, _)| made < began) {
            self.pause = Some((now, now + self.backoff.next_pause()));
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.pause = None;
        self.backoff.reset();
    }

    fn ends(&self) -> Option<Instant> {
        self.pause.map(|(_, until)| until)
    }

    /// How many calls may be under way, of `most`.
    fn allows(&self, most: usize) -> usize {
        if self.pause.is_some() { 1 } else { most }
    }
}

impl Pipeline {
    /// Starts calls for as long as there is enough for one, or something that is due.
    pub(super) fn collect(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while self.may_call() && self.pause.ends().is_none_or(|until| until <= now) {
            let part = self.parts.iter().position(|part| part.at <= now);
            // While the service refuses what it gets, parts and other records take turns: if it takes those, it is the
            // parts' own fault.
            let is_others_turn = part.is_none() || (self.refusals > 0 && self.tried_part);
            let (batches, part_of) = if is_others_turn && self.is_due(now) {
                (self.take(now), None)
            } else if let Some(Part { batches, trial, .. }) = part.and_then(|index| self.parts.remove(index))
            {
                (self.still_meant(batches, now), Some(trial))
            } else {
                return;
            };
            self.tried_part = part_of.is_some();
            if !batches.is_empty() {
                self.start(batches, part_of, now, actions);
            }
        }
    }

    /// Takes out of a part what is over, and places records anew whose shard is another since.
    fn still_meant(&mut self, batches: Vec<Batch>, now: Instant) -> Vec<Batch> {
        let mut kept = Vec::with_capacity(batches.len());
        for batch in batches {
            let Some(batch) = self.expire(batch, now) else { continue };
            match self.lane_of(&batch) {
                Some(_) => kept.push(batch),
                None => self.dissolve(batch.into_records()),
            }
        }
        kept
    }

    /// When there may be something for a call again. Replies are not waited for here.
    pub(super) fn collect_at(&self) -> Option<Instant> {
        if !self.may_call() {
            return None;
        }
        let unrouted = (!self.map.is_awaited()).then_some(&self.unrouted);
        let ready = self.lanes.iter().chain(unrouted).filter_map(|lane| lane.wake_at());
        let ready = ready.chain(self.parts.iter().map(|part| part.at)).min();
        ready.map(|at| self.pause.ends().map_or(at, |until| at.max(until)))
    }

    fn may_call(&self) -> bool {
        self.calls.len() < self.pause.allows(self.conf.max_in_flight_calls)
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let (mut count, mut bytes, mut is_due) = (0, 0, false);
        let flushed = self.flushes.before();
        for index in 0..self.callable_lanes() {
            let lane = self.lane(index);
            let ready = lane.ready(now);
            count += ready.count;
            bytes += ready.bytes;
            is_due |= ready.due.is_some_and(|due| due <= now || lane.holds_before(flushed));
        }
        let is_full =
            count >= self.conf.collection.max_count || bytes as u64 >= self.conf.collection.max_size;
        count > 0 && (is_due || is_full)
    }

    /// What goes in one call. The lanes take turns in being the first.
    fn take(&mut self, now: Instant) -> Vec<Batch> {
        let lanes = self.callable_lanes();
        let first = self.cursor % lanes.max(1);
        self.cursor = first + 1;
        let mut batches = Vec::new();
        let mut room = usize::try_from(self.conf.collection.max_size).unwrap_or(usize::MAX);
        for index in (first..lanes).chain(0..first) {
            while batches.len() < self.conf.collection.max_count {
                // A record larger than a call is sent alone.
                let fitting = if batches.is_empty() { usize::MAX } else { room };
                let Some(batch) = self.lane(index).take(fitting, now) else { break };
                if let Some(batch) = self.expire(batch, now) {
                    room = room.saturating_sub(batch.size());
                    batches.push(batch);
                }
            }
        }
        batches
    }

    /// Records are held back for the first list of shards, so that they can be aggregated.
    fn callable_lanes(&self) -> usize {
        self.lanes.len() + usize::from(!self.map.is_awaited())
    }

    fn start(
        &mut self,
        mut batches: Vec<Batch>,
        part_of: Option<Trial>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let call = self.new_id();
        let records: Vec<PutRecord> = batches.iter().filter_map(Batch::to_put).collect();
        debug_assert_eq!(records.len(), batches.len());
        let called = batches.iter_mut().flat_map(Batch::records_mut);
        called.for_each(|record| record.calling(now));
        self.calls.insert(call, Call { batches, began: now, part_of });
        self.calls_made += 1;
        actions.push(Action::Put { call, records });
    }
}
