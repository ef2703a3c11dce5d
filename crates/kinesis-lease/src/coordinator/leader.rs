//! The leader of a KCL 3.x fleet on the same table: reported to, and left to balance.
//!
//! It gives leases to workers that report to it, counts theirs, and moves them from one to the other by what their
//! shards carry. Equal counts beside that would move leases to and fro for ever, so while it lives nothing is moved from
//! here. Leases that are free or have expired are taken as ever: the leader's write and ours exclude each other.

use std::time::Duration;

use super::{Coordinator, Effect, Mode};
use crate::journal::Input;
use crate::store::{LeaderPulse, Reported, StoreError};

/// How often a worker reports and a leader shows that it lives, as in the KCL, which forgets a worker after twice that.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// A leader that has not shown itself for so long balances no more.
const LEADER_TIME: Duration = Duration::from_secs(90);

/// Who balances the fleet besides this library's workers.
#[derive(Debug)]
pub(super) enum Leader {
    /// Nothing was reported yet.
    Unknown,
    Nobody,
    /// A leader, and since when it has not shown itself.
    Kcl {
        pulse: LeaderPulse,
        seen: Duration,
    },
}

impl Coordinator {
    /// A report was stored, or was of no use, or failed.
    pub fn reported(&mut self, now: Duration, reported: Result<Reported, StoreError>) {
        self.record(now, || Input::Reported(reported.clone()));
        if self.mode != Mode::Sharing {
            return;
        }
        self.reporting.succeeded(now, REPORT_INTERVAL, &mut self.random);
        self.is_reported |= matches!(reported, Ok(Reported::Stored(_)));
        let Ok(Reported::Stored(Some(latest))) = reported else {
            self.leader = Leader::Nobody;
            return;
        };
        match &self.leader {
            Leader::Kcl { pulse, .. } if *pulse == latest => {}
            _ => self.leader = Leader::Kcl { pulse: latest, seen: now },
        }
    }

    /// Reports this worker, unless it has all the leases that it may have.
    pub(super) fn report(&mut self, now: Duration) {
        if self.grips.len() < self.settings.max_leases {
            self.reporting.due = None;
            self.effects.push_back(Effect::Report);
        } else {
            self.leader = Leader::Nobody;
            self.reporting.succeeded(now, REPORT_INTERVAL, &mut self.random);
            self.retire();
        }
    }

    /// From now on the leader is to give this worker no leases.
    pub(super) fn retire(&mut self) {
        if std::mem::take(&mut self.is_reported) {
            self.effects.push_back(Effect::Retire);
        }
    }

    /// Whether a leader balances the fleet, this worker's leases included, or may do so for all that is known.
    pub(super) fn is_led(&self, now: Duration) -> bool {
        match &self.leader {
            Leader::Unknown => true,
            Leader::Nobody => false,
            Leader::Kcl { seen, .. } => now < *seen + LEADER_TIME,
        }
    }
}
