//! [`Source`](actix_kinesis::stream::Source): all shards in one stream.

use std::collections::BTreeSet;

use actix_kinesis::Checkpoint;
use actix_kinesis::config::Concurrency;
use actix_kinesis::consumer::ConsumerError;
use actix_kinesis::stream::{CommitBatch, CommittableEvent};
use futures::{FutureExt, StreamExt, TryStreamExt};
use kinesis_local::faults::Fault;

use crate::support::*;

#[actix::test]
async fn every_event_comes_once_and_each_shards_in_order() {
    let aws = local_aws(4).await;
    put_numbers(&aws, 0..500);
    let mut source = source(conf(&aws));
    let mut seen = BTreeSet::new();
    let mut last = std::collections::BTreeMap::new();
    while seen.len() < 500 {
        let event = next(&mut source).await;
        let before = last.insert(event.value().shard().clone(), event.value().position().clone());
        assert!(before.is_none_or(|before| before < *event.value().position()));
        assert!(seen.insert(text(&event)), "{} came twice", text(&event));
        event.commit();
    }
    assert!(source.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn after_a_drop_the_next_source_goes_on_behind_what_was_committed() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..200);
    let mut first = source(conf(&aws));
    let control = first.control();
    let mut taken = Vec::new();
    for number in 0..60 {
        let event = next(&mut first).await;
        assert_eq!(text(&event), number.to_string());
        taken.push(event);
    }
    let uncommitted = taken.split_off(50);
    taken.into_iter().for_each(|event| event.commit());
    drop(first);
    drop(uncommitted);
    let stopped = soon("the end", control.finished()).await.unwrap();
    assert_eq!((stopped.unsettled, stopped.not_stored, stopped.not_released), (10, vec![], vec![]));
    let mut second = source(conf(&aws));
    for number in 50..200 {
        let event = next(&mut second).await;
        assert_eq!(text(&event), number.to_string());
        event.commit();
    }
    assert!(second.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn commits_come_in_any_order_and_the_checkpoint_waits_for_the_first() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..3);
    let mut source = source(conf(&aws));
    let mut events: Vec<_> = Vec::new();
    for _ in 0..3 {
        events.push(next(&mut source).await);
    }
    let positions: Vec<_> = events.iter().map(|event| event.value().position().clone()).collect();
    let mut batch = CommitBatch::new();
    batch.push(events.pop().unwrap().split().1);
    events.pop().unwrap().skip();
    let mut stored = Box::pin(batch.commit());
    assert!(stored.as_mut().now_or_never().is_none());
    assert_eq!(checkpoint(&aws, FIRST).await, Some(Checkpoint::TrimHorizon));
    events.pop().unwrap().commit();
    soon("the commit", stored).await.unwrap();
    assert_eq!(checkpoint(&aws, FIRST).await, Some(Checkpoint::At(positions[2].clone())));
    source.stop().await.unwrap();
}

#[actix::test]
async fn what_fails_or_is_dropped_comes_again() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..2);
    let mut source = source(conf(&aws));
    let (failing, dropped) = (next(&mut source).await, next(&mut source).await);
    assert_eq!((failing.commit_handle().attempt(), dropped.commit_handle().attempt()), (1, 1));
    failing.fail("not today");
    drop(dropped);
    let mut again = Vec::new();
    for _ in 0..2 {
        let event = next(&mut source).await;
        assert_eq!(event.commit_handle().attempt(), 2);
        again.push(text(&event));
        event.commit();
    }
    again.sort();
    assert_eq!(again, ["0", "1"]);
    assert!(source.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn values_keep_the_commit_of_their_event() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..100);
    let source = source(conf(&aws));
    let control = source.control();
    let doubled = source
        .map_ok(|event| async {
            let number = event.map(|event| String::from_utf8_lossy(event.payload()).parse::<usize>());
            Ok(number.or_fail().unwrap().map_async(|number| async move { 2 * number }).await)
        })
        .try_buffered(10);
    let numbers: Vec<_> = doubled.take(100).try_collect().await.unwrap();
    for (index, number) in numbers.into_iter().enumerate() {
        assert_eq!(*number.value(), 2 * index);
        number.commit();
    }
    assert!(soon("the end", control.finished()).await.unwrap().is_clean());
}

#[actix::test]
async fn a_stop_gives_back_what_waits_and_needs_no_polls() {
    let aws = local_aws(2).await;
    put_numbers(&aws, 0..100);
    let mut source = source(conf(&aws));
    next(&mut source).await.commit();
    let control = source.control();
    assert!(soon("the stop", control.stop()).await.unwrap().is_clean());
    assert!(source.next().await.is_none());
}

#[actix::test]
async fn a_drain_still_gives_what_waits_and_then_the_end() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..100);
    let mut conf = conf(&aws);
    conf.worker.max_in_flight_events = 40;
    let mut source = source(conf);
    next(&mut source).await.commit();
    let control = source.control();
    // So many wait when no more may.
    soon(
        "a full queue",
        control.consumer().watch().wait_for(|status| status.shards.iter().any(|shard| shard.in_flight == 40)),
    )
    .await
    .unwrap();
    let drain = actix::spawn(async move { control.drain().await });
    let mut drained = 0;
    while let Some(event) = soon("the end", source.try_next()).await.unwrap() {
        event.commit();
        drained += 1;
    }
    assert!(drained >= 40, "{drained}");
    assert!(drain.await.unwrap().unwrap().is_clean());
    assert_eq!(aws.records(STREAM).unwrap().len(), 100);
}

#[actix::test]
async fn a_pause_lets_events_wait() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..10);
    let mut source = source(conf(&aws));
    next(&mut source).await.commit();
    let control = source.control();
    control.pause();
    assert!(source.next().now_or_never().is_none());
    control.resume();
    next(&mut source).await.commit();
    source.stop().await.unwrap();
}

#[actix::test]
async fn a_consumer_that_fails_ends_the_stream_with_its_error() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.stream_name = "missing".to_owned();
    let mut source = source(conf);
    let end = soon("the error", source.next()).await.unwrap();
    assert!(matches!(end, Err(ConsumerError::Stream(_))), "{end:?}");
    assert!(source.next().await.is_none());
}

#[actix::test]
async fn an_event_that_fails_once_too_often_comes_again_when_its_shard_has_started_again() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..3);
    let mut conf = conf(&aws);
    conf.worker.failure_tolerance_percentage = 0.0;
    let mut source = source(conf);
    let mut failures = 0;
    let mut done = Vec::new();
    while done.len() < 3 {
        let event = next(&mut source).await;
        match text(&event).as_str() {
            "0" if failures < 4 => {
                failures += 1;
                event.fail("not yet");
            }
            number => {
                if !done.contains(&number.to_owned()) {
                    done.push(number.to_owned());
                }
                event.commit();
            }
        }
    }
    assert!(source.control().status().shards[0].restarts >= 1);
    until_checkpoint(&aws, FIRST, |checkpoint| matches!(checkpoint, Checkpoint::At(_))).await;
    source.stop().await.unwrap();
}

#[actix::test]
async fn events_of_a_key_come_one_after_the_other_where_that_is_asked_for() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..100);
    aws.split(STREAM, FIRST).unwrap();
    let mut conf = conf(&aws);
    conf.worker.concurrency = Concurrency::Key(4);
    let mut sources = shard_sources(conf);
    let mut shard = soon("a shard", sources.next()).await.unwrap().unwrap();
    let mut held: Vec<CommittableEvent> = Vec::new();
    let mut seen = Vec::new();
    while let Some(event) = soon("an event", shard.next()).await {
        let key = |event: &CommittableEvent| event.value().partition_key().unwrap().to_owned();
        assert!(held.iter().all(|other| key(other) != key(&event)));
        seen.push(text(&event).parse::<usize>().unwrap());
        held.push(event);
        if held.len() == 4 {
            held.drain(..).for_each(|event| event.commit());
        }
    }
    held.into_iter().for_each(|event| event.commit());
    for key in 0..10 {
        let of_key: Vec<_> = seen.iter().filter(|number| *number % 10 == key).collect();
        assert!(of_key.len() == 10 && of_key.is_sorted(), "{of_key:?}");
    }
    until_checkpoint(&aws, FIRST, |checkpoint| *checkpoint == Checkpoint::ShardEnd).await;
    sources.consumer().stop().await.unwrap();
}

#[actix::test]
async fn trouble_on_the_way_loses_nothing() {
    let aws = local_aws(2).await;
    aws.faults().add(Fault::on("GetRecords").times(3).throttle());
    put_numbers(&aws, 0..100);
    let mut source = source(conf(&aws));
    let mut seen = BTreeSet::new();
    while seen.len() < 100 {
        let event = next(&mut source).await;
        seen.insert(text(&event));
        event.commit();
    }
    source.stop().await.unwrap();
}
