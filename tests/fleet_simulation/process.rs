//! A process of the fleet: a consumer of its own, which can stand still or die at any moment.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use actix::Actor;
use actix_kinesis::config::{BackoffConf, ConsumerConf, InitialPosition};
use actix_kinesis::consumer::{EventProcessors, KinesisConsumer, Observation, Placement};
use actix_kinesis_test::check::Event;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::processor::{Clerk, Moods};
use crate::schedule::{Plan, Trial};
use crate::trace::Trace;
use crate::wire::Wire;
use crate::world::{Place, STREAM};

pub(crate) const FAILOVER: Duration = Duration::from_secs(10);
pub(crate) const MAX_IN_FLIGHT: usize = 16;
pub(crate) const MAX_BYTES: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

/// The settings of a process whose clock runs at this rate.
fn conf(plan: &Plan, worker_id: &str, rate: f64) -> ConsumerConf {
    let by_its_clock = |time: Duration| time.div_f64(rate);
    let mut conf = ConsumerConf::new("fleet", STREAM);
    if plan.trial == Trial::Latest {
        conf.initial_position = InitialPosition::Latest;
    }
    conf.worker.concurrency = plan.concurrency;
    conf.worker.batch_timeout = 3 * SECOND;
    conf.worker.failed_message_retries = 2;
    conf.worker.failure_tolerance_percentage = 0.0;
    conf.worker.restart_backoff = BackoffConf { min: SECOND / 2, max: 4 * SECOND };
    conf.worker.shutdown_timeout = 12 * SECOND;
    conf.worker.max_in_flight_events = MAX_IN_FLIGHT;
    conf.worker.max_bytes = MAX_BYTES;
    conf.checkpointer.interval = SECOND;
    conf.checkpointer.backoff = BackoffConf { min: SECOND / 5, max: 2 * SECOND };
    conf.lease.worker_id = Some(worker_id.to_owned());
    conf.lease.failover_time = by_its_clock(FAILOVER);
    conf.lease.shard_sync_interval = by_its_clock(15 * SECOND);
    conf.lease.hand_over_timeout = by_its_clock(6 * SECOND);
    conf.polling.max_records = 20;
    conf.polling.idle_time = SECOND / 2;
    conf
}

/// The wall clock of a host.
#[derive(Debug, Clone)]
pub(crate) struct WallClock {
    pub(crate) begin: Instant,
    pub(crate) true_begin: SystemTime,
    /// By how many seconds it is wrong.
    pub(crate) off: Arc<AtomicI64>,
}

impl WallClock {
    fn read(&self) -> SystemTime {
        let off = self.off.load(Ordering::Relaxed);
        let wrong = Duration::from_secs(off.unsigned_abs());
        let right = self.true_begin + self.begin.elapsed();
        if off < 0 { right - wrong } else { right + wrong }
    }
}

/// Whether a process may run.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Passage>);

#[derive(Debug, Default)]
struct Passage {
    is_frozen: bool,
    is_dead: bool,
    waker: Option<Waker>,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut Passage)) {
        let mut passage = self.0.lock().unwrap();
        change(&mut passage);
        if let Some(waker) = passage.waker.take() {
            waker.wake();
        }
    }
}

/// Runs all tasks of a process as long as it lives and does not stand still.
struct Running {
    tasks: Option<LocalSet>,
    gate: Arc<Gate>,
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (is_frozen, is_dead) = {
            let mut passage = self.gate.0.lock().unwrap();
            passage.waker = Some(cx.waker().clone());
            (passage.is_frozen, passage.is_dead)
        };
        if is_dead {
            self.tasks = None;
            return Poll::Ready(());
        }
        match &mut self.tasks {
            Some(tasks) if !is_frozen => Pin::new(tasks).poll(cx),
            _ => Poll::Pending,
        }
    }
}

/// What a process is made of.
pub(crate) struct Making<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) place: &'a Place,
    pub(crate) trace: &'a Trace,
    pub(crate) wire: &'a Wire,
    pub(crate) moods: &'a Moods,
    pub(crate) clock: &'a WallClock,
}

/// One life of a process, from its start to its end.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    /// A name that no other life has.
    pub(crate) name: String,
    pub(crate) worker_id: String,
    pub(crate) consumer: KinesisConsumer,
    gate: Arc<Gate>,
    trace: Trace,
}

impl Life {
    pub(crate) fn begin(making: &Making<'_>, name: String, worker_id: String, rate: f64, seed: u64) -> Self {
        let Making { plan, place, trace, wire, moods, clock } = making;
        let (world, network) = place.connect_as(&name);
        network.fail(wire.rule((*trace).clone(), name.clone(), fastrand::Rng::with_seed(seed ^ 1)));
        let gate = Arc::new(Gate::default());
        let tasks = LocalSet::new();
        let moods = (*moods).clone();
        let processors = EventProcessors::per_shard(move |_| Clerk::new(moods.clone()).start());
        let clock = (*clock).clone();
        let consumer = {
            let _entered = tasks.enter();
            let observer = observer((*trace).clone(), name.clone());
            KinesisConsumer::builder(conf(plan, &worker_id, rate), processors)
                .world(world)
                .placement(Placement::CurrentThread)
                .seed(seed)
                .wall_clock(move || clock.read())
                .observer(observer)
                .start()
                .unwrap()
        };
        actix::spawn(Running { tasks: Some(tasks), gate: Arc::clone(&gate) });
        trace.remark(&name, format!("begins as {worker_id}"));
        Self { name, worker_id, consumer, gate, trace: (*trace).clone() }
    }

    pub(crate) fn freeze(&self) {
        if !self.is_frozen() && !self.is_dead() {
            self.gate.change(|passage| passage.is_frozen = true);
            self.trace.tell(&self.name, Event::Frozen);
        }
    }

    pub(crate) fn thaw(&self) {
        if self.is_frozen() {
            self.trace.tell(&self.name, Event::Thawed);
            self.gate.change(|passage| passage.is_frozen = false);
        }
    }

    pub(crate) fn crash(&self) {
        if !self.is_dead() {
            self.trace.tell(&self.name, Event::Crashed);
            self.end();
        }
    }

    /// Its operating system takes back what it has.
    pub(crate) fn end(&self) {
        self.trace.silence(&self.name);
        self.gate.change(|passage| passage.is_dead = true);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.gate.0.lock().unwrap().is_dead
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.gate.0.lock().unwrap().is_frozen
    }
}

fn observer(trace: Trace, name: String) -> impl Fn(Observation) + Send + Sync + 'static {
    move |observation| {
        let events = Event::of(&observation);
        if let Observation::Noticed(notice) = &observation
            && events.is_empty()
        {
            trace.remark(&name, format!("{notice:?}"));
        }
        events.into_iter().for_each(|event| trace.tell(&name, event));
    }
}
