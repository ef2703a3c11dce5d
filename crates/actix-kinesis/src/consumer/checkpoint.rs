//! The actor that stores how far a shard is processed.

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, AsyncContext, Context, Handler, Message, Recipient, ResponseFuture, WrapFuture,
};
use kinesis_lease::coordinator::{Acquisition, RequestError};
use kinesis_lease::stream::ChildShard;
use kinesis_record::{Checkpoint, Position, ShardId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{Span, debug, info, warn};

use super::event::FencingToken;
use super::notifier::Notifier;
use super::observe::Observation;
use super::status::Gauges;
use crate::backoff::Backoff;
use crate::config::CheckpointerConf;

/// Asks the supervisor for a fenced write to the lease of a shard.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), RequestError>")]
pub(crate) struct WriteLease {
    pub(crate) shard: ShardId,
    pub(crate) acquisition: Acquisition,
    pub(crate) request: LeaseRequest,
}

#[derive(Debug, Clone)]
pub(crate) enum LeaseRequest {
    Checkpoint(Checkpoint),
    End(Vec<ChildShard>),
}

/// Asks a [`CheckpointWorker`] to store the newest position before the deadline.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), NotStored>")]
pub(crate) struct Flush {
    pub(crate) deadline: Instant,
}

/// Asks a [`CheckpointWorker`] to store `SHARD_END`. It tries until the lease is lost.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), NotStored>")]
pub(crate) struct StoreEnd {
    pub(crate) children: Vec<ChildShard>,
}

/// Ends a [`CheckpointWorker`] without another write.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StopCheckpointing;

/// Why the last position of a shard is not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotStored {
    #[error("the lease is not held any more")]
    LeaseLost,
    #[error("the table did not take it in time")]
    OutOfTime,
}

/// Stores the newest finished position of one shard, at most once per interval, as long as the lease is held.
///
/// The newest position wins, and giving it never waits: it comes through a watch channel.
#[derive(Debug)]
pub(crate) struct CheckpointWorker {
    store: Store,
    newest: watch::Receiver<Option<Position>>,
}

/// What it takes to store a checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) shard: ShardId,
    pub(crate) acquisition: Acquisition,
    pub(crate) token: FencingToken,
    pub(crate) supervisor: Recipient<WriteLease>,
    pub(crate) notifier: Notifier,
    pub(crate) conf: CheckpointerConf,
    /// Tells of the checkpoints that are stored.
    pub(crate) stored: Arc<watch::Sender<Checkpoint>>,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) random: fastrand::Rng,
    pub(crate) span: Span,
}

impl CheckpointWorker {
    /// `newest` brings the positions to store.
    pub(crate) fn new(store: Store, newest: watch::Receiver<Option<Position>>) -> Self {
        Self { store, newest }
    }
}

impl Actor for CheckpointWorker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let store = self.store.clone();
        let newest = self.newest.clone();
        ctx.spawn(store.keep_storing(newest).into_actor(self));
    }
}

impl Handler<Flush> for CheckpointWorker {
    type Result = ResponseFuture<Result<(), NotStored>>;

    fn handle(&mut self, flush: Flush, _: &mut Self::Context) -> Self::Result {
        let store = self.store.clone();
        let newest = self.newest.borrow().clone();
        Box::pin(async move {
            let Some(newest) = newest.map(Checkpoint::At) else { return Ok(()) };
            if newest <= *store.stored.borrow() {
                return Ok(());
            }
            let request = LeaseRequest::Checkpoint(newest);
            timeout_at(flush.deadline, store.until_stored(request)).await.unwrap_or(Err(NotStored::OutOfTime))
        })
    }
}

impl Handler<StoreEnd> for CheckpointWorker {
    type Result = ResponseFuture<Result<(), NotStored>>;

    fn handle(&mut self, end: StoreEnd, _: &mut Self::Context) -> Self::Result {
        let store = self.store.clone();
        Box::pin(async move { store.until_stored(LeaseRequest::End(end.children)).await })
    }
}

impl Handler<StopCheckpointing> for CheckpointWorker {
    type Result = ();

    fn handle(&mut self, _: StopCheckpointing, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Store {
    async fn keep_storing(self, mut newest: watch::Receiver<Option<Position>>) {
        while newest.changed().await.is_ok() {
            let mut backoff = self.backoff();
            loop {
                let Some(position) = newest.borrow_and_update().clone() else { break };
                let request = LeaseRequest::Checkpoint(Checkpoint::At(position));
                match self.once(&request, backoff.failures()).await {
                    // The supervisor stops this worker when the lease is lost.
                    Ok(()) | Err(NotStored::LeaseLost) => break,
                    Err(NotStored::OutOfTime) => sleep(backoff.next_pause()).await,
                }
            }
            sleep(self.conf.interval).await;
        }
    }

    async fn until_stored(&self, request: LeaseRequest) -> Result<(), NotStored> {
        let mut backoff = self.backoff();
        loop {
            match self.once(&request, backoff.failures()).await {
                Err(NotStored::OutOfTime) => sleep(backoff.next_pause()).await,
                outcome => return outcome,
            }
        }
    }

    async fn once(&self, request: &LeaseRequest, failures: u32) -> Result<(), NotStored> {
        let (shard, acquisition) = (self.shard.clone(), self.acquisition);
        let write = WriteLease { shard, acquisition, request: request.clone() };
        match self.supervisor.send(write).await {
            Ok(Ok(())) => {
                let checkpoint = match request {
                    LeaseRequest::Checkpoint(checkpoint) => checkpoint.clone(),
                    LeaseRequest::End(_) => Checkpoint::ShardEnd,
                };
                debug!(parent: &self.span, %checkpoint, "checkpoint stored");
                if self.notifier.is_observed() {
                    let (shard, checkpoint) = (self.shard.clone(), checkpoint.clone());
                    let stored = Observation::CheckpointStored { shard, checkpoint, token: self.token };
                    self.notifier.show(stored);
                }
                self.gauges.set_checkpoint(checkpoint.clone());
                self.stored.send_if_modified(|stored| {
                    let is_newer = *stored < checkpoint;
                    if is_newer {
                        *stored = checkpoint;
                    }
                    is_newer
                });
                Ok(())
            }
            Ok(Err(RequestError::Backwards)) => Ok(()),
            Ok(Err(RequestError::NotHeld)) | Err(_) => {
                info!(parent: &self.span, "checkpoint not stored: the lease is not held any more");
                Err(NotStored::LeaseLost)
            }
            Ok(Err(RequestError::Store(error))) => {
                if failures == 0 {
                    warn!(parent: &self.span, %error, "checkpoint not stored, trying again");
                } else {
                    debug!(parent: &self.span, %error, failures, "checkpoint not stored, trying again");
                }
                Err(NotStored::OutOfTime)
            }
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.conf.backoff.min, self.conf.backoff.max, self.random.clone())
    }
}

/// The time a shard's last checkpoint and the release of its lease are left of a stop's deadline.
pub(crate) fn reserved_for_last_checkpoint(deadline: Duration) -> Duration {
    (deadline / 4).min(Duration::from_secs(3))
}
