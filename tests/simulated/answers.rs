//! What answers, their absence and their order do to checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AtomicResponse, Context, Handler, WrapFuture};
use actix_kinesis::config::FailurePolicy;
use actix_kinesis::consumer::{
    ConsumerEvent, ConsumerNotice, ConsumerShutdown, ConsumerWorkerFailure, EventHandle, EventProcessed,
    FailureCause, FailureDecision, ProcessEvent, ShutdownReason,
};
use kinesis_record::{Position, SequenceNumber};
use tokio::time::{Instant, sleep};

use super::world::{Fault, Place};
use super::{HOUR, MINUTE, SECOND, conf, new_notes, pass, start, start_noting};
use crate::recorder::{Held, Noted, Notes, Recorder};

const MILLIS: Duration = Duration::from_millis(1);

fn is_loss(notice: &ConsumerNotice) -> bool {
    matches!(notice, ConsumerNotice::LeaseLost { .. })
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// Answers what is not a number at once, so that the window opens, and keeps the handles of numbers.
fn holding_numbers(notes: &Notes) -> (Recorder, Arc<Mutex<BTreeMap<u32, EventHandle>>>) {
    let held: Arc<Mutex<BTreeMap<u32, EventHandle>>> = Arc::default();
    let recorder = Recorder::answering(notes, {
        let held = Arc::clone(&held);
        move |message| match String::from_utf8_lossy(message.event.payload()).parse() {
            Ok(number) => {
                held.lock().unwrap().insert(number, message.answer_later());
                EventProcessed::Later
            }
            Err(_) => EventProcessed::Processed,
        }
    });
    (recorder, held)
}

#[actix::test]
async fn what_was_answered_behind_an_open_event_comes_again_after_a_crash() {
    tokio::time::pause();
    let place = Place::new(1);
    (0..100).for_each(|_| drop(place.put("key", "opens the window")));
    let puts: Vec<_> = (1..=10).map(|number| place.put("key", number.to_string())).collect();
    let (world, network) = place.connect();
    let notes = new_notes();
    let (recorder, held) = holding_numbers(&notes);
    let mut conf = conf();
    conf.worker.batch_timeout = HOUR;
    let consumer = start(conf.clone(), world, recorder.start());
    notes.wait_for("all events", |noted| noted.deliveries.len() == 110).await;
    for number in [1, 2, 10, 9, 4] {
        held.lock().unwrap().remove(&number).unwrap().answer(EventProcessed::Processed);
        pass(5 * SECOND).await;
    }
    assert_eq!(place.row().checkpoint.text(), puts[1].as_str());
    network.fail(|_| Fault::RequestLost);
    let next_notes = new_notes();
    let next = start(conf, place.connect().0, Recorder::new(&next_notes).start());
    let noted = next_notes.wait_for("the rest", |noted| noted.deliveries.len() == 8).await;
    assert_eq!(noted.payloads(), numbers(3..11));
    assert!(next.stop().await.unwrap().is_clean());
    consumer.stop_within(SECOND).await.unwrap();
}

#[actix::test]
async fn one_processor_of_four_shards_moves_each_row_by_its_own_numbers() {
    tokio::time::pause();
    let place = Place::new(4);
    let shards = place.open_shards();
    let keys: Vec<_> = shards.iter().map(|shard| place.key_of(&shard.id)).collect();
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let consumer = start(conf(), place.connect().0, recorder.start());
    let mut put: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut seen = BTreeMap::new();
    for round in 0..20 {
        for (shard, key) in shards.iter().zip(&keys) {
            let sequence = place.put(key, round.to_string()).to_string();
            put.entry(shard.id.to_string()).or_default().insert(sequence);
        }
        notes.wait_for("the round", |noted| noted.deliveries.len() == 4 * (round + 1)).await;
        // The answers come in another order than the events.
        held.take().into_iter().rev().for_each(|handle| handle.answer(EventProcessed::Processed));
        pass(conf().checkpointer.interval + SECOND).await;
        for shard in &shards {
            let checkpoint = place.checkpoint(&shard.id).unwrap();
            assert!(put[shard.id.as_str()].contains(&checkpoint), "{}: a foreign {checkpoint}", shard.id);
            let before = seen.insert(shard.id.clone(), checkpoint.clone());
            assert_ne!(before, Some(checkpoint), "the row of {} stands still", shard.id);
        }
    }
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn answers_that_come_after_many_empty_pages_are_stored() {
    tokio::time::pause();
    let place = Place::new(1);
    (0..100).for_each(|_| drop(place.put("key", "opens the window")));
    let puts: Vec<_> = (0..5).map(|number| place.put("key", number.to_string())).collect();
    let (world, network) = place.connect();
    let notes = new_notes();
    let (recorder, held) = holding_numbers(&notes);
    let mut conf = conf();
    conf.worker.batch_timeout = HOUR;
    let consumer = start(conf, world, recorder.start());
    notes.wait_for("all events", |noted| noted.deliveries.len() == 105).await;
    network.take_calls();
    while network.calls("GetRecords") < 10 {
        pass(SECOND).await;
    }
    assert!(place.row().checkpoint.text() < puts[0].as_str());
    let held = std::mem::take(&mut *held.lock().unwrap());
    held.into_values().for_each(|handle| handle.answer(EventProcessed::Processed));
    pass(5 * SECOND).await;
    assert_eq!(place.row().checkpoint.text(), puts[4].as_str());
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_checkpoint_that_is_being_tried_again_ends_with_its_lease() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let notes = new_notes();
    let consumer = start_noting(conf(), world, Recorder::new(&notes));
    pass(5 * SECOND).await;
    network.fail(|call| if call == "write" { Fault::Throttled } else { Fault::None });
    network.take_calls();
    for number in 0..4 {
        place.put("key", number.to_string());
        pass(SECOND).await;
    }
    assert_eq!(notes.now().deliveries.len(), 4, "reading goes on without checkpoints");
    let writes = network.take_calls()["write"];
    assert!((2..=15).contains(&writes), "{writes} writes in four seconds");
    let shard = place.row().shard;
    place.steal(&shard);
    let stolen = place.row();
    network.heal();
    notes.wait_for("the loss", |noted| noted.notices.iter().any(is_loss)).await;
    network.take_calls();
    pass(8 * SECOND).await;
    assert_eq!(network.take_calls().get("write"), None, "a lost lease is written to");
    assert_eq!(place.row(), stolen);
    let told = notes.now().shutdowns;
    assert!(matches!(&told[..], [told] if matches!(told.reason, ShutdownReason::LeaseLost(_))), "{told:?}");
    // The thief never renews: what it did not process comes again.
    notes.wait_for("the records again", |noted| noted.deliveries.len() == 8).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn answers_given_twice_or_too_late_or_to_nobody_change_nothing_and_are_counted() {
    tokio::time::pause();
    let place = Place::new(1);
    let notes = new_notes();
    let held: Arc<Mutex<Vec<[EventHandle; 3]>>> = Arc::default();
    let recorder = Recorder::answering(&notes, {
        let held = Arc::clone(&held);
        move |message| {
            held.lock().unwrap().push([(); 3].map(|()| message.answer_later()));
            EventProcessed::Later
        }
    });
    let consumer = start_noting(conf(), place.connect().0, recorder);
    let counts = || {
        let shard = consumer.status().shards.remove(0);
        (shard.processed, shard.failed, shard.late_answers)
    };

    let first = place.put("key", "answered three times");
    notes.wait_for("the first event", |noted| noted.deliveries.len() == 1).await;
    held.lock().unwrap().remove(0).into_iter().for_each(|handle| handle.answer(EventProcessed::Processed));
    pass(5 * SECOND).await;
    assert_eq!((counts(), place.row().checkpoint.text()), ((1, 0, 2), first.as_str()));

    // An event that was never delivered.
    let position = Position::new(SequenceNumber::from(7), 0);
    let nowhere = ProcessEvent::new(ConsumerEvent::new(place.row().shard, position, "nowhere"), 1);
    nowhere.answer_later().answer(EventProcessed::Processed);
    pass(5 * SECOND).await;
    assert_eq!(counts(), (1, 0, 2));

    let second = place.put("key", "answered too late");
    notes.wait_for("the second attempt", |noted| noted.deliveries.len() == 3).await;
    let [in_time, again] = [1, 0].map(|index| held.lock().unwrap().remove(index));
    in_time.into_iter().for_each(|handle| handle.answer(EventProcessed::Processed));
    again
        .into_iter()
        .for_each(|handle| handle.answer(EventProcessed::failed("it has been processed already")));
    pass(5 * SECOND).await;
    assert_eq!((counts(), place.row().checkpoint.text()), ((2, 1, 7), second.as_str()));

    place.put("key", "answered behind the loss of the lease");
    notes.wait_for("the third event", |noted| noted.deliveries.len() == 4).await;
    let shard = place.row().shard;
    place.steal(&shard);
    notes.wait_for("the loss", |noted| noted.notices.iter().any(is_loss)).await;
    held.lock().unwrap().remove(0).into_iter().for_each(|handle| handle.answer(EventProcessed::Processed));
    pass(SECOND).await;
    assert_eq!(place.row().checkpoint.text(), second.as_str());

    let noted = notes.wait_for("the third event again", |noted| noted.deliveries.len() == 5).await;
    assert_eq!(noted.deliveries[4].payload, "answered behind the loss of the lease");
    assert_eq!(consumer.stop_within(SECOND).await.unwrap().unsettled, 1);
    held.lock().unwrap().remove(0).into_iter().for_each(|handle| handle.answer(EventProcessed::Processed));
    pass(SECOND).await;
    assert_eq!(place.row().checkpoint.text(), second.as_str());
}

/// A batch of which so many events are never answered, under a tolerance, and whether that tolerates them.
async fn never_answered(size: usize, unanswered: usize, percentage: f64, is_tolerated: bool) {
    let case = format!("{unanswered} of {size} at {percentage} %");
    let place = Place::new(2);
    let [shard, other] = [0, 1].map(|index| place.open_shards()[index].id.clone());
    let (key, other_key) = (place.key_of(&shard), place.key_of(&other));
    let puts: Vec<_> = (0..size).map(|number| place.put(&key, number.to_string())).collect();
    let notes = new_notes();
    let is_unanswered = move |number: &usize| (10..10 + unanswered).contains(number);
    let held = Held::default();
    let recorder = Recorder::answering(&notes, {
        let held = held.clone();
        move |message| match String::from_utf8_lossy(message.event.payload()).parse() {
            Ok(number) if is_unanswered(&number) => held.hold(message),
            _ => EventProcessed::Processed,
        }
    });
    let mut conf = conf();
    conf.worker.batch_timeout = 2 * SECOND;
    conf.worker.failed_message_retries = 1;
    conf.worker.failure_tolerance_percentage = percentage;
    conf.worker.failure_policy = FailurePolicy::StopShard;
    let begin = Instant::now();
    let consumer = start_noting(conf, place.connect().0, recorder);
    let given_up = |noted: &Noted| noted.failures.iter().map(|failure| failure.events.len()).sum::<usize>();
    let noted = notes.wait_for("the decision", |noted| given_up(noted) == unanswered).await;
    // Two deliveries of each, all of them at once.
    let took = begin.elapsed();
    let is_in_time = (4000 * MILLIS..=4800 * MILLIS).contains(&took);
    assert!(is_in_time || unanswered > 10, "{case}: {took:?}");
    let decision = if is_tolerated { FailureDecision::GiveUp } else { FailureDecision::StopShard };
    for failure in &noted.failures {
        assert_eq!((&failure.shard, &failure.decision), (&shard, &decision), "{case}");
        for failed in &failure.events {
            assert_eq!((failed.attempts, &failed.cause), (2, &FailureCause::TimedOut(2 * SECOND)), "{case}");
        }
    }
    pass(10 * SECOND).await;
    for number in 0..size {
        let payload = number.to_string();
        let times = notes.now().payloads().iter().filter(|delivered| **delivered == payload).count();
        assert_eq!(times, 1 + usize::from(is_unanswered(&number)), "{case}: deliveries of {number}");
    }
    let stored = if is_tolerated { &puts[size - 1] } else { &puts[9] };
    assert_eq!(place.checkpoint(&shard).as_deref(), Some(stored.as_str()), "{case}");
    place.put(&other_key, "of the other shard");
    notes.wait_for("the other shard", |noted| noted.payloads().contains(&"of the other shard")).await;
    assert_eq!(consumer.status().shards.len(), 1 + usize::from(is_tolerated), "{case}");
    assert!(consumer.stop().await.unwrap().is_clean(), "{case}");
}

#[actix::test]
async fn events_that_are_never_answered_come_once_more_each_and_then_count_against_the_tolerance() {
    tokio::time::pause();
    never_answered(500, 1, 0.25, true).await;
    never_answered(500, 2, 0.25, false).await;
    never_answered(100, 1, 0.25, false).await;
    never_answered(500, 1, 0.0, false).await;
    never_answered(100, 50, 100.0, true).await;
}

#[actix::test]
async fn the_checkpoints_of_all_shards_follow_their_answers_within_two_intervals() {
    tokio::time::pause();
    let place = Place::new(8);
    let keys: Vec<_> = place.open_shards().iter().map(|shard| place.key_of(&shard.id)).collect();
    let notes = new_notes();
    type Answered = BTreeMap<String, Vec<(Instant, SequenceNumber)>>;
    let answered: Arc<Mutex<Answered>> = Arc::default();
    let recorder = Recorder::answering(&notes, {
        let answered = Arc::clone(&answered);
        move |message| {
            let answer = (Instant::now(), message.event.position().sequence.clone());
            answered.lock().unwrap().entry(message.event.shard().to_string()).or_default().push(answer);
            EventProcessed::Processed
        }
    });
    let mut conf = conf();
    conf.polling.idle_time = 200 * MILLIS;
    conf.checkpointer.interval = 500 * MILLIS;
    let allowed = 2 * conf.checkpointer.interval + 100 * MILLIS;
    let consumer = start(conf, place.connect().0, recorder.start());
    pass(2 * SECOND).await;
    for round in 0..300 {
        keys.iter().for_each(|key| drop(place.put(key, round.to_string())));
        pass(100 * MILLIS).await;
        for (shard, answers) in answered.lock().unwrap().iter() {
            let due = answers.iter().rev().find(|(at, _)| at.elapsed() > allowed);
            let stored = place.checkpoint(&shard.as_str().into()).unwrap();
            if let Some((at, sequence)) = due {
                let is_stored = stored.parse::<SequenceNumber>().is_ok_and(|stored| stored >= *sequence);
                assert!(is_stored, "{shard}: answered {:?} ago, and {stored} is stored", at.elapsed());
            }
        }
    }
    assert_eq!(answered.lock().unwrap().len(), 8);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_handler_that_fails_for_a_whole_batch_skips_nothing_of_it() {
    tokio::time::pause();
    let place = Place::new(1);
    let notes = new_notes();
    let is_broken = Arc::new(AtomicBool::new(true));
    let recorder = Recorder::answering(&notes, {
        let is_broken = Arc::clone(&is_broken);
        move |message| {
            let number: usize = String::from_utf8_lossy(message.event.payload()).parse().unwrap();
            let is_hit = (20..30).contains(&number) && is_broken.load(Ordering::SeqCst);
            EventProcessed::from(if is_hit { Err("the database is down") } else { Ok(()) })
        }
    });
    let consumer = start_noting(conf(), place.connect().0, recorder);
    let mut puts = Vec::new();
    for batch in 0..5 {
        puts.extend((0..10).map(|index| place.put("key", (10 * batch + index).to_string())));
        pass(3 * SECOND).await;
    }
    notes.wait_for("failures", |noted| noted.failures.len() >= 3).await;
    pass(5 * SECOND).await;
    assert_eq!(place.row().checkpoint.text(), puts[19].as_str());
    is_broken.store(false, Ordering::SeqCst);
    let noted = notes.wait_for("the last batch", |noted| noted.payloads().ends_with(&["49"])).await;
    pass(5 * SECOND).await;
    assert_eq!(place.row().checkpoint.text(), puts[49].as_str());
    let first = &noted.first_by_key()["key"];
    assert_eq!(*first, numbers(0..50));
    let last_of_20 = noted.deliveries.iter().rposition(|delivery| delivery.payload == "20");
    let last_of_49 = noted.deliveries.iter().rposition(|delivery| delivery.payload == "49");
    assert!(last_of_20 < last_of_49);
    assert!(consumer.stop().await.unwrap().is_clean());
}

/// Takes ten milliseconds for each event, one after the other, behind a mailbox of the default size.
struct OneByOne(Recorder);

impl Actor for OneByOne {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for OneByOne {
    type Result = AtomicResponse<Self, EventProcessed>;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        let processing = sleep(10 * MILLIS).into_actor(self).map(move |(), processor, _| {
            processor.0.note(&message);
            EventProcessed::Processed
        });
        AtomicResponse::new(Box::pin(processing))
    }
}

impl Handler<ConsumerWorkerFailure> for OneByOne {
    type Result = ();

    fn handle(&mut self, failure: ConsumerWorkerFailure, _: &mut Self::Context) {
        panic!("{failure:?}");
    }
}

impl Handler<ConsumerShutdown> for OneByOne {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

#[actix::test]
async fn ten_thousand_events_pass_a_slow_processor_with_a_small_mailbox_once_each() {
    tokio::time::pause();
    let place = Place::new(1);
    let puts: Vec<_> = (0..10_000).map(|number| place.put("key", number.to_string())).collect();
    let notes = new_notes();
    let consumer = start(conf(), place.connect().0, OneByOne(Recorder::new(&notes)).start());
    notes.wait_for("all events", |noted| noted.deliveries.len() >= 10_000).await;
    pass(5 * SECOND).await;
    assert_eq!(notes.now().payloads(), numbers(0..10_000));
    assert_eq!(place.row().checkpoint.text(), puts.last().unwrap().as_str());
    assert_eq!(consumer.status().shards[0].processed, 10_000);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn ten_thousand_answers_at_once_from_another_thread_are_all_counted() {
    const RECORDS: usize = 30_000;
    tokio::time::pause();
    let place = Place::new(1);
    let puts: Vec<_> = (0..RECORDS).map(|number| place.put("key", number.to_string())).collect();
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let mut conf = conf();
    conf.worker.batch_timeout = HOUR;
    conf.worker.max_in_flight_events = 10_000;
    let consumer = start(conf, place.connect().0, recorder.start());
    let (mut answered, mut most) = (0, 0);
    while answered < RECORDS {
        pass(2 * SECOND).await;
        let handles = held.take();
        // Each round of quick answers doubles the window.
        (answered, most) = (answered + handles.len(), most.max(handles.len()));
        let flood =
            move || handles.into_iter().rev().for_each(|handle| handle.answer(EventProcessed::Processed));
        std::thread::spawn(flood).join().unwrap();
    }
    assert_eq!(most, 10_000);
    pass(5 * SECOND).await;
    let status = consumer.status().shards.remove(0);
    assert_eq!((status.processed, status.in_flight, status.buffered_bytes), (RECORDS as u64, 0, 0));
    assert_eq!(place.row().checkpoint.text(), puts.last().unwrap().as_str());
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn events_that_take_four_times_the_failover_time_cost_no_lease_beside_another_worker() {
    tokio::time::pause();
    let place = Place::new(4);
    let keys: Vec<_> = place.open_shards().iter().map(|shard| place.key_of(&shard.id)).collect();
    let (first_notes, second_notes) = (new_notes(), new_notes());
    let slow = |notes: &Notes| {
        Recorder::answering(notes, |message| {
            let handle = message.answer_later();
            actix::spawn(async move {
                sleep(4 * super::conf().lease.failover_time).await;
                handle.answer(EventProcessed::Processed);
            });
            EventProcessed::Later
        })
    };
    let mut conf = conf();
    conf.worker.batch_timeout = 10 * MINUTE;
    conf.lease.hand_over_timeout = 5 * MINUTE;
    let first = start_noting(conf.clone(), place.connect().0, slow(&first_notes));
    pass(MINUTE).await;
    let second = start_noting(conf, place.connect().0, slow(&second_notes));
    for number in 0..10 {
        keys.iter().for_each(|key| drop(place.put(key, number.to_string())));
        pass(MINUTE).await;
    }
    assert_eq!(first_notes.now().deliveries.len() + second_notes.now().deliveries.len(), 40);
    assert!(!first_notes.now().notices.iter().chain(&second_notes.now().notices).any(is_loss));

    let held = first.status().shards;
    assert_eq!((held.len(), second.status().shards.len()), (2, 2), "shared, however slow the events are");
    let [stolen, kept] = [0, 1].map(|index| held[index].shard.clone());
    let handed_over = first_notes.now().shutdowns.len();
    keys.iter().for_each(|key| drop(place.put(key, "under way")));
    pass(5 * SECOND).await;
    place.steal(&stolen);
    let noted = first_notes.wait_for("the loss", |noted| noted.notices.iter().any(is_loss)).await;
    let told = &noted.shutdowns[handed_over..];
    assert_eq!(told.iter().map(|told| &told.shard).collect::<Vec<_>>(), [&stolen]);
    assert!(matches!(told[0].reason, ShutdownReason::LeaseLost(_)));
    place.put(&place.key_of(&kept), "after");
    let noted = first_notes.wait_for("the other shard", |noted| noted.payloads().contains(&"after")).await;
    assert_eq!(noted.shutdowns.len(), handed_over + 1);
    pass(2 * MINUTE).await;
    assert!(first.stop().await.unwrap().is_clean());
    assert!(second.stop().await.unwrap().is_clean());
}
