//! A fleet on one table under random faults, with everything that must hold checked at every step.

mod kcl;
mod workers;
mod world;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::journal::Lines;
use super::*;
use crate::lease::{Lease, WorkerId};
use crate::store::{Created, Deleted, LeaderPulse, Reported, Scan, StoreError, Written};
use crate::stream::StreamErrorKind;
use crate::testing::{Table, complete_list, open};
use kcl::Kcl;

const FAILOVER: Duration = Duration::from_secs(10);
/// Faults and changes happen until then. Some time later everything must be read again, and be shared evenly.
const CALM: Duration = Duration::from_secs(120);

/// What a fleet goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// Faults, crashes, freezes, stops and resharding.
    Trouble,
    /// The same, with workers that may hold a few leases only.
    Limits,
    /// The same, beside workers of the KCL 2.x.
    Kcl2,
    /// The same, beside workers of the KCL 3.x, to whose leader nothing is reported.
    Kcl3,
    /// The same, and workers report to the leader, which gives them leases like its own.
    Led,
    /// Starts, stops and resharding, and nothing goes wrong.
    Planned,
}

impl Trial {
    /// A KCL 2.x worker moves one lease in two failover times.
    fn end(self) -> Duration {
        CALM + FAILOVER * if self.has_kcl() { 30 } else { 8 }
    }

    fn has_kcl(self) -> bool {
        matches!(self, Self::Kcl2 | Self::Kcl3 | Self::Led)
    }

    fn has_leader(self) -> bool {
        matches!(self, Self::Kcl3 | Self::Led)
    }
}

/// What happens at some time.
#[derive(Debug)]
enum Event {
    /// A process is called, if it still lives that life.
    Wake(usize, u64),
    Arrives(usize, u64, Effect),
    Replies(usize, u64, Reply),
    Reshard,
    /// A process dies and a new one starts in its place.
    Crash(usize),
    /// A process stops politely and a new one starts in its place.
    Leave(usize),
    /// It has waited for others to ask for its leases, and gives up what is left.
    Part(usize, u64),
    Freeze(usize, Duration),
    Ask(usize),
    /// A worker of the KCL renews and processes, or takes, or dies.
    KclRenews(usize, u64),
    KclTakes(usize, u64),
    KclDies(usize),
    KclLeads,
}

#[derive(Debug)]
enum Reply {
    Scanned(Result<Scan, StoreError>),
    Listed(Result<Vec<Shard>, StreamError>),
    Created(NewLease, Result<Created, StoreError>),
    Written(Acquisition, crate::lease::LeaseWrite, Result<Written, StoreError>),
    Deleted(ShardId, Result<Deleted, StoreError>),
    LookedUp(Acquisition, ShardId, Result<Option<Lease>, StoreError>),
    Reported(Result<Reported, StoreError>),
    Retired,
}

#[derive(Debug)]
struct Process {
    life: u64,
    coordinator: Coordinator,
    /// How fast its clock runs, and what it showed at time zero.
    rate: f64,
    offset: Duration,
    frozen_until: Duration,
    held: BTreeMap<ShardId, Holding>,
    /// Requests without an answer yet, and since when.
    open_requests: BTreeMap<RequestId, (ShardId, LeaseChange, Duration)>,
    wakes_at: Option<Duration>,
    max_leases: usize,
    unread: Vec<ShardId>,
}

#[derive(Debug)]
struct Holding {
    acquisition: Acquisition,
    /// On the process's clock.
    valid_until: Duration,
    processed: u128,
    /// Another worker is to have it.
    is_drained: bool,
    /// Its worker has stopped, and asked for the end of the shard or for a release.
    is_ending: bool,
    /// A KCL worker has taken it, which asks nobody.
    is_stolen: bool,
}

#[derive(Debug)]
struct Fleet {
    trial: Trial,
    random: fastrand::Rng,
    initial: Checkpoint,
    now: Duration,
    table: Table,
    /// What old scans show.
    history: Vec<(Duration, Table)>,
    stream: Vec<Shard>,
    /// The shards whose rows have been at their end.
    ended: BTreeSet<ShardId>,
    processes: Vec<Process>,
    kcl: Vec<Kcl>,
    /// When each worker reported last.
    reports: BTreeMap<WorkerId, Duration>,
    pulse: LeaderPulse,
    /// How far each shard was processed, and when its last lease was given up.
    processed: BTreeMap<ShardId, u128>,
    given_up: BTreeMap<ShardId, (Duration, Parting)>,
    /// When a lease last came to another owner.
    moved_at: Duration,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    pending: BTreeMap<u64, Event>,
    sequence: u64,
    lives: u64,
    /// The journals of all processes, if they are wanted.
    journal: Option<Lines>,
}

/// How a lease was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parting {
    /// To the worker that had asked for it.
    Given,
    /// To nobody.
    Released,
}

impl Process {
    fn clock(&self, now: Duration) -> Duration {
        self.offset + now.mul_f64(self.rate)
    }
}

impl Fleet {
    fn new(seed: u64, trial: Trial, initial: Checkpoint, journal: Option<Lines>) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let most = if trial == Trial::Trouble { 5 } else { 13 };
        let stream = (10..10 + random.usize(1..most)).map(|shard| open(&shard.to_string(), &[])).collect();
        let mut fleet = Self {
            trial,
            random,
            initial,
            now: Duration::ZERO,
            table: Table::default(),
            history: vec![(Duration::ZERO, Table::default())],
            stream,
            ended: BTreeSet::new(),
            processes: Vec::new(),
            kcl: Vec::new(),
            reports: BTreeMap::new(),
            pulse: LeaderPulse { version: String::new(), valid_for: 6 * FAILOVER },
            processed: BTreeMap::new(),
            given_up: BTreeMap::new(),
            moved_at: Duration::ZERO,
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            sequence: 0,
            lives: 0,
            journal,
        };
        for index in 0..fleet.random.usize(2..5) {
            let process = fleet.process(index);
            fleet.processes.push(process);
            let is_late = trial != Trial::Trouble && fleet.random.bool();
            let start = if is_late { fleet.random_time(CALM / 2) } else { Duration::ZERO };
            let life = fleet.lives;
            fleet.after(start, Event::Wake(index, life));
            fleet.after(start + Duration::from_millis(500), Event::Ask(index));
            for _ in 0..fleet.random.usize(0..2) {
                let at = fleet.random_time(CALM);
                fleet.after(at, Event::Leave(index));
            }
            let crashes = if trial == Trial::Planned { 0 } else { fleet.random.usize(0..3) };
            for _ in 0..crashes {
                let at = fleet.random_time(CALM);
                fleet.after(at, Event::Crash(index));
                let at = fleet.random_time(CALM);
                let time = fleet.random_time(3 * FAILOVER);
                fleet.after(at, Event::Freeze(index, time));
            }
        }
        for _ in 0..fleet.random.usize(0..5) {
            let at = fleet.random_time(CALM);
            fleet.after(at, Event::Reshard);
        }
        if trial.has_kcl() {
            fleet.start_kcl();
        }
        fleet
    }

    fn process(&mut self, index: usize) -> Process {
        self.lives += 1;
        let max_leases = match self.trial {
            // The same in each life of the process.
            Trial::Limits if index.is_multiple_of(2) => 1 + index + self.stream.len() % 4,
            _ => usize::MAX,
        };
        let settings = Settings {
            worker: format!("worker-{index}").into(),
            failover: FAILOVER,
            shard_sync_interval: FAILOVER,
            initial: self.initial.clone(),
            max_leases,
            max_steals: None,
            hand_over_timeout: FAILOVER,
            clean_up_after: 4 * FAILOVER,
        };
        let random = self.random.fork();
        let coordinator = match &self.journal {
            Some(journal) => journal.coordinator(settings, random),
            None => Coordinator::new(settings, random),
        };
        Process {
            life: self.lives,
            coordinator,
            rate: 0.95 + 0.1 * self.random.f64(),
            offset: Duration::from_secs(self.random.u64(0..1_000)),
            frozen_until: Duration::ZERO,
            held: BTreeMap::new(),
            open_requests: BTreeMap::new(),
            wakes_at: None,
            max_leases,
            unread: Vec::new(),
        }
    }

    fn random_time(&mut self, below: Duration) -> Duration {
        below.mul_f64(self.random.f64())
    }

    fn is_calm(&self) -> bool {
        self.now >= CALM
    }

    /// One time in `n`, until faults stop.
    fn strikes(&mut self, n: u32) -> bool {
        !self.is_calm() && self.trial != Trial::Planned && self.random.u32(0..n) == 0
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.sequence += 1;
        self.pending.insert(self.sequence, event);
        self.events.push(Reverse((self.now + time, self.sequence)));
    }

    /// Mostly a few milliseconds, sometimes seconds.
    fn latency(&mut self) -> Duration {
        let below = if self.strikes(20) { 6_000 } else { 30 };
        Duration::from_millis(self.random.u64(1..below))
    }

    fn run(&mut self) {
        while let Some(Reverse((time, number))) = self.events.pop() {
            if time > self.trial.end() {
                break;
            }
            self.now = self.now.max(time);
            if let Some(event) = self.pending.remove(&number) {
                self.happen(event);
            }
            self.assert_one_reader();
        }
        self.assert_settled();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Reshard => self.reshard(),
            Event::KclRenews(index, life) => self.kcl_renews(index, life),
            Event::KclTakes(index, life) => self.kcl_takes(index, life),
            Event::KclDies(index) => self.kcl_dies(index),
            Event::KclLeads => self.kcl_leads(),
            Event::Crash(index) => {
                self.processes[index] = self.process(index);
                self.after(Duration::ZERO, Event::Wake(index, self.lives));
            }
            Event::Leave(index) => {
                let process = &mut self.processes[index];
                let (life, now) = (process.life, process.clock(self.now));
                let until = process.coordinator.leave(now).unwrap_or(now);
                self.after((until - now).div_f64(self.processes[index].rate), Event::Part(index, life));
                self.drain(index);
            }
            Event::Part(index, life) if self.processes[index].life != life => {}
            Event::Part(index, _) if self.processes[index].frozen_until > self.now => {
                let wait = self.processes[index].frozen_until - self.now;
                self.after(wait, event);
            }
            Event::Part(index, life) => {
                self.part(index);
                self.drain(index);
                let is_over = self.processes[index].coordinator.is_empty_handed() || self.strikes(20);
                let next = if is_over { Event::Crash(index) } else { Event::Part(index, life) };
                self.after(Duration::from_millis(500), next);
            }
            Event::Freeze(index, time) => self.processes[index].frozen_until = (self.now + time).min(CALM),
            Event::Arrives(index, life, effect) => self.arrive(index, life, effect),
            Event::Ask(index) => {
                let pause = Duration::from_millis(self.random.u64(200..2_000));
                self.after(pause, Event::Ask(index));
                if self.processes[index].frozen_until <= self.now {
                    self.ask(index);
                    self.drain(index);
                }
            }
            Event::Wake(index, life) | Event::Replies(index, life, _)
                if self.processes[index].life != life => {}
            Event::Wake(index, _) | Event::Replies(index, ..)
                if self.processes[index].frozen_until > self.now =>
            {
                let wait = self.processes[index].frozen_until - self.now;
                self.after(wait, event);
            }
            Event::Wake(index, _) => {
                self.tick(index);
                self.drain(index);
            }
            Event::Replies(index, _, reply) => {
                self.reply(index, reply);
                self.drain(index);
            }
        }
    }

    fn tick(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.wakes_at = None;
        let now = process.clock(self.now);
        process.coordinator.tick(now);
        let is_busy = !process.coordinator.effects.is_empty();
        assert!(is_busy || process.coordinator.next_wakeup().is_none_or(|next| next > now));
    }

    fn reply(&mut self, index: usize, reply: Reply) {
        let now = self.processes[index].clock(self.now);
        let coordinator = &mut self.processes[index].coordinator;
        match reply {
            Reply::Scanned(rows) => coordinator.scanned(now, rows),
            Reply::Listed(shards) => {
                let _ = coordinator.listed(now, shards);
            }
            Reply::Deleted(shard, outcome) => coordinator.deleted(&shard, outcome),
            Reply::Created(new, outcome) => coordinator.created(now, new, outcome),
            Reply::Written(acquisition, write, outcome) => {
                coordinator.written(now, acquisition, write, outcome);
            }
            Reply::LookedUp(acquisition, shard, row) => coordinator.looked_up(now, acquisition, &shard, row),
            Reply::Reported(reported) => coordinator.reported(now, reported),
            Reply::Retired => coordinator.retired(now),
        }
    }

    /// Sends out what a process wants done, tells its workers, and sees to its next wake-up.
    fn drain(&mut self, index: usize) {
        let life = self.processes[index].life;
        while let Some(effect) = self.processes[index].coordinator.next_effect() {
            match effect {
                Effect::Scan
                | Effect::ListShards
                | Effect::Create(_)
                | Effect::Write(..)
                | Effect::Delete(..)
                | Effect::LookUp(..)
                | Effect::Report { .. }
                | Effect::Retire => {
                    let latency = self.latency();
                    self.after(latency, Event::Arrives(index, life, effect));
                }
                told => self.tell(index, told),
            }
        }
        let process = &mut self.processes[index];
        if let Some(wakeup) = process.coordinator.next_wakeup()
            && process.wakes_at.is_none_or(|at| wakeup < at)
        {
            process.wakes_at = Some(wakeup);
            let wait = wakeup.saturating_sub(process.clock(self.now)).div_f64(process.rate);
            self.after(wait + Duration::from_micros(1), Event::Wake(index, life));
        }
    }

    fn assert_one_reader(&self) {
        let mut readers = BTreeMap::new();
        for process in &self.processes {
            let now = process.clock(self.now);
            let reads =
                |holding: &Holding| now < holding.valid_until && !holding.is_ending && !holding.is_stolen;
            for (shard, _) in process.held.iter().filter(|(_, holding)| reads(holding)) {
                let other = readers.insert(shard, process.life);
                assert!(
                    other.is_none(),
                    "{shard} is read by {other:?} and {} at {:?}",
                    process.life,
                    self.now
                );
            }
        }
    }

    /// Everything that can be read is being read, by as many workers as can, and nothing moves any more.
    fn assert_settled(&self) {
        let list = complete_list(self.stream.clone());
        let is_held = |shard: &ShardId| {
            self.processes.iter().any(|process| process.held.contains_key(shard))
                || self.kcl.iter().any(|kcl| kcl.holds(shard))
        };
        let mut unread = Vec::new();
        for shard in &self.stream {
            let row = self.table.rows.get(&shard.id);
            // A start from the newest record wants nothing of a shard that was closed before it had a row.
            let is_wanted = shard.is_open() || self.initial != Checkpoint::Latest;
            let is_over = !shard.is_open() && self.ended.contains(&shard.id);
            assert!(row.is_some() || is_over || !is_wanted, "{} has no row", shard.id);
            let may_start =
                row.is_some_and(|row| !row.is_finished() && lineage::may_start(row, &self.table.rows, &list));
            if may_start && !is_held(&shard.id) {
                unread.push(shard.id.clone());
            }
        }
        let is_full = |process: &Process| process.held.len() >= process.max_leases;
        assert!(unread.is_empty() || self.processes.iter().all(is_full), "nobody reads {unread:?}");
        for process in &self.processes {
            assert_eq!(process.unread, unread, "what is not read is told");
            let mut requests = process.open_requests.values();
            let is_answered_soon = requests.all(|(.., since)| self.now < *since + FAILOVER);
            assert!(is_answered_soon, "a request was never answered");
        }
        if self.trial == Trial::Led {
            self.assert_led();
        } else if self.trial.has_kcl() {
            self.assert_shared_with_kcl();
        } else {
            self.assert_even();
        }
        let calm = self.trial.end() - self.moved_at;
        assert!(calm >= 2 * FAILOVER, "a lease still moves at {:?}", self.moved_at);
    }

    fn assert_even(&self) {
        let loads: Vec<_> =
            self.processes.iter().map(|process| (process.held.len(), process.max_leases)).collect();
        let most = loads.iter().map(|(load, _)| *load).max().unwrap_or_default();
        assert!(loads.iter().all(|(load, limit)| most <= load + 1 || load >= limit), "{loads:?}");
        assert!(loads.iter().all(|(load, limit)| load <= limit), "{loads:?}");
    }
}

/// Seeds that have shown a fault, which is mended.
const REGRESSIONS: [(Trial, u64); 4] = [
    (Trial::Trouble, 13_831_314_295_114_652_889),
    (Trial::Trouble, 938),
    (Trial::Kcl2, 44),
    (Trial::Kcl3, 27),
];

/// `FLEET_SEEDS=5000 cargo test -p kinesis-lease a_fleet` runs the seeds below 5000 instead of a few, and `FLEET_FIRST=4000` in
/// front of it begins with that one.
fn try_fleets(trial: Trial) {
    let seeds = std::env::var("FLEET_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12);
    let regressions = REGRESSIONS.into_iter().filter(|(of, _)| *of == trial).map(|(_, seed)| seed);
    let first: u64 = std::env::var("FLEET_FIRST").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(0);
    for seed in regressions.chain(first..seeds) {
        for initial in [Checkpoint::TrimHorizon, Checkpoint::AtTimestamp, Checkpoint::Latest] {
            let run = std::panic::catch_unwind(|| Fleet::new(seed, trial, initial.clone(), None).run());
            assert!(run.is_ok(), "seed {seed}, {trial:?}, from {initial}");
        }
    }
}

#[test]
fn a_fleet_shares_a_stream_through_faults_crashes_freezes_and_resharding() {
    try_fleets(Trial::Trouble);
}

#[test]
fn a_fleet_whose_workers_may_hold_a_few_leases_only_shares_what_it_can() {
    try_fleets(Trial::Limits);
}

#[test]
fn a_fleet_shares_a_stream_with_workers_of_the_kcl_2() {
    try_fleets(Trial::Kcl2);
}

#[test]
fn a_fleet_shares_a_stream_with_workers_of_the_kcl_3() {
    try_fleets(Trial::Kcl3);
}

#[test]
fn a_fleet_is_shared_by_the_leader_of_the_kcl_3_that_it_reports_to() {
    try_fleets(Trial::Led);
}

#[test]
fn a_fleet_hands_leases_over_at_once_and_without_repeats_when_nothing_goes_wrong() {
    try_fleets(Trial::Planned);
}

#[test]
fn every_process_of_a_fleet_does_the_same_again_when_its_journal_is_replayed() {
    for trial in [Trial::Trouble, Trial::Limits, Trial::Kcl2, Trial::Kcl3, Trial::Planned] {
        for (seed, initial) in [(0, Checkpoint::TrimHorizon), (1, Checkpoint::Latest)] {
            let journal = Lines::default();
            let mut fleet = Fleet::new(seed, trial, initial, Some(journal.clone()));
            fleet.run();
            assert_eq!(journal.assert_replayable() as u64, fleet.lives, "seed {seed}, {trial:?}");
        }
    }
}
