//! How often the services are called and what is logged, whatever fails and however long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::Actor;
use actix_kinesis::consumer::{
    ConsumerNotice, ConsumerState, EventHandle, EventProcessed, KinesisConsumer, Placement,
};
use kinesis_record::Shard;
use tokio::time::Instant;

use super::world::{Call, Fault, Place};
use super::{HOUR, MINUTE, SECOND, conf, new_notes, pass, start, start_noting};
use crate::logs::Logs;
use crate::recorder::{Noted, Recorder};

const MILLIS: Duration = Duration::from_millis(1);
const STREAM_CALLS: [&str; 3] = ["GetRecords", "GetShardIterator", "ListShards"];

/// The most calls in any second.
fn most_in_a_second<'a>(calls: impl Iterator<Item = &'a Call>) -> usize {
    let times: Vec<Instant> = calls.map(|call| call.at).collect();
    let within = |index: usize| times[index..].iter().take_while(|at| **at < times[index] + SECOND).count();
    (0..times.len()).map(within).max().unwrap_or(0)
}

fn is_of<'a>(name: &'a str, shard: &'a Shard) -> impl Fn(&&Call) -> bool + 'a {
    move |call| call.name == name && call.shard.as_ref() == Some(&shard.id)
}

/// Two shards meet a fault for ten minutes. Checks how often each call is made meanwhile, how many lines tell of it,
/// and that nothing is lost or ended by it.
async fn ten_minutes_of(fault: Fault, is_hit: fn(&str) -> bool, bounds: &[(&str, usize)]) -> Logs {
    let logs = Logs::of_this_thread();
    let place = Place::new(2);
    let keys: Vec<_> = place.open_shards().iter().map(|shard| place.key_of(&shard.id)).collect();
    let put = |number: usize| keys.iter().for_each(|key| drop(place.put(key, number.to_string())));
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start_noting(conf(), world, Recorder::new(&notes));
    put(0);
    pass(10 * SECOND).await;
    assert_eq!(notes.now().deliveries.len(), 2);

    network.take_calls();
    network.fail(move |call| if is_hit(call) { fault } else { Fault::None });
    for minute in 0..10 {
        put(1 + minute);
        pass(MINUTE).await;
    }
    let calls = network.take_calls();
    let bounds: BTreeMap<&str, usize> = bounds.iter().copied().collect();
    for (call, count) in &calls {
        let bound = bounds.get(call).copied().unwrap_or(0);
        assert!(*count <= bound, "{fault:?}: {count} calls of {call}, of {calls:?}");
    }
    let told = logs.with(&[" WARN "]).len() + logs.with(&[" ERROR "]).len();
    assert!((1..=12).contains(&told), "{fault:?}: {told} lines");

    network.heal();
    let noted = notes.wait_for("all records", |noted| noted.deliveries.len() >= 22).await;
    pass(MINUTE).await;
    for (key, payloads) in noted.first_by_key() {
        assert_eq!(payloads, (0..=10).map(|number| number.to_string()).collect::<Vec<_>>(), "{key}");
    }
    let noted = notes.now();
    // What came while the leases were still held and could not be stored comes again.
    assert!((22..=24).contains(&noted.deliveries.len()), "{fault:?}: {}", noted.deliveries.len());
    assert_eq!(noted.failures.len(), 0, "{fault:?}");
    let is_grave = |notice: &ConsumerNotice| {
        matches!(notice, ConsumerNotice::Gap { .. } | ConsumerNotice::ShardEnded { .. })
    };
    assert!(!noted.notices.iter().any(is_grave), "{fault:?}: {:?}", noted.notices);
    assert_eq!(consumer.status().shards.len(), 2);
    assert!(consumer.stop().await.unwrap().is_clean());
    logs
}

/// Renewals, checkpoints and scans as always, and what reading may do: up to two attempts of each shard in ten
/// seconds, which is the longest pause or half of it, and one list for each of them.
const WHILE_READING_FAILS: [(&str, usize); 5] = [
    ("write", 400),
    ("scan", 140),
    ("GetRecords", 2 * 130),
    ("GetShardIterator", 2 * 130),
    ("ListShards", 2 * 130 + 20),
];

#[actix::test]
async fn ten_minutes_of_failing_reads_are_tried_again_with_growing_pauses_and_told_in_a_few_lines() {
    tokio::time::pause();
    let is_of_the_stream = |call: &str| STREAM_CALLS.contains(&call);
    for fault in [Fault::Throttled, Fault::Denied, Fault::Missing, Fault::RequestLost, Fault::Hung] {
        drop(ten_minutes_of(fault, is_of_the_stream, &WHILE_READING_FAILS).await);
    }
    for fault in [Fault::Throttled, Fault::ReplyLost, Fault::Encryption, Fault::Invalid] {
        drop(ten_minutes_of(fault, |call| call == "GetRecords", &WHILE_READING_FAILS).await);
    }
}

#[actix::test]
async fn a_key_that_cannot_be_used_is_told_by_one_error_for_each_shard() {
    tokio::time::pause();
    let logs = ten_minutes_of(Fault::Encryption, |call| call == "GetRecords", &WHILE_READING_FAILS).await;
    assert_eq!(logs.with(&[" ERROR ", "Encryption", "until somebody acts"]).len(), 2);
}

/// Without leases nothing is read. A scan every half of the failover time, after each of them an attempt to take both
/// leases, and a look at each lease of which nobody knows who has it: with the second that a lost call takes, one in
/// one and a half seconds.
const WHILE_THE_TABLE_FAILS: [(&str, usize); 8] = [
    ("scan", 150),
    ("ensure", 150),
    ("write", 2 * 150),
    ("read", 2 * 400),
    ("create", 2 * 150),
    // Until the leases are lost.
    ("GetRecords", 2 * 12),
    ("GetShardIterator", 0),
    ("ListShards", 150),
];

#[actix::test]
async fn ten_minutes_without_the_table_are_no_storm_of_calls_or_lines() {
    tokio::time::pause();
    let is_of_the_table = |call: &str| !STREAM_CALLS.contains(&call);
    for fault in [Fault::Throttled, Fault::Denied, Fault::Missing, Fault::RequestLost, Fault::Hung] {
        drop(ten_minutes_of(fault, is_of_the_table, &WHILE_THE_TABLE_FAILS).await);
    }
    for fault in [Fault::Throttled, Fault::Denied] {
        drop(ten_minutes_of(fault, |call| call == "write", &WHILE_THE_TABLE_FAILS).await);
    }
}

#[actix::test]
async fn a_deleted_stream_is_asked_for_ever_less_often_and_no_shard_of_it_is_told_to_have_ended() {
    tokio::time::pause();
    let place = Place::new(2);
    let last = place.put("key", "last");
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start_noting(conf(), world, Recorder::new(&notes));
    pass(10 * SECOND).await;
    let before = notes.now();
    place.delete_stream();
    network.take_calls();
    pass(10 * MINUTE).await;
    let calls = network.take_calls();
    for (call, bound) in WHILE_READING_FAILS {
        assert!(calls.get(call).copied().unwrap_or(0) <= bound, "{calls:?}");
    }
    pass(10 * MINUTE).await;
    let noted = notes.now();
    assert_eq!((noted.shutdowns.len(), noted.failures.len()), (0, 0));
    assert_eq!(noted.notices.len(), before.notices.len(), "{:?}", noted.notices);
    let mut stored: Vec<_> = place.rows().values().map(|row| row.checkpoint.text().to_owned()).collect();
    stored.sort();
    assert_eq!(stored, [last.to_string(), "TRIM_HORIZON".to_owned()]);
    let begin = Instant::now();
    assert!(consumer.stop().await.unwrap().is_clean());
    assert!(begin.elapsed() < 2 * SECOND, "{:?}", begin.elapsed());
}

#[actix::test]
async fn it_starts_behind_ten_refused_lists_of_shards_with_growing_pauses() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "only");
    let (world, network) = place.connect();
    let mut refused = 0;
    network.fail(move |call| {
        refused += u32::from(call == "ListShards");
        if call == "ListShards" && refused <= 10 { Fault::Throttled } else { Fault::None }
    });
    let notes = new_notes();
    let consumer = start(conf(), world, Recorder::new(&notes).start());
    pass(5 * SECOND).await;
    assert_eq!(consumer.status().state, ConsumerState::Starting);
    notes.wait_for("the record", |noted| noted.deliveries.len() == 1).await;
    let times: Vec<_> =
        network.all_calls().iter().filter(|call| call.name == "ListShards").map(|call| call.at).collect();
    let pauses: Vec<_> = times[..11].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[..7].windows(2).all(|pair| pair[1] > pair[0] * 3 / 2), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause < 70 * SECOND), "{pauses:?}");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn reading_on_after_a_long_pause_keeps_to_five_calls_a_second() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = place.open_shards().remove(0);
    for _ in 0..400 {
        place.put("key", "x".repeat(5_000));
    }
    let (world, network) = place.connect();
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let mut conf = conf();
    conf.worker.max_bytes = 1024 * 1024;
    conf.worker.batch_timeout = HOUR;
    conf.polling.max_records = 10;
    let consumer = start(conf, world, recorder.start());
    pass(MINUTE).await;
    let before = network.calls("GetRecords");
    pass(MINUTE).await;
    assert_eq!(network.calls("GetRecords"), before, "nothing is fetched while there is no room");
    while notes.now().deliveries.len() < 400 {
        held.take().into_iter().for_each(|handle| handle.answer(EventProcessed::Processed));
        pass(10 * MILLIS).await;
    }
    let calls = network.all_calls();
    let most = most_in_a_second(calls.iter().filter(is_of("GetRecords", &shard)));
    assert_eq!(most, 5);
    held.take().into_iter().for_each(|handle| handle.answer(EventProcessed::Processed));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn nineteen_idle_shards_are_polled_once_an_idle_time_and_keep_their_leases() {
    tokio::time::pause();
    let place = Place::new(20);
    let shards = place.open_shards();
    let key = place.key_of(&shards[0].id);
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start_noting(conf(), world, Recorder::new(&notes));
    pass(5 * SECOND).await;
    network.take_calls();
    let counters: Vec<i64> = place.rows().values().map(|row| row.counter).collect();
    for number in 0..600 {
        place.put(&key, number.to_string());
        pass(SECOND).await;
    }
    let calls = network.all_calls();
    for shard in &shards[1..] {
        let polls = calls.iter().filter(is_of("GetRecords", shard)).count();
        assert!((500..=601).contains(&polls), "{}: {polls} polls", shard.id);
        assert_eq!(place.checkpoint(&shard.id).as_deref(), Some("TRIM_HORIZON"));
    }
    for (row, before) in place.rows().values().zip(counters) {
        let renewals = row.counter - before;
        assert_eq!(row.owner.as_ref(), Some(consumer.worker_id()));
        assert!(renewals >= 150, "{}: {renewals} renewals", row.shard);
    }
    assert_eq!(notes.now().notices.len(), 21, "started, and no more");
    assert!(consumer.stop().await.unwrap().is_clean());
}

/// Reads pages of ten with five seconds of idle time, at so many puts a second. Returns how far behind the tip the
/// shard is after one minute and after two.
async fn small_pages(puts_per_second: u32) -> [Duration; 2] {
    let place = Place::new(1);
    let shard = place.open_shards().remove(0);
    let (world, network) = place.connect();
    let notes = new_notes();
    let mut conf = conf();
    conf.polling.max_records = 10;
    conf.polling.idle_time = 5 * SECOND;
    let consumer = start(conf, world, Recorder::new(&notes).start());
    let mut behind = [Duration::ZERO; 2];
    for minute in &mut behind {
        for number in 0..60 * puts_per_second {
            place.put("key", number.to_string());
            pass(SECOND / puts_per_second).await;
        }
        *minute = consumer.status().shards[0].behind.unwrap();
    }
    let calls = network.all_calls();
    assert!(most_in_a_second(calls.iter().filter(is_of("GetRecords", &shard))) <= 5);
    assert!(consumer.stop().await.unwrap().is_clean());
    behind
}

#[actix::test]
async fn pages_of_ten_keep_up_with_forty_records_a_second_and_show_when_they_cannot() {
    tokio::time::pause();
    let [first, second] = small_pages(40).await;
    assert!(first.max(second) <= 6 * SECOND, "{first:?}, then {second:?}");
    let [first, second] = small_pages(100).await;
    assert!(first >= 20 * SECOND && second >= first + 20 * SECOND, "{first:?}, then {second:?}");
}

#[actix::test]
async fn a_large_backlog_before_a_slow_processor_takes_no_more_memory_than_allowed() {
    tokio::time::pause();
    let place = Place::new(8);
    let keys: Vec<_> = place.open_shards().iter().map(|shard| place.key_of(&shard.id)).collect();
    for number in 0..64 {
        keys.iter().for_each(|key| drop(place.put(key, format!("{number:04}{}", "x".repeat(64_000)))));
    }
    let notes = new_notes();
    let held: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let orders: Arc<Mutex<BTreeMap<String, Vec<u32>>>> = Arc::default();
    let recorder = Recorder::answering(&notes, {
        let (held, orders) = (Arc::clone(&held), Arc::clone(&orders));
        move |message| {
            let number = String::from_utf8_lossy(&message.event.payload()[..4]).parse().unwrap();
            let shard = message.event.shard().to_string();
            orders.lock().unwrap().entry(shard).or_default().push(number);
            held.lock().unwrap().push(message.answer_later());
            EventProcessed::Later
        }
    });
    let mut conf = conf();
    conf.worker.max_bytes = 2 * 1024 * 1024;
    conf.worker.batch_timeout = HOUR;
    let max_bytes = conf.worker.max_bytes;
    let consumer = start(conf, place.connect().0, recorder.start());
    let mut most = 0;
    for _ in 0..300 {
        pass(SECOND).await;
        let handle = held.lock().unwrap().drain(..1).next();
        handle.into_iter().for_each(|handle| handle.answer(EventProcessed::Processed));
        most = most.max(consumer.status().shards.iter().map(|shard| shard.buffered_bytes).sum::<u64>());
    }
    // Before the first page of a shard nobody knows how long its records are.
    assert!((max_bytes / 2..=max_bytes * 4).contains(&most), "{most} bytes");
    let now: u64 = consumer.status().shards.iter().map(|shard| shard.buffered_bytes).sum();
    assert!(now <= max_bytes, "{now} bytes, though the length of the records is known");
    for (shard, numbers) in orders.lock().unwrap().iter() {
        let wanted: Vec<u32> = (0..numbers.len() as u32).collect();
        assert_eq!(*numbers, wanted, "{shard}");
    }
    consumer.stop_within(SECOND).await.unwrap();
}

#[actix::test]
async fn twenty_consumers_started_at_once_list_their_shards_at_different_times() {
    tokio::time::pause();
    let places: Vec<Place> = (0..20).map(|_| Place::new(1)).collect();
    let notes = new_notes();
    let mut consumers = Vec::new();
    for (place, seed) in places.iter().zip(1..) {
        let (world, network) = place.connect();
        let consumer = KinesisConsumer::builder(conf(), Recorder::new(&notes).start())
            .world(world)
            .placement(Placement::CurrentThread)
            .seed(seed)
            .start();
        consumers.push((consumer.unwrap(), network));
    }
    pass(30 * SECOND).await;
    consumers.iter().for_each(|(_, network)| drop(network.take_calls()));
    pass(10 * MINUTE).await;
    let calls = consumers.iter().flat_map(|(_, network)| network.all_calls());
    let mut lists: Vec<Call> = calls.filter(|call| call.name == "ListShards").collect();
    lists.sort_by_key(|call| call.at);
    assert!((180..=240).contains(&lists.len()), "{} lists", lists.len());
    let most = most_in_a_second(lists.iter());
    assert!(most <= 8, "{most} of twenty in one second");
    for (consumer, _) in consumers {
        assert!(consumer.stop().await.unwrap().is_clean());
    }
}

#[actix::test]
async fn restarts_of_a_shard_that_never_succeeds_are_a_minute_apart_at_last() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "poison");
    let (world, network) = place.connect();
    let notes = new_notes();
    let recorder = Recorder::answering(&notes, |_| EventProcessed::failed("never"));
    let consumer = start_noting(conf(), world, recorder);
    pass(HOUR).await;
    let restarts = |noted: &Noted| {
        let is_restart = |notice: &&ConsumerNotice| matches!(notice, ConsumerNotice::ShardRestarts { .. });
        noted.notices.iter().filter(is_restart).count()
    };
    let restarted = restarts(&notes.now());
    assert!((60..=130).contains(&restarted), "{restarted} restarts in an hour");
    assert!(network.calls("GetShardIterator") <= restarted as u64 + 1);
    assert!(consumer.stop().await.unwrap().not_stored.is_empty());
}
