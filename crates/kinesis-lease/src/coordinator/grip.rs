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

/// How far the lease is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its owner, a worker of this library, is being asked for it, or has been and is waited for.
    Asking,
    /// What its owner was asked for is being taken back.
    Withdrawing,
    /// It is being taken.
    Taking,
    /// It is ours.
    Held,
    /// It is ours, yet nobody was told: it came when it was not wanted any more, and is given back.
    Unwanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Writing,
    /// The row is read, to learn how a write ended, or whether a row that a scan did not show is still there.
    LookingUp,
    /// The row could not be read either.
    InDoubt {
        retry_at: Duration,
    },
}

/// What the row says of the write under way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It was applied.
    Applied,
    /// It was not, and the lease is ours, or was given to us.
    NotApplied,
    /// The lease is not ours.
    NotOurs,
}

/// A request to the owner of a lease to give it to us.
#[derive(Debug)]
pub(super) struct Asked {
    /// The owner's acquisition.
    pub(super) of: Option<String>,
    /// The owner is not waited for any longer.
    pub(super) until: Duration,
    /// When the row is looked at next.
    pub(super) look_at: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Grip {
    pub(super) acquisition: Acquisition,
    pub(super) token: String,
    /// How many times in a row the row could not be read.
    failed_look_ups: u32,
    /// The row's counter as this process knows it: after the last write that was applied.
    pub(super) counter: i64,
    pub(super) stage: Stage,
    pub(super) asked: Option<Asked>,
    /// Whether our worker was told that another one is to have the lease.
    pub(super) is_parting: bool,
    /// When the last write that was applied was asked for: nobody can have seen its counter before.
    valid_from: Duration,
    phase: Phase,
    /// The write under way and when it was asked for.
    under_way: Option<(Wanted, Duration)>,
    /// When the first write at the present counter was asked for whose reply was lost. It may be applied late, even
    /// after a look-up that did not show it, and what the row shows then may be as old as that.
    undecided_since: Option<Duration>,
    /// Nothing is written before, since the table refused the last write.
    pub(super) resume_at: Option<Duration>,
    pub(super) wanted: VecDeque<Wanted>,
    /// Rows that must exist before the shard may end.
    pub(super) children: Vec<NewLease>,
    /// They are not asked for before, since the creation of one has failed.
    pub(super) create_at: Option<Duration>,
}

impl Grip {
    /// A lease that is being taken, or asked for.
    pub(super) fn new(acquisition: Acquisition, token: String, counter: i64, change: LeaseChange) -> Self {
        Self {
            acquisition,
            token,
            failed_look_ups: 0,
            counter,
            stage: Stage::Taking,
            asked: None,
            is_parting: false,
            valid_from: Duration::ZERO,
            phase: Phase::Idle,
            under_way: None,
            undecided_since: None,
            resume_at: None,
            wanted: VecDeque::from([Wanted { change, request: None }]),
            children: Vec::new(),
            create_at: None,
        }
    }

    /// Whether the row shows us as the reader, as far as this process knows.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.stage, Stage::Held | Stage::Unwanted)
    }

    /// Whether the lease is still its owner's.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Asking | Stage::Withdrawing)
    }

    pub(super) fn is_held(&self) -> bool {
        self.stage == Stage::Held
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether a write may be started.
    pub(super) fn is_ready(&self, now: Duration) -> bool {
        self.is_idle() && self.resume_at.is_none_or(|resume_at| resume_at <= now)
    }

    /// Whether the row shows this very acquisition.
    pub(super) fn owns(&self, row: &Lease, worker: &WorkerId) -> bool {
        row.reader() == Some(worker) && row.token.as_ref() == Some(&self.token)
    }

    pub(super) fn awaits(&self, child: &ShardId) -> bool {
        self.children.iter().any(|awaited| awaited.shard == *child)
    }

    /// A lease is left a tenth of the failover time before another worker may take it, so that what was decided
    /// just before is done by then.
    pub(super) fn valid_until(&self, failover: Duration) -> Duration {
        self.valid_from + failover - failover / 10
    }

    pub(super) fn is_expired(&self, now: Duration, failover: Duration) -> bool {
        self.is_taken() && self.valid_until(failover) <= now
    }

    pub(super) fn is_renewal_due(&self, now: Duration, failover: Duration) -> bool {
        self.is_held() && self.renewal_due(failover) <= now
    }

    fn renewal_due(&self, failover: Duration) -> Duration {
        self.valid_from + failover / 3
    }

    pub(super) fn is_look_up_due(&self, now: Duration) -> bool {
        match self.phase {
            Phase::InDoubt { retry_at } => retry_at <= now,
            Phase::Idle => self.look_at().is_some_and(|look_at| look_at <= now),
            Phase::Writing | Phase::LookingUp => false,
        }
    }

    /// When the row of a lease that its owner was asked for is looked at next.
    fn look_at(&self) -> Option<Duration> {
        self.asked.as_ref().filter(|_| self.wanted.is_empty())?.look_at
    }

    pub(super) fn next_wakeup(&self, failover: Duration) -> Option<Duration> {
        let next = match self.phase {
            Phase::Idle => {
                let renewal = self.is_held().then(|| self.renewal_due(failover));
                let resumption = self.resume_at.filter(|_| !self.wanted.is_empty());
                let creation = self.create_at.filter(|_| !self.children.is_empty());
                let next = renewal.into_iter().chain(resumption).chain(creation).chain(self.look_at()).min();
                next.max(self.resume_at.filter(|_| next.is_some()))
            }
            Phase::InDoubt { retry_at } => Some(retry_at),
            Phase::Writing | Phase::LookingUp => None,
        };
        let expiry = self.is_taken().then(|| self.valid_until(failover));
        next.into_iter().chain(expiry).min()
    }

    pub(super) fn begin(&mut self, now: Duration, wanted: Wanted) {
        self.phase = Phase::Writing;
        self.under_way = Some((wanted, now));
    }

    /// Whether there is a write of which nobody knows yet how it ended.
    pub(super) fn is_undecided(&self) -> bool {
        self.under_way.is_some()
    }

    /// Nobody knows whether the write under way was, or will be, applied.
    pub(super) fn reply_lost(&mut self) {
        let started = self.under_way.as_ref().map(|(_, started)| *started);
        self.undecided_since = self.undecided_since.or(started);
    }

    /// Whether the lease will be offered when all that is wanted is written; nothing if none of it changes that.
    pub(super) fn will_be_offered(&self) -> Option<bool> {
        let under_way = self.under_way.iter().map(|(wanted, _)| wanted);
        under_way.chain(&self.wanted).rev().find_map(|wanted| match wanted.change {
            LeaseChange::Offer => Some(true),
            LeaseChange::Keep => Some(false),
            _ => None,
        })
    }

    /// Begins to read the row. The write under way, if there is one, stays undecided until then.
    pub(super) fn look_up(&mut self, shard: &ShardId) -> Effect {
        self.phase = Phase::LookingUp;
        Effect::LookUp(self.acquisition, shard.clone())
    }

    /// Tries again after a twentieth of the failover time, then after twice as long each time, up to a quarter of it.
    pub(super) fn look_up_failed(&mut self, now: Duration, failover: Duration) {
        let pause = (failover / 20 * 2u32.saturating_pow(self.failed_look_ups)).min(failover / 4);
        self.failed_look_ups = (self.failed_look_ups + 1).min(8);
        self.phase = Phase::InDoubt { retry_at: now + pause };
    }

    pub(super) fn looked_up(&mut self) {
        self.failed_look_ups = 0;
    }

    pub(super) fn judge(&self, row: &Lease, worker: &WorkerId) -> Judgement {
        let is_ours = self.owns(row, worker);
        let has_moved = row.counter > self.counter;
        let is_next = self.counter.checked_add(1) == Some(row.counter);
        let is_applied = match self.under_way.as_ref().map(|(wanted, _)| &wanted.change) {
            Some(LeaseChange::Take { .. }) => is_ours,
            Some(LeaseChange::Renew) => is_ours && has_moved,
            Some(LeaseChange::Checkpoint(checkpoint)) => {
                is_ours && has_moved && row.checkpoint == *checkpoint
            }
            Some(LeaseChange::End { .. }) => row.is_finished(),
            // If its reply was lost, another worker may have taken the lease since.
            Some(LeaseChange::Release) => {
                (row.owner.is_none() && is_next) || (self.undecided_since.is_some() && !is_ours && has_moved)
            }
            Some(LeaseChange::HandOver) => {
                is_next && row.checkpoint_owner.is_none() && row.owner.as_ref() != Some(worker)
            }
            Some(LeaseChange::Offer) => is_ours && has_moved && row.is_offered,
            Some(LeaseChange::Keep) => is_ours && has_moved && !row.is_offered,
            // Whoever was asked by cannot have got it otherwise before the lease had expired.
            Some(LeaseChange::Give { to, .. }) => has_moved && row.reader() == Some(to),
            Some(LeaseChange::Ask { .. } | LeaseChange::Withdraw { .. } | LeaseChange::BeginAnew(_))
            | None => false,
        };
        match (is_applied, is_ours) {
            (true, _) => Judgement::Applied,
            (false, true) => Judgement::NotApplied,
            (false, false) if self.stage == Stage::Taking && row.is_given_to(worker) => Judgement::NotApplied,
            (false, false) => Judgement::NotOurs,
        }
    }

    /// The write under way was applied. `found` is the row that shows it; without one, the table said so. Returns
    /// what was written.
    pub(super) fn applied(&mut self, found: Option<&Lease>) -> Option<Wanted> {
        let (wanted, started) = self.under_way.take()?;
        self.phase = Phase::Idle;
        let undecided_since = self.undecided_since.take();
        (self.counter, self.valid_from) = match found {
            None => (self.counter.saturating_add(i64::from(wanted.change.raises_counter())), started),
            Some(row) => (row.counter, undecided_since.unwrap_or_default().max(self.valid_from)),
        };
        Some(wanted)
    }

    /// Goes on with another change than the one under way, from the row's counter.
    pub(super) fn turn_to(&mut self, stage: Stage, counter: i64, change: LeaseChange) {
        self.stage = stage;
        self.asked = self.asked.take().filter(|_| matches!(stage, Stage::Asking | Stage::Withdrawing));
        self.phase = Phase::Idle;
        self.under_way = None;
        self.undecided_since = None;
        self.resume_at = None;
        self.counter = counter;
        self.wanted = VecDeque::from([Wanted { change, request: None }]);
    }

    /// The owner has been asked, and the row is looked at again at `look_at`.
    pub(super) fn await_owner(&mut self, counter: i64, look_at: Duration) {
        self.phase = Phase::Idle;
        self.under_way = None;
        self.undecided_since = None;
        self.counter = counter;
        if let Some(asked) = &mut self.asked {
            asked.look_at = Some(look_at);
        }
    }

    /// The lease is ours, and the write under way, if there is one, was not applied: it is tried again, against the
    /// counter that the row has.
    pub(super) fn retry(&mut self, counter: i64, resume_at: Duration) {
        self.phase = Phase::Idle;
        if self.counter != counter {
            self.counter = counter;
            self.undecided_since = None;
        }
        if let Some((wanted, _)) = self.under_way.take() {
            self.resume_at = Some(resume_at);
            if !matches!(wanted.change, LeaseChange::Renew) {
                self.wanted.push_front(wanted);
            }
        }
    }

    /// The write under way was refused by the table itself. Returns who is to be told: nobody while an earlier try
    /// may still be applied, in which case it is tried again.
    pub(super) fn not_written(&mut self, resume_at: Duration) -> Option<RequestId> {
        let request = self.under_way.as_ref().and_then(|(wanted, _)| wanted.request);
        let is_told = request.is_some() && self.undecided_since.is_none();
        if is_told {
            self.under_way = None;
        }
        self.retry(self.counter, resume_at);
        self.resume_at = Some(resume_at);
        request.filter(|_| is_told)
    }

    /// Whoever waits for an answer.
    pub(super) fn requests(&mut self) -> Vec<RequestId> {
        let under_way = self.under_way.take().map(|(wanted, _)| wanted);
        under_way.into_iter().chain(self.wanted.drain(..)).filter_map(|wanted| wanted.request).collect()
    }
}
