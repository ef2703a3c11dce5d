//! The actor that holds the leases of one consumer and supervises a worker per shard.

mod journal;
mod leader;
mod operate;
mod report;
mod shard;
mod stop;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use actix::fut::wrap_future;
use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, SpawnHandle,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::coordinator::{Coordinator, Effect, RequestError, RequestId, Settings};
use kinesis_lease::store::{Created, Scan, Written};
use kinesis_lease::{LeaseStore, StoreError, StreamError, StreamErrorKind};
use kinesis_record::{Checkpoint, ShardId};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span, debug, error, info, warn};

use super::checkpoint::{LeaseRequest, WriteLease};
use super::clock::{Clock, WallClock};
use super::error::{ConsumerError, Stopped};
use super::load::Load;
use super::notice::ConsumerNotice;
use super::notifier::Notifier;
use super::placement::Arbiters;
use super::processor::Processors;
use super::status::{ConsumerState, ConsumerStatus, StatusBoard};
use super::worker::LeaseHolds;
use super::world::World;
use crate::backoff::Backoff;
use crate::config::{ConsumerConf, InitialPosition};
use leader::Throughputs;
pub(crate) use operate::{Operate, Operation};
use shard::{Course, Slot};
use stop::Stopping;

/// How often a watched status is brought up to date while nothing else happens.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How old the end of a shard must be before its row is deleted, as in the KCL.
const CLEAN_UP_AFTER: Duration = Duration::from_secs(300);

/// How many calls for leases are under way at once.
const CALLS_AT_ONCE: usize = 64;

/// Makes the outside world, on the coordination's own thread.
pub(crate) type Connect = Box<dyn FnOnce() -> BoxFuture<'static, Result<World, ConsumerError>> + Send>;

/// How a consumer ended, once it has.
pub(crate) type Ending = Option<Result<Stopped, ConsumerError>>;

/// What a supervisor is made of.
pub(crate) struct Parts {
    pub(crate) conf: Arc<ConsumerConf>,
    pub(crate) connect: Connect,
    pub(crate) processors: Processors,
    pub(crate) notifier: Notifier,
    pub(crate) arbiters: Arbiters,
    pub(crate) board: Arc<StatusBoard>,
    pub(crate) status: watch::Sender<ConsumerStatus>,
    pub(crate) ending: watch::Sender<Ending>,
    pub(crate) random: fastrand::Rng,
    pub(crate) wall_clock: WallClock,
    pub(crate) span: Span,
}

/// Carries out what the coordinator decides. It does no work for events, so that nothing keeps it from renewing
/// leases in time.
pub(crate) struct Supervisor {
    parts: Parts,
    /// Keeps the actor alive when nobody else holds its address.
    address: Option<Addr<Self>>,
    epoch: Instant,
    clock: Clock,
    /// Rows that this process has created and not yet read the shard of.
    new_rows: BTreeSet<ShardId>,
    world: Option<World>,
    coordinator: Option<Coordinator>,
    load: Arc<Load>,
    /// Permits for calls, so that a thousand leases do not open a thousand connections.
    calls: Arc<Semaphore>,
    slots: BTreeMap<ShardId, Slot>,
    next_place: usize,
    waiting: HashMap<RequestId, Waiting>,
    wakeup: Option<SpawnHandle>,
    /// Tells again of shards that nobody reads.
    reminder: Option<SpawnHandle>,
    has_scanned: bool,
    has_listed: bool,
    /// How many calls have failed in a row: scans of the table, writes to its rows, creations of rows, and lists of shards. A table that is
    /// read may refuse writes, and the other way round.
    scan_failures: u32,
    write_failures: u32,
    create_failures: u32,
    list_failures: u32,
    throughput: Throughputs,
    /// Whether the last report to a leader has failed.
    is_report_refused: bool,
    stopping: Option<Stopping>,
}

/// Who waits for the answer to a request.
struct Waiting {
    answer: oneshot::Sender<Result<(), RequestError>>,
    /// The shard that has ended if the answer is yes.
    ends: Option<ShardId>,
}

impl Supervisor {
    pub(crate) fn new(parts: Parts) -> Self {
        let worker = &parts.conf.worker;
        Self {
            load: Arc::new(Load::new(worker.max_in_flight_events, worker.max_bytes)),
            clock: Clock::new(&parts.wall_clock),
            parts,
            address: None,
            epoch: Instant::now(),
            new_rows: BTreeSet::new(),
            world: None,
            coordinator: None,
            calls: Arc::new(Semaphore::new(CALLS_AT_ONCE)),
            slots: BTreeMap::new(),
            next_place: 0,
            waiting: HashMap::new(),
            wakeup: None,
            reminder: None,
            has_scanned: false,
            has_listed: false,
            scan_failures: 0,
            write_failures: 0,
            create_failures: 0,
            list_failures: 0,
            throughput: Throughputs::default(),
            is_report_refused: false,
            stopping: None,
        }
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    fn connect(&mut self, connect: Connect, ctx: &mut Context<Self>) {
        let random = self.parts.random.fork();
        let connected = async move {
            let world = connect().await?;
            ensure_table(&*world.leases, random).await?;
            Ok(world)
        };
        let connected = connected.instrument(self.parts.span.clone());
        ctx.spawn(wrap_future::<_, Self>(connected).map(|connected, supervisor, ctx| match connected {
            Ok(world) => supervisor.coordinate(world, ctx),
            Err(error) => supervisor.fail(error, ctx),
        }));
    }

    fn coordinate(&mut self, world: World, ctx: &mut Context<Self>) {
        if self.stopping.is_some() {
            return;
        }
        let conf = &self.parts.conf;
        let settings = Settings {
            worker: self.parts.board.worker_id().clone(),
            failover: conf.lease.failover_time,
            shard_sync_interval: conf.lease.shard_sync_interval,
            initial: match conf.initial_position {
                InitialPosition::TrimHorizon => Checkpoint::TrimHorizon,
                InitialPosition::Latest => Checkpoint::Latest,
                InitialPosition::AtTimestamp(_) => Checkpoint::AtTimestamp,
            },
            max_leases: conf.lease.max_leases.map_or(usize::MAX, |max| max as usize),
            max_steals: conf.lease.max_steals.map(|max| max as usize),
            clean_up_after: CLEAN_UP_AFTER,
            hand_over_timeout: conf.lease.hand_over_timeout,
        };
        debug!(parent: &self.parts.span, table = world.leases.name(), "the lease table is there");
        self.world = Some(world);
        let random = self.parts.random.fork();
        let Parts { span, arbiters, .. } = &self.parts;
        self.coordinator = Some(journal::coordinator(settings, random, span, arbiters));
        self.drive(ctx);
    }

    /// Does all that the coordinator asks for, and comes back when it next has something to do.
    fn drive(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        let Some(coordinator) = &mut self.coordinator else { return self.finish_if_stopped(ctx) };
        coordinator.tick(now);
        while let Some(effect) = self.coordinator.as_mut().and_then(Coordinator::next_effect) {
            self.carry_out(effect, ctx);
        }
        if let Some(wakeup) = self.wakeup.take() {
            ctx.cancel_future(wakeup);
        }
        if let Some(next) = self.coordinator.as_ref().and_then(Coordinator::next_wakeup) {
            // Timers are exact to the millisecond; coming a little later saves coming twice.
            let pause = next.saturating_sub(self.now()) + Duration::from_millis(1);
            self.wakeup = Some(ctx.run_later(pause, |supervisor, ctx| {
                supervisor.wakeup = None;
                supervisor.drive(ctx);
            }));
        }
        self.finish_if_stopped(ctx);
    }

    fn carry_out(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        let Some(World { stream, leases }) = self.world.clone() else { return };
        match effect {
            Effect::Scan => {
                let scan = async move { settled(scan(&*leases), StoreError::Unknown).await };
                self.call(ctx, scan, |supervisor, scan, ctx| {
                    if let Err(error) = &scan
                        && supervisor.ends_with(error)
                    {
                        return supervisor.fail(ConsumerError::LeaseTable(error.clone()), ctx);
                    }
                    supervisor.note_first_rows(scan.as_ref().map(|scan| &*scan.leases));
                    supervisor.note_scan(scan.as_ref().err());
                    supervisor.tell(|coordinator, now| coordinator.scanned(now, scan));
                    supervisor.forget_finished();
                    if let Some(coordinator) = &supervisor.coordinator {
                        let is_new = |shard: &ShardId| {
                            coordinator.rows().get(shard).is_some_and(|row| row.counter <= 1)
                        };
                        supervisor.new_rows.retain(is_new);
                    }
                });
            }
            Effect::ListShards => {
                let unavailable = |message| StreamError { kind: StreamErrorKind::Unavailable, message };
                let list = async move { settled(stream.list_shards(), unavailable).await };
                self.call(ctx, list, move |supervisor, shards, ctx| {
                    supervisor.judge_first_list(&shards, ctx);
                    let now = supervisor.now();
                    let Some(coordinator) = &mut supervisor.coordinator else { return };
                    let listed = coordinator.listed(now, shards);
                    supervisor.note_list(listed.err().as_ref());
                });
            }
            Effect::Create(mut new) => {
                if new.checkpoint == Checkpoint::Latest && new.latest_since.is_none() {
                    new.latest_since = Some(self.clock.now());
                }
                let created = async move { (settled(leases.create(&new), StoreError::Unknown).await, new) };
                self.call(ctx, created, |supervisor, (created, new), _| {
                    supervisor.note_creation(created.as_ref().err());
                    let span = &supervisor.parts.span;
                    if created == Ok(Created::New) {
                        supervisor.new_rows.insert(new.shard.clone());
                        let checkpoint = &new.checkpoint;
                        info!(parent: span, shard = %new.shard, %checkpoint, "lease row created");
                    }
                    supervisor.tell(|coordinator, now| coordinator.created(now, new, created));
                });
            }
            Effect::Write(acquisition, write) => {
                let written =
                    async move { (settled(leases.write(&write), StoreError::Unknown).await, write) };
                self.call(ctx, written, move |supervisor, (written, write), _| {
                    supervisor.note_write(written.as_ref().err());
                    if let Ok(Written::Refused(_)) = &written {
                        debug!(
                            parent: &supervisor.parts.span, shard = %write.shard, change = ?write.change,
                            "write to the lease refused"
                        );
                    }
                    supervisor.tell(|coordinator, now| coordinator.written(now, acquisition, write, written));
                });
            }
            Effect::Delete(shard, counter) => {
                let deleted = async move {
                    (settled(leases.delete(&shard, counter), StoreError::Unknown).await, shard)
                };
                self.call(ctx, deleted, |supervisor, (deleted, shard), _| {
                    debug!(parent: &supervisor.parts.span, %shard, ?deleted, "row of a finished shard deleted");
                    supervisor.tell(|coordinator, _| coordinator.deleted(&shard, deleted));
                });
            }
            Effect::BeginAnew(write) => {
                let begun =
                    async move { (settled(leases.write(&write), StoreError::Unknown).await, write.shard) };
                self.call(ctx, begun, |supervisor, (begun, shard), _| {
                    supervisor.tell(|coordinator, now| coordinator.begun_anew(now, &shard, begun));
                });
            }
            Effect::Report { wants_leases } => self.report_to_leader(leases, wants_leases, ctx),
            Effect::Retire => self.retire(leases, ctx),
            Effect::Contradicted(shard) => self.tell_of_another_stream(shard),
            Effect::LookUp(acquisition, shard) => {
                let row = async move { (settled(leases.read(&shard), StoreError::Unknown).await, shard) };
                self.call(ctx, row, move |supervisor, (row, shard), _| {
                    supervisor.tell(|coordinator, now| coordinator.looked_up(now, acquisition, &shard, row));
                });
            }
            Effect::Gained(acquisition, lease) => self.start_shard(acquisition, *lease, ctx),
            Effect::Extended(shard, acquisition, until) => {
                let Some(slot) = self.slot(&shard, acquisition) else { return };
                let held = slot.fence.extend(until);
                if !std::mem::replace(&mut slot.has_begun, true) {
                    if slot.course == Course::Read {
                        self.start_worker(&shard, ctx);
                    }
                } else if let Some(worker) = slot.worker.as_ref().filter(|_| !held) {
                    worker.do_send(LeaseHolds);
                }
            }
            Effect::Lost(shard, acquisition, loss) => self.lose_shard(&shard, acquisition, loss),
            Effect::Drain(shard, acquisition) => self.drain_for_another(&shard, acquisition, ctx),
            Effect::SharedName(shard) => self.tell_of_namesake(&shard),
            Effect::Unread(shards) => self.note_unread(shards, ctx),
            Effect::Answer(request, answer) => {
                let Some(waiting) = self.waiting.remove(&request) else { return };
                if let Some(shard) = waiting.ends.filter(|_| answer.is_ok()) {
                    // Told here and now, before a child's lease can be taken.
                    self.parts.notifier.notify(ConsumerNotice::ShardEnded { shard: shard.clone() });
                    // The worker of a shard that was paused at its very end says so no more.
                    let is_idle = |slot: &Slot| slot.worker.is_none() && slot.course.is_staying();
                    if self.slots.get(&shard).is_some_and(is_idle) {
                        self.forget_ended(&shard);
                    }
                }
                // Whoever asked may have stopped meanwhile.
                let _ = waiting.answer.send(answer);
            }
        }
    }

    /// Makes a call to the outside world, and goes on when it has ended.
    ///
    /// The call is a task of its own: an actor polls all of its futures whenever one of them wakes it, which for a
    /// thousand renewals would be a million polls.
    fn call<T: Send + 'static>(
        &self,
        ctx: &mut Context<Self>,
        call: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut Self, T, &mut Context<Self>) + Send + 'static,
    ) {
        let (supervisor, calls) = (ctx.address(), Arc::clone(&self.calls));
        let call = async move {
            let permit = calls.acquire_owned().await;
            let result = call.await;
            drop(permit);
            supervisor.do_send(Called(Box::new(|supervisor, ctx| then(supervisor, result, ctx))));
        };
        actix::spawn(call.instrument(self.parts.span.clone()));
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Coordinator, Duration)) {
        let now = self.now();
        if let Some(coordinator) = &mut self.coordinator {
            tell(coordinator, now);
        }
    }

    /// The first list of shards tells whether the stream can be read at all.
    fn judge_first_list<T>(&mut self, shards: &Result<T, StreamError>, ctx: &mut Context<Self>) {
        if self.has_listed {
            return;
        }
        match shards {
            Ok(_) => {
                self.has_listed = true;
                self.parts.board.set_state(ConsumerState::Running);
                info!(parent: &self.parts.span, "consumer started");
                let worker_id = self.parts.board.worker_id().clone();
                self.parts.notifier.notify(ConsumerNotice::Started { worker_id });
                self.publish();
            }
            Err(error) if needs_a_person(error.kind) => {
                self.fail(ConsumerError::Stream(error.clone()), ctx);
            }
            Err(_) => {}
        }
    }

    /// Whether the consumer cannot go on when a scan of the lease table fails like this. Once a scan was possible, what needs a
    /// person is waited for.
    fn ends_with(&self, error: &StoreError) -> bool {
        matches!(error, StoreError::OtherStream(_)) || (!self.has_scanned && !report::passes(error))
    }

    /// Asks the coordinator for a write on behalf of a shard's worker.
    fn ask(
        &mut self,
        ask: impl FnOnce(&mut Coordinator, Duration) -> RequestId,
        ends: Option<ShardId>,
        ctx: &mut Context<Self>,
    ) -> oneshot::Receiver<Result<(), RequestError>> {
        let (sender, answer) = oneshot::channel();
        let now = self.now();
        if let Some(coordinator) = &mut self.coordinator {
            let request = ask(coordinator, now);
            self.waiting.insert(request, Waiting { answer: sender, ends });
        }
        self.drive(ctx);
        answer
    }

    /// Shows what is done with a shard.
    fn show(&self, shard: &ShardId) {
        if let Some(slot) = self.slots.get(shard) {
            self.parts.board.set_standing(shard, slot.state(), slot.is_offered, self.clock.now());
        }
        self.publish();
    }

    fn show_all(&self) {
        for (shard, slot) in &self.slots {
            self.parts.board.set_standing(shard, slot.state(), slot.is_offered, self.clock.now());
        }
        self.publish();
    }

    fn publish(&self) {
        let status = self.parts.board.status();
        self.parts.status.send_if_modified(|told| {
            let is_new = *told != status;
            if is_new {
                *told = status;
            }
            is_new
        });
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.address = Some(ctx.address());
        let connect = std::mem::replace(
            &mut self.parts.connect,
            Box::new(|| Box::pin(futures::future::err(ConsumerError::Died))),
        );
        self.connect(connect, ctx);
        ctx.run_interval(STATUS_INTERVAL, |supervisor, _| {
            if supervisor.parts.status.receiver_count() > 1 {
                supervisor.publish();
            }
        });
        if self.parts.conf.worker.graceful_shutdown_hook {
            self.stop_at_signal(ctx);
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // No news if it was stopped; after a panic nobody else says so.
        self.parts.board.set_state(ConsumerState::Stopped);
        self.publish();
        self.parts.arbiters.stop();
    }
}

impl Handler<WriteLease> for Supervisor {
    type Result = ResponseFuture<Result<(), RequestError>>;

    fn handle(&mut self, write: WriteLease, ctx: &mut Self::Context) -> Self::Result {
        let WriteLease { shard, acquisition, request } = write;
        let ends = matches!(request, LeaseRequest::End(_)).then(|| shard.clone());
        let answer = self.ask(
            |coordinator, now| match request {
                LeaseRequest::Checkpoint(checkpoint) => {
                    coordinator.checkpoint(now, &shard, acquisition, checkpoint)
                }
                LeaseRequest::End(children) => coordinator.end(now, &shard, acquisition, children),
            },
            ends,
            ctx,
        );
        Box::pin(async move { answer.await.unwrap_or(Err(RequestError::NotHeld)) })
    }
}

type AfterCall = dyn FnOnce(&mut Supervisor, &mut Context<Supervisor>) + Send;

/// A call to the outside world has ended.
#[derive(Message)]
#[rtype(result = "()")]
struct Called(Box<AfterCall>);

impl Handler<Called> for Supervisor {
    type Result = ();

    fn handle(&mut self, Called(then): Called, ctx: &mut Self::Context) {
        then(self, ctx);
        self.drive(ctx);
    }
}

/// Asks the supervisor to stop the consumer within a time.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Stop {
    pub(crate) within: Duration,
}

impl Handler<Stop> for Supervisor {
    type Result = ();

    fn handle(&mut self, stop: Stop, ctx: &mut Self::Context) {
        self.begin_stop(stop.within, None, ctx);
    }
}

/// Whether listing the shards fails until somebody acts.
fn needs_a_person(error: StreamErrorKind) -> bool {
    matches!(error, StreamErrorKind::NotFound | StreamErrorKind::Denied | StreamErrorKind::InvalidArgument)
}

/// Awaits a call. The coordinator waits for every one that it asked for, so one that panics is one of which nobody
/// knows how it ended.
async fn settled<T, E>(
    call: impl Future<Output = Result<T, E>>,
    unknown: impl FnOnce(String) -> E,
) -> Result<T, E> {
    let outcome = AssertUnwindSafe(call).catch_unwind().await;
    outcome.unwrap_or_else(|_| Err(unknown("the call panicked".to_owned())))
}

/// Scans the lease table. One that was deleted is made again: its rows follow from the stream's shards.
async fn scan(leases: &dyn LeaseStore) -> Result<Scan, StoreError> {
    match leases.scan().await {
        Err(StoreError::TableMissing(message)) => {
            leases.ensure().await?;
            error!(table = leases.name(), message, "the lease table was gone, and is made again");
            leases.scan().await
        }
        scanned => scanned,
    }
}

/// Makes sure that the lease table is there, however long the service takes.
async fn ensure_table(leases: &dyn LeaseStore, random: fastrand::Rng) -> Result<(), ConsumerError> {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10), random);
    loop {
        match leases.ensure().await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_passing() => {
                if backoff.failures() == 0 {
                    warn!(table = leases.name(), %error, "the lease table cannot be reached, trying again");
                }
                sleep(backoff.next_pause()).await;
            }
            Err(error) => {
                error!(table = leases.name(), %error, "the lease table cannot be used");
                return Err(ConsumerError::LeaseTable(error));
            }
        }
    }
}
