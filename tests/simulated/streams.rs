//! Streams and channels whose events wait for long.

use std::pin::pin;

use actix_kinesis::Checkpoint;
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{ConsumerBuilder, Placement, World};
use actix_kinesis::stream::{Channels, CommitBatch, CommittableEvent, ShardSources, Source};
use futures::{FutureExt, StreamExt};

use super::world::{Fault, Place};
use super::{HOUR, MINUTE, SECOND, conf, pass};

fn source(conf: ConsumerConf, world: World) -> Source {
    let configure =
        |consumer: ConsumerBuilder| consumer.world(world).placement(Placement::CurrentThread).seed(1);
    Source::start_with(conf, configure).unwrap()
}

fn put_numbers(place: &Place, numbers: std::ops::Range<usize>) {
    for number in numbers {
        place.put("key", number.to_string());
    }
}

async fn next(source: &mut Source) -> CommittableEvent {
    source.next().await.unwrap().unwrap()
}

fn text(event: &CommittableEvent) -> String {
    String::from_utf8(event.value().payload().to_vec()).unwrap()
}

#[actix::test]
async fn an_event_that_waits_to_be_taken_has_no_time_out_and_one_that_was_taken_has() {
    tokio::time::pause();
    let place = Place::new(1);
    put_numbers(&place, 0..100);
    let mut source = source(conf(), place.connect().0);
    for number in 0..20 {
        pass(MINUTE).await;
        let event = next(&mut source).await;
        assert_eq!((text(&event), event.commit_handle().attempt()), (number.to_string(), 1));
        event.commit();
    }
    assert_eq!(source.control().status().shards[0].failed, 0);
    let held = next(&mut source).await;
    pass(9 * SECOND).await;
    assert_eq!(source.control().status().shards[0].failed, 0);
    pass(2 * SECOND).await;
    assert_eq!(source.control().status().shards[0].failed, 1);
    held.commit();
    pass(SECOND).await;
    assert!(source.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_window_that_is_held_uncommitted_is_as_large_as_the_settings_allow() {
    tokio::time::pause();
    let place = Place::new(1);
    put_numbers(&place, 0..100);
    let mut conf = conf();
    conf.worker.max_in_flight_events = 70;
    let source = source(conf, place.connect().0);
    let control = source.control();
    let mut chunks = source.chunks(70);
    let chunk = chunks.next().await.unwrap();
    let mut batch = CommitBatch::new();
    batch.extend(chunk.into_iter().map(|event| event.unwrap().split().1));
    batch.commit().await.unwrap();
    assert_eq!(control.status().shards[0].processed, 70);
}

#[actix::test]
async fn nothing_is_taken_while_the_lease_may_be_lost_and_all_of_it_afterwards() {
    tokio::time::pause();
    let place = Place::new(1);
    let (world, network) = place.connect();
    let mut source = source(conf(), world);
    put_numbers(&place, 0..20);
    next(&mut source).await.commit();
    pass(MINUTE).await;
    network.fail(|call| if call == "write" { Fault::Throttled } else { Fault::None });
    pass(MINUTE).await;
    assert!(source.next().now_or_never().is_none(), "an event was taken without a lease");
    network.heal();
    for number in 1..20 {
        let event = next(&mut source).await;
        assert_eq!(text(&event), number.to_string());
        event.commit();
    }
    assert!(source.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_commit_that_cannot_be_stored_any_more_says_so() {
    tokio::time::pause();
    let place = Place::new(1);
    put_numbers(&place, 0..2);
    let mut source = source(conf(), place.connect().0);
    let (first, second) = (next(&mut source).await, next(&mut source).await);
    let mut batch = CommitBatch::new();
    batch.push(second.split().1);
    let commit = batch.commit();
    place.steal(&place.open_shards()[0].id);
    let error = commit.await.unwrap_err();
    assert_eq!(error.shard, place.open_shards()[0].id);
    drop(first);
}

#[actix::test]
async fn what_was_taken_may_be_committed_after_the_source_is_dropped() {
    tokio::time::pause();
    let place = Place::new(1);
    put_numbers(&place, 0..500);
    let mut source = source(conf(), place.connect().0);
    let control = source.control();
    let mut taken = Vec::new();
    for _ in 0..10 {
        taken.push(next(&mut source).await);
    }
    drop(source);
    pass(3 * SECOND).await;
    let last = taken.last().unwrap().value().position().clone();
    taken.into_iter().for_each(|event| event.commit());
    let stopped = control.finished().await.unwrap();
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(place.row().checkpoint, Checkpoint::At(last));
}

#[actix::test]
async fn what_was_taken_may_be_committed_after_the_stream_of_its_shard_is_dropped() {
    tokio::time::pause();
    let place = Place::new(1);
    put_numbers(&place, 0..500);
    let world = place.connect().0;
    let configure =
        |consumer: ConsumerBuilder| consumer.world(world).placement(Placement::CurrentThread).seed(1);
    let mut sources = ShardSources::start_with(conf(), configure).unwrap();
    let shard = sources.next().await.unwrap().unwrap();
    let taken: Vec<_> = shard.take(10).collect().await;
    pass(3 * SECOND).await;
    taken.into_iter().for_each(|event| event.commit());
    let mut again = sources.next().await.unwrap().unwrap();
    assert_eq!(text(&again.next().await.unwrap()), "10");
    assert_eq!(sources.consumer().status().shards[0].late_answers, 0);
    sources.consumer().stop().await.unwrap();
}

#[actix::test]
async fn a_commit_after_a_pause_that_did_not_wait_for_it_moves_nothing_and_its_event_comes_again() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = place.open_shards()[0].id.clone();
    put_numbers(&place, 0..20);
    let mut source = source(conf(), place.connect().0);
    let control = source.control();
    let (first, second) = (next(&mut source).await, next(&mut source).await);
    control.consumer().pause(&shard).await.unwrap();
    let before = place.row().checkpoint;
    second.commit();
    control.consumer().resume(&shard).await.unwrap();
    let again = next(&mut source).await;
    assert_eq!((text(&again).as_str(), again.commit_handle().attempt()), ("0", 1));
    // Of the worker before the pause, whose event of the same number it was.
    first.commit();
    pass(MINUTE).await;
    assert_eq!(place.row().checkpoint, before);
    again.commit();
    for number in 1..20 {
        let event = next(&mut source).await;
        assert_eq!(text(&event), number.to_string());
        event.commit();
    }
    assert!(source.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn records_of_a_channel_may_be_held_for_hours() {
    tokio::time::pause();
    let place = Place::new(1);
    put_numbers(&place, 0..10);
    let (world, _) = place.connect();
    let configure =
        |consumer: ConsumerBuilder| consumer.world(world).placement(Placement::CurrentThread).seed(1);
    let mut channels = Channels::start_with(conf(), configure).unwrap();
    let (mut records, checkpoints) = channels.recv().await.unwrap().unwrap().split();
    let mut last = None;
    for number in 0..10 {
        let record = records.recv().await.unwrap();
        assert_eq!(record.event.payload(), number.to_string().as_bytes());
        last = Some(record.position);
    }
    pass(HOUR).await;
    assert!(records.recv().now_or_never().is_none());
    assert_eq!(channels.consumer().status().shards[0].failed, 0);
    checkpoints.put(last.unwrap());
    pass(MINUTE).await;
    assert!(channels.consumer().stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_stop_waits_for_each_event_that_was_taken_until_its_time_is_over() {
    tokio::time::pause();
    for is_committed in [true, false] {
        let place = Place::new(1);
        put_numbers(&place, 0..20);
        let mut conf = conf();
        conf.worker.shutdown_timeout = HOUR;
        let mut source = source(conf, place.connect().0);
        let first = next(&mut source).await;
        pass(5 * SECOND).await;
        let events = [first, next(&mut source).await];
        let mut stopping = pin!(source.stop());
        // Nearly as long as the first one may take.
        tokio::select! {
            stopped = &mut stopping => panic!("{stopped:?}"),
            () = pass(4 * SECOND) => {}
        }
        let _held = if is_committed {
            events.into_iter().for_each(|event| event.commit());
            None
        } else {
            Some(events)
        };
        let stopped = tokio::time::timeout(MINUTE, stopping).await.unwrap().unwrap();
        assert_eq!(stopped.unsettled, if is_committed { 0 } else { 2 });
        assert_eq!(matches!(place.row().checkpoint, Checkpoint::At(_)), is_committed);
    }
}
