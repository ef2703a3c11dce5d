//! Events for an intake, from which they are taken when somebody wants them.

use std::sync::{Arc, OnceLock};

use actix::{Context, Handler};
use tokio::time::Instant;

use super::{ConsumerWorker, LeaseHolds, Outcome, Phase};
use crate::consumer::event::{Offered, ProcessEvent};
use crate::consumer::processor::{EventProcessor, Intake, ShardNews};

/// From here, a panic cannot be told from a stream that was dropped.
const NOBODY_TAKES: &str = "nobody takes events of the shard: its stream or channel was dropped, or the task that took them, \
                            a pipeline's perhaps, panicked, which the log tells";

impl ConsumerWorker {
    pub(super) fn feeds_intake(&self) -> bool {
        self.processor.as_ref().is_some_and(EventProcessor::is_intake)
    }

    /// Offers an event. What is returned says when it was taken.
    pub(super) fn offer(message: ProcessEvent, intake: &dyn Intake) -> Arc<OnceLock<Instant>> {
        let taken = Arc::default();
        intake.offer(Offered::new(message, Arc::clone(&taken)));
        taken
    }

    /// Tells that a closed shard has nothing more, so that whoever gathers events gives out what it has.
    pub(super) fn tell_all_offered(&mut self) {
        if self.children.is_some()
            && !self.is_all_offered
            && self.phase == Phase::Delivering
            && !self.tracker.has_due()
            && let Some(processor) = &self.processor
        {
            self.is_all_offered = true;
            processor.tell_intake(ShardNews::AllOffered);
        }
    }

    /// Once all that was taken is answered. The shard's next worker has an intake of its own.
    pub(super) fn fail_for_want_of_a_taker(&mut self, ctx: &mut Context<Self>) {
        self.end(Outcome::Failed { events: Vec::new(), cause: NOBODY_TAKES.to_owned() }, ctx);
    }

    pub(super) fn tell_draining(&self) {
        if let Some(processor) = &self.processor {
            processor.tell_intake(ShardNews::Draining(self.equipment.shard.clone()));
        }
    }
}

impl Handler<LeaseHolds> for ConsumerWorker {
    type Result = ();

    fn handle(&mut self, _: LeaseHolds, ctx: &mut Context<Self>) {
        if let Some(processor) = &self.processor {
            processor.tell_intake(ShardNews::LeaseHolds);
        }
        self.pump(ctx);
    }
}
