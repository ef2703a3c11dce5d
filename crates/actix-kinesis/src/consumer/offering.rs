//! Events in an intake, for tests of what is behind it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, Context, Handler, Message};
use kinesis_record::{Checkpoint, Position, SequenceNumber, ShardId};
use tokio::sync::watch;
use tokio::time::Instant;

use super::event::{AnswerLink, ConsumerEvent, EventProcessed, HandleAnswer, Offered, ProcessEvent};
use super::fence::Fence;
use super::status::Gauges;

type Answers = Arc<Mutex<Vec<Option<EventProcessed>>>>;

/// A shard's worker that offers what it is told to, and notes the answers.
pub(crate) struct Offering {
    shard: ShardId,
    worker: Addr<Worker>,
    fence: Arc<Fence>,
    link: Arc<AnswerLink>,
    answers: Answers,
    _stored: watch::Sender<Checkpoint>,
}

impl Offering {
    /// One whose lease holds.
    pub(crate) fn new(shard: &str) -> Self {
        let answers = Answers::default();
        let worker = Worker(Arc::clone(&answers)).start();
        let fence = Arc::new(Fence::new(Instant::now()));
        fence.extend(Duration::MAX);
        let gauges = Arc::new(Gauges::new(Checkpoint::TrimHorizon));
        let (stored, is_stored) = watch::channel(Checkpoint::TrimHorizon);
        let link = AnswerLink::new(worker.clone().recipient(), gauges, Arc::clone(&fence), is_stored);
        Self { shard: shard.into(), worker, fence, link: Arc::new(link), answers, _stored: stored }
    }

    pub(crate) fn offer(&self, number: u128) -> Offered {
        let position = Position::new(SequenceNumber::from(number), 0);
        let event = ConsumerEvent::new(self.shard.clone(), position, number.to_string());
        let message = ProcessEvent { link: Arc::clone(&self.link), ..ProcessEvent::new(event, 1) };
        Offered::new(message, Arc::default())
    }

    /// From now on it is not known whether the lease is still ours.
    pub(crate) fn doubt(&self) {
        self.fence.end();
    }

    pub(crate) fn hold(&self) {
        self.fence.extend(Duration::MAX);
    }

    /// The worker ends, and tells nobody.
    pub(crate) async fn end(&self) {
        self.worker.send(End).await.unwrap();
        while self.worker.connected() {
            tokio::task::yield_now().await;
        }
    }

    /// The answers so far; none for an event that came back.
    pub(crate) async fn answers(&self) -> Vec<Option<EventProcessed>> {
        self.worker.send(Nothing).await.unwrap();
        self.answers.lock().unwrap().clone()
    }
}

struct Worker(Answers);

#[derive(Message)]
#[rtype(result = "()")]
struct End;

#[derive(Message)]
#[rtype(result = "()")]
struct Nothing;

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<HandleAnswer> for Worker {
    type Result = ();

    fn handle(&mut self, answer: HandleAnswer, _: &mut Self::Context) {
        self.0.lock().unwrap().push(answer.answer);
    }
}

impl Handler<End> for Worker {
    type Result = ();

    fn handle(&mut self, _: End, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Nothing> for Worker {
    type Result = ();

    fn handle(&mut self, _: Nothing, _: &mut Self::Context) {}
}
