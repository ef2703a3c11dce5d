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
//! - A write whose reply was lost is looked up: nothing is concluded from silence. If the row does not show it yet, it
//!   may still be applied later.
//! - A lease is given up before its last renewal is as old as the failover time, counted from before that renewal
//!   was sent, hence before anybody else can see it expire.

mod ask;
mod audit;
mod balance;
mod create;
mod effect;
mod grip;
mod leader;
mod observe;
mod schedule;
mod take;
#[cfg(test)]
mod tests;
mod watch;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use kinesis_record::{Checkpoint, Shard, ShardId};

use crate::journal::{self, Input, Journal};
use crate::lease::{LeaseChange, NewLease};
use crate::lineage::{self, Rows, ShardList};
use crate::stream::{ChildShard, StreamError};

use audit::Contradiction;
use create::Creation;
pub use effect::{Acquisition, Effect, Loss, RequestError, RequestId, Settings};
use grip::{Grip, Wanted};
use leader::Leader;
use schedule::Schedule;
use watch::Watch;

/// See the [module](self).
#[derive(Debug)]
pub struct Coordinator {
    settings: Settings,
    random: fastrand::Rng,
    /// Begins the token of each acquisition by this process.
    token: String,
    acquisitions: u64,
    requests: u64,
    effects: VecDeque<Effect>,
    watch: Watch,
    list: Option<ShardList>,
    creation: Creation,
    grips: BTreeMap<ShardId, Grip>,
    shunned: BTreeSet<ShardId>,
    mode: Mode,
    has_scanned: bool,
    /// Since when leases are to be had that this worker has not taken.
    waiting: BTreeMap<ShardId, Duration>,
    /// The shards that nobody reads, as last told.
    unread: Vec<ShardId>,
    /// Since when rows are known to be finished.
    finished_since: BTreeMap<ShardId, Duration>,
    /// Finished rows that are being deleted or made anew.
    tidying: BTreeSet<ShardId>,
    /// Open shards whose rows say that they have ended, with how many lists in a row have shown them so.
    impossible: BTreeMap<ShardId, Contradiction>,
    /// When a list last differed from the one before.
    list_changed: Option<Duration>,
    scan: Schedule,
    listing: Schedule,
    reporting: Schedule,
    leader: Leader,
    /// When a scan first showed that another process renews leases under our name, and whether that is told.
    namesake_since: Option<Duration>,
    is_namesake_told: bool,
    journal: Option<Journal>,
}

/// What this worker is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It takes its share of the leases.
    Sharing,
    /// It takes none, and waits for others to ask for what it has.
    Leaving,
    /// It takes none and looks at nothing but what it holds.
    Stopped,
}

impl Coordinator {
    /// A coordinator that holds nothing yet. `random` decides in which order leases are taken, the token of this
    /// process and jitter.
    pub fn new(settings: Settings, mut random: fastrand::Rng) -> Self {
        let token = format!("{}/{:016x}{:016x}-", settings.worker, random.u64(..), random.u64(..));
        Self {
            settings,
            random,
            token,
            acquisitions: 0,
            requests: 0,
            effects: VecDeque::new(),
            watch: Watch::default(),
            list: None,
            creation: Creation::default(),
            grips: BTreeMap::new(),
            shunned: BTreeSet::new(),
            mode: Mode::Sharing,
            has_scanned: false,
            waiting: BTreeMap::new(),
            unread: Vec::new(),
            finished_since: BTreeMap::new(),
            tidying: BTreeSet::new(),
            impossible: BTreeMap::new(),
            list_changed: None,
            scan: Schedule::at_once(),
            listing: Schedule::at_once(),
            reporting: Schedule::after_another(),
            leader: Leader::default(),
            namesake_since: None,
            is_namesake_told: false,
            journal: None,
        }
    }

    /// A coordinator as [`Coordinator::new`] makes it, which gives `sink` the lines of its [journal].
    ///
    /// The sink says whether it has taken the line, and should not make the coordinator wait: leases expire meanwhile. When
    /// it refuses one, the journal ends: a last line, which says so, is to be taken in any case.
    pub fn recorded(
        settings: Settings,
        random: fastrand::Rng,
        sink: impl FnMut(String) -> bool + Send + Sync + 'static,
    ) -> Self {
        let seed = random.get_seed();
        let mut coordinator = Self::new(settings.clone(), random);
        let mut journal = Journal::new(coordinator.run(), sink);
        journal.begin(seed, settings);
        coordinator.journal = Some(journal);
        coordinator
    }

    /// The name of this run in a journal.
    pub(crate) fn run(&self) -> String {
        journal::name_of(&self.token)
    }

    /// How many effects have not been taken yet.
    pub(crate) fn untaken(&self) -> usize {
        self.effects.len()
    }

    /// Writes down what a method is told, before anything is done about it.
    fn record(&mut self, now: impl Into<Option<Duration>>, input: impl FnOnce() -> Input) {
        if let Some(journal) = &mut self.journal {
            journal.input(now.into(), self.effects.len(), input);
        }
    }

    /// The next thing to do, if there is one now.
    pub fn next_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front()?;
        if let Some(journal) = &mut self.journal {
            journal.effect(&effect);
        }
        Some(effect)
    }

    /// When [`Coordinator::tick`] is to be called next.
    pub fn next_wakeup(&self) -> Option<Duration> {
        let failover = self.settings.failover;
        let grips = self.grips.values().filter_map(|grip| grip.next_wakeup(failover));
        grips.chain(self.scan.due).chain(self.listing.due).chain(self.reporting.due).min()
    }

    /// Does what is due: gives up leases that were not renewed in time, renews, scans, lists, reports.
    pub fn tick(&mut self, now: Duration) {
        if self.next_wakeup().is_none_or(|due| due > now) {
            return;
        }
        self.record(now, || Input::Tick);
        let failover = self.settings.failover;
        let is_due = |grip: &Grip| grip.next_wakeup(failover).is_some_and(|due| due <= now);
        let due = self.grips.iter().filter(|(_, grip)| is_due(grip)).map(|(shard, _)| shard.clone());
        for shard in due.collect::<Vec<_>>() {
            self.advance(now, &shard);
        }
        if self.scan.due.is_some_and(|due| due <= now) {
            self.scan.due = None;
            self.creation.scan_begins();
            self.effects.push_back(Effect::Scan);
        }
        if self.listing.due.is_some_and(|due| due <= now) {
            self.listing.due = None;
            self.effects.push_back(Effect::ListShards);
        }
        if self.reporting.due.is_some_and(|due| due <= now) {
            self.report();
        }
    }

    /// All shards of the stream, or why they could not be listed.
    ///
    /// # Errors
    /// Why the list is of no use: it could not be had, or is not complete. It is asked for again.
    pub fn listed(
        &mut self,
        now: Duration,
        shards: Result<Vec<Shard>, StreamError>,
    ) -> Result<(), StreamError> {
        self.record(now, || Input::Listed(shards.clone()));
        let list = shards.and_then(ShardList::complete);
        match list {
            _ if self.mode != Mode::Sharing => {}
            Ok(list) => {
                self.listing.succeeded(now, self.settings.shard_sync_interval, &mut self.random);
                if self.list.as_ref().is_some_and(|former| *former != list) {
                    self.list_changed = Some(now);
                }
                self.list = Some(list);
                self.plan_rows(now);
                self.take_available(now);
                self.audit(now);
            }
            Err(error) => {
                self.listing.failed(now, self.settings.shard_sync_interval, &mut self.random);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Stores how far the shard is processed. `Ok` in the answer means stored. `SHARD_END` is stored as by
    /// [`Coordinator::end`] without children.
    pub fn checkpoint(
        &mut self,
        now: Duration,
        shard: &ShardId,
        acquisition: Acquisition,
        checkpoint: Checkpoint,
    ) -> RequestId {
        match checkpoint {
            Checkpoint::ShardEnd => self.end(now, shard, acquisition, Vec::new()),
            checkpoint => {
                self.record(now, || Input::Checkpoint(shard.clone(), acquisition, checkpoint.clone()));
                self.request(now, shard, acquisition, LeaseChange::Checkpoint(checkpoint))
            }
        }
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
        self.record(now, || Input::End(shard.clone(), acquisition, children.clone()));
        let ids = children.iter().map(|child| child.id.clone()).collect();
        if let Some(grip) = self.grips.get_mut(shard).filter(|grip| grip.acquisition == acquisition) {
            let checkpoint = lineage::of_descendant(&self.settings.initial);
            grip.children =
                children.into_iter().map(|child| NewLease::new(child, checkpoint.clone())).collect();
        }
        self.request(now, shard, acquisition, LeaseChange::End { children: ids })
    }

    /// Gives the lease away: to the worker that has asked for it or that it was promised to, else for anybody to take
    /// at once. `Ok` in the answer means stored. A shard end that still waits for the rows of its children is not
    /// awaited.
    pub fn release(&mut self, now: Duration, shard: &ShardId, acquisition: Acquisition) -> RequestId {
        self.record(now, || Input::Release(shard.clone(), acquisition));
        self.request(now, shard, acquisition, LeaseChange::Release)
    }

    /// From now on the shard is not taken any more. If it is held, it stays so until released.
    pub fn shun(&mut self, shard: &ShardId) {
        self.record(None, || Input::Shun(shard.clone()));
        self.shunned.insert(shard.clone());
    }

    /// From now on the shard is taken again like any other.
    pub fn unshun(&mut self, now: Duration, shard: &ShardId) {
        self.record(now, || Input::Unshun(shard.clone()));
        if self.shunned.remove(shard) {
            self.take_if_available(now, shard);
        }
    }

    /// From now on no lease is taken, nothing scanned and nothing listed; held leases are renewed until released. A
    /// lease that is being taken at this moment is given back, of which nobody is told: see
    /// [`Coordinator::is_empty_handed`].
    pub fn stop_taking(&mut self, now: Duration) {
        self.record(now, || Input::StopTaking);
        self.stop_sharing(now, Mode::Stopped);
        self.scan.due = None;
    }

    /// The rows as last seen, without those that another worker created since.
    pub fn rows(&self) -> &Rows {
        &self.watch.rows
    }

    /// The stream's shards as last listed.
    pub fn shards(&self) -> Option<&ShardList> {
        self.list.as_ref()
    }

    /// How many leases are held.
    pub fn held(&self) -> usize {
        self.grips.values().filter(|grip| grip.is_held()).count()
    }

    /// Whether no lease is held, asked for, being taken or being given back, and no report is under way. After [`Coordinator::stop_taking`] nothing is left
    /// to do then.
    pub fn is_empty_handed(&self) -> bool {
        self.grips.is_empty() && !self.is_reporting()
    }

    fn new_acquisition(&mut self) -> (Acquisition, String) {
        self.acquisitions += 1;
        (Acquisition(self.acquisitions), format!("{}{}", self.token, self.acquisitions))
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
            None => self.answer(Some(request), Err(RequestError::NotHeld)),
        }
        request
    }
}
