//! What a test is told when something is not so.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::Actor;
use actix_kinesis::config::FailurePolicy;
use actix_kinesis::consumer::{EventProcessed, KinesisConsumer};
use actix_kinesis_test::faults::Fault;
use actix_kinesis_test::{LocalAws, TestStream};
use futures::FutureExt;

use crate::processors::{Clerk, payload};

const SHORT: Duration = Duration::from_millis(300);

/// The text of the panic of what is awaited.
async fn complaint(awaited: impl Future) -> String {
    let Err(panic) = AssertUnwindSafe(awaited).catch_unwind().await else {
        panic!("nothing was complained of")
    };
    *panic.downcast::<String>().unwrap()
}

async fn stream_of_three() -> TestStream {
    let stream = TestStream::start("orders", 1).await;
    for (key, payload) in [("ada", "tea"), ("bob", "milk"), ("cid", "rum")] {
        stream.put(key, payload);
    }
    stream
}

#[actix::test]
#[should_panic(expected = "1 of 3 records are missing:\n  shardId-000000000000 ")]
async fn a_processor_that_loses_a_record_is_caught() {
    let stream = stream_of_three().await;
    let careless = Clerk::answering(|message| match payload(message) {
        b"milk" => EventProcessed::Skipped,
        _ => EventProcessed::Processed,
    });
    let consumer = stream.consume(careless.start()).await;
    consumer.until_all_processed().await;
}

#[actix::test]
async fn what_is_missing_is_named_with_what_became_of_it() {
    let stream = stream_of_three().await;
    let mut conf = stream.conf();
    conf.worker.failure_policy = FailurePolicy::Skip;
    let clerk = Clerk::answering(|message| match payload(message) {
        b"milk" => EventProcessed::failed("it went sour"),
        b"rum" => EventProcessed::Skipped,
        _ => EventProcessed::Processed,
    });
    let consumer = stream.consume_with(KinesisConsumer::builder(conf, clerk.start())).await;
    let complaint = complaint(consumer.until_all_processed()).await;
    let positions: Vec<_> = stream.records().into_iter().map(|record| record.position.to_string()).collect();
    let title =
        "it cannot be any more that each record is processed (at crates/actix-kinesis-test/tests/kit/";
    for told in [
        title,
        "2 of 3 records are missing:\n",
        &format!(
            "  shardId-000000000000 {} key \"bob\" payload \"milk\": delivered 2 times, at last given up: it went sour\n",
            positions[1]
        ),
        &format!(
            "  shardId-000000000000 {} key \"cid\" payload \"rum\": delivered once, skipped\n",
            positions[2]
        ),
        "Running, reads:\n  shardId-000000000000: checkpoint ",
        "processed 1, skipped 1, failed 2, given up 1",
        "lease table test-orders:",
        "attempt 2 of consumer 1: failed: it went sour",
        "EventsGivenUp",
    ] {
        assert!(complaint.contains(told), "{told:?} is not in:\n{complaint}");
    }
    assert!(!complaint.contains("payload \"tea\""), "what is there is not named:\n{complaint}");
}

#[actix::test]
async fn a_condition_that_is_not_met_fails_when_patience_ends() {
    let stream = TestStream::start("orders", 1).await;
    stream.put("ada", "tea");
    let patient = stream.consume(Clerk::processing().start()).await;
    patient.until_all_checkpointed().await;
    patient.stop().await;
    let idle = stream.faults().add(Fault::on("SplitShard").throttle());
    let consumer = stream.with_patience(SHORT).consume(Clerk::processing().start()).await;
    let wanted = [
        (complaint(consumer.until_deliveries(2)).await, "until there are 2 deliveries", "0 deliveries"),
        (complaint(consumer.until("two teas", |_| false)).await, "until two teas", "0 deliveries, 0 of them"),
        (complaint(consumer.until_notice("a comet", |_| false)).await, "a notice: a comet", "no such notice"),
        (
            complaint(consumer.until_shard_ended("shardId-000000000000")).await,
            "until SHARD_END is stored for shardId-000000000000",
            "its checkpoint is 4",
        ),
        (complaint(consumer.until_failed()).await, "until the consumer fails", "it goes on"),
        (complaint(consumer.until_leases("a moon", |_| false)).await, "until a moon", "the rows are others"),
        (complaint(consumer.until_fired(&idle, 1)).await, "the fault has struck 1 calls", "0 calls"),
    ];
    for (complaint, what, lacking) in wanted {
        assert!(complaint.contains("waited 300ms in vain"), "{complaint}");
        assert!(complaint.contains(what) && complaint.contains(lacking), "{complaint}");
    }
}

#[actix::test]
async fn nothing_is_waited_for_that_cannot_come_from_a_stopped_consumer() {
    let stream = TestStream::start("orders", 1).await.with_patience(Duration::from_secs(3600));
    let consumer = stream.consume(Clerk::processing().start()).await;
    consumer.until_notice("it has started", |_| true).await;
    consumer.stop().await;
    stream.put("ada", "tea");
    let stopped = complaint(consumer.until_all_delivered()).await;
    assert!(stopped.contains("the consumer has stopped before each record is delivered"), "{stopped}");
    assert!(stopped.contains("payload \"tea\": never delivered"), "{stopped}");

    let crashed = stream.consume(Clerk::processing().start()).await;
    crashed.until_all_processed().await;
    crashed.crash().await;
    let crashed = complaint(crashed.until_deliveries(2)).await;
    assert!(crashed.contains("the consumer has failed before there are 2 deliveries"), "{crashed}");
}

#[actix::test]
async fn what_was_delivered_of_a_former_stream_of_the_name_counts_for_nothing() {
    let millis = Arc::new(AtomicU64::new(0));
    let clock = {
        let millis = millis.clone();
        move || {
            SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_000 + millis.load(Ordering::SeqCst))
        }
    };
    let stream = TestStream::start_in(LocalAws::builder().clock(clock), "orders", 1).await;
    stream.put("ada", "tea");
    let consumer = stream.consume(Clerk::processing().start()).await;
    consumer.until_all_checkpointed().await;
    consumer.stop().await;

    // Within the second, so that nothing but the moment of arrival need be different.
    stream.aws().with_model(|model, now| model.delete_stream(&"orders".into(), now)).unwrap();
    millis.store(1, Ordering::SeqCst);
    stream.aws().create_stream("orders", 1).unwrap();
    stream.put("ada", "tea");
    let complaint = complaint(consumer.until_all_delivered()).await;
    assert!(complaint.contains("1 of 1 records are missing"), "{complaint}");
    assert!(complaint.contains("payload \"tea\": never delivered"), "{complaint}");
}

#[actix::test]
async fn a_stop_that_leaves_something_is_told() {
    let stream = TestStream::start("orders", 1).await;
    stream.put("ada", "tea");
    let mut conf = stream.conf();
    conf.worker.shutdown_timeout = SHORT;
    let held = Mutex::new(Vec::new());
    let clerk = Clerk::answering(move |message| {
        held.lock().unwrap().push(message.answer_later());
        EventProcessed::Later
    });
    let consumer = stream.consume_with(KinesisConsumer::builder(conf, clerk.start())).await;
    consumer.until_all_delivered().await;
    let complaint = complaint(consumer.stop()).await;
    assert!(complaint.contains("not a clean stop") && complaint.contains("unsettled: 1"), "{complaint}");
}

#[actix::test]
#[should_panic(expected = "the consumer does not start: ")]
async fn impossible_settings_are_told() {
    let stream = TestStream::start("orders", 1).await;
    let mut conf = stream.conf();
    conf.polling.max_records = 0;
    stream.consume_with(KinesisConsumer::builder(conf, Clerk::processing().start())).await;
}

#[actix::test]
#[should_panic(expected = "the settings name another stream than the one that consumes them")]
async fn settings_of_another_stream_are_told() {
    let stream = TestStream::start("orders", 1).await;
    let other = stream.another("returns", 1);
    stream.consume_with(KinesisConsumer::builder(other.conf(), Clerk::processing().start())).await;
}
