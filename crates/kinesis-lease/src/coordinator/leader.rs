//! The leader of a KCL 3.x fleet on the same table: reported to, and left to balance.
//!
//! It gives leases to workers that report to it, counts theirs, and moves them from one to the other by what their
//! shards carry. Equal counts beside that would move leases to and fro for ever, so while it lives nothing is moved from
//! here. Leases that are free or have expired are taken as ever: the leader's write and ours exclude each other.

use std::time::Duration;

use super::{Coordinator, Effect, Mode};
use crate::journal::Input;
use crate::store::{LeaderPulse, Reported, StoreError};

/// How often a worker reports, or looks whether reports are wanted, as in the KCL, whose leader forgets a worker after
/// twice that.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// How often it is tried whether reports are allowed that were refused.
const REFUSED_INTERVAL: Duration = Duration::from_secs(120);

/// For so long after the start there may be a leader for all that is known, if nobody can be asked.
const UNKNOWN_TIME: Duration = Duration::from_secs(120);

/// What is known of a leader, and what it knows of this worker.
#[derive(Debug, Default)]
pub(super) struct Leader {
    pulse: Option<LeaderPulse>,
    /// Until when it is left to balance, unless it shows itself again.
    until: Duration,
    /// Whether it may know of this worker.
    is_told: bool,
    /// Whether the last report was one, and not just a look.
    wants_leases: bool,
    /// How many calls are under way.
    calls: usize,
}

impl Leader {
    fn note(&mut self, now: Duration, reported: &Result<Reported, StoreError>) {
        match reported {
            // A call that failed, or a look at a lock that changes hands, says nothing against a leader.
            Err(error) if error.is_passing() => {}
            Ok(Reported::Stored(Some(latest))) if self.pulse.as_ref() == Some(latest) => {}
            Ok(Reported::Stored(Some(latest))) => {
                self.until = now + latest.valid_for;
                self.pulse = Some(latest.clone());
            }
            _ if self.pulse.is_none() => self.until = now,
            _ => {}
        }
    }
}

impl Coordinator {
    /// The table is known: from now on this worker reports.
    pub(super) fn begin_to_report(&mut self, now: Duration) {
        self.leader.until = now + UNKNOWN_TIME;
        self.reporting.due = Some(now);
    }

    /// Reports this worker, unless it has all the leases that it may have: then it only looks for a leader.
    pub(super) fn report(&mut self) {
        self.reporting.due = None;
        self.leader.calls += 1;
        let wants_leases = self.grips.len() < self.settings.max_leases;
        self.leader.wants_leases = wants_leases;
        self.effects.push_back(Effect::Report { wants_leases });
    }

    /// How a report ended.
    pub fn reported(&mut self, now: Duration, reported: Result<Reported, StoreError>) {
        self.record(now, || Input::Reported(reported.clone()));
        self.leader.calls = self.leader.calls.saturating_sub(1);
        let may_be_stored = match &reported {
            Ok(Reported::Stored(_)) => true,
            Ok(Reported::Unwanted) => false,
            Err(error) => error.may_have_applied(),
        };
        self.leader.is_told |= self.leader.wants_leases && may_be_stored;
        let is_refused = reported.as_ref().is_err_and(|error| !error.is_passing());
        if self.mode != Mode::Sharing || is_refused {
            self.retire();
        }
        if self.mode != Mode::Sharing {
            return;
        }
        match &reported {
            Ok(_) => self.reporting.succeeded(now, REPORT_INTERVAL, &mut self.random),
            Err(_) if is_refused => self.reporting.succeeded(now, REFUSED_INTERVAL, &mut self.random),
            Err(_) => self.reporting.failed(now, REPORT_INTERVAL, &mut self.random),
        }
        self.leader.note(now, &reported);
    }

    /// A leader is to give no more leases to a worker that has all it may have.
    pub(super) fn retire_if_full(&mut self) {
        if self.grips.len() >= self.settings.max_leases {
            self.retire();
        }
    }

    /// From now on the leader is to give this worker no leases. While a report is under way that waits for its end.
    pub(super) fn retire(&mut self) {
        if self.leader.calls == 0 && std::mem::take(&mut self.leader.is_told) {
            self.leader.calls += 1;
            self.effects.push_back(Effect::Retire);
        }
    }

    /// What was reported of this worker is taken back, or will be forgotten by the leader.
    pub fn retired(&mut self, now: Duration) {
        self.record(now, || Input::Retired);
        self.leader.calls = self.leader.calls.saturating_sub(1);
    }

    /// Whether a call to or for the leader is under way.
    pub(super) fn is_reporting(&self) -> bool {
        self.leader.calls > 0
    }

    /// Whether a leader balances the fleet, this worker's leases included, or may do so for all that is known.
    pub(super) fn is_led(&self, now: Duration) -> bool {
        now < self.leader.until
    }
}
