//! What replies mean for the records of a call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kinesis_lease::put::{PutPlace, PutRefusal, PutReply};
use kinesis_lease::{StreamError, StreamErrorKind};
use kinesis_record::{HashKey, ShardId};
use tokio::time::Instant;

use super::aggregate::Batch;
use super::order;
use super::outcome::{AttemptError, SendReason};
use super::pipeline::Pipeline;
use super::record::Record;

/// So many calls are refused one after the other before a pause is made: to find the records that are to blame takes a few.
const SPLITS: u32 = 8;

/// A record that was refused alone so often, with pauses, is to blame although nothing else has been taken meanwhile:
/// others may wait for it.
const ALONE: u32 = 8;

/// So long a shard that has taken a record counts as open, as long as there is no list.
const SEEN: Duration = Duration::from_secs(60);

/// Where the service says that it put a record.
pub(super) type Place = PutPlace;

/// A call under way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) batches: Vec<Batch>,
    pub(super) began: Instant,
    /// If it tries a part of a call that was refused.
    pub(super) part_of: Option<Trial>,
}

/// A part of a call that the service refused as a whole, to be sent as a call of its own.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) batches: Vec<Batch>,
    pub(super) trial: Trial,
    /// When it may go.
    pub(super) at: Instant,
}

/// How a part came to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    /// Calls with greater numbers began after the call was refused as a whole.
    since: u64,
    /// How often what is left of it was refused by itself.
    alone: u32,
}

/// An aggregate that went to a shard whose range is not known: whether it is right there shows in the next list.
#[derive(Debug)]
pub(super) struct Undecided {
    pub(super) batch: Batch,
    pub(super) place: Place,
    pub(super) began: Instant,
}

/// What of a call went to one lane, and was refused.
#[derive(Debug, Default)]
struct Refused {
    all: usize,
    refused: usize,
    bytes: usize,
    index: usize,
}

/// The error of records whose call was cut off by the end of the producer.
pub(super) fn cut_off() -> AttemptError {
    AttemptError {
        code: "Stopped".to_owned(),
        message: "the call was under way when the producer ended".to_owned(),
        may_be_stored: true,
    }
}

impl Pipeline {
    /// The reply to a call. A second reply has no effect.
    pub(crate) fn replied(&mut self, call: u64, reply: Result<Vec<PutReply>, StreamError>, now: Instant) {
        let Some(Call { batches, began, part_of }) = self.calls.remove(&call) else { return };
        match reply {
            Ok(replies) if replies.len() == batches.len() => {
                self.pause.succeeded();
                self.failing = None;
                self.accepted = self.accepted.max(call);
                self.refusals = 0;
                self.adapt(&batches, &replies, now);
                for (batch, reply) in batches.into_iter().zip(replies) {
                    match reply {
                        Ok(place) => self.placed(batch, place, began, now),
                        Err(refusal) => self.refused(batch, refusal, began, now),
                    }
                }
            }
            Ok(replies) => {
                let message = format!("{} results for {} records", replies.len(), batches.len());
                self.lost(batches, StreamError { kind: StreamErrorKind::Unavailable, message }, began, now);
            }
            Err(error) if error.kind == StreamErrorKind::InvalidArgument => {
                let trial = part_of.unwrap_or_else(|| Trial { since: self.new_id(), alone: 0 });
                self.isolate(Part { batches, trial, at: now }, error, began, now);
            }
            Err(error) => self.lost(batches, error, began, now),
        }
    }

    /// Lets the rate of each shard follow the share of records that it refused.
    fn adapt(&mut self, batches: &[Batch], replies: &[PutReply], now: Instant) {
        let mut shards: BTreeMap<Option<ShardId>, Refused> = BTreeMap::new();
        for (batch, reply) in batches.iter().zip(replies) {
            let shard = match (&batch.shard, reply) {
                // What went without a prediction counts where it arrived.
                (None, Ok(place)) => {
                    self.charge(&place.shard, batch.size());
                    if !self.map.has_list() {
                        self.seen.insert(place.shard.clone(), now);
                    }
                    None
                }
                (shard, _) => shard.as_ref().map(|target| target.id.clone()),
            };
            let is_refused = reply.as_ref().is_err_and(PutRefusal::is_throttled);
            let of_shard = shards.entry(shard).or_default();
            of_shard.all += 1;
            if is_refused {
                of_shard.refused += 1;
                of_shard.bytes += batch.size();
            }
            of_shard.index =
                batch.records().first().and_then(|first| self.route(first.hash_key)).unwrap_or(usize::MAX);
        }
        self.widen(now);
        for (shard, Refused { all, refused, bytes, index }) in shards {
            let lane = self.lane(index);
            if refused > 0 && lane.shard == shard {
                lane.refuse(refused, bytes, refused as f64 / all as f64, now);
            }
        }
    }

    /// While there is no list, the shards that take records tell how many there are. One that takes none any more is
    /// closed.
    fn widen(&mut self, now: Instant) {
        if !self.map.has_list() {
            self.seen.retain(|_, last| now.saturating_duration_since(*last) < SEEN);
            self.unrouted.bucket.widen(self.conf.rate_limit as f64, self.seen.len());
        }
    }

    fn charge(&mut self, shard: &ShardId, bytes: usize) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.shard.as_ref() == Some(shard)) {
            lane.bucket.take(bytes);
        }
    }

    /// The service stored it. Only of an aggregate does it matter where: a reader takes a record for a stray whose key
    /// is not its shard's, and the KCL then drops the whole aggregate.
    fn placed(&mut self, batch: Batch, place: Place, began: Instant, now: Instant) {
        let target = batch.shard.as_ref();
        if target.is_some_and(|target| target.id != place.shard) {
            self.map.contradicted(began, now);
        }
        // A newer list may show the shard with another range, or not at all: then it may be another shard of that name.
        let range = self.map.range(&place.shard);
        let is_expected =
            target.is_some_and(|target| target.id == place.shard && range == Some(target.range));
        if is_expected || !batch.is_aggregate() {
            return self.stored(batch, &place, began, now);
        }
        self.judge(Undecided { batch, place, began }, now);
    }

    fn judge(&mut self, undecided: Undecided, now: Instant) {
        let Undecided { batch, place, began } = undecided;
        match self.map.range(&place.shard) {
            Some(range) if batch.records().iter().all(|record| range.contains(record.hash_key)) => {
                self.stored(batch, &place, began, now);
            }
            Some(_) => self.misplaced(Undecided { batch, place, began }, now),
            None => {
                batch.expires().into_iter().for_each(|expires| self.sweep_by(expires));
                self.undecided.push(Undecided { batch, place, began });
                // That it went there may be older than the list. That the list does not tell is seen now.
                if self.map.is_known() {
                    self.map.contradicted(now, now);
                }
            }
        }
    }

    /// An aggregate is stored where not all of its records belong, or may not: some may be dropped by their reader and
    /// some not, so that all of them are sent again.
    pub(super) fn misplaced(&mut self, undecided: Undecided, now: Instant) {
        let Undecided { mut batch, place, began } = undecided;
        let error = AttemptError {
            code: "Wrong Shard".to_owned(),
            message: format!(
                "an aggregate arrived in {}, which is not the shard of all its records",
                place.shard
            ),
            may_be_stored: true,
        };
        self.attempted(&mut batch, error, began, now);
        let lane = batch.records().first().and_then(|first| self.route(first.hash_key));
        if lane.is_some_and(|index| self.lanes[index].target() == batch.shard) {
            // Until there is another list, all of it would go the same way at once.
            return self.retry(batch, now);
        }
        if let Some(batch) = self.expire(batch, now) {
            self.dissolve(batch.into_records());
        }
    }

    /// A list of shards has come: looks again at what it may decide.
    pub(super) fn decide(&mut self, now: Instant) {
        for undecided in std::mem::take(&mut self.undecided) {
            self.judge(undecided, now);
        }
    }

    /// Takes out the aggregates that are stored somewhere, in the right shard or not.
    pub(super) fn give_up_undecided(&mut self, now: Instant) -> Vec<Batch> {
        let undecided = std::mem::take(&mut self.undecided);
        let give_up = |Undecided { mut batch, place, began }| {
            let message = format!(
                "the producer ended before it knew whether {} is the shard of all records",
                place.shard
            );
            let error = AttemptError { code: "Stopped".to_owned(), message, may_be_stored: true };
            self.attempted(&mut batch, error, began, now);
            batch
        };
        undecided.into_iter().map(give_up).collect()
    }

    fn stored(&mut self, batch: Batch, place: &Place, began: Instant, now: Instant) {
        let is_aggregate = batch.is_aggregate();
        let keys = self.keys_of(batch.records());
        for (index, mut record) in (0..).zip(batch.into_records()) {
            record.attempted(began, now, None);
            self.store(record, place.shard.clone(), place, is_aggregate.then_some(index));
        }
        self.freed(keys);
    }

    /// The service did not store one record of the call.
    fn refused(&mut self, mut batch: Batch, refusal: PutRefusal, began: Instant, now: Instant) {
        let is_throttled = refusal.is_throttled();
        let PutRefusal { code, message } = refusal;
        let error =
            self.attempted(&mut batch, AttemptError { code, message, may_be_stored: false }, began, now);
        if is_throttled && self.conf.fail_if_throttled {
            return self.failed(batch, SendReason::Throttled(error));
        }
        self.retry(batch, now);
    }

    /// The call failed as a whole: its records are sent again after a pause.
    fn lost(&mut self, batches: Vec<Batch>, error: StreamError, began: Instant, now: Instant) {
        self.pause.failed(began, now);
        let is_throttled = error.kind == StreamErrorKind::Throttled;
        let is_gone = error.kind == StreamErrorKind::NotFound;
        if is_throttled {
            let replies: Vec<PutReply> = batches.iter().map(|_| Err(throttled(&error))).collect();
            self.adapt(&batches, &replies, now);
        }
        let error = failed_call(error);
        tracing::warn!(error = error.message, "a call to put records failed");
        self.note_failing(&batches, &error);
        if is_gone && self.map.gone(now) {
            self.reroute(now);
        }
        for mut batch in batches {
            let error = self.attempted(&mut batch, error.clone(), began, now);
            if is_throttled && self.conf.fail_if_throttled {
                self.failed(batch, SendReason::Throttled(error));
            } else {
                self.retry(batch, now);
            }
        }
    }

    /// The service refuses the call, for one of its records or for all that it holds: parts of it are tried until that
    /// one is alone. When the service has taken another call since, it is to blame, and otherwise the stream or the
    /// caller, which time may mend.
    fn isolate(&mut self, part: Part, error: StreamError, began: Instant, now: Instant) {
        let Part { mut batches, trial, .. } = part;
        let error = failed_call(error);
        self.note_failing(&batches, &error);
        for batch in &mut batches {
            self.attempted(batch, error.clone(), began, now);
        }
        self.refusals = self.refusals.saturating_add(1);
        let takes_others = self.accepted > trial.since;
        let takes_none = !takes_others && self.refusals > SPLITS;
        if takes_none {
            self.pause.failed(began, now);
            tracing::warn!(error = error.message, "calls to put records are refused one after the other");
        }
        if batches.len() > 1 {
            let second = batches.split_off(batches.len() / 2);
            self.parts.extend([batches, second].map(|batches| Part { batches, trial, at: now }));
            return;
        }
        for mut batch in batches {
            if batch.is_aggregate() && !takes_none {
                batch.records_mut().iter_mut().for_each(|record| record.alone = true);
                self.dissolve(batch.into_records());
            } else if !takes_others && trial.alone < ALONE {
                let at = now + self.pause_after(trial.alone);
                let trial = Trial { alone: trial.alone + 1, ..trial };
                self.parts.push_back(Part { batches: vec![batch], trial, at });
            } else {
                tracing::error!(error = error.message, bytes = batch.size(), "the service refuses a record");
                self.failed(batch, SendReason::Refused(Arc::new(error.clone())));
            }
        }
    }

    /// Notes why the stream does not take a call, for those who wait meanwhile.
    fn note_failing(&mut self, batches: &[Batch], error: &AttemptError) {
        self.last_error = Some(error.message.clone());
        let event = batches.first().and_then(|batch| batch.records().first()?.event());
        let stream = event.and_then(|event| event.stream.as_deref()).unwrap_or(&self.conf.stream_name);
        let message =
            format!("no call was made with the event, since those to {stream} fail: {}", error.message);
        self.failing =
            Some(Arc::new(AttemptError { code: error.code.clone(), message, may_be_stored: false }));
    }

    /// Notes a failed attempt with each record.
    fn attempted(
        &mut self,
        batch: &mut Batch,
        error: AttemptError,
        began: Instant,
        now: Instant,
    ) -> Arc<AttemptError> {
        let error = Arc::new(error);
        self.failed_attempts += batch.records().len() as u64;
        for record in batch.records_mut() {
            record.attempted(began, now, Some(Arc::clone(&error)));
        }
        error
    }

    fn retry(&mut self, batch: Batch, now: Instant) {
        let Some(mut batch) = self.expire(batch, now) else { return };
        batch.expires().into_iter().for_each(|expires| self.sweep_by(expires));
        let at = now + self.pause_after(batch.failures);
        batch.failures = batch.failures.saturating_add(1);
        let id = self.new_id();
        self.delayed.insert((at, id), batch);
    }

    /// As [`Backoff`](crate::backoff::Backoff), of which each Kinesis record would need its own.
    fn pause_after(&mut self, failures: u32) -> Duration {
        let backoff = self.conf.retry_backoff;
        let full = backoff.min.saturating_mul(2u32.saturating_pow(failures)).min(backoff.max);
        full / 2 + (full / 2).mul_f64(self.random.f64())
    }

    fn failed(&mut self, batch: Batch, reason: SendReason) {
        let keys = self.keys_of(batch.records());
        for record in batch.into_records() {
            self.fail(record, reason.clone());
        }
        self.freed(keys);
    }

    /// The keys that are to be kept in order.
    pub(super) fn keys_of(&self, records: &[Record]) -> Vec<HashKey> {
        if self.order.is_some() { order::keys(records) } else { Vec::new() }
    }
}

fn throttled(error: &StreamError) -> PutRefusal {
    PutRefusal { code: "ThrottlingException".to_owned(), message: error.message.clone() }
}

fn failed_call(error: StreamError) -> AttemptError {
    let may_be_stored = error.kind == StreamErrorKind::Unavailable;
    AttemptError { code: format!("{:?}", error.kind), message: error.message, may_be_stored }
}
