//! How the supervisor lets go of its shards.

use std::time::Duration;

use actix::fut::wrap_future;
use actix::{ActorContext, ActorFutureExt, AsyncContext, Context};
use kinesis_lease::coordinator::{Acquisition, Coordinator, RequestError};
use kinesis_record::ShardId;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::Supervisor;
use super::shard::Course;
use crate::consumer::checkpoint::{Flush, reserved_for_last_checkpoint};
use crate::consumer::error::{ConsumerError, Stopped};
use crate::consumer::failure::ShutdownReason;
use crate::consumer::observe::Observation;
use crate::consumer::status::ConsumerState;
use crate::consumer::worker::StopWorker;

/// Nobody waits longer for a stop, whatever is asked for.
const LONGEST_STOP: Duration = Duration::from_secs(30 * 24 * 3600);

/// A stop under way.
#[derive(Debug)]
pub(super) struct Stopping {
    deadline: Instant,
    /// When the shards' workers must have finished, to leave time for the last checkpoints.
    pub(super) drained_by: Instant,
    /// Why the consumer stops, if nobody asked it to.
    error: Option<ConsumerError>,
    pub(super) report: Stopped,
}

impl Supervisor {
    /// The consumer cannot go on.
    pub(super) fn fail(&mut self, error: ConsumerError, ctx: &mut Context<Self>) {
        error!(parent: &self.parts.span, %error, "the consumer fails and stops");
        self.begin_stop(self.parts.conf.worker.shutdown_timeout, Some(error), ctx);
    }

    /// Takes no more leases and drains the shards; what is not done by the deadline is left.
    pub(super) fn begin_stop(
        &mut self,
        within: Duration,
        error: Option<ConsumerError>,
        ctx: &mut Context<Self>,
    ) {
        // What is in the mailbox when the consumer has ended is still handled, another stop among it.
        if self.stopping.is_some() || self.parts.ending.borrow().is_some() {
            return;
        }
        info!(parent: &self.parts.span, ?within, "the consumer stops");
        // What a clock can be asked for ends somewhere.
        let within = within.min(LONGEST_STOP);
        let deadline = Instant::now() + within;
        let drained_by = deadline - reserved_for_last_checkpoint(within);
        let has_failed = error.is_some();
        self.stopping = Some(Stopping { deadline, drained_by, error, report: Stopped::default() });
        self.parts.board.set_state(ConsumerState::Stopping);
        self.publish();
        let asked_until = if has_failed { None } else { self.offer_shards(within) };
        if asked_until.is_some() {
            self.slots.values_mut().for_each(|slot| slot.is_offered = true);
            self.show_all();
            self.part_with_idle(ctx);
        }
        ctx.run_later(within, |supervisor, ctx| supervisor.finish(ctx));
        match asked_until {
            Some(wait) => {
                ctx.run_later(wait, |supervisor, ctx| supervisor.drain_shards(ctx));
            }
            None => self.drain_shards(ctx),
        }
        self.drive(ctx);
    }

    /// Offers the shards to the other instances, which take over each where this one has finished. Returns how long to
    /// go on with them until then.
    fn offer_shards(&mut self, within: Duration) -> Option<Duration> {
        let now = self.now();
        let until = self.coordinator.as_mut()?.leave(now)?;
        Some((until - now).min(within / 4))
    }

    /// Finishes what is under way in all shards, and gives them up.
    fn drain_shards(&mut self, ctx: &mut Context<Self>) {
        let Some(Stopping { drained_by, .. }) = self.stopping else { return };
        let now = self.now();
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.stop_taking(now);
        }
        for slot in self.slots.values_mut() {
            if slot.course.is_staying() {
                slot.course = Course::Release;
            }
            if let Some(worker) = &slot.worker {
                let reason = ShutdownReason::ConsumerStopped;
                worker.do_send(StopWorker::Drain { deadline: drained_by, reason });
            }
        }
        self.part_with_idle(ctx);
        self.show_all();
        self.drive(ctx);
    }

    /// Gives up the shards that nobody works on.
    fn part_with_idle(&mut self, ctx: &mut Context<Self>) {
        let idle = self.slots.iter().filter(|(_, slot)| slot.worker.is_none());
        let idle: Vec<_> = idle.map(|(shard, slot)| (shard.clone(), slot.acquisition)).collect();
        for (shard, acquisition) in idle {
            self.part_with(&shard, acquisition, ctx);
        }
    }

    /// The shard's worker has ended: stores the last checkpoint, then gives the lease away.
    pub(super) fn part_with(&mut self, shard: &ShardId, acquisition: Acquisition, ctx: &mut Context<Self>) {
        let deadline = self.stopping.as_ref().map(|stopping| stopping.deadline);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + self.parts.conf.lease.failover_time);
        let Some(slot) = self.slot(shard, acquisition) else { return };
        if std::mem::replace(&mut slot.is_parting, true) {
            return;
        }
        if slot.course.is_staying() {
            slot.course = Course::Release;
        }
        let (flushed, unsettled) = (slot.checkpoint.send(Flush { deadline }), slot.unsettled);
        if let Some(stopping) = &mut self.stopping {
            stopping.report.unsettled += unsettled;
        }
        let shard = shard.clone();
        ctx.spawn(wrap_future::<_, Self>(flushed).map(move |flushed, supervisor, ctx| {
            if supervisor.slot(&shard, acquisition).is_none() {
                // The lease was lost meanwhile, which has been told.
                return;
            }
            if !matches!(flushed, Ok(Ok(()))) {
                warn!(parent: &supervisor.parts.span, %shard, "the last checkpoint is not stored");
                if let Some(stopping) = &mut supervisor.stopping
                    && !stopping.report.not_stored.contains(&shard)
                {
                    stopping.report.not_stored.push(shard.clone());
                }
            }
            supervisor.release(&shard, acquisition, ctx);
        }));
    }

    /// Gives the lease away. A table that does not take that is asked again, at the coordinator's pace, until the
    /// lease is lost: one that stayed ours without a worker would be renewed and never read.
    pub(super) fn release(&mut self, shard: &ShardId, acquisition: Acquisition, ctx: &mut Context<Self>) {
        let answer = self.ask(|coordinator, now| coordinator.release(now, shard, acquisition), None, ctx);
        let shard = shard.clone();
        ctx.spawn(wrap_future::<_, Self>(answer).map(move |released, supervisor, ctx| {
            match released {
                Ok(Ok(())) => info!(parent: &supervisor.parts.span, %shard, "lease released"),
                Ok(Err(RequestError::Store(error))) => {
                    debug!(parent: &supervisor.parts.span, %shard, %error, "lease not released, trying again");
                    return supervisor.release(&shard, acquisition, ctx);
                }
                _ => {
                    warn!(parent: &supervisor.parts.span, %shard, "the lease is not released");
                    if let Some(stopping) = &mut supervisor.stopping {
                        stopping.report.not_released.push(shard.clone());
                    }
                }
            }
            if supervisor.slot(&shard, acquisition).is_some() {
                supervisor.forget_shard(&shard);
            }
            supervisor.finish_if_stopped(ctx);
        }));
    }

    pub(super) fn finish_if_stopped(&mut self, ctx: &mut Context<Self>) {
        let holds_nothing = self.coordinator.as_ref().is_none_or(Coordinator::is_empty_handed);
        if self.stopping.is_some() && self.slots.is_empty() && holds_nothing {
            self.finish(ctx);
        }
    }

    fn finish(&mut self, ctx: &mut Context<Self>) {
        let Some(Stopping { error, mut report, .. }) = self.stopping.take() else { return };
        for (shard, slot) in &self.slots {
            report.not_released.push(shard.clone());
            if slot.worker.is_some() {
                report.unsettled += slot.in_flight();
            }
            // Storing may still be under way.
            if !slot.is_stored() && !report.not_stored.contains(shard) {
                report.not_stored.push(shard.clone());
            }
        }
        for shard in self.slots.keys().cloned().collect::<Vec<_>>() {
            self.forget_shard(&shard);
        }
        self.coordinator = None;
        self.world = None;
        self.address = None;
        self.parts.board.set_state(ConsumerState::Stopped);
        self.publish();
        match &error {
            None => info!(parent: &self.parts.span, clean = report.is_clean(), "consumer stopped"),
            Some(_) => info!(parent: &self.parts.span, "consumer stopped after a failure"),
        }
        let ending = error.map_or(Ok(report), Err);
        if self.parts.notifier.is_observed() {
            self.parts.notifier.show(Observation::Ended(ending.clone()));
        }
        self.parts.ending.send_replace(Some(ending));
        ctx.stop();
    }

    /// Stops at SIGTERM or ctrl-c.
    pub(super) fn stop_at_signal(&mut self, ctx: &mut Context<Self>) {
        ctx.spawn(wrap_future::<_, Self>(termination()).map(|signal, supervisor, ctx| {
            info!(parent: &supervisor.parts.span, signal, "asked to stop by a signal");
            supervisor.begin_stop(supervisor.parts.conf.worker.shutdown_timeout, None, ctx);
        }));
    }
}

#[cfg(unix)]
async fn termination() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = match signal(SignalKind::terminate()) {
        Ok(term) => term,
        Err(error) => {
            warn!(%error, "SIGTERM cannot be caught");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        Ok(()) = tokio::signal::ctrl_c() => "ctrl-c",
    }
}

#[cfg(not(unix))]
async fn termination() -> &'static str {
    match tokio::signal::ctrl_c().await {
        Ok(()) => "ctrl-c",
        Err(_) => std::future::pending().await,
    }
}
