//! What an operator asks of a shard: pausing, resuming and draining it.

use actix::fut::wrap_future;
use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture};
use kinesis_lease::Lease;
use kinesis_lease::coordinator::Acquisition;
use kinesis_record::ShardId;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::info;

use super::Supervisor;
use super::shard::{Course, Slot};
use crate::consumer::checkpoint::Flush;
use crate::consumer::error::OperationError;
use crate::consumer::failure::ShutdownReason;
use crate::consumer::worker::StopWorker;

/// Asks the supervisor to do something with a shard.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), OperationError>")]
pub(crate) struct Operate {
    pub(crate) shard: ShardId,
    pub(crate) operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Pause,
    Resume,
    Drain,
}

impl Handler<Operate> for Supervisor {
    type Result = ResponseFuture<Result<(), OperationError>>;

    fn handle(&mut self, Operate { shard, operation }: Operate, ctx: &mut Self::Context) -> Self::Result {
        let is_known = match operation {
            // What is in the mailbox when the consumer has ended is still handled.
            _ if self.stopping.is_some() || self.parts.ending.borrow().is_some() => {
                return Box::pin(std::future::ready(Err(OperationError::Stopping)));
            }
            Operation::Pause => {
                let paused = self.pause(&shard, ctx);
                return Box::pin(async move {
                    let paused = async { paused?.await.ok() };
                    paused.await.ok_or(OperationError::NotHeld { shard })
                });
            }
            Operation::Resume => self.resume(&shard, ctx),
            Operation::Drain => self.offer_shard(&shard),
        };
        self.show(&shard);
        self.drive(ctx);
        let outcome = if is_known { Ok(()) } else { Err(OperationError::NotHeld { shard }) };
        Box::pin(std::future::ready(outcome))
    }
}

impl Supervisor {
    /// The shard, unless its lease is being given away.
    fn staying(&mut self, shard: &ShardId) -> Option<&mut Slot> {
        self.slots.get_mut(shard).filter(|slot| slot.course.is_staying())
    }

    /// Ends the shard's worker and keeps the lease. What it returns tells when nothing is under way any more; none if the
    /// shard is not read.
    fn pause(&mut self, shard: &ShardId, ctx: &mut Context<Self>) -> Option<oneshot::Receiver<()>> {
        let deadline = Instant::now() + self.parts.conf.worker.batch_timeout;
        let slot = self.staying(shard)?;
        let (paused, is_paused) = oneshot::channel();
        slot.pausing.push(paused);
        let is_news = std::mem::replace(&mut slot.course, Course::Pause) == Course::Read;
        if let Some(restart) = slot.restart.take() {
            ctx.cancel_future(restart);
        }
        let acquisition = slot.acquisition;
        match &slot.worker {
            Some(worker) if is_news => {
                worker.do_send(StopWorker::Drain { deadline, reason: ShutdownReason::Paused });
            }
            Some(_) => {}
            None => self.settle_pause(shard, acquisition, ctx),
        }
        if is_news {
            info!(parent: &self.parts.span, %shard, "shard paused");
        }
        self.show(shard);
        Some(is_paused)
    }

    /// The worker of a paused shard has ended: stores the last checkpoint, then tells whoever waits for the pause.
    pub(super) fn settle_pause(
        &mut self,
        shard: &ShardId,
        acquisition: Acquisition,
        ctx: &mut Context<Self>,
    ) {
        // A table that takes longer costs the lease.
        let deadline = Instant::now() + self.parts.conf.lease.failover_time;
        let Some(slot) = self.slot(shard, acquisition) else { return };
        let waiting = std::mem::take(&mut slot.pausing);
        let flushed = slot.checkpoint.send(Flush { deadline });
        let shard = shard.clone();
        ctx.spawn(wrap_future::<_, Self>(flushed).map(move |_, supervisor, _| {
            if supervisor.slot(&shard, acquisition).is_some() {
                for paused in waiting {
                    // Whoever waited may have gone.
                    let _ = paused.send(());
                }
            }
        }));
    }

    /// Returns whether there was something to resume.
    fn resume(&mut self, shard: &ShardId, ctx: &mut Context<Self>) -> bool {
        let now = self.now();
        let was_stopped = !self.parts.board.remove_stopped(|stopped| stopped == shard).is_empty();
        let slot = self.slots.get_mut(shard);
        let was_declined = slot.is_some_and(|slot| std::mem::take(&mut slot.is_declined));
        let mut is_idle = false;
        let mut offered = None;
        let mut is_staying = false;
        if let Some(slot) = self.staying(shard) {
            is_staying = true;
            offered = std::mem::take(&mut slot.is_offered).then_some(slot.acquisition);
            if std::mem::replace(&mut slot.course, Course::Read) == Course::Pause {
                // A worker that still drains is followed by another one.
                is_idle = slot.worker.is_none() && slot.has_begun;
                for paused in std::mem::take(&mut slot.pausing) {
                    let _ = paused.send(());
                }
            }
        }
        if is_idle {
            self.start_worker(shard, ctx);
        }
        if let Some(coordinator) = &mut self.coordinator {
            if let Some(acquisition) = offered {
                coordinator.keep(now, shard, acquisition);
            }
            if was_declined || was_stopped {
                coordinator.unshun(now, shard);
            }
        }
        if is_idle || offered.is_some() || was_stopped {
            info!(parent: &self.parts.span, %shard, "shard resumed");
        }
        is_staying || was_declined || was_stopped
    }

    /// Offers the shard to the other instances, and takes it no more. Returns whether it is read.
    fn offer_shard(&mut self, shard: &ShardId) -> bool {
        let now = self.now();
        let Some(slot) = self.staying(shard) else { return false };
        (slot.is_declined, slot.is_offered) = (true, true);
        let acquisition = slot.acquisition;
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.shun(shard);
            coordinator.offer(now, shard, acquisition);
        }
        info!(parent: &self.parts.span, %shard, "shard offered to the other instances");
        true
    }

    /// Stopped shards that are finished, by whichever instance, are stopped no more.
    pub(super) fn forget_finished(&mut self) {
        let now = self.now();
        let Some(coordinator) = &mut self.coordinator else { return };
        let is_finished = |shard: &ShardId| coordinator.rows().get(shard).is_some_and(Lease::is_finished);
        let finished = self.parts.board.remove_stopped(is_finished);
        for shard in &finished {
            coordinator.unshun(now, shard);
        }
        if !finished.is_empty() {
            self.publish();
        }
    }

    /// Everything in the shard is processed.
    pub(super) fn forget_ended(&mut self, shard: &ShardId) {
        let now = self.now();
        let was_declined =
            self.slots.get_mut(shard).is_some_and(|slot| std::mem::take(&mut slot.is_declined));
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| was_declined) {
            coordinator.unshun(now, shard);
        }
        self.forget_shard(shard);
    }
}
