//! The coordinator: which leases this worker takes, renews, writes checkpoints to and gives up.
//!
//! A state machine. The driver tells it what happened (a scan's rows, a list of shards, the outcome of a write, what
//! a shard's worker wants) and carries out the [`Effect`]s it asks for, in order; [`Coordinator::next_wakeup`] says
//! when to call [`Coordinator::tick`]. Time is a [`Duration`] since any fixed moment on a monotonic clock.
//!
//! What keeps two workers apart:
//! - Every write holds only while the row's counter is the one this worker knows, and raises it by 1.
//! - A lease of another worker is expired when *this* process has watched its counter stand still for the failover
//!   time. No clock is compared with another's.
//! - A write whose reply was lost is looked up: nothing is concluded from silence.
//! - A lease is given up before its last renewal is as old as the failover time, counted from before that renewal
//!   was sent, hence before anybody else can see it expire.

mod effect;
mod grip;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use kinesis_record::{Checkpoint, Shard, ShardId};

use crate::lease::{Lease, LeaseChange, LeaseWrite, NewLease};
use crate::lineage::{self, Rows, ShardList};
use crate::store::{Created, StoreError, Written};
use crate::stream::{ChildShard, StreamError};

pub use effect::{Acquisition, Effect, Loss, RequestError, RequestId, Settings};
use grip::{Grip, Judgement, Phase, Wanted};
use schedule::Schedule;

/// See the [module](self).
#[derive(Debug)]
pub struct Coordinator {
    settings: Settings,
    random: fastrand::Rng,
    /// Begins the token of each acquisition by this process.
    nonce: String,
    acquisitions: u64,
    requests: u64,
    effects: VecDeque<Effect>,
    rows: Rows,
    /// Since when this process has seen the counter of a row unmoved.
    unmoved_since: BTreeMap<ShardId, Duration>,
    list: Option<ShardList>,
    grips: BTreeMap<ShardId, Grip>,
    /// Rows to create once their parents' are, and rows being created.
    to_create: Vec<NewLease>,
    creating: BTreeSet<ShardId>,
    created_since_scan: BTreeSet<ShardId>,
    shunned: BTreeSet<ShardId>,
    taking: bool,
    has_scanned: bool,
    scan: Schedule,
    listing: Schedule,
}

impl Coordinator {
    /// A coordinator that holds nothing yet. `random` decides in which order leases are taken, the token of this
    /// process and jitter.
    pub fn new(settings: Settings, mut random: fastrand::Rng) -> Self {
        let nonce = format!("{:016x}{:016x}", random.u64(..), random.u64(..));
        Self {
            settings,
            random,
            nonce,
            acquisitions: 0,
            requests: 0,
            effects: VecDeque::new(),
            rows: Rows::new(),
            unmoved_since: BTreeMap::new(),
            list: None,
            grips: BTreeMap::new(),
            to_create: Vec::new(),
            creating: BTreeSet::new(),
            created_since_scan: BTreeSet::new(),
            shunned: BTreeSet::new(),
            taking: true,
            has_scanned: false,
            scan: Schedule::at_once(),
            listing: Schedule::at_once(),
        }
    }

    /// The next thing to do, if there is one now.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Coordinator::tick`] is to be called next.
    pub fn next_wakeup(&self) -> Option<Duration> {
        let failover = self.settings.failover;
        let grips = self.grips.values().filter_map(|grip| grip.next_wakeup(failover));
        grips.chain(self.scan.due).chain(self.listing.due).min()
    }

    /// Does what is due: gives up leases that were not renewed in time, renews, scans, lists.
    pub fn tick(&mut self, now: Duration) {
        let failover = self.settings.failover;
        let expired: Vec<ShardId> = self
            .grips
            .iter()
            .filter(|(_, grip)| grip.is_expired(now, failover))
            .map(|(shard, _)| shard.clone())
            .collect();
        for shard in expired {
            self.lose(&shard, Loss::Expired);
        }
        for shard in self.grips.keys().cloned().collect::<Vec<_>>() {
            self.advance(now, &shard);
        }
        if self.scan.due.is_some_and(|due| due <= now) {
            self.scan.due = None;
            self.created_since_scan.clear();
            self.effects.push_back(Effect::Scan);
        }
        if self.listing.due.is_some_and(|due| due <= now) {
            self.listing.due = None;
            self.effects.push_back(Effect::ListShards);
        }
    }

    /// All rows of the table, or why they could not be read.
    pub fn scanned(&mut self, now: Duration, rows: Result<Vec<Lease>, StoreError>) {
        if !self.taking {
            return;
        }
        let Ok(rows) = rows else {
            self.scan.failed(now, self.settings.failover / 2, &mut self.random);
            return;
        };
        self.scan.succeeded(now, self.settings.failover / 2, &mut self.random);
        let first = !std::mem::replace(&mut self.has_scanned, true);
        let mut unseen: BTreeSet<ShardId> = self.rows.keys().cloned().collect();
        for row in rows {
            unseen.remove(&row.shard);
            self.observe(now, row);
        }
        for shard in unseen {
            if self.grips.contains_key(&shard) {
                self.doubt(&shard);
            } else if !self.created_since_scan.contains(&shard) {
                self.rows.remove(&shard);
                self.unmoved_since.remove(&shard);
            }
        }
        if first {
            self.plan_rows();
        }
        self.take_available(now);
    }

    /// All shards of the stream, or why they could not be listed.
    pub fn listed(&mut self, now: Duration, shards: Result<Vec<Shard>, StreamError>) {
        match shards {
            _ if !self.taking => {}
            Ok(shards) => {
                self.listing.succeeded(now, self.settings.shard_sync_interval, &mut self.random);
                self.list = Some(ShardList::new(shards));
                self.plan_rows();
                self.take_available(now);
            }
            Err(_) => self.listing.failed(now, self.settings.shard_sync_interval, &mut self.random),
        }
    }

    /// How the creation of a row ended.
    pub fn created(&mut self, now: Duration, new: NewLease, outcome: Result<Created, StoreError>) {
        self.creating.remove(&new.shard);
        match outcome {
            Ok(Created::New) => {
                self.created_since_scan.insert(new.shard.clone());
                self.rows.entry(new.shard.clone()).or_insert_with(|| new.into());
            }
            Ok(Created::Existed) => {
                self.created_since_scan.insert(new.shard);
                self.scan.hasten(now);
            }
            Err(_) => {
                self.to_create.clear();
                let pause = self.settings.failover / 10;
                self.listing.due = self.listing.due.map(|due| due.min(now + pause));
                for grip in self.grips.values_mut() {
                    grip.creation_failed(&new.shard, now + pause);
                }
            }
        }
        self.create_rows();
        for shard in self.grips.keys().cloned().collect::<Vec<_>>() {
            self.advance(now, &shard);
        }
        self.take_available(now);
    }

    /// How a write ended.
    pub fn written(
        &mut self,
        now: Duration,
        acquisition: Acquisition,
        write: LeaseWrite,
        outcome: Result<Written, StoreError>,
    ) {
        let shard = write.shard.clone();
        let Some(grip) = self.grips.get_mut(&shard).filter(|grip| grip.acquisition == acquisition) else {
            return;
        };
        match outcome {
            Ok(Written::Applied) => self.apply(now, &shard, None),
            Ok(Written::Refused(Some(row))) => self.judge(now, *row),
            Ok(Written::Refused(None)) => {
                self.effects.push_back(grip.look_up(&shard));
            }
            Err(error) if error.may_have_applied() => {
                self.effects.push_back(grip.look_up(&shard));
            }
            Err(error) => {
                let pause = self.settings.failover / 20;
                let asked = grip.not_written(now + pause);
                if !grip.is_acquired {
                    self.grips.remove(&shard);
                }
                if let Some(request) = asked {
                    self.effects.push_back(Effect::Answer(request, Err(RequestError::Store(error))));
                }
                self.advance(now, &shard);
            }
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
        let Some(grip) = self.grips.get_mut(shard).filter(|grip| grip.acquisition == acquisition) else {
            return;
        };
        match row {
            Ok(Some(row)) => self.judge(now, row),
            Ok(None) => {
                self.rows.remove(shard);
                self.lose(shard, Loss::RowDeleted);
                self.listing.hasten(now);
            }
            Err(_) => {
                let pause = self.settings.failover / 20;
                grip.look_up_failed(now + pause);
            }
        }
    }

    /// Stores how far the shard is processed. `Ok` in the answer means stored.
    pub fn checkpoint(
        &mut self,
        now: Duration,
        shard: &ShardId,
        acquisition: Acquisition,
        checkpoint: Checkpoint,
    ) -> RequestId {
        self.request(now, shard, acquisition, LeaseChange::Checkpoint(checkpoint))
    }

    /// Creates the rows of the shard's children, then stores `SHARD_END`. `Ok` in the answer means stored, and the
    /// lease is no longer held.
    pub fn end(
        &mut self,
        now: Duration,
        shard: &ShardId,
        acquisition: Acquisition,
        children: Vec<ChildShard>,
    ) -> RequestId {
        let ids = children.iter().map(|child| child.id.clone()).collect();
        if let Some(grip) = self.grips.get_mut(shard).filter(|grip| grip.acquisition == acquisition) {
            let checkpoint = lineage::of_descendant(&self.settings.initial);
            grip.children =
                children.into_iter().map(|child| NewLease::new(child, checkpoint.clone())).collect();
        }
        self.request(now, shard, acquisition, LeaseChange::End { children: ids })
    }

    /// Gives the lease up, for anybody to take at once. `Ok` in the answer means stored.
    pub fn release(&mut self, now: Duration, shard: &ShardId, acquisition: Acquisition) -> RequestId {
        self.request(now, shard, acquisition, LeaseChange::Release)
    }

    /// Gives the lease to the worker that it was promised to. `Ok` in the answer means stored.
    pub fn hand_over(&mut self, now: Duration, shard: &ShardId, acquisition: Acquisition) -> RequestId {
        self.request(now, shard, acquisition, LeaseChange::HandOver)
    }

    /// From now on the shard is left to other workers.
    pub fn shun(&mut self, shard: &ShardId) {
        self.shunned.insert(shard.clone());
    }

    /// From now on no lease is taken, nothing scanned and nothing listed; held leases are renewed until released.
    pub fn stop_taking(&mut self) {
        self.taking = false;
        self.scan.due = None;
        self.listing.due = None;
        self.to_create.clear();
    }

    /// The rows as last seen, without those that another worker created since.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The stream's shards as last listed.
    pub fn shards(&self) -> Option<&ShardList> {
        self.list.as_ref()
    }

    /// How many leases are held.
    pub fn held(&self) -> usize {
        self.grips.values().filter(|grip| grip.is_acquired).count()
    }

    fn request(
        &mut self,
        now: Duration,
        shard: &ShardId,
        acquisition: Acquisition,
        change: LeaseChange,
    ) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        match self.grips.get_mut(shard).filter(|grip| grip.acquisition == acquisition) {
            Some(grip) => {
                grip.wanted.push_back(Wanted { change, request: Some(request) });
                self.advance(now, shard);
            }
            None => self.effects.push_back(Effect::Answer(request, Err(RequestError::NotHeld))),
        }
        request
    }

    /// Creates what [`lineage::missing_leases`] finds, once both the table and the stream are known.
    fn plan_rows(&mut self) {
        if let Some(list) = self.list.as_ref().filter(|_| self.has_scanned && self.taking) {
            self.to_create = lineage::missing_leases(&self.rows, list, &self.settings.initial);
            self.to_create.retain(|new| !self.creating.contains(&new.shard));
            self.create_rows();
        }
    }

    /// Asks for the planned rows whose parents have theirs, so that a crash in between never leaves a child that
    /// looks as if its parent had been finished and cleaned up.
    fn create_rows(&mut self) {
        let planned: BTreeSet<&ShardId> = self.to_create.iter().map(|new| &new.shard).collect();
        let must_wait = |new: &NewLease| {
            new.parents.iter().any(|parent| planned.contains(parent) || self.creating.contains(parent))
        };
        let waits: Vec<bool> = self.to_create.iter().map(must_wait).collect();
        let mut waits = waits.into_iter();
        for new in self.to_create.extract_if(.., |_| !waits.next().unwrap_or(false)) {
            self.creating.insert(new.shard.clone());
            self.effects.push_back(Effect::Create(new));
        }
    }

    /// Takes note of a row as somebody else may have left it.
    fn observe(&mut self, now: Duration, row: Lease) {
        let shard = row.shard.clone();
        if let Some(grip) = self.grips.get_mut(&shard) {
            if grip.is_acquired && row.counter >= grip.counter {
                if !grip.owns(&row, &self.settings.worker) && grip.is_idle() {
                    self.lose(&shard, Loss::Taken { by: row.reader().cloned() });
                    self.see(now, row);
                } else {
                    self.notice_promise(&row);
                }
            }
            return;
        }
        self.see(now, row);
    }

    fn see(&mut self, now: Duration, row: Lease) {
        let unmoved = self
            .rows
            .get(&row.shard)
            .is_some_and(|known| known.counter == row.counter && known.owner == row.owner);
        if !unmoved || !self.unmoved_since.contains_key(&row.shard) {
            self.unmoved_since.insert(row.shard.clone(), now);
        }
        self.rows.insert(row.shard.clone(), row);
    }

    fn notice_promise(&mut self, row: &Lease) {
        let Some(grip) = self.grips.get_mut(&row.shard) else { return };
        let promised = row.checkpoint_owner.is_some() && row.owner != row.checkpoint_owner;
        if promised && grip.owns(row, &self.settings.worker) && !grip.is_promised {
            grip.is_promised = true;
            self.effects.push_back(Effect::Drain(row.shard.clone(), grip.acquisition));
        }
    }

    /// Looks up the row of a held lease that a scan did not show.
    fn doubt(&mut self, shard: &ShardId) {
        if let Some(grip) = self.grips.get_mut(shard).filter(|grip| grip.is_idle()) {
            self.effects.push_back(grip.look_up(shard));
        }
    }

    fn take_available(&mut self, now: Duration) {
        let (Some(list), true) = (&self.list, self.taking && self.has_scanned) else { return };
        let free = self.settings.max_leases.saturating_sub(self.grips.len());
        let mut available: Vec<ShardId> = self
            .rows
            .values()
            .filter(|row| !row.is_finished() && self.is_available(now, row))
            .filter(|row| lineage::may_start(row, &self.rows, list))
            .map(|row| row.shard.clone())
            .collect();
        self.random.shuffle(&mut available);
        for shard in available.into_iter().take(free) {
            self.take(now, &shard);
        }
    }

    fn is_available(&self, now: Duration, row: &Lease) -> bool {
        if self.grips.contains_key(&row.shard) || self.shunned.contains(&row.shard) {
            return false;
        }
        let left_behind_by_us = || {
            row.reader() == Some(&self.settings.worker)
                && row.token.as_deref().is_some_and(|token| token.starts_with(&self.nonce))
        };
        let is_expired = || {
            let since = self.unmoved_since.get(&row.shard);
            since.is_some_and(|since| now.saturating_sub(*since) > self.settings.failover)
        };
        row.reader().is_none() || left_behind_by_us() || is_expired()
    }

    fn take(&mut self, now: Duration, shard: &ShardId) {
        let Some(row) = self.rows.get(shard) else { return };
        self.acquisitions += 1;
        let token = format!("{}-{}", self.nonce, self.acquisitions);
        let owner = self.settings.worker.clone();
        let owner_switches = i64::from(row.owner.as_ref().is_some_and(|former| *former != owner));
        let mut grip = Grip::new(Acquisition(self.acquisitions), token.clone(), row.counter);
        grip.wanted
            .push_back(Wanted { change: LeaseChange::Take { owner, token, owner_switches }, request: None });
        self.grips.insert(shard.clone(), grip);
        self.advance(now, shard);
    }

    /// Starts the next write to a lease, if there is one to do and none under way.
    fn advance(&mut self, now: Duration, shard: &ShardId) {
        let Some(grip) = self.grips.get_mut(shard) else { return };
        if let Phase::InDoubt { retry_at, .. } = grip.phase {
            if retry_at <= now {
                self.effects.push_back(grip.look_up(shard));
            }
            return;
        }
        if !grip.is_idle() || grip.resume_at.is_some_and(|resume_at| now < resume_at) {
            return;
        }
        grip.resume_at = None;
        let Some(wanted) = grip.wanted.pop_front() else {
            if grip.is_acquired && grip.renewal_due(self.settings.failover) <= now {
                self.write(now, shard, Wanted { change: LeaseChange::Renew, request: None });
            }
            return;
        };
        match self.admit(shard, &wanted) {
            Admission::Write => self.write(now, shard, wanted),
            Admission::Answer(answer) => {
                if let Some(request) = wanted.request {
                    self.effects.push_back(Effect::Answer(request, answer));
                }
                self.advance(now, shard);
            }
            Admission::Wait => {
                if let Some(grip) = self.grips.get_mut(shard) {
                    grip.wanted.push_front(wanted);
                    if grip.renewal_due(self.settings.failover) <= now {
                        self.write(now, shard, Wanted { change: LeaseChange::Renew, request: None });
                    }
                }
            }
        }
    }

    fn admit(&mut self, shard: &ShardId, wanted: &Wanted) -> Admission {
        match &wanted.change {
            LeaseChange::Checkpoint(checkpoint) => match self.rows.get(shard).map(|row| &row.checkpoint) {
                Some(stored) if checkpoint < stored => Admission::Answer(Err(RequestError::Backwards)),
                Some(stored) if checkpoint == stored => Admission::Answer(Ok(())),
                _ => Admission::Write,
            },
            LeaseChange::End { .. } => {
                let Some(grip) = self.grips.get_mut(shard) else { return Admission::Wait };
                let exists = |shard: &ShardId| {
                    self.rows.contains_key(shard) || self.created_since_scan.contains(shard)
                };
                grip.children.retain(|child| !exists(&child.shard));
                for child in &grip.children {
                    if self.creating.insert(child.shard.clone()) {
                        self.effects.push_back(Effect::Create(child.clone()));
                    }
                }
                if grip.children.is_empty() { Admission::Write } else { Admission::Wait }
            }
            _ => Admission::Write,
        }
    }

    fn write(&mut self, now: Duration, shard: &ShardId, wanted: Wanted) {
        let Some(grip) = self.grips.get_mut(shard) else { return };
        let write = LeaseWrite {
            shard: shard.clone(),
            expected_counter: grip.counter,
            change: wanted.change.clone(),
        };
        self.effects.push_back(Effect::Write(grip.acquisition, write));
        grip.phase = Phase::Writing { wanted, started: now };
    }

    /// The write under way was applied. `row` is what the table holds now, if it was looked up.
    fn apply(&mut self, now: Duration, shard: &ShardId, row: Option<Lease>) {
        let Some(grip) = self.grips.get_mut(shard) else { return };
        let Some(Wanted { change, request }) = grip.applied() else { return };
        let acquisition = grip.acquisition;
        let valid_until = grip.valid_until(self.settings.failover);
        if let Some(row) = row {
            self.rows.insert(shard.clone(), row);
        } else if let Some(row) = self.rows.get_mut(shard) {
            row.counter = grip.counter;
            change.apply_to(row);
        }
        let is_kept =
            !matches!(change, LeaseChange::End { .. } | LeaseChange::Release | LeaseChange::HandOver);
        if !is_kept {
            self.grips.remove(shard);
            self.unmoved_since.insert(shard.clone(), now);
        } else {
            if matches!(change, LeaseChange::Take { .. })
                && let Some(row) = self.rows.get(shard)
            {
                self.effects.push_back(Effect::Gained(acquisition, Box::new(row.clone())));
            }
            self.effects.push_back(Effect::Extended(shard.clone(), acquisition, valid_until));
        }
        if let Some(request) = request {
            self.effects.push_back(Effect::Answer(request, Ok(())));
        }
        if matches!(change, LeaseChange::End { .. }) {
            self.listing.hasten(now);
            self.take_available(now);
        }
        self.advance(now, shard);
    }

    /// Concludes from the row as it is how the write under way ended.
    fn judge(&mut self, now: Duration, row: Lease) {
        let shard = row.shard.clone();
        let Some(grip) = self.grips.get_mut(&shard) else { return };
        match grip.judge(&row, &self.settings.worker) {
            Judgement::Applied => {
                grip.counter = row.counter - 1;
                self.notice_promise(&row);
                self.apply(now, &shard, Some(row));
            }
            Judgement::NotApplied => {
                grip.retry(row.counter, now + self.settings.failover / 20);
                self.notice_promise(&row);
                self.advance(now, &shard);
            }
            Judgement::NotOurs if grip.is_acquired => {
                self.lose(&shard, Loss::Taken { by: row.reader().cloned() });
                self.see(now, row);
            }
            Judgement::NotOurs => {
                self.grips.remove(&shard);
                self.see(now, row);
            }
        }
    }

    fn lose(&mut self, shard: &ShardId, loss: Loss) {
        let Some(mut grip) = self.grips.remove(shard) else { return };
        for request in grip.requests() {
            self.effects.push_back(Effect::Answer(request, Err(RequestError::NotHeld)));
        }
        if grip.is_acquired {
            self.effects.push_back(Effect::Lost(shard.clone(), grip.acquisition, loss));
        }
    }
}

enum Admission {
    Write,
    Answer(Result<(), RequestError>),
    Wait,
}
