//! Taking leases that nobody holds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kinesis_record::ShardId;

use super::grip::{Grip, Stage, Wanted};
use super::{Coordinator, Effect, Mode};
use crate::lease::{Lease, LeaseChange};
use crate::lineage::{self, ShardList};

/// How many leases are being taken at once. The answers tell what other workers have taken meanwhile.
const TAKES_AT_ONCE: usize = 32;

impl Coordinator {
    /// Takes what may be taken: up to this worker's share at once, the rest if nobody else takes it.
    pub(super) fn take_available(&mut self, now: Duration) {
        let Some(list) = self.list_to_take_by() else { return };
        let is_taken = |row: &Lease| self.grips.get(&row.shard).is_some_and(Grip::is_taken);
        let is_waiting = |row: &&Lease| !is_taken(row) && self.is_to_be_had(now, row, list);
        let mut waiting: Vec<&Lease> = self.watch.rows.values().filter(is_waiting).collect();
        let since = |row: &&Lease| (row.shard.clone(), self.waiting.get(&row.shard).copied().unwrap_or(now));
        let waiting_since: BTreeMap<ShardId, Duration> = waiting.iter().map(since).collect();
        waiting.retain(|row| !self.grips.contains_key(&row.shard));
        let mut wanted = Vec::new();
        let mut next_look = None;
        if !waiting.is_empty() {
            let loads = self.loads(now);
            let mut share = loads.share(waiting.len()).saturating_sub(loads.own());
            let mut room = self.settings.max_leases.saturating_sub(self.grips.len());
            room = room.min(TAKES_AT_ONCE.saturating_sub(self.takes_under_way()));
            waiting.retain(|row| !self.shunned.contains(&row.shard));
            waiting.sort_by_cached_key(|row| Reverse(loads.preference(&row.shard)));
            for row in waiting {
                let others_until = waiting_since[&row.shard] + self.settings.failover / 3;
                if room == 0 {
                    break;
                } else if share > 0 || others_until <= now || row.is_given_to(&self.settings.worker) {
                    (room, share) = (room - 1, share.saturating_sub(1));
                    wanted.push(row.shard.clone());
                } else {
                    next_look = next_look.into_iter().chain([others_until]).min();
                }
            }
        }
        self.waiting = waiting_since;
        if let Some(next_look) = next_look {
            self.scan.hasten(next_look);
        }
        for shard in wanted {
            self.take(now, &shard);
        }
    }

    /// The children of a shard that this worker has ended are read on here at once: others do not know of them yet, and
    /// what is too much for this worker is moved later without a gap.
    pub(super) fn take_children(&mut self, now: Duration, parent: &ShardId) {
        let Some(list) = self.list_to_take_by() else { return };
        let is_ours = |row: &&Lease| {
            row.parents.contains(parent)
                && !self.grips.contains_key(&row.shard)
                && !self.shunned.contains(&row.shard)
                && self.is_to_be_had(now, row, list)
        };
        let room = self.settings.max_leases.saturating_sub(self.grips.len());
        let children = self.watch.rows.values().filter(is_ours).take(room);
        for child in children.map(|row| row.shard.clone()).collect::<Vec<_>>() {
            self.take(now, &child);
        }
    }

    /// A lease that was being taken is, or is not, ours: goes on with those that waited for it.
    pub(super) fn take_more(&mut self, now: Duration) {
        if self.takes_under_way() == TAKES_AT_ONCE / 2 {
            self.take_available(now);
        }
    }

    pub(super) fn take_if_available(&mut self, now: Duration, shard: &ShardId) {
        let Some(list) = self.list_to_take_by() else { return };
        if self.watch.rows.get(shard).is_some_and(|row| self.is_to_be_had(now, row, list)) {
            self.take_available(now);
        }
    }

    pub(super) fn takes_under_way(&self) -> usize {
        self.grips.values().filter(|grip| grip.stage == Stage::Taking).count()
    }

    /// What is taken depends on both the table and the stream.
    pub(super) fn list_to_take_by(&self) -> Option<&ShardList> {
        self.list.as_ref().filter(|_| self.mode == Mode::Sharing && self.has_scanned)
    }

    /// Whether the lease waits for a worker.
    fn is_to_be_had(&self, now: Duration, row: &Lease, list: &ShardList) -> bool {
        !row.is_finished() && self.is_free(now, row) && lineage::may_start(row, &self.watch.rows, list)
    }

    fn is_free(&self, now: Duration, row: &Lease) -> bool {
        let is_left_behind_by_us = row.reader() == Some(&self.settings.worker)
            && row.token.as_deref().is_some_and(|token| token.starts_with(&self.token));
        row.reader().is_none()
            || is_left_behind_by_us
            || row.is_given_to(&self.settings.worker)
            || self.watch.is_expired(now, &row.shard, self.settings.failover)
    }

    /// Tells when the shards change that nobody reads for long: this worker may not or cannot, and no other does.
    pub(super) fn note_unread(&mut self, now: Duration) {
        let has_waited = |since: Duration| now >= since + 2 * self.settings.failover;
        let is_listed = |shard: &ShardId| self.list.as_ref().is_some_and(|list| list.get(shard).is_some());
        let unreadable = self.watch.unreadable().iter().filter(|(shard, _)| is_listed(shard));
        let unread = self.waiting.iter().chain(unreadable).filter(|(_, since)| has_waited(**since));
        let unread: BTreeSet<ShardId> = unread.map(|(shard, _)| shard.clone()).collect();
        let unread: Vec<ShardId> = unread.into_iter().collect();
        if unread != self.unread {
            self.unread = unread.clone();
            self.effects.push_back(Effect::Unread(unread));
        }
    }

    /// Looks again when a lease expires before the next scan.
    pub(super) fn look_at_expiries(&mut self, now: Duration) {
        let failover = self.settings.failover;
        let others = self.watch.rows.values().filter(|row| !row.is_finished() && row.reader().is_some());
        let others = others.filter(|row| !self.grips.contains_key(&row.shard));
        let expiries = others.filter_map(|row| self.watch.expiry(&row.shard, failover));
        if let Some(expiry) = expiries.filter(|expiry| *expiry > now).min() {
            self.scan.hasten(expiry);
        }
    }

    pub(super) fn take(&mut self, now: Duration, shard: &ShardId) {
        let Some(row) = self.watch.rows.get(shard) else { return };
        let owner = self.settings.worker.clone();
        let owner_switches = i64::from(row.owner.as_ref().is_some_and(|former| *former != owner));
        let counter = row.counter;
        let (acquisition, token) = self.new_acquisition();
        let change = LeaseChange::Take { owner, token: token.clone(), owner_switches };
        self.grips.insert(shard.clone(), Grip::new(acquisition, token, counter, change));
        self.advance(now, shard);
    }

    /// The row shows us as its owner. If that came too late to be of use, the lease is given back.
    pub(super) fn taken(&mut self, shard: &ShardId, is_late: bool) {
        let is_wanted = self.mode == Mode::Sharing && !self.shunned.contains(shard);
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
