//! Processors that are slow, stuck, failing or panicking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Actor, Arbiter, SyncArbiter, SyncContext};
use actix_kinesis::config::FailurePolicy;
use actix_kinesis::consumer::{
    ConsumerError, ConsumerNotice, ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, EventProcessors,
    FailureCause, FailureDecision, ProcessEvent,
};
use kinesis_local::LocalAws;

use crate::support::*;

fn put_numbers(aws: &LocalAws, key: &str, count: usize) {
    for index in 0..count {
        aws.put(STREAM, key, index.to_string()).unwrap();
    }
}

async fn checkpoint_reaches(aws: &LocalAws, table: &str, sequence: &str) {
    eventually("the checkpoint is there", async || {
        let rows = rows(aws, table).await;
        rows.values().any(|row| text(row, "checkpoint").as_deref() == Some(sequence))
    })
    .await;
}

#[actix::test]
async fn a_failed_event_alone_comes_again_and_the_checkpoint_waits_for_it() {
    let aws = local_aws(1).await;
    put_numbers(&aws, "key", 20);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let recorder = Recorder::answering(&notes, |message| {
        if message.event.payload() == "7" && message.attempt == 1 {
            return EventProcessed::failed("not yet");
        }
        EventProcessed::Processed
    });
    let consumer = builder(conf, recorder.start()).start().unwrap();

    let noted = notes.wait_for("a redelivery", |noted| noted.deliveries.len() == 21).await;
    checkpoint_reaches(&aws, &table, &noted.deliveries.iter().find(|d| d.payload == "19").unwrap().sequence)
        .await;
    assert!(consumer.stop().await.unwrap().is_clean());

    let again: Vec<_> = noted.deliveries.iter().filter(|delivery| delivery.attempt > 1).collect();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].payload.as_str(), again[0].attempt), ("7", 2));
}

#[actix::test]
async fn after_the_retries_the_shard_restarts_at_the_failed_event() {
    let aws = local_aws(1).await;
    put_numbers(&aws, "key", 20);
    let notes = new_notes();
    let is_healed = Arc::new(AtomicBool::new(false));
    let recorder = Recorder::answering(&notes, {
        let is_healed = Arc::clone(&is_healed);
        move |message| match message.event.payload() == "7" && !is_healed.load(Ordering::SeqCst) {
            true => EventProcessed::failed("the database is down"),
            false => EventProcessed::Processed,
        }
    });
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let consumer = builder(conf, recorder.start()).start().unwrap();

    let noted = notes.wait_for("two failures", |noted| noted.failures.len() >= 2).await;
    let failure = &noted.failures[0];
    assert!(matches!(failure.decision, FailureDecision::RestartShard { .. }));
    assert_eq!(failure.events.len(), 1);
    assert_eq!(failure.events[0].attempts, 2);
    assert_eq!(failure.events[0].cause, FailureCause::Reported("the database is down".to_owned()));
    is_healed.store(true, Ordering::SeqCst);
    let noted = notes.wait_for("the rest", |noted| noted.payloads().contains(&"19")).await;
    let last = noted.deliveries.iter().find(|delivery| delivery.payload == "19").unwrap();
    checkpoint_reaches(&aws, &table, &last.sequence).await;
    assert!(consumer.stop().await.unwrap().is_clean());
    let noted = notes.now();

    let before = noted.deliveries.iter().filter(|delivery| delivery.payload == "6").count();
    assert_eq!(before, 1, "what was answered before the failed event does not come again");
}

#[actix::test]
async fn skipped_by_policy_an_event_is_reported_and_passed() {
    let aws = local_aws(1).await;
    put_numbers(&aws, "key", 10);
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.worker.failure_policy = FailurePolicy::Skip;
    let table = conf.table_name();
    let recorder = Recorder::answering(&notes, |message| match message.event.payload() == "3" {
        true => EventProcessed::failed("never"),
        false => EventProcessed::Processed,
    });
    let recorder = recorder.start();
    let consumer = builder(conf, recorder.clone()).notices(recorder.recipient()).start().unwrap();

    let is_told = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::EventsGivenUp { .. });
    let noted = notes
        .wait_for("a report", |noted| {
            !noted.failures.is_empty() && noted.notices.iter().any(is_told) && noted.payloads().contains(&"9")
        })
        .await;
    checkpoint_reaches(&aws, &table, &noted.deliveries.iter().find(|d| d.payload == "9").unwrap().sequence)
        .await;
    assert_eq!(noted.failures.len(), 1);
    assert_eq!(noted.failures[0].decision, FailureDecision::GiveUp);
    assert_eq!(noted.failures[0].events[0].event.payload(), "3");
    assert_eq!(consumer.status().shards[0].given_up, 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn the_tolerance_is_a_share_of_the_batch_rounded_down() {
    for (size, unanswered, is_tolerated) in [(500, 1, true), (500, 2, false), (100, 1, false)] {
        let aws = local_aws(1).await;
        put_numbers(&aws, "key", size);
        let notes = new_notes();
        let mut conf = quick_conf(&aws);
        conf.worker.failure_policy = FailurePolicy::StopShard;
        conf.worker.failure_tolerance_percentage = 0.25;
        let recorder = Recorder::answering(&notes, move |message| {
            let number: usize = String::from_utf8_lossy(message.event.payload()).parse().unwrap();
            match (10..10 + unanswered).contains(&number) {
                true => EventProcessed::failed("never"),
                false => EventProcessed::Processed,
            }
        });
        let consumer = builder(conf, recorder.start()).start().unwrap();
        let noted = notes.wait_for("a decision", |noted| !noted.failures.is_empty()).await;
        let failure = &noted.failures[0];
        let decision = if is_tolerated { FailureDecision::GiveUp } else { FailureDecision::StopShard };
        assert_eq!(failure.decision, decision, "{unanswered} of {size}");
        consumer.stop().await.unwrap();
    }
}

#[actix::test]
async fn a_stopped_shard_is_released_at_the_contiguous_prefix_and_the_others_go_on() {
    let aws = local_aws(2).await;
    for index in 0..40 {
        aws.put(STREAM, &format!("key-{index}"), index.to_string()).unwrap();
    }
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.worker.failure_policy = FailurePolicy::StopShard;
    let table = conf.table_name();
    let recorder = Recorder::answering(&notes, |message| match message.event.payload() == "11" {
        true => EventProcessed::failed("never"),
        false => EventProcessed::Processed,
    });
    let consumer = builder(conf, recorder.start()).start().unwrap();

    let noted = notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    let stopped = noted.failures[0].shard.clone();
    eventually("its lease is released", async || {
        text(&rows(&aws, &table).await[stopped.as_str()], "leaseOwner").is_none()
    })
    .await;
    let of_stopped = |delivery: &&Delivery| delivery.shard == stopped.as_str();
    let before =
        noted.deliveries.iter().filter(of_stopped).take_while(|delivery| delivery.payload != "11").last();
    let before = before.map_or("TRIM_HORIZON".to_owned(), |delivery| delivery.sequence.clone());
    assert_eq!(text(&rows(&aws, &table).await[stopped.as_str()], "checkpoint"), Some(before));
    let other = (0..).map(|index| format!("other-{index}"));
    let other = other.take(64).find(|key| {
        let hash = kinesis_record::HashKey::of_partition_key(key);
        aws.shards(STREAM).unwrap().iter().any(|shard| shard.id != stopped && shard.hash_range.contains(hash))
    });
    aws.put(STREAM, &other.unwrap(), "to the other shard").unwrap();
    notes.wait_for("the other shard", |noted| noted.payloads().contains(&"to the other shard")).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn the_consumer_stops_with_the_cause_if_the_policy_says_so() {
    let aws = local_aws(1).await;
    put_numbers(&aws, "key", 5);
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.worker.failure_policy = FailurePolicy::StopConsumer;
    let recorder = Recorder::answering(&notes, |_| EventProcessed::failed("never"));
    let consumer = builder(conf, recorder.start()).start().unwrap();
    let error = consumer.finished().await.unwrap_err();
    assert!(matches!(&error, ConsumerError::ShardFailed { cause, .. } if cause.contains("never")), "{error}");
    assert_eq!(notes.now().failures[0].decision, FailureDecision::StopConsumer);
}

#[actix::test]
async fn a_panic_on_one_record_costs_nothing_but_that_record() {
    let aws = local_aws(2).await;
    for index in 0..60 {
        aws.put(STREAM, &format!("key-{index}"), index.to_string()).unwrap();
    }
    let notes = new_notes();
    let mut conf = quick_conf(&aws);
    conf.worker.failure_policy = FailurePolicy::Skip;
    let recorder = Recorder::answering(&notes, |message| match message.event.payload() == "31" {
        true => panic!("a poison record"),
        false => EventProcessed::Processed,
    });
    let processors = EventProcessors::per_shard(move |_| recorder.clone().start());
    let consumer = builder(conf, processors).start().unwrap();

    let noted = notes
        .wait_for("all but the poison", |noted| {
            noted.first_by_key().len() == 60
                && noted.failures.iter().any(|failure| !failure.events.is_empty())
        })
        .await;
    let failed: Vec<_> = noted.failures.iter().flat_map(|failure| &failure.events).collect();
    assert_eq!(failed.len(), 1, "only the poison is given up");
    assert_eq!(failed[0].event.payload(), "31");
    assert_eq!(failed[0].cause, FailureCause::NoAnswer);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_panic_of_the_one_processor_fails_the_consumer_and_releases_its_leases() {
    let aws = local_aws(2).await;
    put_numbers(&aws, "key", 5);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let recorder = Recorder::answering(&notes, |_| panic!("a bug"));
    let consumer = builder(conf, recorder.start()).start().unwrap();
    let error = consumer.finished().await.unwrap_err();
    assert!(matches!(error, ConsumerError::ProcessorGone), "{error}");
    for (shard, row) in rows(&aws, &table).await {
        assert_eq!(text(&row, "leaseOwner"), None, "{shard}");
    }
}

#[actix::test]
async fn a_processor_that_blocks_its_thread_costs_no_lease_and_no_other_shard() {
    let aws = local_aws(2).await;
    let shards = aws.shards(STREAM).unwrap();
    let key_of = |shard: usize| {
        let range = shards[shard].hash_range;
        let fits = |key: &String| range.contains(kinesis_record::HashKey::of_partition_key(key));
        (0..).map(|index| format!("key-{index}")).find(fits).unwrap()
    };
    let (blocked, free) = (key_of(0), key_of(1));
    aws.put(STREAM, &blocked, "block").unwrap();
    let notes = new_notes();
    let (unblock, blocks) = std::sync::mpsc::channel::<()>();
    let blocks = Arc::new(std::sync::Mutex::new(blocks));
    let recorder = Recorder::answering(&notes, move |message| {
        if message.event.payload() == "block" {
            let _ = blocks.lock().unwrap().recv();
        }
        EventProcessed::Processed
    });
    let processors = EventProcessors::per_shard(move |_| {
        let recorder = recorder.clone();
        Recorder::start_in_arbiter(&Arbiter::new().handle(), move |_| recorder)
    });
    let mut conf = quick_conf(&aws);
    conf.lease.failover_time = SHORT_LEASE;
    let table = conf.table_name();
    let consumer = builder(conf, processors).start().unwrap();

    notes.wait_for("the blocking record", |noted| noted.payloads().contains(&"block")).await;
    let shard = shards[0].id.as_str();
    let counter = number(&rows(&aws, &table).await[shard], "leaseCounter").unwrap();
    let mut put = 0;
    eventually("the lease has been renewed three times", async || {
        aws.put(STREAM, &free, put.to_string()).unwrap();
        put += 1;
        number(&rows(&aws, &table).await[shard], "leaseCounter").unwrap() >= counter + 3
    })
    .await;
    notes
        .wait_for("the other shard", |noted| {
            noted.first_by_key().get(free.as_str()).is_some_and(|payloads| payloads.len() == put)
        })
        .await;
    unblock.send(()).unwrap();
    consumer.stop().await.unwrap();
}

#[actix::test]
async fn stop_returns_within_its_deadline_though_the_processor_never_answers() {
    let aws = local_aws(1).await;
    put_numbers(&aws, "key", 50);
    let notes = new_notes();
    let (recorder, _held) = Recorder::holding(&notes);
    let mut conf = quick_conf(&aws);
    conf.worker.batch_timeout = 60 * MINUTE;
    let table = conf.table_name();
    let consumer = builder(conf, recorder.start()).start().unwrap();
    notes.wait_for("a delivery", |noted| !noted.deliveries.is_empty()).await;

    // A quarter of it, which is enough on a busy machine, is left for the lease.
    let stop = consumer.stop_within(Duration::from_secs(12));
    let stopped = tokio::time::timeout(MINUTE, stop).await.unwrap().unwrap();
    assert!(stopped.unsettled > 0 && !stopped.is_clean());
    assert_eq!(stopped.not_stored, []);
    let rows = rows(&aws, &table).await;
    let row = rows.values().next().unwrap();
    assert_eq!(text(row, "checkpoint").as_deref(), Some("TRIM_HORIZON"));
    assert_eq!(text(row, "leaseOwner"), None, "the lease is released all the same");
}

#[actix::test]
async fn events_not_answered_in_time_come_again_and_a_late_answer_counts_once() {
    let aws = local_aws(1).await;
    put_numbers(&aws, "key", 1);
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let mut conf = quick_conf(&aws);
    conf.worker.batch_timeout = Duration::from_secs(5);
    let table = conf.table_name();
    let consumer = builder(conf, recorder.start()).start().unwrap();
    let noted = notes.wait_for("the second attempt", |noted| noted.deliveries.len() == 2).await;
    let mut handles: Vec<_> = held.take();
    handles.remove(0).answer(EventProcessed::Processed);
    checkpoint_reaches(&aws, &table, &noted.deliveries[0].sequence).await;
    handles.remove(0).answer(EventProcessed::Processed);
    eventually("the second answer is counted as late", async || {
        consumer.status().shards[0].late_answers == 1
    })
    .await;
    assert_eq!(consumer.status().shards[0].processed, 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}

/// A processor whose handler may block, in a pool of threads.
struct Blocking(Recorder, Arc<AtomicUsize>);

impl Actor for Blocking {
    type Context = SyncContext<Self>;
}

impl actix::Handler<actix_kinesis::consumer::ProcessEvent> for Blocking {
    type Result = EventProcessed;

    fn handle(
        &mut self,
        message: actix_kinesis::consumer::ProcessEvent,
        _: &mut Self::Context,
    ) -> Self::Result {
        if message.event.payload() == "3" && self.1.fetch_add(1, Ordering::SeqCst) == 0 {
            panic!("a bug that shows once");
        }
        self.0.note(&message);
        EventProcessed::Processed
    }
}

impl actix::Handler<actix_kinesis::consumer::ConsumerWorkerFailure> for Blocking {
    type Result = ();

    fn handle(&mut self, _: actix_kinesis::consumer::ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl actix::Handler<actix_kinesis::consumer::ConsumerShutdown> for Blocking {
    type Result = ();

    fn handle(&mut self, _: actix_kinesis::consumer::ConsumerShutdown, _: &mut Self::Context) {}
}

#[actix::test]
async fn a_pool_of_threads_processes_events_and_survives_a_panic_of_one() {
    let aws = local_aws(1).await;
    put_numbers(&aws, "key", 20);
    let notes = new_notes();
    let recorder = Recorder::new(&notes);
    let panics = Arc::new(AtomicUsize::new(0));
    let pool = SyncArbiter::start(3, move || Blocking(recorder.clone(), Arc::clone(&panics)));
    let consumer = builder(quick_conf(&aws), pool).start().unwrap();
    notes.wait_for("all records", |noted| noted.deliveries.len() >= 20).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_processor_that_is_stuck_for_ever_is_told_of_and_replaced_while_the_other_shard_goes_on() {
    let aws = local_aws(2).await;
    let keys = keys_by_shard(&aws);
    let [stuck, free] = [keys.first_key_value().unwrap(), keys.last_key_value().unwrap()];
    aws.put(STREAM, stuck.1, "stuck").unwrap();
    let notes = new_notes();
    let (unblock, blocks) = std::sync::mpsc::channel::<()>();
    let (blocks, is_first) = (Arc::new(std::sync::Mutex::new(blocks)), Arc::new(AtomicBool::new(true)));
    let recorder = Recorder::answering(&notes, move |message| {
        if message.event.payload() == "stuck" && is_first.swap(false, Ordering::SeqCst) {
            let _ = blocks.lock().unwrap().recv();
        }
        EventProcessed::Processed
    });
    let processors = EventProcessors::per_shard({
        let recorder = recorder.clone();
        move |_| {
            let recorder = recorder.clone();
            Recorder::start_in_arbiter(&Arbiter::new().handle(), move |_| recorder)
        }
    });
    let mut conf = quick_conf(&aws);
    conf.worker.batch_timeout = Duration::from_secs(1);
    let consumer = builder(conf, processors).notices(recorder.start().recipient()).start().unwrap();
    let mut put = 0;
    let is_restart = |notice: &ConsumerNotice| {
        matches!(notice, ConsumerNotice::ShardRestarts { shard, cause, .. }
            if shard.as_str() == stuck.0 && cause.contains("not answered within 1s"))
    };
    eventually("the restart is told", async || {
        aws.put(STREAM, free.1, put.to_string()).unwrap();
        put += 1;
        notes.now().notices.iter().any(is_restart)
    })
    .await;
    let is_again = |delivery: &Delivery| delivery.payload == "stuck";
    notes
        .wait_for("the next processor and the other shard", |noted| {
            noted.deliveries.iter().filter(|delivery| is_again(delivery)).count() >= 2
                && noted.first_by_key().get(free.1.as_str()).is_some_and(|payloads| payloads.len() == put)
        })
        .await;
    eventually("the stuck event is done with", async || {
        let shards = consumer.status().shards;
        shards.len() == 2 && shards.iter().all(|shard| shard.in_flight == 0 && shard.processed >= 1)
    })
    .await;
    let shards = consumer.status().shards;
    let of_stuck = shards.iter().find(|shard| shard.shard.as_str() == stuck.0).unwrap();
    assert!(of_stuck.failed >= 2, "{of_stuck:?}");
    assert!(consumer.stop().await.unwrap().is_clean());
    unblock.send(()).unwrap();
}

/// Does its work on a thread for blocking calls.
struct Offloading(Recorder, Arc<AtomicUsize>);

impl Actor for Offloading {
    type Context = actix::Context<Self>;
}

impl actix::Handler<ProcessEvent> for Offloading {
    type Result = actix::ResponseFuture<EventProcessed>;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        let (recorder, panics) = (self.0.clone(), Arc::clone(&self.1));
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || {
                if message.event.payload() == "3" && panics.fetch_add(1, Ordering::SeqCst) == 0 {
                    panic!("a bug that shows once");
                }
                recorder.note(&message);
            });
            work.await.into()
        })
    }
}

impl actix::Handler<ConsumerWorkerFailure> for Offloading {
    type Result = ();

    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl actix::Handler<ConsumerShutdown> for Offloading {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

#[actix::test]
async fn a_panic_of_blocking_work_is_a_failed_event_and_costs_no_other() {
    let aws = local_aws(1).await;
    put_numbers(&aws, "key", 20);
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let processor = Offloading(Recorder::new(&notes), Arc::default());
    let consumer = builder(conf, processor.start()).start().unwrap();
    let noted = notes.wait_for("all records", |noted| noted.deliveries.len() == 20).await;
    let last = noted.deliveries.iter().find(|delivery| delivery.payload == "19").unwrap();
    checkpoint_reaches(&aws, &table, &last.sequence).await;
    assert_eq!(noted.deliveries.iter().find(|delivery| delivery.payload == "3").unwrap().attempt, 2);
    assert_eq!(consumer.status().shards[0].failed, 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}
