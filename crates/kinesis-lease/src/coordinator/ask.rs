//! Asking other workers of this library for leases, and being asked.
//!
//! A worker that has too few leases writes its name into the row of one. The owner sees it at its next renewal or
//! scan, finishes what is under way, stores the last checkpoint and makes the other the owner, which begins right there.
//! The row's counter, and with it the owner's lease, stays as it is until then. If the owner dies meanwhile, the lease
//! expires like any other.

use std::time::Duration;

use kinesis_record::ShardId;

use super::grip::{Asked, Grip, Stage, Wanted};
use super::{Acquisition, Coordinator, Mode};
use crate::journal::Input;
use crate::lease::{Lease, LeaseChange};

impl Coordinator {
    pub(super) fn ask_for(&mut self, now: Duration, shard: &ShardId) {
        let Some(row) = self.watch.rows.get(shard) else { return };
        let (counter, of) = (row.counter, row.token.clone());
        let change = LeaseChange::Ask { by: self.settings.worker.clone() };
        let (acquisition, token) = self.new_acquisition();
        let mut grip = Grip::new(acquisition, token, counter, change);
        grip.stage = Stage::Asking;
        let until = now + self.settings.hand_over_timeout + self.settings.failover;
        grip.asked = Some(Asked { of, until, look_at: None });
        self.grips.insert(shard.clone(), grip);
        self.advance(now, shard);
    }

    /// The pause between two looks at a lease that was asked for: the longer, the more there are.
    pub(super) fn look_pause(&self) -> Duration {
        let asked = self.grips.values().filter(|grip| grip.is_asking()).count();
        self.settings.failover / 20 * (1 + u32::try_from(asked / 16).unwrap_or(u32::MAX).min(9))
    }

    /// Takes back what the owner was asked for.
    pub(super) fn withdraw(&mut self, now: Duration, shard: &ShardId) {
        let Some(grip) = self.grips.get_mut(shard).filter(|grip| grip.stage == Stage::Asking) else { return };
        grip.stage = Stage::Withdrawing;
        let change = LeaseChange::Withdraw { by: self.settings.worker.clone() };
        grip.wanted.retain(|wanted| !matches!(wanted.change, LeaseChange::Ask { .. }));
        grip.wanted.push_back(Wanted { change, request: None });
        self.advance(now, shard);
    }

    /// What the row of a lease says whose owner was asked for it.
    pub(super) fn judge_asked(&mut self, now: Duration, row: Lease) {
        let (shard, worker) = (row.shard.clone(), self.settings.worker.clone());
        let Some(grip) = self.grips.get_mut(&shard) else { return };
        let Some(asked) = &grip.asked else { return };
        let (is_withdrawing, is_late) = (grip.stage == Stage::Withdrawing, asked.until <= now);
        let is_owners_still = row.is_of_peer() && row.token == asked.of && !row.is_finished();
        let can_be_asked = is_owners_still && row.asked_by.is_none();
        let is_ours_to_take = row.is_given_to(&worker);
        let is_asked = is_owners_still && row.asked_by.as_ref() == Some(&worker);
        self.watch.see(now, row.clone());
        if is_ours_to_take {
            // If it is not wanted any more, it is given back from there.
            let change = LeaseChange::Take { owner: worker, token: grip.token.clone(), owner_switches: 0 };
            grip.turn_to(Stage::Taking, row.counter, change);
        } else if is_asked && is_withdrawing {
            grip.turn_to(Stage::Withdrawing, row.counter, LeaseChange::Withdraw { by: worker });
            grip.resume_at = Some(now + self.settings.failover / 20);
        } else if is_asked && !self.watch.is_expired(now, &shard, self.settings.failover) {
            let look_at = now + self.look_pause();
            self.grips.get_mut(&shard).into_iter().for_each(|grip| grip.await_owner(row.counter, look_at));
            if is_late {
                return self.withdraw(now, &shard);
            }
        } else if can_be_asked && grip.is_undecided() && !is_withdrawing && !is_late {
            grip.retry(row.counter, now);
        } else {
            self.grips.remove(&shard);
            return self.take_if_available(now, &shard);
        }
        self.advance(now, &shard);
    }

    /// Makes it known that the lease is to be had: another worker of this library may ask for it, and is then told of
    /// as [`Effect::Drain`](super::Effect::Drain). Nothing happens if the lease is not held.
    pub fn offer(&mut self, now: Duration, shard: &ShardId, acquisition: Acquisition) {
        self.record(now, || Input::Offer(shard.clone(), acquisition));
        self.set_offered(now, shard, acquisition, true);
    }

    /// Takes back the offer. Another worker that has asked for the lease by then is still to have it. Nothing happens if
    /// the lease is not held.
    pub fn keep(&mut self, now: Duration, shard: &ShardId, acquisition: Acquisition) {
        self.record(now, || Input::Keep(shard.clone(), acquisition));
        self.set_offered(now, shard, acquisition, false);
    }

    fn set_offered(&mut self, now: Duration, shard: &ShardId, acquisition: Acquisition, is_offered: bool) {
        let grip = self.grips.get_mut(shard);
        let Some(grip) = grip.filter(|grip| grip.acquisition == acquisition && grip.is_held()) else {
            return;
        };
        let is_in_row = self.watch.rows.get(shard).is_some_and(|row| row.is_offered);
        if grip.will_be_offered().unwrap_or(is_in_row) != is_offered {
            let change = if is_offered { LeaseChange::Offer } else { LeaseChange::Keep };
            grip.wanted.push_back(Wanted { change, request: None });
            self.advance(now, shard);
        }
    }

    /// Takes no more leases and offers all that are held to the other workers of this library. Returns until when it
    /// is worth to wait for them to ask; `None` if there is nobody who could. [`Coordinator::stop_taking`] follows.
    pub fn leave(&mut self, now: Duration) -> Option<Duration> {
        self.record(now, || Input::Leave);
        let is_other = |row: &&Lease| row.is_of_peer() && row.owner.as_ref() != Some(&self.settings.worker);
        let is_live = |row: &&Lease| {
            !row.is_finished() && !self.watch.is_expired(now, &row.shard, self.settings.failover)
        };
        let mut others = self.watch.rows.values().filter(is_other).filter(is_live);
        if self.mode != Mode::Sharing || self.held() == 0 || !others.any(|row| !row.is_offered) {
            return None;
        }
        self.stop_sharing(now, Mode::Leaving);
        self.scan.hasten(now + self.leaving_scan_interval());
        let held: Vec<_> = self.grips.iter().filter(|(_, grip)| grip.is_held()).collect();
        let held: Vec<_> = held.into_iter().map(|(shard, grip)| (shard.clone(), grip.acquisition)).collect();
        for (shard, acquisition) in held {
            self.set_offered(now, &shard, acquisition, true);
        }
        Some(now + self.settings.failover * 6 / 10)
    }

    /// While others are to ask for our leases, the table is looked at more often.
    pub(super) fn leaving_scan_interval(&self) -> Duration {
        self.settings.failover / 20
    }

    pub(super) fn stop_sharing(&mut self, now: Duration, mode: Mode) {
        self.mode = mode;
        self.listing.due = None;
        self.reporting.due = None;
        self.retire();
        self.creation.drop_plan();
        let asking = self.grips.iter().filter(|(_, grip)| grip.stage == Stage::Asking);
        for shard in asking.map(|(shard, _)| shard.clone()).collect::<Vec<_>>() {
            self.withdraw(now, &shard);
        }
    }
}
