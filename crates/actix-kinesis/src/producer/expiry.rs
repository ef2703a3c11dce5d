//! Records whose time is over before they are stored.

use std::collections::HashSet;

use kinesis_record::HashKey;
use tokio::time::{Duration, Instant};

use super::aggregate::Batch;
use super::order;
use super::outcome::SendReason;
use super::pipeline::Pipeline;
use super::record::Record;
use super::send::Part;

/// Records whose time is over are looked for once in such a time.
const SWEEP: Duration = Duration::from_millis(100);

impl Pipeline {
    /// Looks for such records at `expires`, or before.
    pub(super) fn sweep_by(&mut self, expires: Instant) {
        self.sweep_at = Some(self.sweep_at.map_or(expires, |at| at.min(expires)));
    }

    /// Takes out of a batch what is over. `None` if that is all of it.
    pub(super) fn expire(&mut self, mut batch: Batch, now: Instant) -> Option<Batch> {
        let expired = batch.take_expired(now);
        if expired.is_empty() {
            return Some(batch);
        }
        let kept = self.keys_of(batch.records());
        self.expired(expired, &kept);
        (!batch.records().is_empty()).then_some(batch)
    }

    /// Fails records whose time is over. Keys of which nothing is kept on its way are freed.
    fn expired(&mut self, records: Vec<Record>, kept: &[HashKey]) {
        let keys = self.keys_of(&records);
        let kept: HashSet<_> = kept.iter().collect();
        for record in records {
            let reason = SendReason::Expired(self.cause(&record));
            self.fail(record, reason);
        }
        self.freed(keys.into_iter().filter(|key| !kept.contains(key)).collect());
    }

    /// Fails all that is over, wherever it waits.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.sweep_at = None;
        if let Some(order) = &mut self.order {
            let (expired, next) = order.take_expired(now);
            next.into_iter().for_each(|next| self.sweep_by(next));
            for record in expired {
                let reason = SendReason::Expired(self.cause(&record));
                self.fail(record, reason);
            }
        }
        for index in 0..self.lanes.len() {
            let gathering = &mut self.lanes[index].gathering;
            let expired = gathering.take_expired(now);
            if !expired.is_empty() {
                let kept = if self.order.is_some() { order::keys(gathering.records()) } else { Vec::new() };
                self.expired(expired, &kept);
            }
            let next = self.lanes[index].gathering.records().iter().map(|record| record.expires).min();
            next.into_iter().for_each(|next| self.sweep_by(next));
        }
        for index in 0..=self.lanes.len() {
            for batch in self.lane(index).drain() {
                if let Some(batch) = self.swept(batch, now) {
                    self.lane(index).push(batch);
                }
            }
        }
        for (at, batch) in std::mem::take(&mut self.delayed) {
            if let Some(batch) = self.swept(batch, now) {
                self.delayed.insert(at, batch);
            }
        }
        for part in std::mem::take(&mut self.parts) {
            let batches = part.batches.into_iter().filter_map(|batch| self.swept(batch, now)).collect();
            self.parts.push_back(Part { batches, ..part });
        }
        self.parts.retain(|part| !part.batches.is_empty());
        for undecided in std::mem::take(&mut self.undecided) {
            match undecided.batch.expires() {
                // As a whole, for a part of it would have other sub-sequence numbers.
                Some(expires) if expires <= now => self.misplaced(undecided, now),
                expires => {
                    expires.into_iter().for_each(|next| self.sweep_by(next));
                    self.undecided.push(undecided);
                }
            }
        }
        if let Some(at) = self.sweep_at {
            self.sweep_at = Some(at.max(now + SWEEP));
        }
    }

    fn swept(&mut self, batch: Batch, now: Instant) -> Option<Batch> {
        let batch = self.expire(batch, now)?;
        batch.expires().into_iter().for_each(|next| self.sweep_by(next));
        Some(batch)
    }
}
