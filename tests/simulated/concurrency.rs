//! How many events of a shard are under way at once, and which.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use actix::{Actor, Context, Handler, ResponseFuture};
use actix_kinesis::config::Concurrency;
use actix_kinesis::consumer::{ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, ProcessEvent};
use tokio::time::{Duration, Instant, sleep};

use super::world::{Fault, Place};
use super::{HOUR, MINUTE, SECOND, conf, new_notes, pass, start};
use crate::recorder::{Noted, Notes, Recorder};

fn keys(noted: &Noted) -> BTreeSet<&str> {
    noted.deliveries.iter().map(|delivery| delivery.key.as_str()).collect()
}

#[actix::test]
async fn as_many_keys_are_under_way_as_were_asked_for_however_far_apart_they_are() {
    tokio::time::pause();
    let place = Place::new(1);
    // Two thousand of one key stand before the others.
    (0..2_000).for_each(|_| drop(place.put("busy", "x")));
    for index in 0..1_000 {
        place.put(&format!("key-{}", index % 99), "x");
    }
    for (keys_at_once, most_in_flight, expected) in
        [(32, 4096, 32), (100, 4096, 100), (200, 4096, 100), (32, 8, 8)]
    {
        let notes = new_notes();
        let (recorder, held) = Recorder::holding(&notes);
        let mut conf = conf();
        conf.application_name = format!("keys-{keys_at_once}-{most_in_flight}");
        conf.worker.concurrency = Concurrency::Key(keys_at_once);
        conf.worker.max_in_flight_events = most_in_flight;
        conf.worker.batch_timeout = HOUR;
        let consumer = start(conf, place.connect_as(&keys_at_once.to_string()).0, recorder.start());
        pass(MINUTE).await;
        let noted = notes.now();
        assert_eq!((noted.deliveries.len(), keys(&noted).len()), (expected, expected));
        assert_eq!(consumer.status().shards[0].in_flight, expected as u64);
        let mut handles = held.take();
        handles.remove(1).answer(EventProcessed::Processed);
        pass(SECOND).await;
        assert_eq!(notes.now().deliveries.len(), expected + 1);
        consumer.stop_within(SECOND).await.unwrap();
        place.rows().clear();
    }
}

#[actix::test]
async fn one_event_of_a_shard_is_under_way_and_the_next_one_waits_until_it_is_settled() {
    tokio::time::pause();
    let place = Place::new(1);
    (0..50).for_each(|number| drop(place.put(&format!("key-{number}"), number.to_string())));
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let mut conf = conf();
    conf.worker.concurrency = Concurrency::Shard;
    let consumer = start(conf, place.connect().0, recorder.start());
    let mut expected = Vec::new();
    for number in 0..50 {
        // Every other one fails, or is answered too late, at first.
        let deliveries = if number % 2 == 0 { 2 } else { 1 };
        for delivery in 1..=deliveries {
            expected.push(number.to_string());
            let noted = notes.wait_for("the next", |noted| noted.deliveries.len() == expected.len()).await;
            assert_eq!(noted.payloads(), expected);
            assert_eq!(consumer.status().shards[0].in_flight, 1);
            match (delivery == deliveries, number % 4) {
                (true, _) => held.take().pop().unwrap().answer(EventProcessed::Processed),
                (false, 0) => held.take().pop().unwrap().answer(EventProcessed::failed("not yet")),
                (false, _) => {}
            }
        }
    }
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_key_goes_on_behind_the_late_answer_to_an_event_that_was_delivered_again() {
    tokio::time::pause();
    let place = Place::new(1);
    (0..3).for_each(|number| drop(place.put("key", number.to_string())));
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let mut conf = conf();
    conf.worker.concurrency = Concurrency::Key(5);
    conf.worker.failed_message_retries = 10;
    let consumer = start(conf, place.connect().0, recorder.start());
    let noted = notes.wait_for("the same again", |noted| noted.deliveries.len() == 2).await;
    assert_eq!(noted.payloads(), ["0", "0"]);
    let mut handles = held.take();
    handles.remove(0).answer(EventProcessed::Processed);
    let noted = notes.wait_for("the next", |noted| noted.deliveries.len() == 3).await;
    assert_eq!(noted.payloads(), ["0", "0", "1"]);
    // It says nothing new, and the next one but one goes on waiting.
    handles.remove(0).answer(EventProcessed::failed("too late"));
    pass(SECOND).await;
    assert_eq!(notes.now().payloads(), ["0", "0", "1"]);
    held.take().remove(0).answer(EventProcessed::Processed);
    notes.wait_for("the last", |noted| noted.payloads().last() == Some(&"2")).await;
    held.take().remove(0).answer(EventProcessed::Processed);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn within_the_tolerance_a_key_goes_on_behind_an_event_that_is_given_up() {
    tokio::time::pause();
    for concurrency in [Concurrency::Shard, Concurrency::Key(5)] {
        let place = Place::new(1);
        (0..8).for_each(|number| drop(place.put("key", number.to_string())));
        let notes = new_notes();
        let recorder = Recorder::answering(&notes, |message| match message.event.payload() == "3" {
            true => EventProcessed::failed("never"),
            false => EventProcessed::Processed,
        });
        let mut conf = conf();
        conf.worker.concurrency = concurrency;
        conf.worker.failure_tolerance_percentage = 12.5;
        let consumer = start(conf, place.connect().0, recorder.start());
        let noted = notes.wait_for("the last", |noted| noted.payloads().contains(&"7")).await;
        assert_eq!(noted.payloads(), ["0", "1", "2", "3", "3", "4", "5", "6", "7"]);
        assert_eq!(noted.failures.len(), 1);
        assert_eq!(noted.failures[0].events[0].event.payload(), "3");
        assert!(consumer.stop().await.unwrap().is_clean());
    }
}

/// Takes 20 ms for each event, and works on all that it has.
struct Desk(Recorder, Arc<Mutex<usize>>);

impl Actor for Desk {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Desk {
    type Result = ResponseFuture<EventProcessed>;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        self.0.note(&message);
        let processed = Arc::clone(&self.1);
        Box::pin(async move {
            sleep(Duration::from_millis(20)).await;
            *processed.lock().unwrap() += 1;
            EventProcessed::Processed
        })
    }
}

impl Handler<ConsumerWorkerFailure> for Desk {
    type Result = ();

    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl Handler<ConsumerShutdown> for Desk {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

const RECORDS: usize = 2_000;
const KEYS: usize = 100;

fn put_records(place: &Place) {
    for index in 0..RECORDS {
        place.put(&format!("key-{}", index % KEYS), (index / KEYS).to_string());
    }
}

fn assert_in_order(noted: &Noted) {
    let wanted: Vec<String> = (0..RECORDS / KEYS).map(|number| number.to_string()).collect();
    let by_key = noted.first_by_key();
    assert_eq!(by_key.len(), KEYS);
    assert!(by_key.values().all(|payloads| *payloads == wanted));
}

/// The simulated time from the first delivery to the last answer.
async fn time_for_all(concurrency: Concurrency) -> Duration {
    let place = Place::new(1);
    put_records(&place);
    let (notes, processed) = (new_notes(), Arc::new(Mutex::new(0)));
    let mut conf = conf();
    conf.worker.concurrency = concurrency;
    let desk = Desk(Recorder::new(&notes), Arc::clone(&processed));
    let consumer = start(conf, place.connect().0, desk.start());
    notes.wait_for("the first", |noted| !noted.deliveries.is_empty()).await;
    let begin = Instant::now();
    while *processed.lock().unwrap() < RECORDS {
        sleep(Duration::from_millis(1)).await;
    }
    let time = begin.elapsed();
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_in_order(&notes.now());
    time
}

#[actix::test]
async fn so_many_keys_at_once_are_processed_as_many_times_as_fast_as_one_event_after_the_other() {
    tokio::time::pause();
    let shard = time_for_all(Concurrency::Shard).await;
    let keys = time_for_all(Concurrency::Key(32)).await;
    assert!(shard >= Duration::from_millis(20) * RECORDS as u32, "{shard:?}");
    assert!(shard >= 30 * keys, "{shard:?}, {keys:?}");
}

#[actix::test]
async fn a_shard_is_stopped_behind_its_last_answer_though_a_key_was_left_behind() {
    tokio::time::pause();
    let place = Place::new(1);
    (0..20).for_each(|number| drop(place.put("busy", number.to_string())));
    (0..20).for_each(|number| drop(place.put(&format!("key-{number}"), "x")));
    let mut conf = conf();
    conf.worker.concurrency = Concurrency::Key(32);
    let desk = |notes: &Notes| Desk(Recorder::new(notes), Arc::default()).start();
    let (before, after) = (new_notes(), new_notes());
    let consumer = start(conf.clone(), place.connect().0, desk(&before));
    before.wait_for("all other keys", |noted| noted.first_by_key().len() == 21).await;
    assert!(before.now().deliveries.len() < 30);
    let stopped = consumer.stop().await.unwrap();
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(before.now().deliveries.len(), 40);
    place.put("busy", "the next");
    let next = start(conf, place.connect().0, desk(&after));
    let noted = after.wait_for("the next", |noted| !noted.deliveries.is_empty()).await;
    assert_eq!(noted.payloads(), ["the next"]);
    assert!(next.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn what_was_left_behind_is_not_caught_up_with_for_longer_than_half_of_the_time() {
    tokio::time::pause();
    let place = Place::new(1);
    (0..10_000).for_each(|number| drop(place.put("busy", number.to_string())));
    place.put("key", "x");
    let mut conf = conf();
    conf.worker.concurrency = Concurrency::Key(32);
    let notes = new_notes();
    let desk = Desk(Recorder::new(&notes), Arc::default()).start();
    let consumer = start(conf, place.connect().0, desk);
    notes.wait_for("the other key", |noted| noted.first_by_key().len() == 2).await;
    let begin = Instant::now();
    let stopped = consumer.stop_within(MINUTE).await.unwrap();
    assert!(stopped.is_clean(), "{stopped:?}");
    assert!(begin.elapsed() < MINUTE / 2, "{:?}", begin.elapsed());
    assert!(notes.now().deliveries.len() > 500);
}

#[actix::test]
async fn after_a_crash_nothing_is_missing_and_the_order_of_each_key_is_kept() {
    tokio::time::pause();
    let place = Place::new(1);
    put_records(&place);
    let mut conf = conf();
    conf.worker.concurrency = Concurrency::Key(32);
    conf.checkpointer.interval = Duration::from_millis(100);
    let desk = |notes: &Notes| Desk(Recorder::new(notes), Arc::default()).start();
    let (before, after) = (new_notes(), new_notes());
    let (world, network) = place.connect();
    let crashed = start(conf.clone(), world, desk(&before));
    before.wait_for("some", |noted| noted.deliveries.len() > RECORDS / 2).await;
    network.fail(|_| Fault::RequestLost);
    let consumer = start(conf, place.connect().0, desk(&after));
    let noted = after.wait_for("the last", |noted| {
        noted.first_by_key().values().filter(|payloads| payloads.last() == Some(&"19")).count() == KEYS
    });
    let noted = noted.await;
    assert!(consumer.stop().await.unwrap().is_clean());
    assert!(noted.deliveries.len() < RECORDS, "it goes on behind the checkpoint");
    let mut all = before.now();
    all.deliveries.extend(noted.deliveries);
    assert_in_order(&all);
    crashed.stop_within(SECOND).await.unwrap();
}
