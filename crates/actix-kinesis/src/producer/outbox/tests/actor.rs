//! The outbox as an actor.

use std::time::Duration;

use actix::prelude::*;
use futures::future::join_all;
use kinesis_lease::StreamErrorKind;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::world::{Hook, Reply, World, builder, conf, event, hooked, open, until, until_sent};
use crate::producer::outbox::{Outbox, OutboxActor, OutboxOutcome, OutboxReason, SendDurably, StopOutbox};
use crate::producer::{
    KinesisProducer, KinesisProducerActor, SendError, SendFailed, SendReason, SendSuccessful,
    SendWithCallback,
};

/// Hands on what it is told.
struct Told<M>(mpsc::UnboundedSender<M>);

impl<M: Unpin + 'static> Actor for Told<M> {
    type Context = Context<Self>;
}

impl<M: Message<Result = ()> + Unpin + Send + 'static> Handler<M> for Told<M> {
    type Result = ();

    fn handle(&mut self, message: M, _: &mut Self::Context) {
        self.0.send(message).unwrap();
    }
}

fn told<M>() -> (Recipient<M>, mpsc::UnboundedReceiver<M>)
where
    M: Message<Result = ()> + Unpin + Send + 'static,
{
    let (sender, messages) = mpsc::unbounded_channel();
    (Told(sender).start().recipient(), messages)
}

#[tokio::test(start_paused = true)]
async fn the_actor_answers_acceptance_and_the_recipient_is_told_the_outcome_across_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::unreachable();
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let (recipient, mut outcomes) = told();
            let told = || recipient.clone();
            let actor =
                OutboxActor::new(builder(&directory, &world).outcomes(told()).open().await.unwrap()).start();
            let accepted = actor.send(SendDurably::with_id(event("key", 1), "first")).await.unwrap();
            assert_eq!(accepted.unwrap().message_id.as_str(), "first");
            let stopped = actor.send(StopOutbox { within: Duration::ZERO }).await.unwrap();
            assert_eq!(stopped.left, 1);
            world.answers(|_, _| Reply::Stored);
            let outbox = builder(&directory, &world).outcomes(told()).open().await.unwrap();
            let outcome = outcomes.recv().await.unwrap();
            let OutboxOutcome::Sent { message_id, result } = outcome else { panic!("{outcome:?}") };
            assert_eq!((message_id.as_str(), result.shard.to_string().as_str()), ("first", "shardId-0"));
            world.answers(|_, _| Reply::Fails(StreamErrorKind::InvalidArgument));
            outbox.send_with_id(event("key", 2), "second".into()).await.unwrap();
            let outcome = outcomes.recv().await.unwrap();
            let OutboxOutcome::Parked(parked) = outcome else { panic!("{outcome:?}") };
            assert_eq!(
                (parked.message_id.as_str(), parked.event),
                ("second", event("key", 2).with_stream("orders"))
            );
        })
        .await;
}

/// What an application does that knows nothing of outboxes.
async fn send_three<A>(actor: &Addr<A>) -> [Result<SendSuccessful, SendFailed>; 3]
where
    A: Actor<Context = Context<A>> + Handler<SendWithCallback>,
{
    let sends = ["1", "poison", ""].map(|payload| {
        let key = if payload.is_empty() { "" } else { "key" };
        actor.send(SendWithCallback::with_id(event(key, payload), format!("id-{payload}")))
    });
    let answers = join_all(sends).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    answers.try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_application_is_answered_as_by_a_producer() {
    let world = || {
        World::new(|_, records| match records.iter().any(|record| record.data.as_ref() == b"poison") {
            true => Reply::Fails(StreamErrorKind::InvalidArgument),
            false => Reply::Stored,
        })
    };
    LocalSet::new()
        .run_until(async {
            let directory = tempfile::tempdir().unwrap();
            let outbox = open(&directory, &world()).await;
            let through_outbox = send_three(&OutboxActor::new(outbox.clone()).start()).await;
            let mut conf = conf(&directory);
            conf.outbox.path = None;
            let producer = KinesisProducer::builder(conf).api(world()).start().await.unwrap();
            let by_producer = send_three(&KinesisProducerActor::new(producer).start()).await;
            for (one, other) in through_outbox.iter().zip(&by_producer) {
                match (one, other) {
                    (Ok(one), Ok(other)) => assert_eq!(one.result.position(), other.result.position()),
                    (Err(one), Err(other)) => {
                        assert_eq!((&one.event, &one.message_id), (&other.event, &other.message_id));
                        assert_eq!(one.reason, other.reason);
                    }
                    _ => panic!("{one:?} and {other:?}"),
                }
            }
            assert_eq!(outbox.status().parked, 1);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_when_the_event_is_stored_however_long_that_takes_and_to_the_recipient_too() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::unreachable();
    LocalSet::new()
        .run_until(async {
            let outbox = open(&directory, &world).await;
            let actor = OutboxActor::new(outbox.clone()).start();
            let (successes, mut told) = told::<SendSuccessful>();
            let mut message = SendWithCallback::with_id(event("key", 1), "first");
            message.successes = Some(successes);
            let sending = tokio::task::spawn_local(actor.send(message));
            until(|| outbox.status().waiting == 1).await;
            tokio::time::sleep(super::world::DAY).await;
            assert!(!sending.is_finished());
            world.answers(|_, _| Reply::Stored);
            let answer = sending.await.unwrap().unwrap().unwrap();
            assert_eq!(answer.message_id.as_str(), "first");
            assert_eq!(told.recv().await.unwrap(), answer);
        })
        .await;
}

fn is_of_the_disk(reason: &SendReason) -> bool {
    matches!(reason, SendReason::Outbox(reason) if matches!(**reason, OutboxReason::Store(_)))
}

#[tokio::test(start_paused = true)]
async fn what_is_not_accepted_fails_with_the_reason_of_the_outbox() {
    let directory = tempfile::tempdir().unwrap();
    LocalSet::new()
        .run_until(async {
            let store = hooked(&directory, |_| Hook::Fails);
            let outbox = builder(&directory, &World::working()).store(store).open().await.unwrap();
            let actor = OutboxActor::new(outbox).start();
            let failed = actor.send(SendWithCallback::new(event("key", 1))).await.unwrap().unwrap_err();
            assert!(is_of_the_disk(&failed.reason), "{failed}");
            let (failures, mut told) = told::<SendError>();
            actor.do_send(crate::producer::Send::new(event("key", 2)).failures_to(failures));
            let failed = told.recv().await.unwrap();
            assert!(is_of_the_disk(&failed.reason), "{failed}");
            assert_eq!(failed.event, event("key", 2));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_accepted_and_not_sent_at_the_end_is_answered_as_kept_and_is() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::unreachable();
    LocalSet::new()
        .run_until(async {
            let outbox = open(&directory, &world).await;
            let actor = OutboxActor::new(outbox.clone()).start();
            let (failures, mut told) = told::<SendError>();
            actor.do_send(crate::producer::Send::new(event("key", 1)).failures_to(failures));
            actor.do_send(crate::producer::Send::new(event("key", 2)));
            let sending = tokio::task::spawn_local(actor.send(SendWithCallback::new(event("key", 3))));
            until(|| outbox.status().waiting == 3).await;
            assert_eq!(actor.send(StopOutbox { within: Duration::ZERO }).await.unwrap().left, 3);
            let failed = sending.await.unwrap().unwrap().unwrap_err();
            assert_eq!(failed.reason, SendReason::Kept);
            assert_eq!(failed.event, event("key", 3));
            world.answers(|_, _| Reply::Stored);
            let outbox = open(&directory, &world).await;
            until_sent(&outbox).await;
            assert_eq!(world.payloads("key"), ["1", "2", "3"]);
            // Being kept is no failure.
            assert!(told.recv().await.is_none());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn more_than_the_disk_keeps_up_with_waits_in_the_mailbox_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::working();
    LocalSet::new()
        .run_until(async {
            let mut conf = conf(&directory);
            conf.max_outstanding_requests = 10;
            let outbox = Outbox::builder(conf).api(world.clone()).open().await.unwrap();
            let actor = OutboxActor::new(outbox.clone()).start();
            (0..200).for_each(|number| actor.do_send(crate::producer::Send::new(event("key", number))));
            until(|| outbox.status().accepted == 200).await;
            until_sent(&outbox).await;
            let expected: Vec<String> = (0..200).map(|number| number.to_string()).collect();
            assert_eq!(world.payloads("key"), expected);
        })
        .await;
}
