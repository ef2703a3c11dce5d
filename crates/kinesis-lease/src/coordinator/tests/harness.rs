//! One coordinator, a table and a stream in memory, and time that passes by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::journal::Lines;
use super::*;
use crate::lease::{Lease, LeaseWrite};
use crate::store::{Reported, Scan, StoreError, Written};
use crate::stream::StreamErrorKind;
use crate::testing::{Table, open};

pub(super) const FAILOVER: Duration = Duration::from_secs(10);

pub(super) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// How a call to the table goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not applied, and the reply is lost.
    LostRequest,
    /// Applied, and the reply is lost.
    LostReply,
    /// The reply is lost, and the write is applied only when [`World::deliver_late`] says so.
    Late,
    Throttled,
    Denied,
    /// The condition fails although it holds, and the row is not told.
    Spurious,
    /// The same, with the row.
    SpuriousWithRow,
    /// No reply until [`World::answer_withheld`]; applied at once.
    Withheld,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    Scan,
    List,
    Create,
    Write,
    LookUp,
    Delete,
    Report,
}

/// What the driver of the coordinator was told of its leases.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Told {
    Gained(String),
    Lost(String, Loss),
    Drain(String),
    Unread(Vec<String>),
    Contradicted(String),
    SharedName(String),
    Retire,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) coordinator: Coordinator,
    pub(super) journal: Lines,
    /// As the coordinator was made with.
    pub(super) settings: Settings,
    /// Whether the coordinator is told all through its methods.
    is_replayable: bool,
    pub(super) now: Duration,
    pub(super) table: Table,
    pub(super) stream: Vec<Shard>,
    /// Whether leases were wanted in each report.
    pub(super) reports: Vec<bool>,
    /// What a report is answered with.
    pub(super) reported: Reported,
    /// What the next scans show instead of the table.
    pub(super) stale_scans: VecDeque<Vec<Lease>>,
    /// Rows that are there and cannot be read.
    pub(super) unreadable: BTreeSet<ShardId>,
    faults: BTreeMap<Call, VecDeque<Fault>>,
    always: BTreeMap<Call, Fault>,
    late: Vec<LeaseWrite>,
    withheld: Vec<(Acquisition, LeaseWrite, Written)>,
    pub(super) held: BTreeMap<ShardId, Acquisition>,
    pub(super) valid_until: BTreeMap<ShardId, Duration>,
    pub(super) told: Vec<Told>,
    /// All writes asked for, and when.
    pub(super) writes: Vec<(Duration, LeaseWrite)>,
    pub(super) created: Vec<ShardId>,
    pub(super) calls: BTreeMap<Call, usize>,
    pub(super) answers: BTreeMap<RequestId, Result<(), RequestError>>,
    asked: BTreeSet<RequestId>,
    /// Requests after which a lease is not held any more.
    ends: BTreeMap<RequestId, ShardId>,
}

impl World {
    /// The worker `me` with a failover time of ten seconds, before its first step.
    pub(super) fn new(initial: Checkpoint) -> Self {
        Self::with(Settings {
            worker: "me".into(),
            failover: FAILOVER,
            shard_sync_interval: secs(60),
            initial,
            max_leases: usize::MAX,
            max_steals: None,
            hand_over_timeout: secs(30),
            clean_up_after: secs(300),
        })
    }

    pub(super) fn with(settings: Settings) -> Self {
        let journal = Lines::default();
        Self {
            coordinator: journal.coordinator(settings.clone(), fastrand::Rng::with_seed(7)),
            journal,
            settings,
            is_replayable: true,
            now: Duration::ZERO,
            table: Table::default(),
            stream: Vec::new(),
            reports: Vec::new(),
            reported: Reported::Unwanted,
            stale_scans: VecDeque::new(),
            unreadable: BTreeSet::new(),
            faults: BTreeMap::new(),
            always: BTreeMap::new(),
            late: Vec::new(),
            withheld: Vec::new(),
            held: BTreeMap::new(),
            valid_until: BTreeMap::new(),
            told: Vec::new(),
            writes: Vec::new(),
            created: Vec::new(),
            calls: BTreeMap::new(),
            answers: BTreeMap::new(),
            asked: BTreeSet::new(),
            ends: BTreeMap::new(),
        }
    }

    /// A world in which `me` holds the shard `a`, the only one, since now.
    pub(super) fn holding_a() -> Self {
        let mut world = Self::new(Checkpoint::TrimHorizon);
        world.stream = vec![open("a", &[])];
        world.start();
        assert_eq!(world.told, [Told::Gained("a".into())]);
        world.forget();
        world
    }

    pub(super) fn start(&mut self) {
        self.pass(Duration::ZERO);
    }

    pub(super) fn forget(&mut self) {
        self.told.clear();
        self.writes.clear();
        self.created.clear();
        self.calls.clear();
    }

    /// Time goes by, with every wake-up that was asked for.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.drain();
        while let Some(next) = self.coordinator.next_wakeup().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.coordinator.tick(self.now);
            let has_effect = !self.coordinator.effects.is_empty();
            let sleeps = self.coordinator.next_wakeup().is_none_or(|next| next > self.now);
            assert!(has_effect || sleeps, "a wake-up led nowhere at {:?}", self.now);
            self.drain();
        }
        self.now = end;
    }

    /// Time goes by while this process stands still.
    pub(super) fn freeze(&mut self, time: Duration) {
        self.now += time;
    }

    /// To change what the methods cannot. What is done then cannot be done again from a journal.
    pub(super) fn inside(&mut self) -> &mut Coordinator {
        self.is_replayable = false;
        &mut self.coordinator
    }

    pub(super) fn hasten_scan(&mut self) {
        let now = self.now;
        self.inside().scan.due = Some(now);
    }

    pub(super) fn hasten_list(&mut self) {
        let now = self.now;
        self.inside().listing.due = Some(now);
    }

    pub(super) fn fail_next(&mut self, call: Call, faults: &[Fault]) {
        self.faults.entry(call).or_default().extend(faults);
    }

    pub(super) fn fail_always(&mut self, call: Call, fault: Fault) {
        self.always.insert(call, fault);
    }

    pub(super) fn heal(&mut self) {
        self.always.clear();
        self.faults.clear();
    }

    /// The writes that the network kept back arrive.
    pub(super) fn deliver_late(&mut self) {
        for write in std::mem::take(&mut self.late) {
            self.table.write(&write);
        }
    }

    pub(super) fn answer_withheld(&mut self) {
        for (acquisition, write, outcome) in std::mem::take(&mut self.withheld) {
            self.coordinator.written(self.now, acquisition, write, Ok(outcome));
        }
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        while let Some(effect) = self.coordinator.next_effect() {
            self.carry_out(effect);
        }
    }

    fn fault(&mut self, call: Call) -> Option<Fault> {
        *self.calls.entry(call).or_default() += 1;
        let next = self.faults.get_mut(&call).and_then(VecDeque::pop_front);
        next.or_else(|| self.always.get(&call).copied())
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Scan => {
                let rows = self.stale_scans.pop_front();
                let mut leases = rows.unwrap_or_else(|| self.table.rows.values().cloned().collect());
                leases.retain(|row| !self.unreadable.contains(&row.shard));
                let scan = Scan { leases, unreadable: self.unreadable.iter().cloned().collect() };
                let outcome = error_of(self.fault(Call::Scan)).map_or(Ok(scan), Err);
                self.coordinator.scanned(self.now, outcome);
            }
            Effect::ListShards => {
                let error = self
                    .fault(Call::List)
                    .map(|_| StreamError { kind: StreamErrorKind::Unavailable, message: "no list".into() });
                let _ = self.coordinator.listed(self.now, error.map_or(Ok(self.stream.clone()), Err));
            }
            Effect::Create(new) => {
                self.created.push(new.shard.clone());
                let fault = self.fault(Call::Create);
                let outcome = match fault {
                    None | Some(Fault::LostReply) => Ok(self.table.create(&new)),
                    _ => Err(StoreError::Unknown("unused".into())),
                };
                self.coordinator.created(self.now, new, error_of(fault).map_or(outcome, Err));
            }
            Effect::Write(acquisition, write) => self.carry_out_write(acquisition, write),
            Effect::Delete(shard, counter) => {
                let outcome = error_of(self.fault(Call::Delete))
                    .map_or_else(|| Ok(self.table.delete(&shard, counter)), Err);
                self.coordinator.deleted(&shard, outcome);
            }
            Effect::BeginAnew(write) => {
                let fault = self.fault(Call::Write);
                let is_lost = matches!(fault, Some(Fault::LostRequest | Fault::Throttled));
                let outcome = (!is_lost).then(|| self.table.write(&write));
                let outcome = error_of(fault).map_or_else(|| Ok(outcome.unwrap()), Err);
                self.coordinator.begun_anew(self.now, &write.shard, outcome);
            }
            Effect::Contradicted(shard) => self.told.push(Told::Contradicted(shard.to_string())),
            Effect::LookUp(acquisition, shard) => {
                let row = self.table.rows.get(&shard).cloned();
                let error = error_of(self.fault(Call::LookUp)).or_else(|| self.unreadable(&shard));
                let outcome = error.map_or(Ok(row), Err);
                self.coordinator.looked_up(self.now, acquisition, &shard, outcome);
            }
            Effect::Report { wants_leases } => {
                self.reports.push(wants_leases);
                let outcome = error_of(self.fault(Call::Report)).map_or(Ok(self.reported.clone()), Err);
                self.coordinator.reported(self.now, outcome);
            }
            Effect::Retire => {
                self.told.push(Told::Retire);
                self.coordinator.retired(self.now);
            }
            Effect::Gained(acquisition, lease) => {
                assert!(self.held.insert(lease.shard.clone(), acquisition).is_none(), "gained twice");
                self.told.push(Told::Gained(lease.shard.to_string()));
            }
            Effect::Extended(shard, acquisition, until) => {
                assert_eq!(self.held.get(&shard), Some(&acquisition));
                assert!(until > self.now);
                self.valid_until.insert(shard, until);
            }
            Effect::Lost(shard, acquisition, loss) => {
                assert_eq!(self.held.remove(&shard), Some(acquisition), "lost, yet not held");
                self.told.push(Told::Lost(shard.to_string(), loss));
            }
            Effect::Drain(shard, acquisition) => {
                assert_eq!(self.held.get(&shard), Some(&acquisition));
                self.told.push(Told::Drain(shard.to_string()));
            }
            Effect::SharedName(shard) => self.told.push(Told::SharedName(shard.to_string())),
            Effect::Unread(shards) => {
                self.told.push(Told::Unread(shards.iter().map(ToString::to_string).collect()));
            }
            Effect::Answer(request, answer) => {
                if let Some(shard) = self.ends.remove(&request).filter(|_| answer.is_ok()) {
                    self.held.remove(&shard);
                }
                assert!(self.answers.insert(request, answer).is_none(), "answered twice");
            }
        }
    }

    fn unreadable(&self, shard: &ShardId) -> Option<StoreError> {
        self.unreadable.contains(shard).then(|| StoreError::Unreadable("no lease".into()))
    }

    fn carry_out_write(&mut self, acquisition: Acquisition, write: LeaseWrite) {
        self.writes.push((self.now, write.clone()));
        let fault = self.fault(Call::Write);
        let outcome = match fault {
            None | Some(Fault::LostReply | Fault::Withheld) => self.table.write(&write),
            Some(Fault::SpuriousWithRow) => {
                Written::Refused(self.table.rows.get(&write.shard).cloned().map(Box::new))
            }
            Some(_) => Written::Refused(None),
        };
        if fault == Some(Fault::Late) {
            self.late.push(write.clone());
        }
        if fault == Some(Fault::Withheld) {
            self.withheld.push((acquisition, write, outcome));
        } else {
            let error = error_of(fault).or_else(|| self.unreadable(&write.shard));
            self.coordinator.written(self.now, acquisition, write, error.map_or(Ok(outcome), Err));
        }
    }

    pub(super) fn acquisition(&self, shard: &str) -> Acquisition {
        self.held[shard]
    }

    pub(super) fn row(&self, shard: &str) -> &Lease {
        &self.table.rows[shard]
    }

    pub(super) fn checkpoint(&mut self, shard: &str, checkpoint: Checkpoint) -> RequestId {
        let acquisition = self.acquisition(shard);
        let request = self.coordinator.checkpoint(self.now, &shard.into(), acquisition, checkpoint);
        self.asked(request, None)
    }

    pub(super) fn end(&mut self, shard: &str, children: Vec<ChildShard>) -> RequestId {
        let acquisition = self.acquisition(shard);
        let request = self.coordinator.end(self.now, &shard.into(), acquisition, children);
        self.asked(request, Some(shard))
    }

    pub(super) fn release(&mut self, shard: &str) -> RequestId {
        let acquisition = self.acquisition(shard);
        let request = self.coordinator.release(self.now, &shard.into(), acquisition);
        self.asked(request, Some(shard))
    }

    fn asked(&mut self, request: RequestId, ends: Option<&str>) -> RequestId {
        self.asked.insert(request);
        self.ends.extend(ends.map(|shard| (request, shard.into())));
        self.drain();
        request
    }

    /// Every request has exactly one answer: none twice, which each answer is checked for, and none missing.
    pub(super) fn assert_all_answered(&self) {
        let answered: BTreeSet<RequestId> = self.answers.keys().copied().collect();
        assert_eq!(self.asked, answered);
    }

    pub(super) fn held(&self) -> Vec<&str> {
        self.held.keys().map(ShardId::as_str).collect()
    }

    pub(super) fn gained(&self) -> Vec<&str> {
        let gained = self.told.iter().filter_map(|told| match told {
            Told::Gained(shard) => Some(shard.as_str()),
            _ => None,
        });
        gained.collect()
    }

    /// The changes asked for, in order.
    pub(super) fn changes(&self) -> Vec<&LeaseChange> {
        self.writes.iter().map(|(_, write)| &write.change).collect()
    }

    pub(super) fn count(&self, call: Call) -> usize {
        self.calls.get(&call).copied().unwrap_or_default()
    }
}

/// Whatever a test has done, it can be done again, unless it has reached inside.
impl Drop for World {
    fn drop(&mut self) {
        let is_replayable = self.is_replayable && self.coordinator.settings == self.settings;
        if is_replayable && !std::thread::panicking() {
            self.journal.assert_replayable();
        }
    }
}

fn error_of(fault: Option<Fault>) -> Option<StoreError> {
    match fault? {
        Fault::LostRequest | Fault::LostReply | Fault::Late => Some(StoreError::Unknown("timed out".into())),
        Fault::Throttled => Some(StoreError::Throttled("too fast".into())),
        Fault::Denied => Some(StoreError::Refused("no permission".into())),
        Fault::Spurious | Fault::SpuriousWithRow | Fault::Withheld => None,
    }
}
