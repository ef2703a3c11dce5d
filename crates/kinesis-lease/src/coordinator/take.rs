//! Taking leases that nobody holds.

use std::time::Duration;

use kinesis_record::ShardId;

use super::grip::{Grip, Stage, Wanted};
use super::{Acquisition, Coordinator, Effect};
use crate::lease::{Lease, LeaseChange};
use crate::lineage::{self, ShardList};

impl Coordinator {
    /// Takes what may be taken, in random order, so that workers that start together get in each other's way less.
    pub(super) fn take_available(&mut self, now: Duration) {
        let Some(list) = self.list_to_take_by() else { return };
        let rows = self.watch.rows.values().filter(|row| self.may_take(now, row, list));
        let mut available: Vec<ShardId> = rows.map(|row| row.shard.clone()).collect();
        self.random.shuffle(&mut available);
        let free = self.settings.max_leases.saturating_sub(self.grips.len());
        for shard in available.into_iter().take(free) {
            self.take(now, &shard);
        }
    }

    pub(super) fn take_if_available(&mut self, now: Duration, shard: &ShardId) {
        let Some(list) = self.list_to_take_by() else { return };
        let is_available = self.watch.rows.get(shard).is_some_and(|row| self.may_take(now, row, list));
        if is_available && self.grips.len() < self.settings.max_leases {
            self.take(now, shard);
        }
    }

    /// What is taken depends on both the table and the stream.
    fn list_to_take_by(&self) -> Option<&ShardList> {
        self.list.as_ref().filter(|_| self.taking && self.has_scanned)
    }

    fn may_take(&self, now: Duration, row: &Lease, list: &ShardList) -> bool {
        !row.is_finished()
            && !self.grips.contains_key(&row.shard)
            && !self.shunned.contains(&row.shard)
            && self.is_free(now, row)
            && lineage::may_start(row, &self.watch.rows, list)
    }

    fn is_free(&self, now: Duration, row: &Lease) -> bool {
        let is_left_behind_by_us = row.reader() == Some(&self.settings.worker)
            && row.token.as_deref().is_some_and(|token| token.starts_with(&self.nonce));
        row.reader().is_none()
            || is_left_behind_by_us
            || self.watch.is_expired(now, &row.shard, self.settings.failover)
    }

    fn take(&mut self, now: Duration, shard: &ShardId) {
        let Some(row) = self.watch.rows.get(shard) else { return };
        self.acquisitions += 1;
        let token = format!("{}-{}", self.nonce, self.acquisitions);
        let owner = self.settings.worker.clone();
        let owner_switches = i64::from(row.owner.as_ref().is_some_and(|former| *former != owner));
        let mut grip = Grip::new(Acquisition(self.acquisitions), token.clone(), row.counter);
        let change = LeaseChange::Take { owner, token, owner_switches };
        grip.wanted.push_back(Wanted { change, request: None });
        self.grips.insert(shard.clone(), grip);
        self.advance(now, shard);
    }

    /// The row shows us as its owner. If that came too late to be of use, the lease is given back.
    pub(super) fn taken(&mut self, shard: &ShardId, is_late: bool) {
        let is_wanted = self.taking && !self.shunned.contains(shard);
        let (Some(grip), Some(row)) = (self.grips.get_mut(shard), self.watch.rows.get(shard)) else { return };
        if is_wanted && !is_late {
            grip.stage = Stage::Held;
            self.effects.push_back(Effect::Gained(grip.acquisition, Box::new(row.clone())));
        } else {
            grip.stage = Stage::Unwanted;
            grip.wanted.push_back(Wanted { change: LeaseChange::Release, request: None });
        }
    }
}
