//! The event processor of a shard.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, Addr, Arbiter, ArbiterHandle, Context, Handler, ResponseFuture};
use actix_kinesis::consumer::{
    ConsumerShutdown, ConsumerWorkerFailure, EventHandle, EventProcessed, EventProcessors, ProcessEvent,
};
use tokio::time::sleep;

use super::output::Output;
use super::policy::{Ack, Policies, contains};

/// The processors of all shards.
pub(crate) struct Probes(Arc<Shared>);

struct Shared {
    output: Arc<Output>,
    policies: Policies,
    /// Answers of this process, which `hold_after` counts.
    answers: AtomicU64,
    /// After this time without an answer, an event counts as not answered for good.
    unanswered_after: Duration,
}

impl Probes {
    pub(crate) fn new(output: Arc<Output>, policies: Policies, batch_timeout: Duration) -> Self {
        let unanswered_after = 2 * batch_timeout + Duration::from_secs(5);
        let shared = Shared { output, policies, answers: AtomicU64::new(0), unanswered_after };
        Self(Arc::new(shared))
    }

    /// A processor for each shard, on a thread of its own, so that one that blocks holds up its shard alone.
    pub(crate) fn per_shard(&self) -> EventProcessors {
        let shared = Arc::clone(&self.0);
        EventProcessors::per_shard(move |_| Probe::start_on_own_thread(&shared))
    }
}

/// The event processor of one shard.
struct Probe {
    shared: Arc<Shared>,
    /// What is never answered. Dropping a handle would answer that processing failed.
    unanswered: VecDeque<(Instant, EventHandle)>,
    /// The thread that ends with this actor, also when a handler panics.
    thread: Option<ArbiterHandle>,
}

impl Probe {
    fn start_on_own_thread(shared: &Arc<Shared>) -> Addr<Self> {
        let shared = Arc::clone(shared);
        match Arbiter::try_new() {
            Ok(arbiter) => {
                let thread = arbiter.handle();
                Self::start_in_arbiter(&thread.clone(), |_| Self::new(shared, Some(thread)))
            }
            Err(error) => {
                tracing::warn!(%error, "no thread for a shard, its events are answered on the main thread");
                Self::new(shared, None).start()
            }
        }
    }

    fn new(shared: Arc<Shared>, thread: Option<ArbiterHandle>) -> Self {
        Self { shared, unanswered: VecDeque::new(), thread }
    }

    /// Whether one more answer may be given; it counts as given.
    fn may_answer(&self, hold_after: Option<u64>) -> bool {
        let limit = hold_after.unwrap_or(u64::MAX);
        let one_more = |answers| (answers < limit).then_some(answers + 1);
        self.shared.answers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn leave_unanswered(&mut self, message: &ProcessEvent) {
        let limit = self.shared.unanswered_after;
        while self.unanswered.pop_front_if(|(since, _)| since.elapsed() > limit).is_some() {}
        self.unanswered.push_back((Instant::now(), message.answer_later()));
    }
}

impl Actor for Probe {
    type Context = Context<Self>;
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.stop();
        }
    }
}

impl Handler<ProcessEvent> for Probe {
    /// A future, so that an answer that takes its time does not hold up the next event.
    type Result = ResponseFuture<EventProcessed>;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        // The line of this delivery stands before it, or never will.
        if self.shared.output.is_broken() {
            return Box::pin(async { EventProcessed::failed("the delivery could not be told") });
        }
        let policy = self.shared.policies.current();
        let payload = message.event.payload();
        if contains(payload, policy.panic_on.as_deref()) {
            panic_as_asked();
        }
        if contains(payload, policy.block_on.as_deref()) {
            thread::sleep(Duration::from_millis(policy.block_ms));
        }
        let fails = contains(payload, policy.fail_on.as_deref());
        if (policy.ack == Ack::None && !fails) || !self.may_answer(policy.hold_after) {
            self.leave_unanswered(&message);
            return Box::pin(async { EventProcessed::Later });
        }
        Box::pin(async move {
            if policy.delay_ms > 0 {
                sleep(Duration::from_millis(policy.delay_ms)).await;
            }
            match fails {
                true => EventProcessed::failed("the payload contains the text of fail_on"),
                false => EventProcessed::Processed,
            }
        })
    }
}

#[expect(clippy::panic, reason = "the policy asks for it")]
fn panic_as_asked() -> ! {
    panic!("the payload contains the text of panic_on; the program goes on")
}

impl Handler<ConsumerWorkerFailure> for Probe {
    type Result = ();

    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl Handler<ConsumerShutdown> for Probe {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
