//! What a scan of the table tells.

use std::collections::BTreeSet;
use std::time::Duration;

use kinesis_record::ShardId;

use super::{Coordinator, Effect, Loss, Mode};
use crate::journal::Input;
use crate::lease::Lease;
use crate::store::StoreError;

impl Coordinator {
    /// All rows of the table, or why they could not be read.
    pub fn scanned(&mut self, now: Duration, rows: Result<Vec<Lease>, StoreError>) {
        self.record(now, || Input::Scanned(rows.clone()));
        let interval = match self.mode {
            Mode::Sharing => self.settings.failover / 2,
            Mode::Leaving => self.leaving_scan_interval(),
            Mode::Stopped => return,
        };
        let Ok(rows) = rows else {
            self.scan.failed(now, interval, &mut self.random);
            return;
        };
        self.scan.succeeded(now, interval, &mut self.random);
        let mut unseen: BTreeSet<ShardId> = self.watch.rows.keys().cloned().collect();
        for row in rows {
            unseen.remove(&row.shard);
            self.observe(now, row);
        }
        for shard in unseen {
            if self.grips.contains_key(&shard) {
                self.doubt(&shard);
            } else if !self.creation.is_newer_than_scan(&shard) {
                if self.watch.rows.get(&shard).is_some_and(|row| !row.is_finished()) {
                    self.listing.hasten(now);
                }
                self.watch.forget(&shard);
            }
        }
        if !std::mem::replace(&mut self.has_scanned, true) {
            self.plan_rows();
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
