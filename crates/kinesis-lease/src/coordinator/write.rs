//! Writing to leases that are ours, and learning how a write ended.

use std::time::Duration;

use kinesis_record::ShardId;

use super::grip::{Grip, Judgement, Stage, Wanted};
use super::{Acquisition, Coordinator, Effect, Loss, RequestError, RequestId};
use crate::journal::Input;
use crate::lease::{Lease, LeaseChange, LeaseWrite, WorkerId, given_token};
use crate::lineage;
use crate::store::{StoreError, Written};

impl Coordinator {
    /// How a write ended.
    pub fn written(
        &mut self,
        now: Duration,
        acquisition: Acquisition,
        write: LeaseWrite,
        outcome: Result<Written, StoreError>,
    ) {
        self.record(now, || Input::Written(acquisition, write.clone(), outcome.clone()));
        let shard = write.shard;
        let Some(grip) = self.grips.get_mut(&shard).filter(|grip| grip.acquisition == acquisition) else {
            return;
        };
        match outcome {
            Ok(Written::Applied(row)) => self.apply(now, &shard, row.map(|row| *row), Known::Told),
            Ok(Written::Refused(Some(row))) => self.judge(now, *row),
            Ok(Written::Refused(None)) => self.effects.push_back(grip.look_up(&shard)),
            Err(StoreError::Unreadable(_)) => self.lose_sight_of(now, &shard),
            Err(error) if error.may_have_applied() => {
                grip.reply_lost();
                self.effects.push_back(grip.look_up(&shard));
            }
            Err(error) => self.not_written(now, &shard, error),
        }
    }

    /// A row that was looked up, or why it could not be.
    pub fn looked_up(
        &mut self,
        now: Duration,
        acquisition: Acquisition,
        shard: &ShardId,
        row: Result<Option<Lease>, StoreError>,
    ) {
        self.record(now, || Input::LookedUp(acquisition, shard.clone(), row.clone()));
        let Some(grip) = self.grips.get_mut(shard).filter(|grip| grip.acquisition == acquisition) else {
            return;
        };
        match row {
            Ok(Some(row)) => {
                grip.looked_up();
                self.judge(now, row);
            }
            Ok(None) => {
                // Whether it was finished and cleaned up, or is to be made again, only a scan can tell.
                self.lose(shard, Loss::RowDeleted);
                self.scan.hasten(now);
            }
            Err(StoreError::Unreadable(_)) => self.lose_sight_of(now, shard),
            Err(_) => grip.look_up_failed(now, self.settings.failover),
        }
    }

    /// Does what is due for a lease: gives it up if it was not renewed in time, looks it up again, or starts the next
    /// write if none is under way.
    pub(super) fn advance(&mut self, now: Duration, shard: &ShardId) {
        let failover = self.settings.failover;
        let Some(grip) = self.grips.get_mut(shard) else { return };
        if grip.is_expired(now, failover) {
            self.lose(shard, Loss::Expired);
        } else if grip.is_look_up_due(now) {
            self.effects.push_back(grip.look_up(shard));
        } else if grip.is_ready(now) {
            grip.resume_at = None;
            if let Some(wanted) = self.next_wanted(now, shard) {
                self.write(now, shard, wanted);
            } else if self.grips.get(shard).is_some_and(|grip| grip.is_renewal_due(now, failover)) {
                self.write(now, shard, Wanted { change: LeaseChange::Renew, request: None });
            }
        }
    }

    /// The first change that can be written now. Changes that need no write are answered on the way.
    fn next_wanted(&mut self, now: Duration, shard: &ShardId) -> Option<Wanted> {
        let mut index = 0;
        loop {
            match self.admit(now, shard, index)? {
                Admission::Write => return self.grips.get_mut(shard)?.wanted.remove(index),
                Admission::Wait => index += 1,
                Admission::Answer(answer) => {
                    let wanted = self.grips.get_mut(shard)?.wanted.remove(index)?;
                    self.answer(wanted.request, answer);
                }
            }
        }
    }

    fn admit(&mut self, now: Duration, shard: &ShardId, index: usize) -> Option<Admission> {
        let grip = self.grips.get_mut(shard)?;
        Some(match &mut grip.wanted.get_mut(index)?.change {
            LeaseChange::Checkpoint(checkpoint) => {
                match self.watch.rows.get(shard).map(|row| (*checkpoint).cmp(&row.checkpoint)) {
                    Some(std::cmp::Ordering::Less) => Admission::Answer(Err(RequestError::Backwards)),
                    Some(std::cmp::Ordering::Equal) => Admission::Answer(Ok(())),
                    _ => Admission::Write,
                }
            }
            LeaseChange::End { .. } => {
                grip.children.retain(|child| !self.watch.has_row(&child.shard));
                if grip.create_at.is_none_or(|create_at| create_at <= now) {
                    grip.create_at = None;
                    for child in &grip.children {
                        let has_row = |shard: &ShardId| self.watch.has_row(shard);
                        if lineage::may_create(child, shard, has_row, self.list.as_ref()?) {
                            self.effects.extend(self.creation.ask(now, child));
                            if !self.creation.is_under_way(&child.shard) {
                                let again_at = self.creation.retry_at().unwrap_or_default();
                                grip.create_at = Some(again_at.max(now + self.settings.failover / 10));
                            }
                        } else {
                            self.listing.hasten(now);
                            grip.create_at = Some(now + self.settings.failover / 10);
                        }
                    }
                }
                if grip.children.is_empty() { Admission::Write } else { Admission::Wait }
            }
            change @ (LeaseChange::Release | LeaseChange::HandOver | LeaseChange::Give { .. }) => {
                *change = parting_change(self.watch.rows.get(shard), &self.settings.worker);
                Admission::Write
            }
            LeaseChange::Renew
            | LeaseChange::Take { .. }
            | LeaseChange::Ask { .. }
            | LeaseChange::Withdraw { .. }
            | LeaseChange::BeginAnew(_)
            | LeaseChange::Offer
            | LeaseChange::Keep => Admission::Write,
        })
    }

    fn write(&mut self, now: Duration, shard: &ShardId, wanted: Wanted) {
        let Some(grip) = self.grips.get_mut(shard) else { return };
        let write = LeaseWrite {
            shard: shard.clone(),
            expected_counter: grip.counter,
            change: wanted.change.clone(),
        };
        self.effects.push_back(Effect::Write(grip.acquisition, write));
        grip.begin(now, wanted);
    }

    /// The write under way was refused by the table itself.
    fn not_written(&mut self, now: Duration, shard: &ShardId, error: StoreError) {
        let Some(grip) = self.grips.get_mut(shard) else { return };
        let is_given = self.watch.rows.get(shard).is_some_and(|row| row.is_given_to(&self.settings.worker));
        if !grip.is_taken() && !is_given && grip.stage != Stage::Withdrawing {
            self.grips.remove(shard);
            return;
        }
        let resume_at = now + self.settings.failover / 20;
        if let Some(request) = grip.not_written(resume_at) {
            self.answer(Some(request), Err(RequestError::Store(error)));
        }
        self.advance(now, shard);
    }

    /// The write under way was applied. `row` is the row with it.
    fn apply(&mut self, now: Duration, shard: &ShardId, row: Option<Lease>, known: Known) {
        let Some(grip) = self.grips.get_mut(shard) else { return };
        let found = row.as_ref().filter(|_| known == Known::Found);
        let Some(Wanted { change, request }) = grip.applied(found) else { return };
        let row = row.or_else(|| {
            let mut row = self.watch.rows.get(shard)?.clone();
            row.counter = grip.counter;
            change.apply_to(&mut row);
            Some(row)
        });
        match change {
            LeaseChange::Ask { .. } => {
                let look_at = now + self.look_pause();
                if let Some(grip) = self.grips.get_mut(shard) {
                    grip.await_owner(grip.counter, look_at);
                }
                if let Some(row) = row {
                    self.watch.see(now, row);
                }
                self.advance(now, shard);
            }
            LeaseChange::End { .. }
            | LeaseChange::Release
            | LeaseChange::HandOver
            | LeaseChange::Give { .. }
            | LeaseChange::BeginAnew(_)
            | LeaseChange::Withdraw { .. } => {
                let queued = self.grips.remove(shard).map(|mut grip| grip.requests());
                if let Some(row) = row {
                    self.watch.see(now, row);
                }
                self.answer(request, Ok(()));
                for request in queued.into_iter().flatten() {
                    self.answer(Some(request), Err(RequestError::NotHeld));
                }
            }
            LeaseChange::Take { .. }
            | LeaseChange::Renew
            | LeaseChange::Checkpoint(_)
            | LeaseChange::Offer
            | LeaseChange::Keep => {
                if let Some(row) = row {
                    self.watch.know(row);
                }
                self.extend(now, shard, matches!(change, LeaseChange::Take { .. }));
                self.answer(request, Ok(()));
                self.notice_request(shard);
                self.advance(now, shard);
            }
        }
        match change {
            LeaseChange::End { .. } => {
                self.listing.hasten(now);
                self.take_children(now, shard);
                self.take_available(now);
            }
            LeaseChange::Take { .. } => self.take_more(now),
            _ => {}
        }
    }

    fn extend(&mut self, now: Duration, shard: &ShardId, is_taken: bool) {
        let Some(grip) = self.grips.get(shard) else { return };
        let (acquisition, valid_until) = (grip.acquisition, grip.valid_until(self.settings.failover));
        if is_taken {
            self.taken(shard, valid_until <= now);
        }
        if valid_until > now && self.grips.get(shard).is_some_and(Grip::is_held) {
            self.effects.push_back(Effect::Extended(shard.clone(), acquisition, valid_until));
        }
    }

    /// Whether another worker has taken a lease that was promised to a third: a KCL 2.x leaves `checkpointOwner` in the
    /// row, so that it still names us.
    pub(super) fn is_taken_with_its_promise(&self, row: &Lease) -> bool {
        let has_taken =
            |known: &Lease| known.is_promised() && row.owner != known.owner && row.counter > known.counter;
        row.is_promised() && self.watch.rows.get(&row.shard).is_some_and(has_taken)
    }

    /// Concludes from the row as it is how the write under way ended.
    fn judge(&mut self, now: Duration, row: Lease) {
        let shard = row.shard.clone();
        let is_taken = self.is_taken_with_its_promise(&row);
        let Some(grip) = self.grips.get_mut(&shard) else { return };
        if grip.is_asking() {
            return self.judge_asked(now, row);
        }
        // Counters are never reset.
        let is_made_anew = row.reader().is_none() && row.counter < grip.counter;
        let loss = if is_made_anew { Loss::RowDeleted } else { Loss::Taken { by: row.reader().cloned() } };
        let judgement = if is_taken { Judgement::NotOurs } else { grip.judge(&row, &self.settings.worker) };
        match judgement {
            Judgement::Applied => self.apply(now, &shard, Some(row), Known::Found),
            Judgement::NotApplied => {
                grip.retry(row.counter, now + self.settings.failover / 20);
                self.watch.know(row);
                self.notice_request(&shard);
                self.advance(now, &shard);
            }
            Judgement::NotOurs => {
                self.lose(&shard, loss);
                self.watch.see(now, row);
                self.take_more(now);
            }
        }
    }

    /// The row cannot be read any more: the lease is nobody's until it can be.
    fn lose_sight_of(&mut self, now: Duration, shard: &ShardId) {
        self.lose(shard, Loss::RowUnreadable);
        self.watch.lose_sight_of(now, shard);
        self.take_more(now);
    }

    pub(super) fn lose(&mut self, shard: &ShardId, loss: Loss) {
        let Some(mut grip) = self.grips.remove(shard) else { return };
        for request in grip.requests() {
            self.answer(Some(request), Err(RequestError::NotHeld));
        }
        if grip.is_held() {
            self.effects.push_back(Effect::Lost(shard.clone(), grip.acquisition, loss));
        }
    }

    pub(super) fn answer(&mut self, request: Option<RequestId>, answer: Result<(), RequestError>) {
        self.effects.extend(request.map(|request| Effect::Answer(request, answer)));
    }
}

/// How a lease is given away: to whom a KCL 3.x leader has promised it, to the worker that has asked, or to nobody.
fn parting_change(row: Option<&Lease>, worker: &WorkerId) -> LeaseChange {
    let Some(row) = row else { return LeaseChange::Release };
    let asked_by = row.asked_by.as_ref().filter(|by| *by != worker);
    match asked_by {
        _ if row.is_promised() => LeaseChange::HandOver,
        Some(by) => LeaseChange::Give { to: by.clone(), token: given_token(by) },
        None => LeaseChange::Release,
    }
}

/// How it is known that a write was applied.
#[derive(PartialEq, Eq)]
enum Known {
    /// The table said so.
    Told,
    /// The row was looked up.
    Found,
}

/// What becomes of a change that somebody wants.
enum Admission {
    Write,
    /// Not now, but what was wanted after it can go first.
    Wait,
    Answer(Result<(), RequestError>),
}
