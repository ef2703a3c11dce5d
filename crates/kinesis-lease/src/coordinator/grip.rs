//! This process's hold on one lease: one write at a time, each with a known outcome before the next.

use std::collections::VecDeque;
use std::time::Duration;

use kinesis_record::ShardId;

use super::{Acquisition, Effect, RequestId};
use crate::lease::{Lease, LeaseChange, NewLease, WorkerId};

/// A change that somebody waits for, or a renewal.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) change: LeaseChange,
    pub(super) request: Option<RequestId>,
}

/// What is under way.
#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    /// Asked for at `started`.
    Writing {
        wanted: Wanted,
        started: Duration,
    },
    /// The row is read, to learn how a write ended, or whether a row that a scan did not show is still there.
    LookingUp {
        wanted: Option<Wanted>,
        started: Duration,
    },
    /// The row could not be read either.
    InDoubt {
        wanted: Option<Wanted>,
        started: Duration,
        retry_at: Duration,
    },
}

/// What the row says of the write under way.
pub(super) enum Judgement {
    /// It was applied.
    Applied,
    /// It was not, and the lease is ours.
    NotApplied,
    /// The lease is not ours.
    NotOurs,
}

#[derive(Debug)]
pub(super) struct Grip {
    pub(super) acquisition: Acquisition,
    token: String,
    /// The row's counter after the last write that was applied.
    pub(super) counter: i64,
    /// Whether the lease is ours yet; before, it is being taken.
    pub(super) is_acquired: bool,
    /// Whether a KCL 3.x leader has promised the lease to another worker.
    pub(super) is_promised: bool,
    /// When the last write that was applied was asked for: nobody can have seen its counter before.
    valid_from: Duration,
    pub(super) phase: Phase,
    /// Nothing is written before, since the table refused the last write.
    pub(super) resume_at: Option<Duration>,
    pub(super) wanted: VecDeque<Wanted>,
    /// Rows that must exist before the shard may end.
    pub(super) children: Vec<NewLease>,
}

impl Grip {
    pub(super) fn new(acquisition: Acquisition, token: String, counter: i64) -> Self {
        Self {
            acquisition,
            token,
            counter,
            is_acquired: false,
            is_promised: false,
            valid_from: Duration::ZERO,
            phase: Phase::Idle,
            resume_at: None,
            wanted: VecDeque::new(),
            children: Vec::new(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Whether the row shows this very acquisition.
    pub(super) fn owns(&self, row: &Lease, worker: &WorkerId) -> bool {
        row.reader() == Some(worker) && row.token.as_ref() == Some(&self.token)
    }

    /// A lease is left a tenth of the failover time before another worker may take it, so that what was decided
    /// just before is done by then.
    pub(super) fn valid_until(&self, failover: Duration) -> Duration {
        self.valid_from + failover - failover / 10
    }

    pub(super) fn is_expired(&self, now: Duration, failover: Duration) -> bool {
        self.is_acquired && self.valid_until(failover) <= now
    }

    pub(super) fn renewal_due(&self, failover: Duration) -> Duration {
        self.valid_from + failover / 3
    }

    pub(super) fn next_wakeup(&self, failover: Duration) -> Option<Duration> {
        let next = match self.phase {
            Phase::Idle => Some(self.renewal_due(failover).max(self.resume_at.unwrap_or_default())),
            Phase::InDoubt { retry_at, .. } => Some(retry_at),
            Phase::Writing { .. } | Phase::LookingUp { .. } => None,
        };
        let expiry = self.is_acquired.then(|| self.valid_until(failover));
        next.into_iter().chain(expiry).min()
    }

    /// Begins to read the row. The write under way, if there is one, stays undecided until then.
    pub(super) fn look_up(&mut self, shard: &ShardId) -> Effect {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => Phase::LookingUp { wanted: None, started: self.valid_from },
            Phase::Writing { wanted, started } => Phase::LookingUp { wanted: Some(wanted), started },
            Phase::LookingUp { wanted, started } | Phase::InDoubt { wanted, started, .. } => {
                Phase::LookingUp { wanted, started }
            }
        };
        Effect::LookUp(self.acquisition, shard.clone())
    }

    pub(super) fn look_up_failed(&mut self, retry_at: Duration) {
        if let Phase::LookingUp { wanted, started } = std::mem::replace(&mut self.phase, Phase::Idle) {
            self.phase = Phase::InDoubt { wanted, started, retry_at };
        }
    }

    pub(super) fn judge(&self, row: &Lease, worker: &WorkerId) -> Judgement {
        let wanted = match &self.phase {
            Phase::Writing { wanted, .. } => Some(wanted),
            Phase::LookingUp { wanted, .. } | Phase::InDoubt { wanted, .. } => wanted.as_ref(),
            Phase::Idle => None,
        };
        let is_ours = self.owns(row, worker);
        let is_next = row.counter == self.counter + 1;
        let is_applied = match wanted.map(|wanted| &wanted.change) {
            Some(LeaseChange::Take { .. }) => is_ours,
            Some(LeaseChange::Renew) => is_ours && row.counter > self.counter,
            Some(LeaseChange::Checkpoint(checkpoint)) => {
                is_ours && row.counter > self.counter && row.checkpoint == *checkpoint
            }
            Some(LeaseChange::End { .. }) => row.is_finished(),
            Some(LeaseChange::Release) => row.owner.is_none() && is_next,
            Some(LeaseChange::HandOver) => {
                is_next && row.checkpoint_owner.is_none() && row.owner.as_ref() != Some(worker)
            }
            None => false,
        };
        match (is_applied, is_ours) {
            (true, _) => Judgement::Applied,
            (false, true) => Judgement::NotApplied,
            (false, false) => Judgement::NotOurs,
        }
    }

    /// The write under way was applied: the counter is one further. Returns what it was.
    pub(super) fn applied(&mut self) -> Option<Wanted> {
        let (wanted, started) = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Writing { wanted, started } => (wanted, started),
            Phase::LookingUp { wanted, started } | Phase::InDoubt { wanted, started, .. } => {
                (wanted?, started)
            }
            Phase::Idle => return None,
        };
        self.counter += 1;
        self.valid_from = started;
        self.is_acquired |= matches!(wanted.change, LeaseChange::Take { .. });
        Some(wanted)
    }

    /// The write under way was not applied although the lease is ours: it is tried again, against the counter that
    /// the row has.
    pub(super) fn retry(&mut self, counter: i64, resume_at: Duration) {
        self.counter = counter;
        self.resume_at = Some(resume_at);
        let wanted = self.end_phase();
        self.wanted.extend(wanted.into_iter().filter(|wanted| wanted.request.is_some()));
        self.wanted.rotate_right(usize::from(self.wanted.len() > 1));
    }

    /// The write under way was refused by the table itself. Returns who must be told.
    pub(super) fn not_written(&mut self, resume_at: Duration) -> Option<RequestId> {
        self.resume_at = Some(resume_at);
        self.end_phase()?.request
    }

    pub(super) fn creation_failed(&mut self, child: &ShardId, resume_at: Duration) {
        if self.children.iter().any(|awaited| awaited.shard == *child) {
            self.resume_at = Some(resume_at);
        }
    }

    /// Whoever waits for an answer.
    pub(super) fn requests(&mut self) -> Vec<RequestId> {
        let under_way = self.end_phase();
        under_way.into_iter().chain(self.wanted.drain(..)).filter_map(|wanted| wanted.request).collect()
    }

    fn end_phase(&mut self) -> Option<Wanted> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Writing { wanted, .. } => Some(wanted),
            Phase::LookingUp { wanted, .. } | Phase::InDoubt { wanted, .. } => wanted,
            Phase::Idle => None,
        }
    }
}
