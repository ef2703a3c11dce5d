//! The actor that delivers the events of one shard.

mod intake;
mod message;
mod silence;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use actix::fut::wrap_future;
use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Recipient, SpawnHandle,
};
use kinesis_lease::coordinator::Acquisition;
use kinesis_lease::stream::ChildShard;
use kinesis_record::{Checkpoint, Position, ShardId};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, debug_span, error, info, warn};

use super::checkpoint::{CheckpointWorker, NotStored, StoreEnd};
use super::event::{AnswerLink, DeliveryId, EventProcessed, HandleAnswer, ProcessEvent};
use super::failure::{
    ConsumerShutdown, ConsumerWorkerFailure, FailedEvent, FailureCause, FailureDecision, ShutdownReason,
};
use super::fence::Fence;
use super::fetch::Fetcher;
use super::load::Share;
use super::notice::ConsumerNotice;
use super::notifier::Notifier;
use super::observe::{DeliveryOutcome, Observation};
use super::processor::{EventProcessor, Processors, Route};
use super::status::Gauges;
use super::tracker::{Delivery, EventId, Tracker, Verdict};
use super::window::Window;
use crate::config::{Concurrency, FailurePolicy, WorkerConf};

pub(crate) use message::{
    LeaseHolds, Outcome, PageFetched, PositionRefused, ShardDrained, StopWorker, WorkerEnded,
};

const NO_CHECKPOINT_WORKER: &str = "its checkpoint worker died by a panic";

/// What a worker is made of.
pub(crate) struct Equipment {
    pub(crate) shard: ShardId,
    pub(crate) acquisition: Acquisition,
    /// From behind this checkpoint on.
    pub(crate) start: Checkpoint,
    pub(crate) conf: WorkerConf,
    pub(crate) processors: Processors,
    pub(crate) fence: Arc<Fence>,
    pub(crate) share: Share,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) notifier: Notifier,
    pub(crate) supervisor: Recipient<WorkerEnded>,
    pub(crate) checkpoint: Addr<CheckpointWorker>,
    pub(crate) newest: Arc<watch::Sender<Option<Position>>>,
    pub(crate) stored: watch::Receiver<Checkpoint>,
    pub(crate) span: Span,
}

type MakeFetcher = Box<dyn FnOnce(Addr<ConsumerWorker>, watch::Receiver<u64>) -> Fetcher + Send>;

/// Delivers the events of one shard, as many at a time as the window allows, and moves the checkpoint behind what is
/// answered.
pub(crate) struct ConsumerWorker {
    equipment: Equipment,
    make_fetcher: Option<MakeFetcher>,
    fetching: Option<AbortHandle>,
    processor: Option<EventProcessor>,
    /// Rises with each processor, so that a dead one's silence is not taken for the next one's.
    generation: u32,
    link: Arc<AnswerLink>,
    tracker: Tracker,
    window: Window,
    /// After a processor died with several events under way, one event at a time shows which one it was.
    one_at_a_time: bool,
    /// Deliveries that the processor dropped.
    unanswered: Vec<(EventId, u32)>,
    /// Deliveries in the order of their deadlines.
    deadlines: VecDeque<Sent>,
    /// Deliveries that were not answered in time. A late answer counts as long as the event is open.
    overdue: Vec<Sent>,
    timer: Option<SpawnHandle>,
    room: watch::Sender<u64>,
    phase: Phase,
    /// While it drains, events that were left behind by later ones of other keys are delivered until then.
    catch_up_until: Option<Instant>,
    children: Option<Vec<ChildShard>>,
    is_all_offered: bool,
    /// Nobody takes events any more. Those that were taken may still be answered.
    is_abandoned: bool,
}

/// A delivery, and what it waits for.
#[derive(Debug)]
struct Sent {
    deadline: Instant,
    id: EventId,
    attempt: u32,
    awaits: Awaited,
}

/// What a delivery waits for.
#[derive(Debug)]
enum Awaited {
    /// The reply of the processor.
    Reply(SpawnHandle),
    /// Somebody who takes the event from the intake and answers by its handle. Says when it was taken.
    Taker(Arc<OnceLock<Instant>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The shard starts at `LATEST`, and its first record is not known yet.
    Unpinned,
    /// The position of the first record is being stored.
    Pinning,
    Delivering,
    Draining(ShutdownReason),
    /// `SHARD_END` is being stored.
    Ending,
    Ended,
}

impl ConsumerWorker {
    /// A worker that reads by the fetcher that `make_fetcher` gives.
    pub(crate) fn new(
        equipment: Equipment,
        make_fetcher: impl FnOnce(Addr<Self>, watch::Receiver<u64>) -> Fetcher + Send + 'static,
        ctx: &mut Context<Self>,
    ) -> Self {
        let conf = &equipment.conf;
        let link = AnswerLink::new(
            ctx.address().recipient(),
            Arc::clone(&equipment.gauges),
            Arc::clone(&equipment.fence),
            equipment.stored.clone(),
        );
        Self {
            make_fetcher: Some(Box::new(make_fetcher)),
            fetching: None,
            processor: None,
            generation: 0,
            link: Arc::new(link),
            tracker: Tracker::new(
                conf.failed_message_retries,
                conf.failure_tolerance_percentage,
                conf.concurrency,
            ),
            window: Window::of(conf),
            one_at_a_time: false,
            unanswered: Vec::new(),
            deadlines: VecDeque::new(),
            overdue: Vec::new(),
            timer: None,
            room: watch::channel(0).0,
            phase: if equipment.start == Checkpoint::Latest { Phase::Unpinned } else { Phase::Delivering },
            catch_up_until: None,
            children: None,
            is_all_offered: false,
            is_abandoned: false,
            equipment,
        }
    }

    fn get_processor(&mut self, ctx: &mut Context<Self>) {
        let processor = self.equipment.processors.clone().get(self.equipment.shard.clone());
        ctx.spawn(wrap_future::<_, Self>(processor).map(|processor, worker, ctx| match processor {
            Some(processor) => {
                worker.processor = Some(processor);
                worker.generation += 1;
                worker.fetch(ctx);
                worker.after_answers(ctx);
            }
            None => worker.end(
                Outcome::Died { cause: "no event processor could be made: its factory panicked".to_owned() },
                ctx,
            ),
        }));
    }

    fn fetch(&mut self, ctx: &mut Context<Self>) {
        if let Some(make_fetcher) = self.make_fetcher.take() {
            let fetcher = make_fetcher(ctx.address(), self.room.subscribe());
            let fetching = actix::spawn(fetcher.run().instrument(self.equipment.span.clone()));
            self.fetching = Some(fetching.abort_handle());
            ctx.spawn(wrap_future::<_, Self>(fetching).map(|fetched, worker, ctx| {
                if fetched.is_err_and(|error| error.is_panic()) {
                    worker.end(Outcome::Died { cause: "reading the shard panicked".to_owned() }, ctx);
                }
            }));
        }
    }

    /// Delivers what the window allows.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        let is_catching_up = self.is_catching_up();
        let delivers = (self.phase == Phase::Delivering || is_catching_up) && !self.is_abandoned;
        if delivers && self.unanswered.is_empty() && self.equipment.fence.holds() {
            let limit = self.equipment.share.events();
            while let Some(processor) = &self.processor {
                self.one_at_a_time &= self.tracker.has_again() || self.tracker.in_flight() > 0;
                let window = match processor.is_intake() {
                    _ if self.one_at_a_time => 1,
                    true => self.window.size_for_taker(limit),
                    false => self.window.size(limit),
                };
                let in_flight = self.tracker.in_flight();
                self.equipment.share.set_under_way(in_flight);
                if in_flight >= window || !self.equipment.share.has_room() {
                    break;
                }
                let next = match is_catching_up {
                    true => self.tracker.next_left_behind(),
                    false => self.tracker.next_delivery(),
                };
                let Some(delivery) = next else { break };
                let route = processor.0.clone();
                self.deliver(delivery, &route, ctx);
                if !self.unanswered.is_empty() || self.is_abandoned {
                    break;
                }
            }
            self.arm_timer(ctx);
        }
        self.equipment.share.set_under_way(self.tracker.in_flight());
        self.equipment.gauges.in_flight.set(self.tracker.in_flight() as u64);
        self.equipment.gauges.buffered_bytes.set(self.tracker.bytes() as u64);
        self.tell_room();
        self.tell_all_offered();
        self.finish_if_done(ctx);
    }

    fn is_catching_up(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
            && self.catch_up_until.is_some_and(|until| Instant::now() < until)
    }

    fn deliver(&mut self, delivery: Delivery, route: &Route, ctx: &mut Context<Self>) {
        let Delivery { id, attempt, event } = delivery;
        self.equipment.gauges.delivered.add(1);
        let (sent, among) = (Instant::now(), self.tracker.in_flight());
        let delivery = DeliveryId { event: id, attempt, sent, among };
        let generation = self.generation;
        if self.equipment.notifier.is_observed() {
            self.equipment.notifier.show(Observation::Delivered { event: event.clone(), attempt });
        }
        let message = ProcessEvent { event, attempt, delivery, link: Arc::clone(&self.link) };
        let awaits = match route {
            Route::Actor { events, .. } => {
                let reply =
                    wrap_future::<_, Self>(events.send(message)).map(move |reply, worker, ctx| match reply {
                        Ok(answer) => worker.answered(delivery, answer, ctx),
                        Err(_) => worker.unanswered(id, attempt, generation, ctx),
                    });
                Awaited::Reply(ctx.spawn(reply))
            }
            Route::Intake(intake) => {
                let taken = Self::offer(message, &**intake);
                self.is_abandoned = !intake.is_open();
                Awaited::Taker(taken)
            }
        };
        let deadline = sent + self.equipment.conf.batch_timeout;
        self.deadlines.push_back(Sent { deadline, id, attempt, awaits });
    }

    fn answered(&mut self, delivery: DeliveryId, answer: EventProcessed, ctx: &mut Context<Self>) {
        let DeliveryId { event, attempt, sent, among } = delivery;
        let gauges = &self.equipment.gauges;
        let success = match &answer {
            EventProcessed::Later => return,
            EventProcessed::Skipped => &gauges.skipped,
            EventProcessed::Processed | EventProcessed::Failed { .. } => &gauges.processed,
        };
        if let EventProcessed::Failed { reason } = &answer {
            debug!(parent: &self.equipment.span, attempt, reason, "the event processor reports a failure");
        }
        let conclusion = self.conclusion(event, attempt, || DeliveryOutcome::of(&answer));
        let verdict = self.tracker.answer(event, attempt, answer);
        match verdict {
            Verdict::Settled => success.add(1),
            Verdict::Again | Verdict::Exhausted => gauges.failed.add(1),
            Verdict::Late => gauges.late_answers.add(1),
        }
        if let Some(conclusion) = conclusion.filter(|_| verdict != Verdict::Late) {
            self.equipment.notifier.show(conclusion);
        }
        if !self.feeds_intake() {
            let limit = self.equipment.share.events();
            self.window.answered(sent.elapsed(), among, self.tracker.in_flight(), limit);
        }
        self.after_answers(ctx);
    }

    /// How a delivery ended, if somebody wants to see it.
    fn conclusion(
        &self,
        id: EventId,
        attempt: u32,
        outcome: impl FnOnce() -> Option<DeliveryOutcome>,
    ) -> Option<Observation> {
        if !self.equipment.notifier.is_observed() {
            return None;
        }
        let position = self.tracker.position(id)?.clone();
        let shard = self.equipment.shard.clone();
        Some(Observation::Concluded { shard, position, attempt, outcome: outcome()? })
    }

    fn show_failed(&self, id: EventId, attempt: u32, cause: FailureCause) {
        if self.tracker.is_in_flight(id, attempt)
            && let Some(conclusion) = self.conclusion(id, attempt, || Some(DeliveryOutcome::Failed(cause)))
        {
            self.equipment.notifier.show(conclusion);
        }
    }

    /// Draws the consequences of answers and time-outs.
    fn after_answers(&mut self, ctx: &mut Context<Self>) {
        if self.phase == Phase::Delivering && self.processor.is_some() && self.tracker.has_exhausted() {
            let given_up = match self.equipment.conf.failure_policy {
                FailurePolicy::Skip => self.tracker.give_up_all(),
                _ => self.tracker.give_up_tolerated(),
            };
            self.report_given_up(given_up);
            if let Some(events) = self.tracker.exceeded() {
                self.tell_done();
                return self.fail(events, ctx);
            }
        }
        if !self.equipment.checkpoint.connected() {
            return self.end(Outcome::Died { cause: NO_CHECKPOINT_WORKER.to_owned() }, ctx);
        }
        self.tell_done();
        self.pump(ctx);
    }

    fn tell_done(&self) {
        if let Some(done) = self.tracker.done() {
            self.equipment.newest.send_if_modified(|newest| {
                let is_newer = newest.as_ref().is_none_or(|newest| newest < done);
                if is_newer {
                    *newest = Some(done.clone());
                }
                is_newer
            });
        }
    }

    fn tell_room(&self) {
        let share = self.equipment.share.bytes();
        let free = share.saturating_sub(self.tracker.bytes() as u64);
        let room = if free >= share / 8 { free } else { 0 };
        self.room.send_if_modified(|told| std::mem::replace(told, room) == 0 && room > 0);
    }

    fn report_given_up(&self, events: Vec<FailedEvent>) {
        if events.is_empty() {
            return;
        }
        let shard = self.equipment.shard.clone();
        for failed in &events {
            warn!(
                parent: &self.equipment.span, position = %failed.event.position(), attempts = failed.attempts,
                cause = %failed.cause, "event given up: the checkpoint passes it"
            );
        }
        self.equipment.gauges.given_up.add(events.len() as u64);
        if let Some(processor) = &self.processor {
            let failure = ConsumerWorkerFailure {
                shard: shard.clone(),
                cause: causes(&events),
                events: events.clone(),
                decision: FailureDecision::GiveUp,
            };
            processor.tell_failure(failure, &self.equipment.notifier);
        }
        self.equipment.notifier.notify(ConsumerNotice::EventsGivenUp { shard, events });
    }

    fn fail(&mut self, events: Vec<FailedEvent>, ctx: &mut Context<Self>) {
        let cause = causes(&events);
        self.end(Outcome::Failed { events, cause }, ctx);
    }

    /// Stores the place before the first record of a shard that starts at `LATEST`, before any record is delivered:
    /// from then on the shard starts there, whenever it is started again.
    fn pin(&mut self, first: &Position, ctx: &mut Context<Self>) {
        self.phase = Phase::Pinning;
        let pin = Position::new(first.sequence.clone(), -1);
        let place = Checkpoint::At(pin.clone());
        self.equipment.newest.send_replace(Some(pin));
        let mut stored = self.equipment.stored.clone();
        let is_stored = async move { stored.wait_for(|stored| *stored >= place).await.is_ok() };
        ctx.spawn(wrap_future::<_, Self>(is_stored).map(|is_stored, worker, ctx| {
            if is_stored && worker.phase == Phase::Pinning {
                worker.phase = Phase::Delivering;
                worker.pump(ctx);
            }
        }));
    }

    fn finish_if_done(&mut self, ctx: &mut Context<Self>) {
        match &self.phase {
            Phase::Draining(_) if self.tracker.in_flight() == 0 => self.end(Outcome::Drained, ctx),
            Phase::Delivering if self.is_abandoned && self.tracker.in_flight() == 0 => {
                self.fail_for_want_of_a_taker(ctx);
            }
            Phase::Delivering | Phase::Unpinned if self.tracker.is_drained() => {
                let Some(children) = self.children.take() else { return };
                self.phase = Phase::Ending;
                let stored = self.equipment.checkpoint.send(StoreEnd { children });
                ctx.spawn(wrap_future::<_, Self>(stored).map(|stored, worker, ctx| match stored {
                    Ok(Ok(())) => worker.end(Outcome::ShardEnded, ctx),
                    // The supervisor has heard of it first and stops this worker.
                    Ok(Err(NotStored::LeaseLost | NotStored::OutOfTime)) => {}
                    Err(_) => worker.end(Outcome::Died { cause: NO_CHECKPOINT_WORKER.to_owned() }, ctx),
                }));
            }
            _ => {}
        }
    }

    fn end(&mut self, outcome: Outcome, ctx: &mut Context<Self>) {
        if self.phase == Phase::Ended {
            return;
        }
        let reason = match (&self.phase, &outcome) {
            (_, Outcome::ShardEnded) => Some(ShutdownReason::ShardEnded),
            (Phase::Draining(reason), _) => Some(reason.clone()),
            // The supervisor tells of failures, since it decides what follows.
            _ => None,
        };
        if matches!(outcome, Outcome::ShardEnded) {
            info!(parent: &self.equipment.span, "everything in the shard is processed");
        }
        if let Some(reason) = reason {
            self.tell_shutdown(reason);
        }
        self.phase = Phase::Ended;
        self.tell_ended(outcome);
        ctx.stop();
    }

    fn tell_shutdown(&self, reason: ShutdownReason) {
        if let Some(processor) = &self.processor {
            let shutdown = ConsumerShutdown { shard: self.equipment.shard.clone(), reason };
            processor.tell_shutdown(shutdown, &self.equipment.notifier);
        }
    }

    fn tell_ended(&self, outcome: Outcome) {
        let (shard, acquisition) = (self.equipment.shard.clone(), self.equipment.acquisition);
        let unsettled = self.tracker.unsettled();
        self.equipment.gauges.in_flight.set(0);
        self.equipment.gauges.buffered_bytes.set(0);
        let processor = self.processor.clone();
        self.equipment.supervisor.do_send(WorkerEnded { shard, acquisition, unsettled, processor, outcome });
    }
}

impl Actor for ConsumerWorker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.get_processor(ctx);
    }
}

impl Drop for ConsumerWorker {
    fn drop(&mut self) {
        if let Some(fetching) = &self.fetching {
            fetching.abort();
        }
        // Without a supervisor the consumer has stopped, and this thread is being ended.
        if self.phase != Phase::Ended && self.equipment.supervisor.connected() {
            error!(parent: &self.equipment.span, "the shard's worker died");
            self.tell_ended(Outcome::Died { cause: "the shard's worker died by a panic".to_owned() });
        }
    }
}

impl Handler<PageFetched> for ConsumerWorker {
    type Result = ();

    fn handle(&mut self, page: PageFetched, ctx: &mut Self::Context) {
        let span = debug_span!(parent: &self.equipment.span, "batch", records = page.items.len());
        let _entered = span.enter();
        debug!("batch fetched");
        let first = page.items.first().map(|item| item.position().clone());
        self.tracker.add_page(page.items);
        match first {
            Some(first) if self.phase == Phase::Unpinned => self.pin(&first, ctx),
            _ => self.after_answers(ctx),
        }
    }
}

impl Handler<ShardDrained> for ConsumerWorker {
    type Result = ();

    fn handle(&mut self, drained: ShardDrained, ctx: &mut Self::Context) {
        debug!(parent: &self.equipment.span, "the last record of the shard is fetched");
        self.children = Some(drained.children);
        self.tell_all_offered();
        self.finish_if_done(ctx);
    }
}

impl Handler<PositionRefused> for ConsumerWorker {
    type Result = ();

    fn handle(&mut self, PositionRefused(misplaced): PositionRefused, ctx: &mut Self::Context) {
        self.end(Outcome::Misplaced(misplaced), ctx);
    }
}

impl Handler<HandleAnswer> for ConsumerWorker {
    type Result = ();

    fn handle(&mut self, HandleAnswer { delivery, answer }: HandleAnswer, ctx: &mut Self::Context) {
        match answer {
            Some(answer) => self.answered(delivery, answer, ctx),
            None => {
                self.tracker.give_back(delivery.event, delivery.attempt);
                self.pump(ctx);
            }
        }
    }
}

impl Handler<StopWorker> for ConsumerWorker {
    type Result = ();

    fn handle(&mut self, stop: StopWorker, ctx: &mut Self::Context) {
        if self.phase == Phase::Ended {
            return;
        }
        if let Some(fetching) = self.fetching.take() {
            fetching.abort();
        }
        match stop {
            StopWorker::LeaseLost(loss) => {
                self.tell_shutdown(ShutdownReason::LeaseLost(loss));
                self.phase = Phase::Ended;
                ctx.stop();
            }
            StopWorker::Drain { deadline, reason } => {
                ctx.run_later(deadline.saturating_duration_since(Instant::now()), |worker, ctx| {
                    worker.end(Outcome::Drained, ctx);
                });
                if self.phase != Phase::Ending {
                    self.phase = Phase::Draining(reason);
                    self.tell_draining();
                    if matches!(self.equipment.conf.concurrency, Concurrency::Key(_)) && !self.feeds_intake()
                    {
                        // What is then under way has the other half of the time.
                        let now = Instant::now();
                        self.catch_up_until = Some(now + deadline.saturating_duration_since(now) / 2);
                    }
                    self.pump(ctx);
                }
            }
        }
    }
}

/// The causes of failed events in a line: the first one, and how many more there are.
fn causes(events: &[FailedEvent]) -> String {
    match events {
        [] => "processing failed".to_owned(),
        [only] => format!("event {}: {}", only.event.position(), only.cause),
        [first, more @ ..] => {
            format!("event {}: {} (and {} more events)", first.event.position(), first.cause, more.len())
        }
    }
}
