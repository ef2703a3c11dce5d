//! A run: the fleet, its stream, and what is done to both.

mod deeds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use actix_kinesis::consumer::{ConsumerError, Stopped};
use actix_kinesis_test::check::{Checker, Event, Rules, Violation};
use kinesis_lease::{Lease, WorkerId};
use kinesis_local::model::Settings;
use kinesis_record::ShardId;
use tokio::time::{Instant, sleep, sleep_until};

use crate::process::{FAILOVER, Life, MAX_BYTES, MAX_IN_FLIGHT, Making, WallClock};
use crate::processor::Moods;
use crate::producer::Producer;
use crate::schedule::{CALM, Deed, Plan, Trial, What};
use crate::trace::{Entry, Trace};
use crate::wire::Wire;
use crate::world::Place;

const SECOND: Duration = Duration::from_secs(1);
/// Records are put until then, from the calm on.
const PUTTING: Duration = Duration::from_secs(20);
/// Once faults are over, and for each record from then on, everything is done and stored within this time.
pub(crate) const PROGRESS: Duration = Duration::from_secs(30);
/// The rows of finished shards are deleted some time after five minutes.
const CLEAN_UP: Duration = Duration::from_secs(300);
/// A process that failed to start is started again after this time.
const COMES_BACK: Duration = Duration::from_secs(2);

/// What a run was like.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) entries: Vec<Entry>,
    pub(crate) violations: Vec<Violation>,
    /// What went wrong besides.
    pub(crate) failures: Vec<String>,
}

impl Outcome {
    pub(crate) fn is_good(&self) -> bool {
        self.violations.is_empty() && self.failures.is_empty()
    }
}

/// Runs the plan with some of its deeds.
pub(crate) fn run(plan: &Plan, deeds: &[Deed]) -> Outcome {
    crate::panics::begin();
    let system = actix::System::with_tokio_rt(|| {
        // From its first moment on, so that no time but the simulated one passes.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap()
    });
    let (entries, mut failures) = system.block_on(live(plan.clone(), deeds.to_vec()));
    failures.extend(crate::panics::end());
    let mut checker = Checker::new(rules(plan));
    for entry in &entries {
        match entry {
            Entry::Line(line) => checker.observe(line),
            Entry::Remark { .. } => checker.pass(),
        }
    }
    Outcome { violations: checker.finish(), entries, failures }
}

fn rules(plan: &Plan) -> Rules {
    let slowest = if plan.trial == Trial::Clocks { 2 } else { 1 };
    Rules {
        only_planned: plan.trial == Trial::Planned,
        // A lease that cannot be renewed lasts so long, during which nothing is stored either.
        window: Some(slowest * FAILOVER + 4 * SECOND),
        progress: Some(PROGRESS),
        max_in_flight: Some(MAX_IN_FLIGHT as u64),
        // How much the next page holds is an estimate.
        max_bytes: Some(2 * MAX_BYTES),
        owners_may_overlap: plan.trial == Trial::Clocks,
        concurrency: plan.concurrency,
        gives_up_nothing: true,
        silence_is_death: false,
    }
}

async fn live(plan: Plan, deeds: Vec<Deed>) -> (Vec<Entry>, Vec<String>) {
    let fleet = Fleet::new(plan);
    fleet.begin();
    for deed in deeds {
        sleep_until(fleet.begin + deed.at).await;
        fleet.trace.remark("", deed.to_string());
        fleet.happen(&deed);
    }
    sleep_until(fleet.begin + CALM).await;
    fleet.calm();
    sleep(PUTTING + PROGRESS + SECOND).await;
    if fleet.plan.is_long {
        sleep(CLEAN_UP).await;
        fleet.happen(&Deed { number: 0, at: CALM, what: What::Stop { process: 0, back_after: SECOND } });
        sleep(PROGRESS).await;
    }
    let failures = std::mem::take(&mut *fleet.failures.lock().unwrap());
    for life in fleet.lives() {
        life.end();
    }
    sleep(SECOND).await;
    (fleet.trace.take(), failures)
}

/// Cloning gives the same fleet.
#[derive(Clone)]
struct Fleet {
    plan: Arc<Plan>,
    begin: Instant,
    place: Place,
    trace: Trace,
    /// The shards that were told of.
    told: Arc<Mutex<BTreeSet<ShardId>>>,
    seats: Arc<Mutex<Vec<Seat>>>,
    /// The worker id of each life.
    worker_ids: Arc<Mutex<BTreeMap<String, WorkerId>>>,
    failures: Arc<Mutex<Vec<String>>>,
}

/// A process, whichever life it is in.
struct Seat {
    wire: Wire,
    moods: Moods,
    clock: WallClock,
    rate: f64,
    lives: usize,
    life: Option<Life>,
    /// Former lives that go on beside it.
    former: Vec<Life>,
}

impl Fleet {
    fn new(plan: Plan) -> Self {
        let begin = Instant::now();
        let true_begin = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let place = Place::beginning(plan.shards, Settings::default(), true_begin);
        let trace = Trace::new();
        let seats = plan.processes.iter().enumerate().map(|(index, starting)| Seat {
            wire: Wire::default(),
            moods: Moods::new(chance(plan.seed, 100 + index)),
            clock: WallClock { begin, true_begin, off: Arc::default() },
            rate: starting.rate,
            lives: 0,
            life: None,
            former: Vec::new(),
        });
        let seats = Arc::new(Mutex::new(seats.collect()));
        let (told, worker_ids, failures) = (Arc::default(), Arc::default(), Arc::default());
        Self { plan: Arc::new(plan), begin, place, trace, told, seats, worker_ids, failures }
    }

    fn begin(&self) {
        self.tell_of_new_shards();
        // Not the fleet, which would keep itself.
        let trace = self.trace.clone();
        let (worker_ids, failures) = (Arc::clone(&self.worker_ids), Arc::clone(&self.failures));
        self.place.watch_rows(move |by, before, after| {
            if let Some(failure) = foreign_write(by, worker_ids.lock().unwrap().get(by), before, after) {
                trace.remark(by, failure.clone());
                failures.lock().unwrap().push(failure);
            }
            let event = match (before, after) {
                (_, Some(row)) => Event::Row {
                    shard: row.shard.to_string(),
                    checkpoint: row.checkpoint.clone(),
                    counter: row.counter,
                },
                (Some(row), None) => Event::RowDeleted { shard: row.shard.to_string() },
                (None, None) => return,
            };
            trace.tell_write(by, event);
            if let Some(row) = after.filter(|row| before.is_none_or(|before| holders(before) != holders(row)))
            {
                trace.remark(by, format!("{}: {:?}", row.shard, holders(row)));
            }
        });
        for (index, starting) in self.plan.processes.iter().enumerate() {
            self.later(starting.at, move |fleet| fleet.start(index));
        }
        let producer = self.producer(chance(self.plan.seed, 1));
        let end = self.begin + CALM + PUTTING;
        actix::spawn(async move { tokio::time::timeout_at(end, producer.run()).await });
        let fleet = self.clone();
        actix::spawn(async move {
            loop {
                sleep(SECOND).await;
                fleet.measure();
            }
        });
    }

    fn producer(&self, chance: fastrand::Rng) -> Producer {
        Producer { place: self.place.clone(), trace: self.trace.clone(), chance }
    }

    fn later(&self, time: Duration, what: impl FnOnce(&Self) + 'static) {
        let fleet = self.clone();
        actix::spawn(async move {
            sleep(time).await;
            what(&fleet);
        });
    }

    fn seat<T>(&self, process: usize, with: impl FnOnce(&mut Seat) -> T) -> T {
        with(&mut self.seats.lock().unwrap()[process])
    }

    fn life(&self, process: usize) -> Option<Life> {
        self.seat(process, |seat| seat.life.clone()).filter(|life| !life.is_dead())
    }

    /// All that live, those that stand still included.
    fn lives(&self) -> Vec<Life> {
        let seats = self.seats.lock().unwrap();
        let all = seats.iter().flat_map(|seat| seat.life.iter().chain(&seat.former));
        all.filter(|life| !life.is_dead()).cloned().collect()
    }

    fn start(&self, process: usize) {
        if self.life(process).is_none() {
            self.start_as(process, None);
        }
    }

    fn start_as(&self, process: usize, worker_id: Option<String>) {
        let life = self.seat(process, |seat| {
            seat.lives += 1;
            let name = format!("p{process}.{}", seat.lives);
            let kept = self.plan.keeps_names.then(|| format!("p{process}"));
            let worker_id = worker_id.or(kept).unwrap_or_else(|| name.clone());
            let seed = chance(self.plan.seed, 1_000 + 100 * process + seat.lives).u64(..);
            let making = Making {
                plan: &self.plan,
                place: &self.place,
                trace: &self.trace,
                wire: &seat.wire,
                moods: &seat.moods,
                clock: &seat.clock,
            };
            let life = Life::begin(&making, name, worker_id, seat.rate, seed);
            seat.life = Some(life.clone());
            life
        });
        self.worker_ids.lock().unwrap().insert(life.name.clone(), life.worker_id.as_str().into());
        let fleet = self.clone();
        actix::spawn(async move {
            let ended = life.consumer.finished().await;
            fleet.ended(process, &life, ended);
        });
    }

    /// The consumer has ended by itself or because it was asked to.
    fn ended(&self, process: usize, life: &Life, ended: Result<Stopped, ConsumerError>) {
        if life.is_dead() {
            return;
        }
        match ended {
            Ok(stopped) if !stopped.is_clean() => self.trace.remark(&life.name, format!("{stopped:?}")),
            Ok(_) => {}
            Err(error) => {
                self.trace.remark(&life.name, format!("failed: {error}"));
                if !matches!(error, ConsumerError::Stream(_) | ConsumerError::LeaseTable(_)) {
                    self.failures.lock().unwrap().push(format!("{} failed: {error}", life.name));
                }
                self.later(COMES_BACK, move |fleet| fleet.start(process));
            }
        }
        life.end();
    }

    fn measure(&self) {
        for life in self.lives().iter().filter(|life| !life.is_frozen()) {
            let load = Event::load(&life.consumer.status());
            if !matches!(load, Event::Load { bytes: 0, .. }) {
                self.trace.tell(&life.name, load);
            }
        }
    }
}

/// Who does not have a lease may take it, and do nothing else to its row but ask for it.
fn foreign_write(
    by: &str,
    worker: Option<&WorkerId>,
    before: Option<&Lease>,
    after: Option<&Lease>,
) -> Option<String> {
    let (before, after) = (before?, after?);
    let is_kept = before.counter < after.counter && before.owner == after.owner;
    (is_kept && before.owner.as_ref() != worker)
        .then(|| format!("{by} writes to the lease of {}, which is {:?}", before.shard, holders(before)))
}

/// Who has a lease, and who wants it.
fn holders(row: &Lease) -> (Option<&WorkerId>, Option<&str>, Option<&WorkerId>, bool) {
    (row.owner.as_ref(), row.token.as_deref(), row.asked_by.as_ref(), row.is_offered)
}

/// Chance for one purpose.
fn chance(seed: u64, purpose: usize) -> fastrand::Rng {
    let mut chance = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose as u64);
    chance.fork()
}
