//! A paused shard keeps its lease, delivers nothing, and goes on where it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Actor;
use actix_kinesis::ShardId;
use actix_kinesis::consumer::{
    ConsumerNotice, EventProcessed, OperationError, ShardState, ShardStatus, ShutdownReason,
};

use super::*;
use crate::world::Fault;
use crate::{HOUR, MINUTE};

#[actix::test]
async fn a_paused_shard_delivers_nothing_keeps_its_lease_and_goes_on_right_behind_its_checkpoint() {
    tokio::time::pause();
    let One { place, shard, notes, consumer, network } = one_shard();
    put_numbers(&place, 0..10);
    let noted = notes.wait_for("the events", |noted| noted.deliveries.len() == 10).await;
    consumer.pause(&shard).await.unwrap();
    let paused = row(&place, &shard);
    assert_eq!(paused.checkpoint.text(), noted.deliveries[9].sequence, "stored when the pause is there");
    assert_eq!(status_of(&consumer, &shard).state, ShardState::Paused);

    put_numbers(&place, 10..20);
    let calls = network.calls("GetRecords");
    pass(HOUR).await;
    assert_eq!(network.calls("GetRecords"), calls);
    let after = row(&place, &shard);
    assert_eq!((&after.owner, &after.token), (&paused.owner, &paused.token));
    assert!(after.counter > paused.counter + 900, "renewed for as long as it takes");
    let noted = notes.now();
    assert_eq!(noted.deliveries.len(), 10);
    let reasons: Vec<_> = noted.shutdowns.iter().map(|shutdown| &shutdown.reason).collect();
    assert_eq!(reasons, [&ShutdownReason::Paused]);

    consumer.resume(&shard).await.unwrap();
    assert_eq!(status_of(&consumer, &shard).state, ShardState::Reading);
    let noted = notes.wait_for("the rest", |noted| noted.deliveries.len() >= 20).await;
    assert_eq!(noted.payloads(), numbers(20));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_paused_before_its_first_record_skips_nothing_though_it_starts_at_the_newest() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = only_shard(&place);
    place.put("key", "before");
    let (world, _) = place.connect();
    let notes = new_notes();
    let mut conf = conf();
    conf.initial_position = actix_kinesis::config::InitialPosition::Latest;
    let consumer = start(conf, world, Recorder::new(&notes).start());
    pass(5 * SECOND).await;
    consumer.pause(&shard).await.unwrap();
    put_numbers(&place, 0..2);
    pass(MINUTE).await;
    consumer.resume(&shard).await.unwrap();
    let noted = notes.wait_for("the events", |noted| noted.deliveries.len() >= 2).await;
    assert_eq!(noted.payloads(), numbers(2));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn the_other_shards_go_on_while_one_is_paused() {
    tokio::time::pause();
    let place = Place::new(2);
    let notes = new_notes();
    let (consumer, _) = start_noting(&place, &notes);
    until("both are read", || consumer.status().shards.len() == 2).await;
    let paused = only_shard(&place);
    consumer.pause(&paused).await.unwrap();
    put_by_key(&place, 0..20);
    pass(MINUTE).await;
    let noted = notes.now();
    assert!(!noted.deliveries.is_empty());
    assert!(noted.deliveries.iter().all(|delivery| delivery.shard != paused.as_str()));
    consumer.resume(&paused).await.unwrap();
    notes.wait_for("all", |noted| noted.deliveries.len() == 20).await;
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn what_is_under_way_may_be_answered_before_the_pause_is_there() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = only_shard(&place);
    put_numbers(&place, 0..3);
    let Holding { notes, held, consumer, .. } = start_holding(&place, conf());
    let noted = notes.wait_for("two events", |noted| noted.deliveries.len() == 2).await;
    let answer = async {
        pass(SECOND).await;
        let status = status_of(&consumer, &shard);
        assert_eq!((status.state, status.in_flight), (ShardState::Paused, 2));
        answer_all(&held);
    };
    // The second pause waits for the first.
    let (first, second, ()) = tokio::join!(consumer.pause(&shard), consumer.pause(&shard), answer);
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(row(&place, &shard).checkpoint.text(), noted.deliveries[1].sequence);
    assert_eq!(consumer.pause(&shard).await, Ok(()), "it is paused already");
    assert_eq!(notes.now().shutdowns.len(), 1);

    consumer.resume(&shard).await.unwrap();
    let noted = notes.wait_for("the third event", |noted| noted.deliveries.len() == 3).await;
    held.take().pop().unwrap().answer(EventProcessed::Processed);
    assert_eq!(noted.payloads(), numbers(3));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_pause_waits_for_an_answer_as_long_as_an_event_may_take_and_what_has_none_comes_again() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = only_shard(&place);
    let Holding { notes, held, consumer, .. } = start_holding(&place, conf());
    // Their time does not end at once.
    for number in 0..2 {
        put_numbers(&place, number..number + 1);
        pass(4 * SECOND).await;
    }
    assert_eq!(notes.now().deliveries.len(), 2);
    let begin = tokio::time::Instant::now();
    consumer.pause(&shard).await.unwrap();
    let timeout = conf().worker.batch_timeout;
    // The last of them has had four seconds.
    let left = timeout - 4 * SECOND;
    assert!((left..=left + SECOND / 10).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    held.take();
    consumer.resume(&shard).await.unwrap();
    let noted = notes.wait_for("them again", |noted| noted.deliveries.len() == 4).await;
    assert_eq!(noted.payloads(), ["0", "1", "0", "1"]);
    answer_all(&held);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_resumed_before_it_has_paused_is_read_on_without_a_repetition() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = only_shard(&place);
    put_numbers(&place, 0..3);
    let Holding { notes, held, consumer, .. } = start_holding(&place, conf());
    notes.wait_for("two events", |noted| noted.deliveries.len() == 2).await;
    let token = status_of(&consumer, &shard).fencing_token;
    let resume = async {
        pass(SECOND).await;
        consumer.resume(&shard).await.unwrap();
    };
    let (paused, ()) = tokio::join!(consumer.pause(&shard), resume);
    assert_eq!(paused, Ok(()), "nobody waits for a pause that is over");
    answer_all(&held);
    let noted = notes.wait_for("the third event", |noted| noted.deliveries.len() == 3).await;
    assert_eq!(noted.payloads(), numbers(3));
    assert_eq!(status_of(&consumer, &shard).fencing_token, token, "the lease was kept");
    held.take().pop().unwrap().answer(EventProcessed::Processed);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn shards_that_are_not_read_here_are_told_of_and_so_is_a_stop() {
    tokio::time::pause();
    let place = Place::new(1);
    let (consumer, _) = start_noting(&place, &new_notes());
    let shard = only_shard(&place);
    assert_eq!(consumer.pause(&shard).await, not_held(&shard), "not yet");
    until("the shard is read", || reads(&consumer, &shard)).await;
    let unknown: ShardId = "shardId-000000000099".into();
    assert_eq!(consumer.pause(&unknown).await, not_held(&unknown));
    assert_eq!(consumer.drain(&unknown).await, not_held(&unknown));
    assert_eq!(consumer.resume(&unknown).await, not_held(&unknown));
    assert_eq!(consumer.resume(&shard).await, Ok(()), "it is read anyway");
    assert!(consumer.stop().await.unwrap().is_clean());
    for outcome in [consumer.pause(&shard).await, consumer.drain(&shard).await, consumer.resume(&shard).await]
    {
        assert_eq!(outcome, Err(OperationError::Stopping));
    }
}

#[actix::test]
async fn a_pause_ends_with_the_lease_and_a_lease_that_comes_back_is_read() {
    tokio::time::pause();
    let One { place, shard, notes, consumer, network } = one_shard();
    put_numbers(&place, 0..2);
    notes.wait_for("the events", |noted| noted.deliveries.len() == 2).await;
    consumer.pause(&shard).await.unwrap();
    put_numbers(&place, 2..4);
    network.fail(|_| Fault::RequestLost);
    until("the lease is lost", || !reads(&consumer, &shard)).await;
    network.heal();
    let noted = notes.wait_for("the rest", |noted| noted.deliveries.len() >= 4).await;
    assert_eq!(noted.payloads(), numbers(4));
    assert_eq!(status_of(&consumer, &shard).state, ShardState::Reading);
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_pause_during_which_the_lease_is_lost_says_so() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = only_shard(&place);
    put_numbers(&place, 0..1);
    let Holding { notes, held: _held, consumer, network } = start_holding(&place, patient());
    notes.wait_for("the event", |noted| noted.deliveries.len() == 1).await;
    network.fail(|_| Fault::RequestLost);
    assert_eq!(consumer.pause(&shard).await, not_held(&shard));
    network.heal();
    consumer.stop_within(SECOND).await.unwrap();
}

#[actix::test]
async fn paused_shards_are_handed_over_when_another_instance_asks_and_read_there() {
    tokio::time::pause();
    let place = Place::new(2);
    let notes = [new_notes(), new_notes()];
    let (first, _) = start_noting(&place, &notes[0]);
    until("both are read", || first.status().shards.len() == 2).await;
    put_by_key(&place, 0..20);
    notes[0].wait_for("the events", |noted| noted.deliveries.len() == 20).await;
    for shard in place.shards() {
        first.pause(&shard.id).await.unwrap();
    }
    put_by_key(&place, 20..40);
    let (second, _) = start_noting(&place, &notes[1]);
    until("one is handed over", || second.status().shards.len() == 1).await;
    assert_eq!(first.status().shards.len(), 1);
    assert_eq!(first.status().shards[0].state, ShardState::Paused);
    let moved = second.status().shards[0].shard.clone();
    pass(MINUTE).await;
    assert_eq!(notes[0].now().deliveries.len(), 20);
    first.resume(&first.status().shards[0].shard).await.unwrap();
    notes[0]
        .wait_for("the rest", |noted| noted.deliveries.len() + notes[1].now().deliveries.len() == 40)
        .await;
    let there = notes[1].now().deliveries;
    assert!(!there.is_empty() && there.iter().all(|delivery| delivery.shard == moved.as_str()));
    assert!(first.stop().await.unwrap().is_clean());
    assert!(second.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_consumer_with_a_paused_shard_and_one_that_pauses_stops_cleanly() {
    tokio::time::pause();
    let place = Place::new(2);
    let shards: Vec<ShardId> = place.shards().into_iter().map(|shard| shard.id).collect();
    let Holding { notes, held, consumer, .. } = start_holding(&place, conf());
    until("both are read", || consumer.status().shards.len() == 2).await;
    consumer.pause(&shards[0]).await.unwrap();
    put_by_key(&place, 0..20);
    notes.wait_for("the events", |noted| noted.deliveries.len() == 2).await;
    let answer = async {
        pass(SECOND).await;
        answer_all(&held);
    };
    let stop = async {
        tokio::time::sleep(SECOND / 2).await;
        consumer.stop().await.unwrap()
    };
    let (paused, stopped, ()) = tokio::join!(consumer.pause(&shards[1]), stop, answer);
    assert_eq!(paused, not_held(&shards[1]));
    assert!(stopped.is_clean(), "{stopped:?}");
    assert!(place.rows().values().all(|row| row.owner.is_none()));
}

#[actix::test]
async fn a_shard_that_waits_to_be_started_again_is_paused_and_started_when_it_is_resumed() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = only_shard(&place);
    place.put("key", "poison");
    let (world, _) = place.connect();
    let notes = new_notes();
    let is_mended = Arc::new(AtomicBool::new(false));
    let recorder = Recorder::answering(&notes, {
        let is_mended = Arc::clone(&is_mended);
        move |_| match is_mended.load(Ordering::SeqCst) {
            true => EventProcessed::Processed,
            false => EventProcessed::failed("not yet"),
        }
    });
    let mut conf = conf();
    conf.worker.restart_backoff.min = 10 * SECOND;
    let consumer = start(conf, world, recorder.start());
    let noted = notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    until("the shard waits", || status_of(&consumer, &shard).state == ShardState::Restarting).await;
    consumer.pause(&shard).await.unwrap();
    assert_eq!(status_of(&consumer, &shard).state, ShardState::Paused);
    pass(10 * MINUTE).await;
    assert_eq!(notes.now().deliveries.len(), noted.deliveries.len());
    is_mended.store(true, Ordering::SeqCst);
    let begin = tokio::time::Instant::now();
    consumer.resume(&shard).await.unwrap();
    notes.wait_for("it again", |now| now.deliveries.len() > noted.deliveries.len()).await;
    assert!(begin.elapsed() < 2 * SECOND, "{:?}", begin.elapsed());
    pass(5 * MINUTE).await;
    assert_eq!(notes.now().deliveries.len(), noted.deliveries.len() + 1, "and not a second time");
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_that_waits_to_be_started_again_is_not_when_it_is_handed_over() {
    tokio::time::pause();
    let place = Place::new(1);
    place.put("key", "poison");
    let (world, network) = place.connect();
    let notes = new_notes();
    let mut conf = conf();
    conf.worker.restart_backoff.min = 10 * SECOND;
    let recorder = Recorder::answering(&notes, |_| EventProcessed::failed("never"));
    let consumer = start(conf, world, recorder.start());
    let noted = notes.wait_for("the failure", |noted| !noted.failures.is_empty()).await;
    // The leader of KCL 3.x workers wants another one to have the lease, and once that is seen it cannot be given away.
    for row in place.rows().values_mut() {
        row.checkpoint_owner = row.owner.replace("another".into());
    }
    let mut is_seen = false;
    network.fail(move |call| {
        let was_seen = is_seen;
        is_seen |= matches!(call, "scan" | "write");
        if call == "write" && was_seen { Fault::Throttled } else { Fault::None }
    });
    let is_handed_over = |status: &ShardStatus| status.state == ShardState::HandingOver;
    until("the hand-over begins", || consumer.status().shards.iter().any(is_handed_over)).await;
    until("the lease is lost", || consumer.status().shards.is_empty()).await;
    assert_eq!(notes.now().deliveries.len(), noted.deliveries.len());
    network.heal();
    consumer.stop().await.unwrap();
}

#[actix::test]
async fn a_shard_that_is_split_while_it_is_paused_ends_when_it_is_resumed() {
    tokio::time::pause();
    let One { place, shard, notes, consumer, .. } = one_shard();
    until("the shard is read", || reads(&consumer, &shard)).await;
    consumer.pause(&shard).await.unwrap();
    put_numbers(&place, 0..5);
    place.split(&place.shards()[0]);
    place.put("key", "5");
    pass(10 * MINUTE).await;
    assert_eq!(notes.now().deliveries, []);
    assert_eq!(consumer.status().shards.len(), 1, "no child starts before its parent is finished");
    consumer.resume(&shard).await.unwrap();
    let noted = notes.wait_for("all", |noted| noted.deliveries.len() == 6).await;
    assert_eq!(noted.payloads(), numbers(6));
    until("the children are read", || consumer.status().shards.len() == 2).await;
    assert!(!reads(&consumer, &shard));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_shard_that_is_paused_at_its_very_end_is_ended_all_the_same() {
    tokio::time::pause();
    let One { place, shard, notes, consumer, network } = one_shard();
    until("the shard is read", || reads(&consumer, &shard)).await;
    // The rows of the children must be there before the end is stored.
    network.fail(|call| if call == "create" { Fault::Throttled } else { Fault::None });
    place.split(&place.shards()[0]);
    pass(5 * SECOND).await;
    consumer.pause(&shard).await.unwrap();
    assert_eq!(status_of(&consumer, &shard).state, ShardState::Paused);
    network.heal();
    until("the children are read", || consumer.status().shards.len() == 2).await;
    assert!(!reads(&consumer, &shard));
    let is_end = |notice: &&ConsumerNotice| matches!(notice, ConsumerNotice::ShardEnded { .. });
    assert_eq!(notes.now().notices.iter().filter(is_end).count(), 1);
    assert!(consumer.stop().await.unwrap().is_clean());
}
