//! Processors as an application may have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::{Actor, Context, Handler, SyncContext};
use actix_kinesis::consumer::{ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, ProcessEvent};

type Answer = dyn Fn(&ProcessEvent) -> EventProcessed + Send + Sync;

/// Answers as it is told.
#[derive(Clone)]
pub(crate) struct Clerk(Arc<Answer>);

impl Clerk {
    pub(crate) fn answering(
        answer: impl Fn(&ProcessEvent) -> EventProcessed + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(answer))
    }

    /// Processes everything, and counts.
    pub(crate) fn counting(count: &Arc<AtomicUsize>) -> Self {
        let count = count.clone();
        Self::answering(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            EventProcessed::Processed
        })
    }

    pub(crate) fn processing() -> Self {
        Self::answering(|_| EventProcessed::Processed)
    }
}

impl Actor for Clerk {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Clerk {
    type Result = EventProcessed;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> EventProcessed {
        (self.0)(&message)
    }
}

impl Handler<ConsumerWorkerFailure> for Clerk {
    type Result = ();

    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl Handler<ConsumerShutdown> for Clerk {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

/// The same in a pool of threads.
pub(crate) struct PoolClerk(pub(crate) Clerk);

impl Actor for PoolClerk {
    type Context = SyncContext<Self>;
}

impl Handler<ProcessEvent> for PoolClerk {
    type Result = EventProcessed;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> EventProcessed {
        (self.0.0)(&message)
    }
}

impl Handler<ConsumerWorkerFailure> for PoolClerk {
    type Result = ();

    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl Handler<ConsumerShutdown> for PoolClerk {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

pub(crate) fn payload(message: &ProcessEvent) -> &[u8] {
    message.event.payload()
}
