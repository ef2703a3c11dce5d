//! What a scan of the table tells.

use std::collections::BTreeSet;
use std::time::Duration;

use kinesis_record::ShardId;

use super::{Coordinator, Effect, Loss, Mode};
use crate::journal::Input;
use crate::lease::Lease;
use crate::store::{Scan, StoreError};

impl Coordinator {
    /// All rows of the table, or why they could not be read.
    pub fn scanned(&mut self, now: Duration, scan: Result<Scan, StoreError>) {
        self.record(now, || Input::Scanned(scan.clone()));
        let interval = match self.mode {
            Mode::Sharing => self.settings.failover / 2,
            Mode::Leaving => self.leaving_scan_interval(),
            Mode::Stopped => return,
        };
        let Ok(Scan { leases, unreadable }) = scan else {
            self.scan.failed(now, interval, &mut self.random);
            return;
        };
        self.scan.succeeded(now, interval, &mut self.random);
        let mut unseen: BTreeSet<ShardId> = self.watch.rows.keys().cloned().collect();
        let no_longer = self.watch.cannot_read(now, unreadable);
        self.notice_shared_name(now, &leases);
        for row in leases {
            unseen.remove(&row.shard);
            self.observe(now, row);
        }
        for shard in unseen {
            if self.grips.contains_key(&shard) {
                self.doubt(&shard);
            } else if self.watch.unreadable().contains_key(&shard) {
                self.watch.forget(&shard);
            } else if !self.creation.is_newer_than_scan(&shard) {
                if self.watch.rows.get(&shard).is_some_and(|row| !row.is_finished()) {
                    self.listing.hasten(now);
                }
                self.watch.forget(&shard);
            }
        }
        if no_longer.iter().any(|shard| !self.watch.has_row(shard)) {
            self.listing.hasten(now);
        }
        let shows_unseen = self.creation.scanned();
        let is_first = !std::mem::replace(&mut self.has_scanned, true);
        if is_first || shows_unseen {
            self.plan_rows(now);
        }
        if is_first {
            self.begin_to_report(now);
        }
        self.look_at_expiries(now);
        self.take_available(now);
        self.balance(now);
        self.note_unread(now);
        self.retire_if_full();
    }

    /// Takes note of a row, which may be older than what this process knows of its own leases.
    fn observe(&mut self, now: Duration, row: Lease) {
        let Some(grip) = self.grips.get(&row.shard) else {
            return self.watch.see(now, row);
        };
        if grip.is_asking() {
            return self.watch.see(now, row);
        }
        if !grip.is_taken() || row.counter < grip.counter {
            return;
        }
        let shard = row.shard.clone();
        let is_ours = grip.owns(&row, &self.settings.worker) && !self.is_taken_with_its_promise(&row);
        if is_ours {
            self.watch.know(row);
            self.notice_request(&shard);
        } else if grip.is_idle() {
            self.lose(&shard, Loss::Taken { by: row.reader().cloned() });
            self.watch.see(now, row);
        }
    }

    /// Tells of it once if another process renews leases under our name. What scans show of it for less than a
    /// failover time may be the last that a process did before it died.
    fn notice_shared_name(&mut self, now: Duration, leases: &[Lease]) {
        let Some(row) = leases.iter().find(|row| self.is_renewed_by_namesake(row)) else { return };
        let since = *self.namesake_since.get_or_insert(now);
        let is_alive = now >= since + self.settings.failover;
        if is_alive && !std::mem::replace(&mut self.is_namesake_told, true) {
            self.effects.push_back(Effect::SharedName(row.shard.clone()));
        }
    }

    fn is_renewed_by_namesake(&self, row: &Lease) -> bool {
        let is_anothers = row.reader() == Some(&self.settings.worker)
            && row.is_read_by_peer()
            && !row.is_given_to(&self.settings.worker)
            && row.token.as_ref().is_some_and(|token| !token.starts_with(&self.token));
        let known = self.watch.rows.get(&row.shard);
        is_anothers && known.is_some_and(|known| known.token == row.token && known.counter < row.counter)
    }

    /// Tells of it once if another worker is to have a lease of ours.
    pub(super) fn notice_request(&mut self, shard: &ShardId) {
        let (Some(grip), Some(row)) = (self.grips.get_mut(shard), self.watch.rows.get(shard)) else { return };
        let is_asked = row.asked_by.as_ref().is_some_and(|by| *by != self.settings.worker);
        let is_parting = row.is_promised() || is_asked;
        if is_parting && grip.is_held() && !std::mem::replace(&mut grip.is_parting, true) {
            self.effects.push_back(Effect::Drain(shard.clone(), grip.acquisition));
        }
    }

    /// Looks up the row of a held lease that a scan did not show.
    fn doubt(&mut self, shard: &ShardId) {
        if let Some(grip) = self.grips.get_mut(shard).filter(|grip| grip.is_idle()) {
            self.effects.push_back(grip.look_up(shard));
        }
    }
}
