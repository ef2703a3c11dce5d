//! The producer as an actor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler};
use actix_kinesis::producer::{
    KinesisProducerActor, ProducerEvent, Send, SendError, SendFailed, SendReason, SendSuccessful,
    SendWithCallback, StopProducer,
};
use kinesis_local::faults::Fault;

use crate::support::*;

/// Notes the answers.
#[derive(Clone, Default)]
struct Sender {
    successes: Arc<Mutex<Vec<SendSuccessful>>>,
    failures: Arc<Mutex<Vec<SendFailed>>>,
    unsent: Arc<Mutex<Vec<SendError>>>,
}

impl Actor for Sender {
    type Context = Context<Self>;
}

impl Handler<SendSuccessful> for Sender {
    type Result = ();

    fn handle(&mut self, message: SendSuccessful, _: &mut Self::Context) {
        self.successes.lock().unwrap().push(message);
    }
}

impl Handler<SendFailed> for Sender {
    type Result = ();

    fn handle(&mut self, message: SendFailed, _: &mut Self::Context) {
        self.failures.lock().unwrap().push(message);
    }
}

impl Handler<SendError> for Sender {
    type Result = ();

    fn handle(&mut self, message: SendError, _: &mut Self::Context) {
        self.unsent.lock().unwrap().push(message);
    }
}

#[actix::test]
async fn answers_come_as_reply_and_to_the_recipient() {
    let aws = local_aws(1).await;
    let producer = KinesisProducerActor::new(start(conf(&aws)).await).start();
    let sender = Sender::default();
    let address = sender.clone().start();
    let good = SendWithCallback::with_id(event(0, 1), "first").reply_to(&address);
    let successful = within_patience("a reply", producer.send(good)).await.unwrap().unwrap();
    assert_eq!((successful.message_id.as_str(), successful.result.sub_sequence), ("first", None));
    let bad = ProducerEvent::new("", "x");
    let failed =
        within_patience("a reply", producer.send(SendWithCallback::new(bad.clone()).reply_to(&address)))
            .await
            .unwrap()
            .unwrap_err();
    assert_eq!(failed.event, bad);
    assert!(matches!(failed.reason, SendReason::Invalid(_)));
    within_patience("a reply", producer.send(Send::new(bad).failures_to(address.recipient()))).await.unwrap();
    eventually("the recipient is told", || sender.unsent.lock().unwrap().len() == 1).await;
    assert_eq!(*sender.successes.lock().unwrap(), [successful]);
    assert_eq!(*sender.failures.lock().unwrap(), [failed]);
}

#[actix::test]
async fn at_the_limit_the_actor_takes_no_more_and_keeps_the_order_of_each_sender() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 10;
    conf.record_max_buffered_time = Duration::ZERO;
    conf.ordering = actix_kinesis::config::Ordering::PartitionKey;
    let producer = start(conf).await;
    let actor: Addr<_> = KinesisProducerActor::new(producer.clone()).start();
    let mut replies = Vec::new();
    for index in 0..2_000 {
        // Each of 20 senders has a key.
        if index % 2 == 0 {
            actor.do_send(Send::new(event(index, 20)));
        } else {
            replies.push(actor.send(SendWithCallback::new(event(index, 20))));
        }
    }
    let replies = actix::spawn(futures::future::join_all(replies));
    let mut most = 0;
    eventually("all is stored", || {
        let status = producer.status();
        most = most.max(status.outstanding);
        assert!(status.waiting <= 1, "only what the actor has in hand waits");
        status.sent == 2_000
    })
    .await;
    assert!(most <= 10, "{most}");
    assert!(
        within_patience("all replies", replies)
            .await
            .unwrap()
            .into_iter()
            .all(|reply| reply.unwrap().is_ok())
    );
    assert_once_each(&aws, 2_000);
    assert!(by_key(&aws).values().all(|payloads| payloads.is_sorted()));
}

#[actix::test]
async fn events_that_nobody_waits_for_are_told_of_in_the_log_without_their_content() {
    let logs = crate::logs::Logs::of_this_thread();
    let aws = local_aws(1).await;
    let producer = KinesisProducerActor::new(start(conf(&aws)).await).start();
    for _ in 0..5 {
        let secret = "secret".repeat(200_000);
        within_patience("a reply", producer.send(Send::new(ProducerEvent::new("private", secret))))
            .await
            .unwrap();
    }
    let told = |parts: &[&str]| logs.with(parts);
    eventually("all are told of", || !told(&[" WARN ", "more events were not sent", "events=4"]).is_empty())
        .await;
    let first = told(&[" WARN ", "an event was not sent"]);
    assert!(
        first.len() == 1 && first[0].contains("max-record-size") && first[0].contains("1200000"),
        "{first:?}"
    );
    assert!(told(&["private"]).is_empty() && told(&["secret"]).is_empty());
}

#[actix::test]
async fn a_full_mailbox_refuses_clearly() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 1;
    let producer = start(conf).await;
    aws.faults().add(Fault::on("PutRecords").hang());
    let actor = KinesisProducerActor::new(producer).start();
    within_patience("a reply", actor.send(Send::new(event(0, 1)))).await.unwrap();
    let refused = (1..100).filter(|index| actor.try_send(Send::new(event(*index, 1))).is_err()).count();
    assert!(refused > 50, "{refused}");
}

#[actix::test]
async fn a_stop_of_the_producer_passes_all_that_the_actor_has_not_taken() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 1;
    let producer = start(conf).await;
    aws.faults().add(Fault::on("PutRecords").hang());
    let actor = KinesisProducerActor::new(producer.clone()).start();
    let replies: Vec<_> = (0..100).map(|index| actor.send(SendWithCallback::new(event(index, 10)))).collect();
    let last = actor.send(StopProducer { within: Duration::from_secs(3600) });
    let replies = actix::spawn(futures::future::join_all(replies));
    let last = actix::spawn(last);
    eventually("the producer is full", || producer.status().throttled).await;
    let flushed = within_patience("the stop", producer.stop(Duration::ZERO)).await;
    assert_eq!((flushed.sent, flushed.failed), (0, 1));
    for (index, reply) in within_patience("all replies", replies).await.unwrap().into_iter().enumerate() {
        let failed = reply.unwrap().unwrap_err();
        assert!(matches!(failed.reason, SendReason::Stopped(_)), "{failed}");
        assert_eq!(failed.event, event(index, 10));
    }
    within_patience("the last reply", last).await.unwrap().unwrap();
    eventually("the actor has ended", || !actor.connected()).await;
}

#[actix::test]
async fn the_end_of_the_actor_loses_nothing_that_it_took() {
    let aws = local_aws(1).await;
    let producer = KinesisProducerActor::new(start(conf(&aws)).await).start();
    for index in 0..100 {
        producer.do_send(Send::new(event(index, 10)));
    }
    let stop = producer.send(StopProducer { within: Duration::from_secs(60) });
    let flushed = within_patience("the stop", stop).await.unwrap();
    assert!(flushed.is_clean());
    assert_once_each(&aws, 100);
    eventually("the actor has ended", || !producer.connected()).await;
}

#[actix::test]
async fn the_actor_has_its_turn_among_senders_who_keep_the_producer_full() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 10;
    conf.record_max_buffered_time = Duration::ZERO;
    let producer = start(conf).await;
    let others = producer.clone();
    let load = actix::spawn(async move {
        let keep_sending = (0..50).map(async |index| {
            // As long as the test.
            while others.send(event(index, 50)).await.is_ok() {}
        });
        futures::future::join_all(keep_sending).await
    });
    eventually("others wait for room", || producer.status().waiting > 20).await;
    let actor = KinesisProducerActor::new(producer).start();
    let replies = (0..20).map(|index| actor.send(SendWithCallback::new(event(index, 20))));
    let replies = within_patience("all replies", futures::future::join_all(replies)).await;
    assert!(replies.into_iter().all(|reply| reply.unwrap().is_ok()));
    load.abort();
}
