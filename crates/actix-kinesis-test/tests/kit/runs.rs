//! Runs that go well in the end, and what is seen of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, SyncArbiter};
use actix_kinesis::Checkpoint;
use actix_kinesis::config::FailurePolicy;
use actix_kinesis::consumer::{
    ConsumerError, ConsumerNotice, DeliveryOutcome, EventHandle, EventProcessed, EventProcessors,
    FailureCause, FailureDecision, KinesisConsumer, ShutdownReason,
};
use actix_kinesis_test::faults::Fault;
use actix_kinesis_test::{Aggregate, Lease, Seen, TestStream};

use crate::processors::{Clerk, PoolClerk, payload};

const SHARD: &str = "shardId-000000000000";

async fn stream_with(shards: u32, records: usize) -> TestStream {
    let stream = TestStream::start("orders", shards).await;
    for index in 0..records {
        stream.put(&format!("customer-{}", index % 5), index.to_string());
    }
    stream
}

#[actix::test]
async fn a_counting_processor_gets_everything_once_and_in_order() {
    let stream = stream_with(3, 200).await;
    let count = Arc::default();
    let consumer = stream.consume(Clerk::counting(&count).start()).await;
    consumer.until_all_processed().await;
    consumer.stop().await;

    assert_eq!(count.load(Ordering::SeqCst), 200);
    let seen = consumer.seen();
    seen.assert_each_once();
    seen.assert_in_order();
    let wanted: Vec<_> = (3..200).step_by(5).map(|index| index.to_string()).collect();
    assert_eq!(seen.payloads_of("customer-3"), wanted);
    for shard in stream.open_shards() {
        let last = stream.records().into_iter().rfind(|record| record.shard == shard);
        let wanted = last.map_or(Checkpoint::TrimHorizon, |last| Checkpoint::At(last.position));
        assert_eq!(consumer.checkpoint(&shard).await, Some(wanted));
    }
    assert!(
        consumer.leases().await.values().all(|lease| lease.owner.is_none()),
        "a stop releases the leases"
    );
}

#[actix::test]
async fn a_pool_of_threads_is_a_processor() {
    let stream = stream_with(2, 50).await;
    let count: Arc<AtomicUsize> = Arc::default();
    let pool = SyncArbiter::start(3, {
        let count = count.clone();
        move || PoolClerk(Clerk::counting(&count))
    });
    let consumer = stream.consume(pool).await;
    consumer.until_all_processed().await;
    consumer.stop().await;
    assert_eq!(count.load(Ordering::SeqCst), 50);
    assert_eq!(consumer.seen().payloads().len(), 50);
}

#[actix::test]
async fn a_failure_shows_with_its_reason_and_the_event_comes_again() {
    let stream = stream_with(1, 10).await;
    let failed = AtomicBool::new(false);
    let clerk = Clerk::answering(move |message| match payload(message) {
        b"4" if !failed.swap(true, Ordering::SeqCst) => EventProcessed::failed("no ink"),
        b"6" => EventProcessed::Skipped,
        _ => EventProcessed::Processed,
    });
    let consumer = stream.consume(clerk.start()).await;
    consumer.until_all_settled().await;
    consumer.until_all_checkpointed().await;
    consumer.stop().await;

    let seen = consumer.seen();
    let of = |text: &str| {
        let of_text = seen.deliveries.iter().filter(|delivery| delivery.text() == text);
        of_text.map(|delivery| (delivery.attempt, delivery.outcome.clone().unwrap())).collect::<Vec<_>>()
    };
    let no_ink = DeliveryOutcome::Failed(FailureCause::Reported("no ink".to_owned()));
    assert_eq!(of("4"), [(1, no_ink), (2, DeliveryOutcome::Processed)]);
    assert_eq!(of("6"), [(1, DeliveryOutcome::Skipped)]);
    assert_eq!(of("7"), [(1, DeliveryOutcome::Processed)]);
    assert_eq!(seen.deliveries.len(), 11);
}

#[actix::test]
async fn answers_through_handles_show() {
    let stream = stream_with(1, 2).await;
    let handles: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let clerk = Clerk::answering({
        let handles = handles.clone();
        move |message| {
            handles.lock().unwrap().push(message.answer_later());
            EventProcessed::Later
        }
    });
    let consumer = stream.consume(clerk.start()).await;
    let seen = consumer.until("both are held", |_| handles.lock().unwrap().len() == 2).await;
    assert!(seen.deliveries.iter().all(|delivery| delivery.outcome.is_none()));
    for handle in handles.lock().unwrap().drain(..) {
        handle.answer(EventProcessed::Processed);
    }
    consumer.until_all_processed().await;
    consumer.stop().await;
}

#[actix::test]
async fn an_answer_behind_its_time_shows_as_soon_as_it_counts() {
    let stream = stream_with(1, 1).await;
    let handles: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let clerk = Clerk::answering({
        let handles = handles.clone();
        move |message| {
            handles.lock().unwrap().push(message.answer_later());
            EventProcessed::Later
        }
    });
    let mut conf = stream.conf();
    conf.worker.batch_timeout = Duration::from_millis(50);
    conf.worker.failed_message_retries = 1000;
    let consumer = stream.consume_with(KinesisConsumer::builder(conf, clerk.start())).await;
    let seen = consumer.until_deliveries(2).await;
    let timed_out = DeliveryOutcome::Failed(FailureCause::TimedOut(Duration::from_millis(50)));
    assert_eq!(seen.deliveries[0].outcome, Some(timed_out));
    consumer.until("the first delivery is held", |_| !handles.lock().unwrap().is_empty()).await;
    handles.lock().unwrap().remove(0).answer(EventProcessed::Processed);
    let counts = |seen: &Seen| seen.deliveries[0].outcome == Some(DeliveryOutcome::Processed);
    consumer.until("the late answer counts", counts).await;
    consumer.until_all_checkpointed().await;
    consumer.stop().await;
}

#[actix::test]
async fn a_panic_costs_a_processor_of_its_own_shard_one_delivery() {
    let stream = stream_with(1, 5).await;
    let made = Arc::new(AtomicUsize::new(0));
    let panicked = Arc::new(AtomicBool::new(false));
    let processors = EventProcessors::per_shard({
        let made = made.clone();
        move |_| {
            made.fetch_add(1, Ordering::SeqCst);
            let panicked = panicked.clone();
            let answer = move |message: &_| match payload(message) {
                b"2" if !panicked.swap(true, Ordering::SeqCst) => panic!("this panic is meant"),
                _ => EventProcessed::Processed,
            };
            Clerk::answering(answer).start()
        }
    });
    let consumer = stream.consume(processors).await;
    consumer.until_all_processed().await;
    consumer.stop().await;
    assert_eq!(made.load(Ordering::SeqCst), 2);
    let unanswered = Some(DeliveryOutcome::Failed(FailureCause::NoAnswer));
    let seen = consumer.seen();
    assert!(seen.deliveries.iter().any(|delivery| delivery.text() == "2" && delivery.outcome == unanswered));
}

#[actix::test]
async fn a_panic_of_the_only_processor_fails_the_consumer() {
    let stream = stream_with(1, 1).await;
    let consumer = stream.consume(Clerk::answering(|_| panic!("this panic is meant")).start()).await;
    assert!(matches!(consumer.until_failed().await, ConsumerError::ProcessorGone));
}

#[actix::test]
async fn what_is_given_up_is_told_with_its_cause() {
    let stream = stream_with(1, 3).await;
    let mut conf = stream.conf();
    conf.worker.failure_policy = FailurePolicy::Skip;
    let clerk = Clerk::answering(|message| match payload(message) {
        b"1" => EventProcessed::failed("no ink"),
        _ => EventProcessed::Processed,
    });
    let consumer = stream.consume_with(KinesisConsumer::builder(conf, clerk.start())).await;
    consumer.until_all_settled().await;
    let given_up = |notice: &_| matches!(notice, ConsumerNotice::EventsGivenUp { .. });
    consumer.until_notice("events are given up", given_up).await;
    consumer.until_all_checkpointed().await;
    consumer.stop().await;
    let seen = consumer.seen();
    let [failed] = seen.given_up()[..] else { panic!("one event is given up") };
    assert_eq!((&failed.event.payload()[..], failed.attempts), (&b"1"[..], 2));
    assert_eq!(failed.cause, FailureCause::Reported("no ink".to_owned()));
}

#[actix::test]
async fn what_a_processor_is_told_of_failures_and_stops_shows() {
    let stream = stream_with(1, 1).await;
    let mut conf = stream.conf();
    conf.worker.failure_policy = FailurePolicy::StopConsumer;
    let clerk = Clerk::answering(|_| EventProcessed::failed("no ink"));
    let consumer = stream.consume_with(KinesisConsumer::builder(conf, clerk.start())).await;
    assert!(matches!(consumer.until_failed().await, ConsumerError::ShardFailed { .. }));
    let seen = consumer.seen();
    let told: Vec<_> =
        seen.failures.iter().map(|failure| (&failure.decision, failure.events.len())).collect();
    assert_eq!(told, [(&FailureDecision::StopConsumer, 1)]);
    let told: Vec<_> = seen.shutdowns.iter().map(|shutdown| &shutdown.reason).collect();
    assert_eq!(told, [&ShutdownReason::Failed]);
}

#[actix::test]
async fn a_reshard_keeps_the_order_of_each_key() {
    let stream = stream_with(1, 20).await;
    let consumer = stream.consume(Clerk::processing().start()).await;
    let [left, right] = stream.split(SHARD);
    for index in 20..40 {
        stream.put(&format!("customer-{}", index % 5), index.to_string());
    }
    let child = stream.merge(&left, &right);
    for index in 40..60 {
        stream.put(&format!("customer-{}", index % 5), index.to_string());
    }
    consumer.until_all_processed().await;
    for shard in [SHARD, left.as_str(), right.as_str()] {
        consumer.until_shard_ended(shard).await;
    }
    consumer.stop().await;
    assert_eq!(stream.open_shards(), [child]);
    let seen = consumer.seen();
    seen.assert_in_order();
    let wanted: Vec<_> = (2..60).step_by(5).map(|index| index.to_string()).collect();
    assert_eq!(seen.payloads_of("customer-2"), wanted);
}

#[actix::test]
async fn records_of_an_aggregate_are_known_one_by_one() {
    let stream = TestStream::start("orders", 2).await;
    let at_home = stream.keys_of(SHARD).next().unwrap();
    let stranger = stream.keys_of("shardId-000000000001").next().unwrap();
    let mut aggregate = Aggregate::new();
    for (key, payload) in [(&at_home, "first"), (&stranger, "second"), (&at_home, "third")] {
        aggregate.push(key, None, payload.into());
    }
    let put = stream.put_aggregate(SHARD, aggregate);
    assert_eq!(put.iter().map(|record| record.is_misplaced).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(stream.records(), put);

    let consumer = stream.consume(Clerk::processing().start()).await;
    consumer.until_all_processed().await;
    consumer.until_all_checkpointed().await;
    consumer.stop().await;
    let seen = consumer.seen();
    assert_eq!(seen.payloads(), ["first", "third"]);
    assert_eq!(seen.left_out(), [(&put[1].shard, &put[1].position)]);
    assert_eq!(consumer.checkpoint(SHARD).await, Some(Checkpoint::At(put[2].position.clone())));
}

#[actix::test]
async fn a_throttled_table_delays_checkpoints_and_loses_none() {
    let stream = stream_with(1, 20).await;
    let table = stream.conf().table_name();
    let throttled = stream.faults().add(Fault::on("UpdateItem").table(&table).skip(2).times(4).throttle());
    let consumer = stream.consume(Clerk::processing().start()).await;
    consumer.until_all_checkpointed().await;
    consumer.until_fired(&throttled, 4).await;
    consumer.stop().await;
    consumer.seen().assert_each_once();
}

#[actix::test]
async fn a_look_at_the_table_is_neither_struck_nor_counted() {
    let stream = stream_with(1, 1).await;
    let consumer = stream.consume(Clerk::processing().start()).await;
    consumer.until_all_checkpointed().await;
    consumer.stop().await;
    let calls = stream.aws().calls("Scan");
    let refused = stream.faults().add(Fault::on("Scan").error("InternalServerError"));
    assert_eq!(consumer.leases().await.len(), 1);
    assert_eq!((refused.fired(), stream.aws().calls("Scan")), (0, calls));
}

#[actix::test]
async fn a_restart_goes_on_behind_the_checkpoint() {
    let stream = stream_with(2, 20).await;
    let first = stream.consume(Clerk::processing().start()).await;
    first.until_all_processed().await;
    first.stop().await;

    stream.put("customer-1", "after");
    let second = stream.consume(Clerk::processing().start()).await;
    second.until_all_processed().await;
    second.stop().await;
    assert_eq!(second.seen().payloads(), ["after"]);
    let seen = second.seen_by_all();
    assert_eq!(seen.deliveries.len(), 21);
    seen.assert_each_once();
    seen.assert_in_order();
}

#[actix::test]
async fn a_crash_repeats_at_most_what_was_not_stored() {
    let stream = stream_with(1, 40).await;
    // Only half of it is answered before the crash.
    let clerk = Clerk::answering(|message| {
        let index: usize = String::from_utf8_lossy(payload(message)).parse().unwrap();
        if index < 20 { EventProcessed::Processed } else { EventProcessed::Later }
    });
    let first = stream.consume(clerk.start()).await;
    let stored = Checkpoint::At(stream.records()[19].position.clone());
    let is_stored = |rows: &BTreeMap<_, Lease>| rows.values().any(|row| row.checkpoint == stored);
    first.until_leases("the first half is stored", is_stored).await;
    first.crash().await;
    let deliveries = first.seen().deliveries.len();
    assert!(first.leases().await.values().all(|lease| lease.owner.is_some()), "a crash releases no lease");

    let second = stream.consume(Clerk::processing().start()).await;
    second.until_all_processed().await;
    second.stop().await;
    assert_eq!(first.seen().deliveries.len(), deliveries, "a crashed consumer delivers nothing");
    let seen = second.seen();
    seen.assert_each_once();
    let unstored: Vec<_> = (20..40).map(|index| index.to_string()).collect();
    assert_eq!(seen.payloads(), unstored);
}

#[actix::test]
async fn another_worker_takes_over_while_the_first_one_is_gone() {
    let stream = stream_with(2, 20).await;
    let first = stream.consume(Clerk::processing().start()).await;
    first.until_all_checkpointed().await;
    let second = stream.consume(Clerk::processing().start()).await;
    drop(first);
    let is_second = |lease: &Lease| lease.owner.as_ref() == Some(second.handle().worker_id());
    second.until_leases("the second worker has both shards", |rows| rows.values().all(is_second)).await;
    for shard in stream.open_shards() {
        stream.put_to(&shard, "customer-1", "after");
    }
    second.until_all_processed().await;
    second.stop().await;
    assert_eq!(second.seen().payloads(), ["after", "after"]);
}
