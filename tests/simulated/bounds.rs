//! What is bounded, whatever a processor does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::Actor;
use actix_kinesis::config::FailurePolicy;
use actix_kinesis::consumer::{EventHandle, EventProcessed, FailureDecision};

use super::world::Place;
use super::{HOUR, MINUTE, conf, new_notes, pass, start};
use crate::recorder::Recorder;

#[actix::test]
async fn fetching_ahead_stops_at_the_limit_on_bytes_over_all_shards() {
    tokio::time::pause();
    let place = Place::new(4);
    for key in 0..1_000 {
        place.put(&format!("key-{key}"), "x".repeat(50_000));
    }
    let (world, _) = place.connect();
    let notes = new_notes();
    let held: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let recorder = Recorder::answering(&notes, move |message| {
        held.lock().unwrap().push(message.answer_later());
        EventProcessed::Later
    });
    let mut conf = conf();
    conf.worker.max_bytes = 2 * 1024 * 1024;
    conf.worker.batch_timeout = HOUR;
    let max_bytes = conf.worker.max_bytes;
    let consumer = start(conf, world, recorder.start());
    pass(MINUTE).await;
    let buffered: u64 = consumer.status().shards.iter().map(|shard| shard.buffered_bytes).sum();
    // Before the first page of a shard nobody knows how long its records are.
    assert!((max_bytes / 2..=max_bytes * 4).contains(&buffered), "{buffered} bytes");
    assert!(consumer.status().shards.iter().all(|shard| shard.in_flight <= 2));
    consumer.stop_within(Duration::from_secs(1)).await.unwrap();
}

#[actix::test]
async fn events_under_way_stay_within_the_limit_over_all_shards() {
    tokio::time::pause();
    let place = Place::new(4);
    for key in 0..4_000 {
        place.put(&format!("key-{key}"), "x");
    }
    let (world, _) = place.connect();
    let notes = new_notes();
    let held: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let most = Arc::new(Mutex::new(0));
    let recorder = Recorder::answering(&notes, {
        let (held, most) = (Arc::clone(&held), Arc::clone(&most));
        move |message| {
            let mut held = held.lock().unwrap();
            held.push(message.answer_later());
            let mut most = most.lock().unwrap();
            *most = held.len().max(*most);
            EventProcessed::Later
        }
    });
    let mut conf = conf();
    conf.worker.max_in_flight_events = 40;
    let consumer = start(conf, world, recorder.start());
    while notes.now().deliveries.len() < 4_000 {
        pass(Duration::from_millis(10)).await;
        for handle in std::mem::take(&mut *held.lock().unwrap()) {
            handle.answer(EventProcessed::Processed);
        }
    }
    assert!((30..=40).contains(&*most.lock().unwrap()), "{}", most.lock().unwrap());
    pass(Duration::from_secs(1)).await;
    for handle in std::mem::take(&mut *held.lock().unwrap()) {
        handle.answer(EventProcessed::Processed);
    }
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_that_never_succeeds_is_restarted_as_often_as_allowed_and_then_left() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "poison");
    let (world, _) = place.connect();
    let notes = new_notes();
    let recorder = Recorder::answering(&notes, |_| EventProcessed::failed("never"));
    let mut conf = conf();
    conf.worker.failure_policy = FailurePolicy::RestartShard;
    conf.worker.max_restarts = Some(3);
    let pause = conf.worker.restart_backoff;
    let consumer = start(conf, world, recorder.start());
    pass(HOUR).await;
    let pauses: Vec<Option<Duration>> = notes
        .now()
        .failures
        .iter()
        .map(|failure| match failure.decision {
            FailureDecision::RestartShard { after } => Some(after),
            _ => None,
        })
        .collect();
    assert_eq!(pauses.len(), 4, "{pauses:?}");
    for (doubled, after) in pauses[..3].iter().enumerate() {
        let full = pause.min * 2u32.pow(doubled as u32);
        assert!((full / 2..=full).contains(&after.unwrap()), "{pauses:?}");
    }
    assert_eq!(notes.now().failures[3].decision, FailureDecision::StopShard);
    assert_eq!(consumer.status().shards, [], "a shard that was given up is not taken again");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn checkpoints_are_stored_once_an_interval() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    pass(Duration::from_secs(5)).await;
    let before = network.calls("write");
    for index in 0..240 {
        place.put("key", index.to_string());
        pass(Duration::from_millis(250)).await;
    }
    // A minute of progress every second, with an interval of two; a checkpoint renews the lease, too.
    let writes = network.calls("write") - before;
    assert!((25..=35).contains(&writes), "{writes} writes");
    assert!(consumer.stop().await.unwrap().is_clean());
}
