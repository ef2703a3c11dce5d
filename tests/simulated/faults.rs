//! What the network does to a consumer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::Actor;
use actix_kinesis::config::InitialPosition;
use actix_kinesis::consumer::{
    ConsumerNotice, EventHandle, EventProcessed, KinesisConsumer, Placement, ShutdownReason,
};

use super::world::{Fault, Place};
use super::{HOUR, MINUTE, conf, new_notes, pass, start, start_noting};
use crate::recorder::{Noted, Notes, Recorder};

/// A processor that keeps the handle of each event.
fn holding(notes: &Notes) -> (Recorder, Arc<Mutex<Vec<EventHandle>>>) {
    let held: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let recorder = Recorder::answering(notes, {
        let held = Arc::clone(&held);
        move |message| {
            held.lock().unwrap().push(message.answer_later());
            EventProcessed::Later
        }
    });
    (recorder, held)
}

#[actix::test]
async fn a_third_of_all_calls_lost_or_refused_costs_no_record() {
    tokio::time::pause();
    let place = Place::new(2);
    let (world, network) = place.connect();
    let mut random = fastrand::Rng::with_seed(7);
    network.fail(move |_| match random.u32(..10) {
        0 => Fault::ReplyLost,
        1 => Fault::RequestLost,
        2 => Fault::Throttled,
        _ => Fault::None,
    });
    let notes = new_notes();
    let recorder = Recorder::new(&notes).start();
    let consumer = KinesisConsumer::builder(conf(), recorder.clone())
        .notices(recorder.recipient())
        .world(world)
        .placement(Placement::CurrentThread)
        .seed(1)
        .start()
        .unwrap();
    let mut put = 0;
    for _ in 0..120 {
        for key in 0..4 {
            place.put(&format!("key-{key}"), put.to_string());
            put += 1;
        }
        pass(Duration::from_secs(30)).await;
    }
    let distinct = |noted: &Noted| noted.first_by_key().values().map(Vec::len).sum::<usize>();
    let noted = notes.wait_for("all records", |noted| distinct(noted) >= put).await;
    network.heal();
    // A lease that was lost to the faults at last is taken again.
    pass(MINUTE).await;
    let stopped = consumer.stop().await.unwrap();
    assert!(stopped.is_clean(), "{stopped:?}");
    let is_loss = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::LeaseLost { .. });
    if !noted.notices.iter().any(is_loss) {
        assert_eq!(noted.deliveries.len(), put, "without a lost lease nothing comes twice");
    }
    for (key, payloads) in noted.first_by_key() {
        assert!(payloads.is_sorted_by_key(|payload| payload.parse::<u32>().unwrap()), "key {key}");
    }
    for row in place.rows().values() {
        assert_eq!(row.owner, None);
    }
}

#[actix::test]
async fn a_table_that_is_away_for_minutes_stops_deliveries_and_nothing_is_lost() {
    tokio::time::pause();
    let place = Place::new(2);
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    place.put("key", "before");
    notes.wait_for("a record", |noted| noted.deliveries.len() == 1).await;
    pass(MINUTE).await;

    network.fail(|call| match call {
        "GetRecords" | "GetShardIterator" | "ListShards" => Fault::None,
        _ => Fault::RequestLost,
    });
    pass(conf().lease.failover_time).await;
    assert_eq!(consumer.status().shards, [], "without renewals no lease is ours");
    place.put("key", "meanwhile");
    pass(5 * MINUTE).await;
    assert_eq!(notes.now().deliveries.len(), 1);

    network.heal();
    let noted = notes.wait_for("the record", |noted| noted.deliveries.len() == 2).await;
    assert_eq!(noted.payloads(), ["before", "meanwhile"]);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_stream_that_cannot_be_read_for_an_hour_is_read_on_without_a_gap() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    for index in 0..5 {
        place.put("key", index.to_string());
    }
    notes.wait_for("the records", |noted| noted.deliveries.len() == 5).await;
    network.fail(|call| if call == "GetRecords" { Fault::Throttled } else { Fault::None });
    for index in 5..10 {
        place.put("key", index.to_string());
    }
    let before = network.calls("GetRecords");
    pass(HOUR).await;
    let tried = network.calls("GetRecords") - before;
    assert!(tried < 800, "{tried} calls an hour are a storm");
    network.heal();
    let noted = notes.wait_for("the rest", |noted| noted.deliveries.len() == 10).await;
    assert_eq!(noted.payloads(), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_row_deleted_by_hand_is_made_again_and_nothing_is_skipped() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, _) = place.connect();
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    place.put("key", "before");
    notes.wait_for("a record", |noted| noted.deliveries.len() == 1).await;
    pass(MINUTE).await;
    place.rows().clear();
    place.put("key", "after");
    notes.wait_for("the record", |noted| noted.payloads().contains(&"after")).await;
    pass(2 * MINUTE).await;
    assert_eq!(consumer.status().shards.len(), 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_consumer_can_be_started_and_stopped_hundreds_of_times() {
    tokio::time::pause();
    let place = Place::new(2);
    let notes = new_notes();
    for round in 0..200 {
        let (world, _) = place.connect();
        let consumer = start(conf(), world, Recorder::new(&notes).start());
        place.put("key", round.to_string());
        notes.wait_for("the record", |noted| noted.deliveries.len() == round + 1).await;
        assert!(consumer.stop().await.unwrap().is_clean(), "round {round}");
    }
}

#[actix::test]
async fn a_panic_while_reading_starts_the_shard_again() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    place.put("key", "before");
    notes.wait_for("a record", |noted| noted.deliveries.len() == 1).await;
    let mut has_panicked = false;
    network.fail(move |call| match call == "GetRecords" && !std::mem::replace(&mut has_panicked, true) {
        true => Fault::Panic,
        false => Fault::None,
    });
    pass(MINUTE).await;
    place.put("key", "after");
    pass(MINUTE).await;
    let noted = notes.now();
    assert_eq!(noted.payloads(), ["before", "after"]);
    assert_eq!((noted.failures.len(), noted.failures[0].events.len()), (1, 0), "the processor is told");
    assert_eq!(noted.shutdowns[0].reason, ShutdownReason::Failed);
    assert_eq!(consumer.status().shards[0].restarts, 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_call_that_panics_is_a_failed_call() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let mut calls = BTreeMap::new();
    network.fail(move |call| {
        let seen = calls.entry(call.to_owned()).or_insert(0);
        *seen += 1;
        match *seen == 2 && matches!(call, "scan" | "ListShards" | "write") || *seen == 1 && call == "create"
        {
            true => Fault::Panic,
            false => Fault::None,
        }
    });
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    place.put("key", "before");
    notes.wait_for("a record", |noted| noted.deliveries.len() == 1).await;
    pass(2 * MINUTE).await;
    place.split(&place.shards()[0]);
    place.put("key", "after");
    notes.wait_for("the record of a child", |noted| noted.payloads() == ["before", "after"]).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_process_that_was_frozen_past_its_lease_goes_on_if_its_renewal_had_arrived() {
    tokio::time::pause();
    let place = Place::new(1);
    for _ in 0..40 {
        place.put("key", "x".repeat(100_000));
    }
    let (world, network) = place.connect();
    let notes = new_notes();
    let (recorder, held) = holding(&notes);
    let recorder = recorder.start();
    let mut conf = conf();
    conf.worker.max_bytes = 1024 * 1024;
    conf.worker.batch_timeout = HOUR;
    let lease_ends_after = conf.lease.failover_time * 9 / 10;
    let (writes, mut written) = tokio::sync::mpsc::unbounded_channel();
    network.fail(move |call| {
        if call == "write" {
            writes.send(tokio::time::Instant::now()).unwrap();
        }
        Fault::None
    });
    let consumer = KinesisConsumer::builder(conf, recorder.clone())
        .notices(recorder.recipient())
        .world(world)
        .placement(Placement::CurrentThread)
        .start()
        .unwrap();
    let taken = written.recv().await.unwrap();
    notes.wait_for("the first events", |noted| noted.deliveries.len() == 2).await;
    written.recv().await.unwrap();
    for handle in std::mem::take(&mut *held.lock().unwrap()) {
        handle.answer(EventProcessed::failed("again, please"));
    }
    // The answers are seen while the lease is not known to be ours, then the reply to the renewal.
    tokio::time::advance(taken + lease_ends_after - tokio::time::Instant::now()).await;
    pass(Duration::from_secs(1)).await;
    let noted = notes.now();
    assert!(!noted.notices.iter().any(|notice| matches!(notice, ConsumerNotice::LeaseLost { .. })));
    assert!(noted.deliveries.len() > 2, "the lease is held, and its events are not delivered");
    consumer.stop().await.unwrap();
}

#[actix::test]
async fn a_process_that_was_frozen_past_its_lease_delivers_nothing_before_it_knows_the_lease_to_be_lost() {
    tokio::time::pause();
    let place = Place::new(1);
    for index in 0..20 {
        place.put("key", index.to_string());
    }
    let (world, _) = place.connect();
    let notes = new_notes();
    let (recorder, held) = holding(&notes);
    let recorder = recorder.start();
    let mut conf = conf();
    conf.worker.batch_timeout = HOUR;
    let failover = conf.lease.failover_time;
    let consumer = KinesisConsumer::builder(conf, recorder.clone())
        .notices(recorder.recipient())
        .world(world)
        .placement(Placement::CurrentThread)
        .seed(1)
        .start()
        .unwrap();
    notes.wait_for("the first events", |noted| noted.deliveries.len() == 2).await;
    pass(Duration::from_secs(1)).await;
    for handle in std::mem::take(&mut *held.lock().unwrap()) {
        handle.answer(EventProcessed::failed("again, please"));
    }
    tokio::time::advance(2 * failover).await;
    let is_loss = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::LeaseLost { .. });
    let noted = notes.wait_for("the loss", |noted| noted.notices.iter().any(is_loss)).await;
    assert_eq!(noted.deliveries.len(), 2);
    consumer.stop().await.unwrap();
}

#[actix::test]
async fn started_at_latest_nothing_is_delivered_before_its_place_is_stored() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let notes = new_notes();
    let mut conf = conf();
    conf.initial_position = InitialPosition::Latest;
    let consumer = start(conf, world, Recorder::new(&notes).start());
    pass(Duration::from_secs(3)).await;
    network.fail(|call| if call == "write" { Fault::Throttled } else { Fault::None });
    place.put("key", "first");
    pass(Duration::from_secs(4)).await;
    assert_eq!(notes.now().deliveries, [], "after a crash now, nobody would know where to start");
    network.heal();
    notes.wait_for("the record", |noted| noted.payloads() == ["first"]).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_that_is_not_found_while_the_list_of_shards_is_empty_has_not_ended() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = place.shards().remove(0).id;
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start_noting(conf(), world, Recorder::new(&notes));
    let before = place.put("key", "before");
    notes.wait_for("a record", |noted| noted.deliveries.len() == 1).await;
    pass(MINUTE).await;
    network.edit_list(|_| Vec::new());
    network.fail(|call| if call == "GetRecords" { Fault::Missing } else { Fault::None });
    network.take_calls();
    place.put("key", "meanwhile");
    pass(10 * MINUTE).await;
    assert!(network.calls("ListShards") > 10, "the list was asked whether the shard is gone");
    assert_eq!(place.checkpoint(&shard).as_deref(), Some(before.as_str()));
    network.heal();
    network.edit_list(|shards| shards);
    let noted = notes.wait_for("the record", |noted| noted.deliveries.len() == 2).await;
    assert_eq!(noted.payloads(), ["before", "meanwhile"]);
    let is_calm = |notice: &ConsumerNotice| {
        matches!(notice, ConsumerNotice::ShardStarted { .. } | ConsumerNotice::Started { .. })
    };
    assert!(noted.notices.iter().all(is_calm), "{:?}", noted.notices);
    assert!(consumer.stop().await.unwrap().is_clean());
}
