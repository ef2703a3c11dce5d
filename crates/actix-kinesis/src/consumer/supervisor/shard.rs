//! One shard under the supervisor: its lease, its worker and its checkpoint worker.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::{Addr, AsyncContext, Context, Handler, SpawnHandle};
use kinesis_lease::Lease;
use kinesis_lease::coordinator::{Acquisition, Loss};
use kinesis_record::{Checkpoint, HashRange, Position, ShardId};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tracing::{error, error_span, info, warn};

use super::Supervisor;
use crate::backoff::Backoff;
use crate::config::{FailurePolicy, InitialPosition};
use crate::consumer::checkpoint::{CheckpointWorker, StopCheckpointing, Store};
use crate::consumer::clock::Clock;
use crate::consumer::error::ConsumerError;
use crate::consumer::event::FencingToken;
use crate::consumer::failure::{
    ConsumerShutdown, ConsumerWorkerFailure, FailedEvent, FailureDecision, ShutdownReason,
};
use crate::consumer::fence::Fence;
use crate::consumer::fetch::{Cursor, Fetcher, Unpacker};
use crate::consumer::notice::ConsumerNotice;
use crate::consumer::observe::Observation;
use crate::consumer::processor::EventProcessor;
use crate::consumer::status::{Gauges, ShardState, Standing, StoppedShard};
use crate::consumer::worker::{ConsumerWorker, Equipment, Outcome, StopWorker, WorkerEnded};
use crate::consumer::world::World;

/// A lease that is held, and what reads its shard.
pub(super) struct Slot {
    pub(super) acquisition: Acquisition,
    pub(super) fence: Arc<Fence>,
    pub(super) checkpoint: Addr<CheckpointWorker>,
    /// None while the shard is paused, or waits to be started again.
    pub(super) worker: Option<Addr<ConsumerWorker>>,
    pub(super) course: Course,
    /// Who is told when the shard is paused.
    pub(super) pausing: Vec<oneshot::Sender<()>>,
    /// Starts the shard again after a failure.
    pub(super) restart: Option<SpawnHandle>,
    /// Whether other instances are offered the shard.
    pub(super) is_offered: bool,
    /// Whether this process does not take the shard again by itself.
    pub(super) is_declined: bool,
    /// The failure that has stopped the shard.
    stopped_by: Option<String>,
    /// Whether the last checkpoint and the lease are being given away already.
    pub(super) is_parting: bool,
    /// How many events the last worker delivered and left unsettled.
    pub(super) unsettled: usize,
    /// Whether a worker has been started: not before the lease's validity is known.
    pub(super) has_begun: bool,
    store: Store,
    hash_range: Option<HashRange>,
    fencing_token: FencingToken,
    /// What `LATEST` stands for; none if that is the newest record of the moment.
    latest_since: Option<SystemTime>,
    gauges: Arc<Gauges>,
    newest: Arc<watch::Sender<Option<Position>>>,
    stored: watch::Receiver<Checkpoint>,
    backoff: Backoff,
    /// How far the shard was when it failed last.
    failed_at: Option<Position>,
}

impl Slot {
    /// Whether the table has the last checkpoint. A worker that has not ended may have more to tell.
    pub(super) fn is_stored(&self) -> bool {
        let newest = self.newest.borrow().clone().map(Checkpoint::At);
        self.worker.is_none() && newest.is_none_or(|newest| newest <= *self.stored.borrow())
    }

    pub(super) fn state(&self) -> ShardState {
        match self.course {
            Course::Read if self.restart.is_some() => ShardState::Restarting,
            Course::Read => ShardState::Reading,
            Course::Pause => ShardState::Paused,
            Course::HandOver => ShardState::HandingOver,
            Course::Release => ShardState::Stopping,
        }
    }

    pub(super) fn fetched_bytes(&self) -> u64 {
        self.gauges.fetched_bytes.get()
    }

    /// How many events are delivered and not answered.
    pub(super) fn in_flight(&self) -> usize {
        usize::try_from(self.gauges.in_flight.get()).unwrap_or(usize::MAX)
    }
}

/// What is to become of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// It is read.
    Read,
    /// It is not read until it is resumed, and the lease is kept.
    Pause,
    /// The lease goes to the worker that has asked for it, or to which a KCL 3.x leader has promised it.
    HandOver,
    /// The lease is released, for anybody to take.
    Release,
}

impl Course {
    /// Whether the lease is kept.
    pub(super) fn is_staying(self) -> bool {
        matches!(self, Self::Read | Self::Pause)
    }
}

impl Supervisor {
    pub(super) fn slot(&mut self, shard: &ShardId, acquisition: Acquisition) -> Option<&mut Slot> {
        self.slots.get_mut(shard).filter(|slot| slot.acquisition == acquisition)
    }

    /// The lease is ours: reads its shard.
    pub(super) fn start_shard(&mut self, acquisition: Acquisition, lease: Lease, ctx: &mut Context<Self>) {
        let shard = lease.shard;
        if self.stopping.is_some() {
            self.release(&shard, acquisition, ctx);
            return;
        }
        info!(parent: &self.parts.span, %shard, checkpoint = %lease.checkpoint, "lease taken");
        if lease.checkpoint == Checkpoint::AtTimestamp && self.initial_timestamp().is_none() {
            warn!(
                parent: &self.parts.span, %shard,
                "the lease says AT_TIMESTAMP, but initial-timestamp is not set: reading from the oldest record"
            );
        }
        // The row was just created by this process, and nobody else has had it.
        let is_new = self.new_rows.remove(&shard) && lease.counter == 1;
        let listed = self.coordinator.as_ref().and_then(|coordinator| coordinator.shards()?.get(&shard));
        let hash_range = listed.map(|shard| shard.hash_range).or(lease.hash_range);
        let fencing_token =
            FencingToken { lease_counter: lease.counter, owner_switches: lease.owner_switches };
        let gauges = Arc::new(Gauges::new(lease.checkpoint.clone()));
        let (newest, to_store) = watch::channel(None);
        let (stored, is_stored) = watch::channel(lease.checkpoint.clone());
        let store = Store {
            shard: shard.clone(),
            acquisition,
            token: fencing_token,
            supervisor: ctx.address().recipient(),
            notifier: self.parts.notifier.clone(),
            conf: self.parts.conf.checkpointer.clone(),
            stored: Arc::new(stored),
            gauges: Arc::clone(&gauges),
            random: self.parts.random.fork(),
            span: error_span!(parent: &self.parts.span, "shard", %shard),
        };
        let restart = self.parts.conf.worker.restart_backoff;
        let slot = Slot {
            acquisition,
            fence: Arc::new(Fence::new(self.epoch)),
            checkpoint: self.start_checkpoint_worker(store.clone(), to_store),
            worker: None,
            course: Course::Read,
            pausing: Vec::new(),
            restart: None,
            is_offered: false,
            is_declined: false,
            stopped_by: None,
            is_parting: false,
            unsettled: 0,
            has_begun: false,
            store,
            hash_range,
            fencing_token,
            latest_since: lease.latest_since.filter(|_| !is_new),
            gauges: Arc::clone(&gauges),
            newest: Arc::new(newest),
            stored: is_stored,
            backoff: Backoff::new(restart.min, restart.max, self.parts.random.fork()),
            failed_at: None,
        };
        let standing = Standing {
            state: slot.state(),
            since: self.clock.now(),
            fencing_token,
            is_offered: slot.is_offered,
        };
        self.parts.board.add_shard(shard.clone(), standing, gauges);
        self.slots.insert(shard.clone(), slot);
        let checkpoint = lease.checkpoint;
        if self.parts.notifier.is_observed() {
            let (shard, checkpoint) = (shard.clone(), checkpoint.clone());
            self.parts.notifier.show(Observation::LeaseTaken { shard, checkpoint, token: fencing_token });
        }
        self.parts.notifier.notify(ConsumerNotice::ShardStarted { shard: shard.clone(), checkpoint });
        self.publish();
    }

    fn start_checkpoint_worker(
        &self,
        store: Store,
        newest: watch::Receiver<Option<Position>>,
    ) -> Addr<CheckpointWorker> {
        self.parts.arbiters.coordination.start(|_| CheckpointWorker::new(store, newest))
    }

    fn initial_timestamp(&self) -> Option<SystemTime> {
        match self.parts.conf.initial_position {
            InitialPosition::AtTimestamp(instant) => Some(instant),
            InitialPosition::TrimHorizon | InitialPosition::Latest => None,
        }
    }

    /// Starts a fresh worker behind what is known to be processed.
    pub(super) fn start_worker(&mut self, shard: &ShardId, ctx: &mut Context<Self>) {
        let Some(World { stream, .. }) = self.world.clone() else { return };
        let initial_timestamp = self.initial_timestamp();
        if let Some(slot) = self.slots.get(shard).filter(|slot| !slot.checkpoint.connected()) {
            let anew = self.start_checkpoint_worker(slot.store.clone(), slot.newest.subscribe());
            if let Some(slot) = self.slots.get_mut(shard) {
                slot.checkpoint = anew;
            }
        }
        let Some(slot) = self.slots.get_mut(shard) else { return };
        let newest = slot.newest.borrow().clone();
        let start = newest.map_or_else(|| slot.stored.borrow().clone(), Checkpoint::At);
        let equipment = Equipment {
            shard: shard.clone(),
            acquisition: slot.acquisition,
            start: start.clone(),
            conf: self.parts.conf.worker.clone(),
            processors: self.parts.processors.clone(),
            fence: Arc::clone(&slot.fence),
            share: self.load.join(),
            gauges: Arc::clone(&slot.gauges),
            notifier: self.parts.notifier.clone(),
            supervisor: ctx.address().recipient(),
            checkpoint: slot.checkpoint.clone(),
            newest: Arc::clone(&slot.newest),
            stored: slot.stored.clone(),
            span: slot.store.span.clone(),
        };
        let latest_since = slot.latest_since;
        slot.latest_since.get_or_insert_with(|| self.clock.now());
        let (shard, gauges) = (shard.clone(), Arc::clone(&slot.gauges));
        let (notifier, conf) = (self.parts.notifier.clone(), self.parts.conf.polling.clone());
        let (hash_range, random) = (slot.hash_range, self.parts.random.fork());
        let fencing_token = slot.fencing_token;
        let clock = Clock::new(&self.parts.wall_clock);
        let make_fetcher = move |worker: Addr<ConsumerWorker>, room| Fetcher {
            api: stream,
            cursor: Cursor::new(&start, initial_timestamp, latest_since, clock),
            unpacker: Unpacker::new(shard.clone(), hash_range, fencing_token, start.position().cloned()),
            shard,
            room,
            pages: worker.clone().recipient(),
            end: worker.clone().recipient(),
            misplaced: worker.recipient(),
            conf,
            gauges,
            notifier,
            random,
        };
        let places = &self.parts.arbiters.shards;
        let place = places[self.next_place % places.len()].clone();
        self.next_place += 1;
        slot.worker = Some(place.start(move |ctx| ConsumerWorker::new(equipment, make_fetcher, ctx)));
    }

    /// The lease is not ours any more: its worker stops at once.
    pub(super) fn lose_shard(&mut self, shard: &ShardId, acquisition: Acquisition, loss: Loss) {
        let Some(slot) = self.slot(shard, acquisition) else { return };
        let worker = slot.worker.take();
        let unsettled = if worker.is_some() { slot.in_flight() } else { 0 };
        // A worker that is stopped in the middle may have had more to store.
        let is_stored = worker.is_none() && slot.is_stored();
        self.forget_shard(shard);
        warn!(parent: &self.parts.span, %shard, %loss, "lease lost");
        if let Some(stopping) = &mut self.stopping {
            stopping.report.unsettled += unsettled;
            if !is_stored && !stopping.report.not_stored.contains(shard) {
                stopping.report.not_stored.push(shard.clone());
            }
        }
        self.parts.notifier.notify(ConsumerNotice::LeaseLost { shard: shard.clone(), loss: loss.clone() });
        if let Some(worker) = worker {
            worker.do_send(StopWorker::LeaseLost(loss));
        }
    }

    /// Another worker is to read the shard: one that has asked for it, or that a KCL 3.x leader has chosen.
    pub(super) fn drain_for_another(
        &mut self,
        shard: &ShardId,
        acquisition: Acquisition,
        ctx: &mut Context<Self>,
    ) {
        let mut deadline = Instant::now() + self.parts.conf.lease.hand_over_timeout;
        if let Some(stopping) = &self.stopping {
            deadline = deadline.min(stopping.drained_by);
        }
        let Some(slot) = self.slot(shard, acquisition) else { return };
        slot.course = Course::HandOver;
        if let Some(restart) = slot.restart.take() {
            ctx.cancel_future(restart);
        }
        match &slot.worker {
            Some(worker) => {
                worker.do_send(StopWorker::Drain { deadline, reason: ShutdownReason::HandedOver });
            }
            None => self.part_with(shard, acquisition, ctx),
        }
        self.show(shard);
    }

    pub(super) fn forget_shard(&mut self, shard: &ShardId) {
        if let Some(slot) = self.slots.remove(shard) {
            if slot.is_declined {
                let (shard, since, error) = (shard.clone(), self.clock.now(), slot.stopped_by);
                self.parts.board.add_stopped(StoppedShard { shard, since, error });
            }
            // A worker that is busy may not hear of it before it delivers.
            slot.fence.end();
            slot.checkpoint.do_send(StopCheckpointing);
        }
        self.parts.board.remove_shard(shard);
        self.publish();
    }

    /// Starts the shard again after a pause, or, if it is paused itself, when it is resumed.
    fn restart_after(
        &mut self,
        pause: Duration,
        shard: &ShardId,
        acquisition: Acquisition,
        ctx: &mut Context<Self>,
    ) {
        let Some(slot) = self.slot(shard, acquisition) else { return };
        if slot.course == Course::Pause {
            return self.settle_pause(shard, acquisition, ctx);
        }
        let of_shard = shard.clone();
        slot.restart = Some(ctx.run_later(pause, move |supervisor, ctx| {
            let is_going_on = supervisor.stopping.is_none();
            let Some(slot) = supervisor.slot(&of_shard, acquisition).filter(|_| is_going_on) else { return };
            slot.restart = None;
            slot.gauges.restarts.add(1);
            supervisor.start_worker(&of_shard, ctx);
            supervisor.show(&of_shard);
        }));
        self.show(shard);
    }

    fn shard_failed(
        &mut self,
        shard: &ShardId,
        failure: Failure,
        policy: FailurePolicy,
        ctx: &mut Context<Self>,
    ) {
        let max_restarts = self.parts.conf.worker.max_restarts;
        let Some(slot) = self.slots.get_mut(shard) else { return };
        let newest = slot.newest.borrow().clone();
        if newest != slot.failed_at {
            slot.backoff.reset();
        }
        slot.failed_at = newest;
        let acquisition = slot.acquisition;
        let may_restart = max_restarts.is_none_or(|max| slot.backoff.failures() < max);
        let decision = match policy {
            _ if self.stopping.is_some() => FailureDecision::StopConsumer,
            // A shard that is handed over starts no more.
            _ if slot.course == Course::HandOver => FailureDecision::StopShard,
            FailurePolicy::StopConsumer => FailureDecision::StopConsumer,
            FailurePolicy::RestartShard | FailurePolicy::Skip if may_restart => {
                FailureDecision::RestartShard { after: slot.backoff.next_pause() }
            }
            _ => FailureDecision::StopShard,
        };
        let Failure { processor, events, cause } = failure;
        slot.gauges.set_last_error(cause.clone());
        match &decision {
            FailureDecision::RestartShard { after } => {
                warn!(parent: &self.parts.span, %shard, cause, ?after, "the shard failed and is started again")
            }
            decision => error!(parent: &self.parts.span, %shard, cause, ?decision, "the shard failed"),
        }
        if let Some(processor) = processor {
            let (decision, cause) = (decision.clone(), cause.clone());
            let failure = ConsumerWorkerFailure { shard: shard.clone(), events, cause, decision };
            processor.tell_failure(failure, &self.parts.notifier);
            let reason = ShutdownReason::Failed;
            processor.tell_shutdown(ConsumerShutdown { shard: shard.clone(), reason }, &self.parts.notifier);
        }
        let notice = match &decision {
            FailureDecision::RestartShard { after } => {
                ConsumerNotice::ShardRestarts { shard: shard.clone(), after: *after, cause: cause.clone() }
            }
            decision => ConsumerNotice::ShardStopped {
                shard: shard.clone(),
                cause: cause.clone(),
                decision: decision.clone(),
            },
        };
        self.parts.notifier.notify(notice);
        match decision {
            FailureDecision::RestartShard { after } => self.restart_after(after, shard, acquisition, ctx),
            FailureDecision::StopShard => {
                let slot = self.slot(shard, acquisition);
                if let Some(slot) = slot.filter(|slot| slot.course.is_staying()) {
                    (slot.is_declined, slot.stopped_by) = (true, Some(cause));
                    if let Some(coordinator) = &mut self.coordinator {
                        coordinator.shun(shard);
                    }
                }
                self.part_with(shard, acquisition, ctx);
            }
            FailureDecision::StopConsumer | FailureDecision::GiveUp => {
                if self.stopping.is_none() {
                    self.fail(ConsumerError::ShardFailed { shard: shard.clone(), cause }, ctx);
                } else {
                    self.part_with(shard, acquisition, ctx);
                }
            }
        }
    }
}

/// What is known of a shard's failure.
struct Failure {
    processor: Option<EventProcessor>,
    events: Vec<FailedEvent>,
    cause: String,
}

impl Handler<WorkerEnded> for Supervisor {
    type Result = ();

    fn handle(&mut self, ended: WorkerEnded, ctx: &mut Self::Context) {
        let WorkerEnded { shard, acquisition, unsettled, processor, outcome } = ended;
        let policy = self.parts.conf.worker.failure_policy;
        let Some(slot) = self.slot(&shard, acquisition) else { return };
        slot.worker = None;
        slot.unsettled = unsettled;
        match outcome {
            Outcome::ShardEnded => self.forget_ended(&shard),
            Outcome::Drained => match slot.course {
                // It was resumed before it had finished.
                Course::Read => self.start_worker(&shard, ctx),
                Course::Pause => self.settle_pause(&shard, acquisition, ctx),
                Course::HandOver | Course::Release => self.part_with(&shard, acquisition, ctx),
            },
            Outcome::Failed { events, cause } => {
                self.shard_failed(&shard, Failure { processor, events, cause }, policy, ctx);
            }
            Outcome::Misplaced(misplaced) => {
                let cause = self.explain_misplaced(&shard, &misplaced);
                let failure = Failure { processor, events: Vec::new(), cause };
                // Another start would find the same position.
                let policy = match policy {
                    FailurePolicy::StopConsumer => FailurePolicy::StopConsumer,
                    _ => FailurePolicy::StopShard,
                };
                self.shard_failed(&shard, failure, policy, ctx);
            }
            Outcome::Died { cause } => {
                let failure = Failure { processor, events: Vec::new(), cause };
                self.shard_failed(&shard, failure, FailurePolicy::RestartShard, ctx);
            }
            Outcome::ProcessorGone if self.stopping.is_none() => self.fail(ConsumerError::ProcessorGone, ctx),
            Outcome::ProcessorGone => self.part_with(&shard, acquisition, ctx),
        }
        self.finish_if_stopped(ctx);
    }
}
