//! Shards that split and merge, and when their children are read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_kinesis::consumer::{ConsumerNotice, EventProcessed, ShutdownReason};
use kinesis_local::model::{Settings, ShardEnd};
use kinesis_record::{Checkpoint, Position, Shard};
use tokio::time::Instant;

use super::world::{Call, Place};
use super::{MINUTE, SECOND, conf, new_notes, pass, start_noting};
use crate::recorder::{Held, Noted, Notes, Recorder};

const MILLIS: Duration = Duration::from_millis(1);

fn started(noted: &Noted) -> Vec<&str> {
    let started = noted.notices.iter().map(|notice| match notice {
        ConsumerNotice::ShardStarted { shard, .. } => Some(shard.as_str()),
        _ => None,
    });
    started.flatten().collect()
}

fn ended(noted: &Noted) -> Vec<&str> {
    let ended = noted.notices.iter().map(|notice| match notice {
        ConsumerNotice::ShardEnded { shard } => Some(shard.as_str()),
        _ => None,
    });
    ended.flatten().collect()
}

fn assert_order(noted: &Noted, records: usize) {
    let by_key = noted.first_by_key();
    assert_eq!(by_key.values().map(Vec::len).sum::<usize>(), records);
    for (key, payloads) in by_key {
        assert!(payloads.is_sorted_by_key(|payload| payload.parse::<u32>().unwrap()), "{key}: {payloads:?}");
    }
}

fn is_at_end(place: &Place, shard: &Shard) -> bool {
    place.checkpoint(&shard.id).as_deref() == Some("SHARD_END")
}

/// Splits the shard when 40 of its 100 events are answered, starts the consumer anew then if so asked, and answers the
/// others when the shard has been read to its end.
async fn split_with_events_under_way(is_restarted: bool) {
    tokio::time::pause();
    let place = Place::new(1);
    let parent = place.shards().remove(0);
    for number in 0..100 {
        place.put("key", number.to_string());
    }
    let notes = new_notes();
    let (held, answered) = (Held::default(), Arc::new(AtomicUsize::new(0)));
    let recorder = Recorder::answering(&notes, {
        let (parent, held, answered) = (parent.id.clone(), held.clone(), Arc::clone(&answered));
        move |message| {
            let is_of_parent = *message.event.shard() == parent;
            if is_of_parent && answered.load(Ordering::SeqCst) >= 40 {
                return held.hold(message);
            }
            answered.fetch_add(usize::from(is_of_parent), Ordering::SeqCst);
            EventProcessed::Processed
        }
    });
    let answer_held = || {
        for handle in held.take() {
            answered.fetch_add(1, Ordering::SeqCst);
            handle.answer(EventProcessed::Processed);
        }
    };
    let mut conf = conf();
    conf.worker.batch_timeout = 10 * MINUTE;
    let (world, mut network) = place.connect();
    let mut consumer = start_noting(conf.clone(), world, recorder.clone());
    while answered.load(Ordering::SeqCst) < 40 {
        pass(MILLIS).await;
    }
    place.split(&parent);
    for child in place.open_shards() {
        for number in 100..110 {
            place.put(&place.key_of(&child.id), number.to_string());
        }
    }
    if is_restarted {
        let answer = async {
            pass(SECOND).await;
            answer_held();
        };
        let (stopped, ()) = tokio::join!(consumer.stop(), answer);
        assert!(stopped.unwrap().is_clean());
        assert!(!is_at_end(&place, &parent));
        let (world, anew) = place.connect();
        network = anew;
        consumer = start_noting(conf, world, recorder);
    }
    let reads = || {
        let of_parent = |call: &&Call| call.name == "GetRecords" && call.shard.as_ref() == Some(&parent.id);
        network.all_calls().iter().filter(of_parent).count()
    };
    pass(10 * SECOND).await;
    let until_the_end = reads();
    pass(10 * SECOND).await;
    assert_eq!(reads(), until_the_end, "an open shard is read every second");
    while answered.load(Ordering::SeqCst) < 100 {
        assert!(!is_at_end(&place, &parent), "ended before the last answer");
        answer_held();
        pass(50 * MILLIS).await;
    }
    while !is_at_end(&place, &parent) {
        let of_children = notes.now().deliveries.iter().any(|delivery| delivery.shard != parent.id.as_str());
        assert!(!of_children, "a child is read before its parent is ended");
        pass(MILLIS).await;
    }
    let noted = notes.wait_for("the children", |noted| noted.deliveries.len() == 120).await;
    assert_order(&noted, 120);
    assert_eq!(ended(&noted), [parent.id.as_str()]);
    assert_eq!(consumer.status().shards.len(), 2);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_split_shard_is_ended_behind_its_last_answer_and_then_both_children_are_read() {
    split_with_events_under_way(false).await;
}

#[actix::test]
async fn a_split_shard_is_ended_behind_its_last_answer_by_the_next_start_too() {
    split_with_events_under_way(true).await;
}

#[actix::test]
async fn an_empty_shard_that_splits_is_ended_and_both_children_are_read() {
    tokio::time::pause();
    let place = Place::new(1);
    let parent = place.shards().remove(0);
    let notes = new_notes();
    let consumer = start_noting(conf(), place.connect().0, Recorder::new(&notes));
    pass(MINUTE).await;
    place.split(&parent);
    for child in place.open_shards() {
        place.put(&place.key_of(&child.id), "0");
    }
    notes.wait_for("the children", |noted| noted.deliveries.len() == 2).await;
    assert!(is_at_end(&place, &parent));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_merged_shard_waits_for_the_slower_of_its_parents() {
    tokio::time::pause();
    let place = Place::new(2);
    let parents = place.open_shards();
    let keys = [0, 1].map(|parent| place.key_of(&parents[parent].id));
    for number in 0..40 {
        place.put(&keys[0], number.to_string());
    }
    for number in 0..30 {
        place.put(&keys[1], number.to_string());
    }
    let notes = new_notes();
    let (slow, held, early) = (parents[1].id.clone(), Held::default(), Arc::new(AtomicUsize::new(0)));
    let recorder = Recorder::answering(&notes, {
        let (place, held, early, parents) =
            (place.clone(), held.clone(), Arc::clone(&early), parents.clone());
        move |message| {
            if *message.event.shard() == slow {
                return held.hold(message);
            }
            let is_of_child = parents.iter().all(|parent| parent.id != *message.event.shard());
            if is_of_child && !parents.iter().all(|parent| is_at_end(&place, parent)) {
                early.fetch_add(1, Ordering::SeqCst);
            }
            EventProcessed::Processed
        }
    });
    let mut conf = conf();
    conf.worker.batch_timeout = 10 * MINUTE;
    let consumer = start_noting(conf, place.connect().0, recorder);
    pass(SECOND).await;
    place.merge(&parents[0], &parents[1]);
    for number in 40..60 {
        keys.iter().for_each(|key| drop(place.put(key, number.to_string())));
    }
    // One answer a second for the slow shard.
    let mut waiting = Vec::new();
    for answered in 0..30 {
        pass(SECOND).await;
        assert!(!is_at_end(&place, &parents[1]), "ended behind {answered} answers");
        waiting.extend(held.take());
        waiting.remove(0).answer(EventProcessed::Processed);
    }
    let noted = notes.wait_for("the merged shard", |noted| noted.deliveries.len() == 110).await;
    assert_eq!(early.load(Ordering::SeqCst), 0);
    assert_order(&noted, 110);
    assert!(consumer.stop().await.unwrap().is_clean());
}

/// A closed shard of ten records, the fifth of which a dead worker has stored, and a record in each child.
fn with_a_dead_reader_of_the_parent() -> Place {
    let place = Place::new(1);
    let parent = place.shards().remove(0);
    let puts: Vec<_> = (0..10).map(|number| place.put("key", number.to_string())).collect();
    place.split(&parent);
    let children = place.open_shards();
    for child in &children {
        place.put(&place.key_of(&child.id), "10");
        place.seed(child, None, Checkpoint::TrimHorizon);
    }
    place.seed(&parent, Some("dead"), Checkpoint::At(Position::new(puts[4].clone(), 0)));
    place
}

#[actix::test]
async fn a_consumer_that_waits_for_another_workers_parent_stops_at_once() {
    tokio::time::pause();
    let place = with_a_dead_reader_of_the_parent();
    let notes = new_notes();
    let consumer = start_noting(conf(), place.connect().0, Recorder::new(&notes));
    pass(2 * SECOND).await;
    let begin = Instant::now();
    assert!(consumer.stop().await.unwrap().is_clean());
    assert!(begin.elapsed() < SECOND, "{:?}", begin.elapsed());
    assert_eq!(notes.now().deliveries, []);
}

#[actix::test]
async fn the_parent_of_a_dead_worker_is_taken_drained_and_followed_by_its_children() {
    tokio::time::pause();
    let place = with_a_dead_reader_of_the_parent();
    let notes = new_notes();
    let consumer = start_noting(conf(), place.connect().0, Recorder::new(&notes));
    let begin = Instant::now();
    let noted = notes.wait_for("the rest", |noted| noted.deliveries.len() == 7).await;
    assert!(begin.elapsed() < 2 * conf().lease.failover_time, "{:?}", begin.elapsed());
    assert_eq!(noted.payloads()[..5], ["5", "6", "7", "8", "9"]);
    assert_eq!(noted.payloads()[5..], ["10", "10"]);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn sixty_finished_leases_hold_up_no_open_shard_and_start_nothing() {
    tokio::time::pause();
    let place = Place::new(1);
    while place.shards().iter().filter(|shard| !shard.is_open()).count() < 60 {
        place.split(&place.open_shards()[0]);
        let open = place.open_shards();
        place.merge(&open[0], &open[1]);
    }
    place.split(&place.open_shards()[0]);
    let open = place.open_shards();
    let mut closed = place.shards();
    closed.retain(|shard| !shard.is_open());
    assert!(closed.len() >= 60);
    for shard in &closed {
        place.seed(shard, Some("ghost"), Checkpoint::ShardEnd);
    }
    for shard in &open {
        let stored = place.put(&place.key_of(&shard.id), "0");
        place.put(&place.key_of(&shard.id), "1");
        place.seed(shard, None, Checkpoint::At(Position::new(stored, 0)));
    }
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start_noting(conf(), world, Recorder::new(&notes));
    pass(5 * SECOND).await;
    assert_eq!(notes.now().payloads(), ["1", "1"]);
    pass(10 * MINUTE).await;
    let noted = notes.now();
    let mut of_open = started(&noted);
    of_open.sort_unstable();
    let mut wanted: Vec<_> = open.iter().map(|shard| shard.id.as_str()).collect();
    wanted.sort_unstable();
    assert_eq!(of_open, wanted);
    assert_eq!((ended(&noted).len(), noted.shutdowns.len()), (0, 0));
    let is_of_closed = |shard: &_| closed.iter().any(|known| known.id == *shard);
    let calls = network.all_calls().into_iter();
    let of_closed =
        calls.filter(|call| call.name != "delete" && call.shard.as_ref().is_some_and(is_of_closed));
    assert_eq!(of_closed.count(), 0, "a finished shard is neither read nor written to");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_list_that_lacks_all_children_for_a_while_ends_nothing_and_holds_up_no_other_shard() {
    tokio::time::pause();
    let place = Place::with(2, Settings { shard_end: ShardEnd::AfterLastRecord, ..Settings::default() });
    let [parent, other] = [0, 1].map(|index| place.open_shards()[index].clone());
    let key_of_other = place.key_of(&other.id);
    let (world, network) = place.connect();
    let notes = new_notes();
    let mut conf = conf();
    conf.lease.shard_sync_interval = 2 * SECOND;
    conf.polling.idle_time = 200 * MILLIS;
    let consumer = start_noting(conf, world, Recorder::new(&notes));
    pass(3 * SECOND).await;
    let of_parent = parent.id.clone();
    network.edit_list(move |mut shards| {
        shards.retain(|shard| !shard.parents.contains(&of_parent));
        shards
    });
    place.split(&parent);
    let children: Vec<_> =
        place.open_shards().into_iter().filter(|shard| shard.parents.contains(&parent.id)).collect();
    children.iter().for_each(|child| drop(place.put(&place.key_of(&child.id), "of a child")));
    for number in 0..60 {
        place.put(&key_of_other, number.to_string());
        let come =
            |noted: &Noted| noted.payloads().iter().filter(|payload| **payload != "of a child").count();
        let begin = Instant::now();
        notes.wait_for("the other shard", |noted| come(noted) == number + 1).await;
        assert!(begin.elapsed() <= SECOND, "the other shard waited {:?}", begin.elapsed());
        pass(100 * MILLIS).await;
    }
    network.edit_list(|shards| shards);
    let begin = Instant::now();
    let noted = notes.wait_for("the children", |noted| noted.deliveries.len() == 62).await;
    assert!(begin.elapsed() < 15 * SECOND, "{:?}", begin.elapsed());
    assert_eq!(ended(&noted), [parent.id.as_str()]);
    assert_eq!(noted.failures.len(), 0);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn records_of_the_very_reply_that_ends_a_shard_are_answered_before_its_end_is_stored() {
    tokio::time::pause();
    let place = Place::with(1, Settings { shard_end: ShardEnd::WithLastRecord, ..Settings::default() });
    let parent = place.shards().remove(0);
    for number in 0..10 {
        place.put("key", number.to_string());
    }
    place.split(&parent);
    let (world, network) = place.connect();
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let mut conf = conf();
    conf.worker.batch_timeout = 10 * MINUTE;
    let consumer = start_noting(conf, world, recorder);
    let mut answered = 0;
    while answered < 10 {
        notes.wait_for("the next event", |noted| noted.deliveries.len() > answered).await;
        pass(5 * SECOND).await;
        assert!(!is_at_end(&place, &parent), "ended behind {answered} answers");
        for handle in held.take() {
            handle.answer(EventProcessed::Processed);
            answered += 1;
        }
    }
    pass(SECOND).await;
    assert!(is_at_end(&place, &parent));
    assert_eq!(notes.now().payloads(), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    let is_read = |call: &&Call| {
        call.name == "GetRecords" && call.shard.as_ref().is_some_and(|shard| *shard == parent.id)
    };
    assert_eq!(network.all_calls().iter().filter(is_read).count(), 1, "one reply brought records and end");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_merged_shard_has_one_row_and_one_reader_whoever_read_its_parents() {
    tokio::time::pause();
    for (workers, most_each) in [(1, 2), (2, 1)] {
        let place = Place::new(2);
        let parents = place.open_shards();
        let notes: Vec<_> = (0..workers).map(|_| new_notes()).collect();
        let mut consumers = Vec::new();
        for notes in &notes {
            let mut conf = conf();
            conf.lease.max_leases = Some(most_each);
            consumers.push(start_noting(conf, place.connect().0, Recorder::new(notes)));
            pass(7 * SECOND).await;
        }
        let held = |count: usize| consumers.iter().all(|consumer| consumer.status().shards.len() == count);
        assert!(held(most_each as usize), "{workers} workers");
        place.merge(&parents[0], &parents[1]);
        let merged = place.open_shards().remove(0);
        for second in 0..60 {
            pass(SECOND).await;
            place.put("key", second.to_string());
        }
        pass(5 * SECOND).await;
        assert_eq!(place.rows().len(), 3);
        let all: Vec<Noted> = notes.iter().map(Notes::now).collect();
        let of_merged = |shard: &&str| **shard == *merged.id.as_str();
        let readers: usize =
            all.iter().map(|noted| started(noted).iter().filter(|id| of_merged(id)).count()).sum();
        let ends: usize = all.iter().map(|noted| ended(noted).len()).sum();
        let deliveries: usize = all.iter().map(|noted| noted.deliveries.len()).sum();
        assert_eq!((readers, ends, deliveries), (1, 2, 60), "{workers} workers");
        for consumer in consumers {
            assert!(consumer.stop().await.unwrap().is_clean());
        }
    }
}

#[actix::test]
async fn two_shards_that_merge_leave_no_pause_in_a_third_one() {
    tokio::time::pause();
    let place = Place::new(3);
    let shards = place.open_shards();
    let key = place.key_of(&shards[2].id);
    let notes = new_notes();
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let recorder = Recorder::answering(&notes, {
        let (times, third) = (Arc::clone(&times), shards[2].id.clone());
        move |message| {
            if *message.event.shard() == third {
                times.lock().unwrap().push(Instant::now());
            }
            EventProcessed::Processed
        }
    });
    let mut conf = conf();
    conf.polling.idle_time = 200 * MILLIS;
    let consumer = start_noting(conf, place.connect().0, recorder);
    pass(2 * SECOND).await;
    for step in 0..240 {
        if step == 80 {
            place.merge(&shards[0], &shards[1]);
        }
        place.put(&key, step.to_string());
        pass(250 * MILLIS).await;
    }
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 240);
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest <= SECOND, "the third shard paused for {longest:?}");
    let noted = notes.now();
    let mut shutdowns: Vec<_> =
        noted.shutdowns.iter().map(|told| (told.shard.clone(), told.reason.clone())).collect();
    shutdowns.sort_by(|one, other| one.0.cmp(&other.0));
    let wanted: Vec<_> =
        shards[..2].iter().map(|shard| (shard.id.clone(), ShutdownReason::ShardEnded)).collect();
    assert_eq!(shutdowns, wanted);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn shards_that_come_by_scaling_out_under_load_are_read_without_a_restart() {
    tokio::time::pause();
    let place = Place::new(4);
    let notes = new_notes();
    let consumer = start_noting(conf(), place.connect().0, Recorder::new(&notes));
    let mut scaled: Option<Instant> = None;
    let mut read_after = None;
    for second in 0..60 {
        if second == 20 {
            place.update_shard_count(8);
            scaled = Some(Instant::now());
        }
        (0..64).for_each(|key| drop(place.put(&format!("key-{key}"), second.to_string())));
        pass(SECOND).await;
        let open = place.open_shards();
        let status = consumer.status().shards;
        if open.len() == 8 && open.iter().all(|open| status.iter().any(|read| read.shard == open.id)) {
            read_after = read_after.or(scaled.map(|scaled| scaled.elapsed()));
        }
    }
    assert!(read_after.is_some_and(|time| time <= 15 * SECOND), "{read_after:?}");
    let noted = notes.wait_for("all records", |noted| noted.deliveries.len() == 64 * 60).await;
    assert_order(&noted, 64 * 60);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_stream_that_is_updating_for_a_minute_is_read_all_the_time() {
    tokio::time::pause();
    let place = Place::with(2, Settings { transition: MINUTE, ..Settings::default() });
    pass(MINUTE + SECOND).await;
    let notes = new_notes();
    let consumer = start_noting(conf(), place.connect().0, Recorder::new(&notes));
    pass(5 * SECOND).await;
    place.split(&place.open_shards()[0]);
    let mut put: BTreeMap<String, usize> = BTreeMap::new();
    for second in 0..55 {
        for shard in place.open_shards() {
            let key = place.key_of(&shard.id);
            place.put(&key, second.to_string());
            *put.entry(key).or_default() += 1;
        }
        pass(SECOND).await;
    }
    // Still before the stream is active again.
    let noted = notes.now();
    assert!(noted.deliveries.len() + 2 * 3 >= put.values().sum(), "{}", noted.deliveries.len());
    assert!(put.len() >= 3);
    pass(MINUTE).await;
    assert_order(&notes.now(), put.values().sum());
    assert!(consumer.stop().await.unwrap().is_clean());
}
