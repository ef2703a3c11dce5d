//! A fleet on one table under random faults, with everything that must hold checked at every step.

mod workers;
mod world;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::*;
use crate::lease::Lease;
use crate::store::{Created, StoreError, Written};
use crate::stream::StreamErrorKind;
use crate::testing::{Table, open};

const FAILOVER: Duration = Duration::from_secs(10);
/// Faults happen until then; what is due by `3 * FAILOVER` later must have happened.
const CALM: Duration = Duration::from_secs(120);
const END: Duration = Duration::from_secs(CALM.as_secs() + 3 * FAILOVER.as_secs());

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
    Freeze(usize, Duration),
    Ask(usize),
}

#[derive(Debug)]
enum Reply {
    Scanned(Result<Vec<Lease>, StoreError>),
    Listed(Result<Vec<Shard>, StreamError>),
    Created(NewLease, Result<Created, StoreError>),
    Written(Acquisition, crate::lease::LeaseWrite, Result<Written, StoreError>),
    LookedUp(Acquisition, ShardId, Result<Option<Lease>, StoreError>),
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
}

#[derive(Debug)]
struct Holding {
    acquisition: Acquisition,
    /// On the process's clock.
    valid_until: Duration,
    processed: u128,
    /// Its worker has stopped, and asked for the end of the shard or for a release.
    is_ending: bool,
}

#[derive(Debug)]
struct Fleet {
    random: fastrand::Rng,
    initial: Checkpoint,
    now: Duration,
    table: Table,
    /// What old scans show.
    history: Vec<Table>,
    stream: Vec<Shard>,
    processes: Vec<Process>,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    pending: BTreeMap<u64, Event>,
    sequence: u64,
    lives: u64,
}

impl Process {
    fn clock(&self, now: Duration) -> Duration {
        self.offset + now.mul_f64(self.rate)
    }
}

impl Fleet {
    fn new(seed: u64, initial: Checkpoint) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let stream = (10..10 + random.usize(1..5)).map(|shard| open(&shard.to_string(), &[])).collect();
        let mut fleet = Self {
            random,
            initial,
            now: Duration::ZERO,
            table: Table::default(),
            history: vec![Table::default()],
            stream,
            processes: Vec::new(),
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            sequence: 0,
            lives: 0,
        };
        for index in 0..fleet.random.usize(2..5) {
            let process = fleet.process(index);
            fleet.processes.push(process);
            fleet.after(Duration::ZERO, Event::Wake(index, fleet.lives));
            fleet.after(Duration::from_millis(500), Event::Ask(index));
            for _ in 0..fleet.random.usize(0..3) {
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
        fleet
    }

    fn process(&mut self, index: usize) -> Process {
        self.lives += 1;
        let settings = Settings {
            worker: format!("worker-{index}").into(),
            failover: FAILOVER,
            shard_sync_interval: FAILOVER,
            initial: self.initial.clone(),
            max_leases: usize::MAX,
        };
        Process {
            life: self.lives,
            coordinator: Coordinator::new(settings, self.random.fork()),
            rate: 0.95 + 0.1 * self.random.f64(),
            offset: Duration::from_secs(self.random.u64(0..1_000)),
            frozen_until: Duration::ZERO,
            held: BTreeMap::new(),
            open_requests: BTreeMap::new(),
            wakes_at: None,
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
        !self.is_calm() && self.random.u32(0..n) == 0
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
            if time > END {
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
            Event::Crash(index) => {
                self.processes[index] = self.process(index);
                self.after(Duration::ZERO, Event::Wake(index, self.lives));
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
            Reply::Listed(shards) => coordinator.listed(now, shards),
            Reply::Created(new, outcome) => coordinator.created(now, new, outcome),
            Reply::Written(acquisition, write, outcome) => {
                coordinator.written(now, acquisition, write, outcome);
            }
            Reply::LookedUp(acquisition, shard, row) => coordinator.looked_up(now, acquisition, &shard, row),
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
                | Effect::LookUp(..) => {
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
            let reads = |holding: &Holding| now < holding.valid_until && !holding.is_ending;
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

    /// Everything that can be read is being read.
    fn assert_settled(&self) {
        let list = ShardList::new(self.stream.clone());
        let is_held = |shard: &ShardId| self.processes.iter().any(|process| process.held.contains_key(shard));
        for shard in &self.stream {
            let row = self.table.rows.get(&shard.id);
            // A start from the newest record wants nothing of a shard that was closed before it had a row.
            let is_wanted = shard.is_open() || self.initial != Checkpoint::Latest;
            assert!(row.is_some() || !is_wanted, "{} has no row", shard.id);
            let may_start =
                row.is_some_and(|row| !row.is_finished() && lineage::may_start(row, &self.table.rows, &list));
            assert!(!may_start || is_held(&shard.id), "nobody reads {}", shard.id);
        }
        for process in &self.processes {
            let mut requests = process.open_requests.values();
            let is_answered_soon = requests.all(|(.., since)| self.now < *since + FAILOVER);
            assert!(is_answered_soon, "a request was never answered");
        }
    }
}

/// Seeds that have shown a fault, which is mended.
const REGRESSIONS: [u64; 2] = [13_831_314_295_114_652_889, 938];

/// `FLEET_SEEDS=5000 cargo test -p kinesis-lease fleet` runs so many seeds instead of a few.
#[test]
fn a_fleet_shares_a_stream_through_faults_crashes_freezes_and_resharding() {
    let seeds = std::env::var("FLEET_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(48);
    for seed in REGRESSIONS.into_iter().chain(0..seeds) {
        for initial in [Checkpoint::TrimHorizon, Checkpoint::AtTimestamp, Checkpoint::Latest] {
            let run = std::panic::catch_unwind(|| Fleet::new(seed, initial.clone()).run());
            assert!(run.is_ok(), "seed {seed}, from {initial}");
        }
    }
}
