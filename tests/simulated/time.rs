//! What takes long.

use std::collections::BTreeSet;
use std::time::Duration;

use actix::Actor;
use actix_kinesis::consumer::{ConsumerNotice, EventProcessed, KinesisConsumer, Placement, ShutdownReason};

use super::world::{Fault, Place};
use super::{HOUR, MINUTE, SECOND, conf, new_notes, pass, start, start_noting};
use crate::recorder::{Noted, Recorder};

#[actix::test]
async fn an_idle_hour_costs_no_lease_and_no_storm_of_calls() {
    tokio::time::pause();
    let place = Place::new(2);
    let (world, network) = place.connect();
    let notes = new_notes();
    let recorder = Recorder::new(&notes).start();
    let consumer = start(conf(), world, recorder);
    pass(HOUR).await;

    assert_eq!(consumer.status().shards.len(), 2);
    assert_eq!(network.calls("GetShardIterator"), 2);
    // Two shards, each polled once per idle-time of a second.
    assert!((6_000..=7_300).contains(&network.calls("GetRecords")), "{}", network.calls("GetRecords"));
    // Two leases, each renewed every third of the failover time of ten seconds.
    assert!((1_900..=2_200).contains(&network.calls("write")), "{}", network.calls("write"));
    // One scan every half of it, give or take a tenth, and a list of shards a minute.
    assert!((600..=850).contains(&network.calls("scan")), "{}", network.calls("scan"));
    assert!((50..=80).contains(&network.calls("ListShards")), "{}", network.calls("ListShards"));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn shared_leases_stay_for_an_hour_and_those_of_the_dead_move_within_twice_the_failover_time() {
    tokio::time::pause();
    let place = Place::new(4);
    let (world, network) = place.connect();
    let first_notes = new_notes();
    let first = start(conf(), world, Recorder::new(&first_notes).start());
    pass(MINUTE).await;
    let (world, _) = place.connect();
    let second_notes = new_notes();
    let second = start(conf(), world, Recorder::new(&second_notes).start());
    pass(HOUR).await;
    assert_eq!((first.status().shards.len(), second.status().shards.len()), (2, 2));
    let handed_over = first_notes.now().shutdowns;
    assert_eq!(handed_over.len(), 2, "nothing moves once the shares are even");
    assert!(handed_over.iter().all(|shutdown| shutdown.reason == ShutdownReason::HandedOver));
    assert!(second_notes.now().shutdowns.is_empty());

    network.fail(|_| Fault::RequestLost);
    pass(conf().lease.failover_time * 2).await;
    assert_eq!((first.status().shards.len(), second.status().shards.len()), (0, 4));
    place.put("key", "after");
    let noted = second_notes.wait_for("the record", |noted| !noted.deliveries.is_empty()).await;
    assert_eq!(noted.payloads(), ["after"]);
    assert_eq!(first_notes.now().deliveries, []);
    network.heal();
    assert!(first.stop().await.unwrap().is_clean());
    assert!(second.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_processor_that_answers_nothing_for_seven_minutes_costs_no_lease_and_no_repetition() {
    tokio::time::pause();
    let place = Place::new(1);
    for index in 0..50 {
        place.put("key", index.to_string());
    }
    let (world, _) = place.connect();
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let mut conf = conf();
    conf.worker.batch_timeout = 10 * MINUTE;
    let consumer = start(conf, world, recorder.start());
    pass(7 * MINUTE).await;
    let mut answered = 0;
    while answered < 50 {
        notes.wait_for("the next event", |noted| noted.deliveries.len() > answered).await;
        for handle in held.take() {
            handle.answer(EventProcessed::Processed);
            answered += 1;
        }
    }
    pass(Duration::from_secs(10)).await;
    place.put("key", "after");
    let noted = notes.wait_for("the record after", |noted| noted.payloads().contains(&"after")).await;
    for handle in held.take() {
        handle.answer(EventProcessed::Processed);
    }
    assert_eq!(noted.deliveries.len(), 51);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn an_event_without_an_answer_comes_as_often_as_the_retries_say_and_then_the_shard_restarts() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "only");
    let (world, _) = place.connect();
    let notes = new_notes();
    let (recorder, _held) = Recorder::holding(&notes);
    let recorder = recorder.start();
    let mut conf = conf();
    conf.worker.failed_message_retries = 2;
    let timeout = conf.worker.batch_timeout;
    let begin = tokio::time::Instant::now();
    let consumer = start(conf, world, recorder);
    let noted = notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    let took = begin.elapsed();
    assert!(took >= timeout * 3 && took < timeout * 3 + Duration::from_secs(1), "{took:?}");
    assert_eq!(noted.failures[0].events[0].attempts, 3);
    let noted = notes.wait_for("the next worker", |noted| noted.deliveries.len() == 4).await;
    assert_eq!(noted.deliveries[3].attempt, 1);
    consumer.stop().await.unwrap();
}

/// Each shard started behind the ends of all of its parents that were read.
fn assert_parents_came_first(place: &Place, noted: &Noted) {
    let shards = place.shards();
    let mut ended = BTreeSet::new();
    for notice in &noted.notices {
        match notice {
            ConsumerNotice::ShardEnded { shard } => drop(ended.insert(shard)),
            ConsumerNotice::ShardStarted { shard, .. } => {
                let parents = &shards.iter().find(|known| known.id == *shard).unwrap().parents;
                let early: Vec<_> = parents.iter().filter(|parent| !ended.contains(parent)).collect();
                assert!(early.is_empty(), "{shard} started before its parents {early:?} ended");
            }
            _ => {}
        }
    }
}

#[actix::test]
async fn children_are_read_when_their_parents_are_through_hours_of_resharding() {
    tokio::time::pause();
    let place = Place::new(2);
    let (world, _) = place.connect();
    let notes = new_notes();
    // Of two parents, one has its last answer much later than the other.
    let recorder = Recorder::answering(&notes, |message| {
        let handle = message.answer_later();
        let is_slow = message.event.shard().as_str().ends_with(['1', '3', '5', '7', '9']);
        let pause = if is_slow { 9 * SECOND } else { SECOND / 10 };
        actix::spawn(async move {
            tokio::time::sleep(pause).await;
            handle.answer(EventProcessed::Processed);
        });
        EventProcessed::Later
    });
    let consumer = start_noting(conf(), world, recorder);
    let mut put = 0;
    for round in 0..24 {
        let mut open = place.open_shards();
        for shard in &open {
            // More than the window takes at once, so that the slower parent has some left.
            (0..8).for_each(|_| drop(place.put(&place.key_of(&shard.id), put.to_string())));
            put += 8;
        }
        pass(2 * SECOND).await;
        match open.len() {
            0..=3 => place.split(&open[round % open.len()]),
            _ => place.merge(&open[1], &open[2]),
        }
        open = place.open_shards();
        for shard in &open {
            drop(place.put(&place.key_of(&shard.id), put.to_string()));
            put += 1;
        }
        pass(5 * MINUTE).await;
        assert_eq!(consumer.status().shards.len(), open.len(), "round {round}");
    }
    let noted = notes.wait_for("all records", |noted| noted.deliveries.len() >= put).await;
    assert_eq!(noted.deliveries.len(), put);
    for (key, payloads) in noted.first_by_key() {
        assert!(payloads.is_sorted_by_key(|payload| payload.parse::<u32>().unwrap()), "{key}: {payloads:?}");
    }
    assert_parents_came_first(&place, &noted);
    assert!(!noted.notices.iter().any(|notice| matches!(notice, ConsumerNotice::LeaseLost { .. })));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_released_lease_is_taken_without_a_failover_and_nothing_of_it_comes_again() {
    tokio::time::pause();
    let place = Place::new(1);
    let (first_notes, second_notes) = (new_notes(), new_notes());
    let first = start(conf(), place.connect().0, Recorder::new(&first_notes).start());
    pass(SECOND).await;
    let second = start(conf(), place.connect().0, Recorder::new(&second_notes).start());
    for number in 0..30 {
        place.put("key", number.to_string());
        pass(SECOND).await;
    }
    assert_eq!(first_notes.now().deliveries.len(), 30);
    assert_eq!((first.status().shards.len(), second.status().shards.len()), (1, 0));

    assert!(first.stop().await.unwrap().is_clean());
    let released = tokio::time::Instant::now();
    while second.status().shards.is_empty() {
        pass(SECOND / 10).await;
    }
    assert!(released.elapsed() < conf().lease.failover_time, "{:?}", released.elapsed());
    place.put("key", "after");
    let noted = second_notes.wait_for("a record", |noted| !noted.deliveries.is_empty()).await;
    assert_eq!(noted.payloads(), ["after"]);
    assert!(second.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn two_processes_with_one_worker_id_read_each_shard_once() {
    tokio::time::pause();
    let place = Place::new(2);
    let mut conf = conf();
    conf.lease.worker_id = Some("same".to_owned());
    let notes = [new_notes(), new_notes()];
    let consumers = [1, 2].map(|process| {
        KinesisConsumer::builder(conf.clone(), Recorder::new(&notes[process - 1]).start())
            .world(place.connect().0)
            .placement(Placement::CurrentThread)
            .seed(process as u64)
            .start()
            .unwrap()
    });
    for number in 0..600 {
        place.put(&format!("key-{number}"), number.to_string());
        pass(SECOND).await;
    }
    pass(2 * SECOND).await;
    let read: usize = consumers.iter().map(|consumer| consumer.status().shards.len()).sum();
    let deliveries: usize = notes.iter().map(|notes| notes.now().deliveries.len()).sum();
    assert_eq!((read, deliveries), (2, 600));
    for consumer in &consumers {
        assert!(consumer.stop().await.unwrap().is_clean());
    }
}

#[actix::test]
async fn renewals_whose_replies_are_lost_lose_no_lease() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start_noting(conf(), world, Recorder::new(&notes));
    pass(SECOND).await;
    // With nothing to store, the writes are renewals.
    network.fail(|call| if call == "write" { Fault::ReplyLost } else { Fault::None });
    let counter = place.row().counter;
    pass(10 * MINUTE).await;
    assert!(place.row().counter > counter + 60, "ten minutes of renewals");
    place.put("key", "only");
    let noted = notes.wait_for("the record", |noted| !noted.deliveries.is_empty()).await;
    network.heal();
    assert!(consumer.stop().await.unwrap().is_clean());
    assert_eq!(notes.now().payloads(), ["only"]);
    assert!(!noted.notices.iter().any(|notice| matches!(notice, ConsumerNotice::LeaseLost { .. })));
    assert_eq!(place.row().checkpoint.text(), noted.deliveries[0].sequence);
}

/// Under real time, since it is a thread that stands still and not the clock.
#[actix::test]
async fn an_application_that_blocks_the_thread_which_started_the_consumer_loses_no_lease() {
    let place = Place::new(1);
    let (world, _) = place.connect();
    let notes = new_notes();
    let recorder = Recorder::new(&notes).start();
    let mut conf = conf();
    conf.lease.failover_time = Duration::from_secs(2);
    let consumer = KinesisConsumer::builder(conf, recorder.clone())
        .notices(recorder.recipient())
        .world(world)
        .start()
        .unwrap();
    let is_started = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::ShardStarted { .. });
    notes.wait_for("the shard", |noted| noted.notices.iter().any(is_started)).await;
    let counter = |place: &Place| place.rows().values().next().unwrap().counter;
    let before = counter(&place);
    let since = std::time::Instant::now();
    while counter(&place) < before + 6 {
        assert!(since.elapsed() < MINUTE, "not renewed while the thread is blocked");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert!(consumer.stop().await.unwrap().is_clean());
    let is_loss = |notice: &ConsumerNotice| matches!(notice, ConsumerNotice::LeaseLost { .. });
    assert!(!notes.now().notices.iter().any(is_loss));
}
