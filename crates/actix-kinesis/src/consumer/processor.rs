//! The application's event processor, as the consumer addresses it.

use std::fmt;
use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, ArbiterHandle, Handler, Recipient};
use kinesis_record::ShardId;
use tokio::sync::oneshot;

use super::event::{Offered, ProcessEvent};
use super::failure::{ConsumerShutdown, ConsumerWorkerFailure};
use super::notifier::Notifier;
use super::observe::Observation;

/// The actor that processes events. Any actor that handles the three messages will do, a pool of a `SyncArbiter`
/// among them; a router may stand before them.
#[derive(Clone)]
pub struct EventProcessor(pub(crate) Route);

/// How events reach whoever processes them.
#[derive(Clone)]
pub(crate) enum Route {
    Actor {
        events: Recipient<ProcessEvent>,
        failures: Recipient<ConsumerWorkerFailure>,
        shutdowns: Recipient<ConsumerShutdown>,
    },
    Intake(Arc<dyn Intake>),
}

/// A queue from which an application takes events when it wants them. The time in which an event must be answered begins
/// when it is taken.
pub(crate) trait Intake: Send + Sync {
    /// Adds an event, or drops it if nobody can take it any more.
    fn offer(&self, event: Offered);

    /// Whether anybody can take events.
    fn is_open(&self) -> bool;

    fn tell(&self, news: ShardNews);
}

/// What an intake is told of a shard, in order with its events.
#[derive(Debug, Clone)]
pub(crate) enum ShardNews {
    /// The shard is closed, and its last event has been offered. Those that fail are offered again.
    AllOffered,
    /// No more events are offered by this worker. Those that were taken may be answered for a while.
    Draining(ShardId),
    /// The worker has ended.
    Ended(ShardId),
}

impl EventProcessor {
    /// A processor whose messages go to three addresses.
    pub fn new(
        events: Recipient<ProcessEvent>,
        failures: Recipient<ConsumerWorkerFailure>,
        shutdowns: Recipient<ConsumerShutdown>,
    ) -> Self {
        Self(Route::Actor { events, failures, shutdowns })
    }

    pub(crate) fn of_intake(intake: Arc<dyn Intake>) -> Self {
        Self(Route::Intake(intake))
    }

    pub(crate) fn is_alive(&self) -> bool {
        match &self.0 {
            Route::Actor { events, .. } => events.connected(),
            Route::Intake(intake) => intake.is_open(),
        }
    }

    pub(crate) fn is_intake(&self) -> bool {
        matches!(self.0, Route::Intake(_))
    }

    /// Tells what only an intake wants to know.
    pub(crate) fn tell_intake(&self, news: ShardNews) {
        if let Route::Intake(intake) = &self.0 {
            intake.tell(news);
        }
    }

    pub(crate) fn tell_failure(&self, failure: ConsumerWorkerFailure, notifier: &Notifier) {
        if notifier.is_observed() {
            notifier.show(Observation::ToldOfFailure(failure.clone()));
        }
        match &self.0 {
            Route::Actor { failures, .. } => failures.do_send(failure),
            // It hears of the end that follows; the rest is told by notices.
            Route::Intake(_) => {}
        }
    }

    pub(crate) fn tell_shutdown(&self, shutdown: ConsumerShutdown, notifier: &Notifier) {
        if notifier.is_observed() {
            notifier.show(Observation::ToldOfShutdown(shutdown.clone()));
        }
        match &self.0 {
            Route::Actor { shutdowns, .. } => shutdowns.do_send(shutdown),
            Route::Intake(intake) => intake.tell(ShardNews::Ended(shutdown.shard)),
        }
    }
}

impl<A> From<Addr<A>> for EventProcessor
where
    A: Actor + Handler<ProcessEvent> + Handler<ConsumerWorkerFailure> + Handler<ConsumerShutdown>,
    A::Context:
        ToEnvelope<A, ProcessEvent> + ToEnvelope<A, ConsumerWorkerFailure> + ToEnvelope<A, ConsumerShutdown>,
{
    fn from(actor: Addr<A>) -> Self {
        Self::new(actor.clone().recipient(), actor.clone().recipient(), actor.recipient())
    }
}

impl fmt::Debug for EventProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventProcessor")
    }
}

type Factory = dyn Fn(&ShardId) -> EventProcessor + Send + Sync;

/// Where the events of the shards go: one event processor for all of them, or one for each.
///
/// An address converts into the former. It must live as long as the consumer: when its actor stops, a panic in a
/// handler among the reasons, the consumer fails.
#[derive(Clone)]
pub struct EventProcessors(Kind);

#[derive(Clone)]
enum Kind {
    Shared(EventProcessor),
    PerShard(Arc<Factory>),
}

impl EventProcessors {
    /// A processor for each shard. `make` is called on the thread that starts the consumer whenever a shard is
    /// taken, is started again after a failure, or has lost its processor by a panic. So a panic in a handler is a
    /// failed event and nothing more.
    ///
    /// What `make` starts with `Actor::start` runs on that thread. A handler that blocks its thread holds up
    /// whatever else runs there: start such actors on threads of their own.
    pub fn per_shard<P: Into<EventProcessor>>(make: impl Fn(&ShardId) -> P + Send + Sync + 'static) -> Self {
        Self(Kind::PerShard(Arc::new(move |shard: &ShardId| make(shard).into())))
    }

    pub(crate) fn placed(self, home: Option<ArbiterHandle>) -> Processors {
        Processors { kind: self.0, home }
    }
}

impl<P: Into<EventProcessor>> From<P> for EventProcessors {
    fn from(processor: P) -> Self {
        Self(Kind::Shared(processor.into()))
    }
}

impl fmt::Debug for EventProcessors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Shared(_) => "EventProcessors::Shared",
            Kind::PerShard(_) => "EventProcessors::PerShard",
        })
    }
}

/// Where the workers of shards get their processors from.
#[derive(Clone)]
pub(crate) struct Processors {
    kind: Kind,
    /// The thread that started the consumer; none if that is the current one.
    home: Option<ArbiterHandle>,
}

impl Processors {
    /// A processor for the shard, or none if the factory panicked or its thread has ended.
    pub(crate) async fn get(self, shard: ShardId) -> Option<EventProcessor> {
        match (self.kind, self.home) {
            (Kind::Shared(processor), _) => Some(processor),
            (Kind::PerShard(factory), None) => Some(factory(&shard)),
            (Kind::PerShard(factory), Some(home)) => {
                let (made, processor) = oneshot::channel();
                home.spawn(async move {
                    // The worker may have stopped meanwhile: then nobody wants it.
                    let _ = made.send(factory(&shard));
                });
                processor.await.ok()
            }
        }
    }

    pub(crate) fn are_renewable(&self) -> bool {
        matches!(self.kind, Kind::PerShard(_))
    }
}
