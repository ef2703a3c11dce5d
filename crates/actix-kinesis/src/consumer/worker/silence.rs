//! Events without an answer: in time, or for ever.

use std::time::Duration;

use actix::{AsyncContext, Context};
use tokio::time::Instant;
use tracing::warn;

use super::{Awaited, ConsumerWorker, Outcome, Phase, Sent};
use crate::consumer::failure::FailureCause;
use crate::consumer::tracker::{EventId, Verdict};

/// A handler that panics drops its message a moment before its actor can be seen to be gone.
const DEATH_SHOWS_WITHIN: Duration = Duration::from_millis(20);

impl ConsumerWorker {
    /// The delivery has no answer and never will: the handler panicked, or its actor has stopped. Which of the two
    /// shows a moment later.
    pub(super) fn unanswered(&mut self, id: EventId, attempt: u32, generation: u32, ctx: &mut Context<Self>) {
        self.show_failed(id, attempt, FailureCause::NoAnswer);
        if generation != self.generation || self.processor.is_none() {
            return;
        }
        self.unanswered.push((id, attempt));
        if self.unanswered.len() == 1 {
            ctx.run_later(DEATH_SHOWS_WITHIN, Self::judge_unanswered);
        }
    }

    fn judge_unanswered(&mut self, ctx: &mut Context<Self>) {
        let unanswered = std::mem::take(&mut self.unanswered);
        let is_alive = self.processor.as_ref().is_some_and(|processor| processor.is_alive());
        warn!(parent: &self.equipment.span, events = unanswered.len(), is_alive, "an event processor panicked or stopped");
        let in_flight = self.tracker.in_flight();
        if is_alive || in_flight == 1 {
            for (id, attempt) in unanswered {
                if self.tracker.fail(id, attempt, FailureCause::NoAnswer) != Verdict::Late {
                    self.equipment.gauges.failed.add(1);
                }
            }
        } else {
            self.tracker.recall_all();
            self.one_at_a_time = true;
        }
        if is_alive {
            self.after_answers(ctx);
        } else if self.equipment.processors.are_renewable() {
            self.processor = None;
            self.get_processor(ctx);
        } else {
            self.end(Outcome::ProcessorGone, ctx);
        }
    }

    pub(super) fn arm_timer(&mut self, ctx: &mut Context<Self>) {
        let tracker = &self.tracker;
        let is_open = |sent: &Sent| tracker.is_in_flight(sent.id, sent.attempt);
        while self.deadlines.pop_front_if(|sent| !is_open(sent)).is_some() {}
        if self.deadlines.len() > 2 * tracker.in_flight() + 1024 {
            self.deadlines.retain(is_open);
        }
        if self.timer.is_none()
            && let Some(sent) = self.deadlines.front()
        {
            let pause = sent.deadline.saturating_duration_since(Instant::now());
            self.timer = Some(ctx.run_later(pause, |worker, ctx| {
                worker.timer = None;
                worker.time_out(ctx);
            }));
        }
    }

    fn time_out(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let timeout = self.equipment.conf.batch_timeout;
        let is_known = !self.overdue.is_empty();
        let mut late = 0u64;
        while let Some(sent) = self.deadlines.pop_front_if(|sent| sent.deadline <= now) {
            if self.tracker.is_in_flight(sent.id, sent.attempt) {
                if let Awaited::Taker(taken) = &sent.awaits {
                    let deadline = taken.get().map_or(now, |taken| *taken) + timeout;
                    if deadline > now {
                        let place = self.deadlines.partition_point(|other| other.deadline <= deadline);
                        self.deadlines.insert(place, Sent { deadline, ..sent });
                        continue;
                    }
                }
                self.show_failed(sent.id, sent.attempt, FailureCause::TimedOut(timeout));
                self.tracker.fail(sent.id, sent.attempt, FailureCause::TimedOut(timeout));
                self.overdue.push(sent);
                late += 1;
            }
        }
        if late > 0 {
            self.window.timed_out();
            self.equipment.gauges.failed.add(late);
            if !is_known {
                warn!(parent: &self.equipment.span, events = late, ?timeout, "events were not answered in time");
            }
        }
        self.after_answers(ctx);
        if matches!(self.phase, Phase::Delivering | Phase::Draining(_)) {
            self.arm_timer(ctx);
        }
        self.forget_overdue(ctx);
    }

    /// Stops waiting for answers that nobody needs any more, so that handlers that never end cost no memory here.
    pub(super) fn forget_overdue(&mut self, ctx: &mut Context<Self>) {
        let (open, closed): (Vec<_>, Vec<_>) =
            self.overdue.drain(..).partition(|sent| self.tracker.is_open(sent.id));
        self.overdue = open;
        for sent in closed {
            if let Awaited::Reply(reply) = sent.awaits {
                ctx.cancel_future(reply);
            }
        }
    }
}
