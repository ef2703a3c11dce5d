//! [`ShardSources`](actix_kinesis::stream::ShardSources): a stream for each shard.

use std::collections::BTreeSet;

use actix_kinesis::Checkpoint;
use actix_kinesis::stream::{ShardSource, ShardSources};
use futures::StreamExt;

use crate::support::*;

async fn next_shard(sources: &mut ShardSources) -> ShardSource {
    soon("a shard", sources.next()).await.unwrap().unwrap()
}

#[actix::test]
async fn each_shard_has_a_stream_that_ends_with_it_and_its_children_follow() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..20);
    let mut sources = shard_sources(conf(&aws));
    let mut parent = next_shard(&mut sources).await;
    assert_eq!(parent.shard().as_str(), FIRST);
    let children = aws.split(STREAM, FIRST).unwrap();
    put_numbers(&aws, 20..40);
    // All are taken before the first is committed: the end comes although nothing is done with.
    let events: Vec<_> = soon("the end", parent.by_ref().collect::<Vec<_>>()).await;
    let numbers: Vec<_> = events.iter().map(text).collect();
    assert_eq!(numbers, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_ne!(checkpoint(&aws, FIRST).await, Some(Checkpoint::ShardEnd));
    events.into_iter().for_each(|event| event.commit());
    until_checkpoint(&aws, FIRST, |checkpoint| *checkpoint == Checkpoint::ShardEnd).await;
    let mut seen = BTreeSet::new();
    let mut streams = futures::stream::SelectAll::new();
    for _ in 0..2 {
        let child = next_shard(&mut sources).await;
        assert!(children.iter().any(|id| id == child.shard()));
        streams.push(child);
    }
    while seen.len() < 20 {
        let event = soon("an event", streams.next()).await.unwrap();
        assert!(seen.insert(text(&event)));
        event.commit();
    }
    assert!(sources.consumer().stop().await.unwrap().is_clean());
    assert!(sources.next().await.is_none());
}

#[actix::test]
async fn a_shard_whose_stream_is_dropped_starts_again_behind_its_checkpoint() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..20);
    let mut sources = shard_sources(conf(&aws));
    let mut first = next_shard(&mut sources).await;
    for _ in 0..10 {
        soon("an event", first.next()).await.unwrap().commit();
    }
    drop(first);
    let mut second = next_shard(&mut sources).await;
    for number in 10..20 {
        let event = soon("an event", second.next()).await.unwrap();
        assert_eq!(text(&event), number.to_string());
        event.commit();
    }
    assert!(sources.consumer().stop().await.unwrap().is_clean());
}

#[actix::test]
async fn what_fails_after_the_end_comes_by_the_shards_next_stream() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..5);
    aws.split(STREAM, FIRST).unwrap();
    let mut sources = shard_sources(conf(&aws));
    let mut first = next_shard(&mut sources).await;
    let mut events: Vec<_> = soon("the end", first.by_ref().collect::<Vec<_>>()).await;
    assert_eq!(events.len(), 5);
    events.pop().unwrap().fail("not today");
    events.into_iter().for_each(|event| event.commit());
    let mut second = next_shard(&mut sources).await;
    let event = soon("an event", second.next()).await.unwrap();
    assert_eq!((second.shard().as_str(), text(&event).as_str()), (FIRST, "4"));
    event.commit();
    until_checkpoint(&aws, FIRST, |checkpoint| *checkpoint == Checkpoint::ShardEnd).await;
    sources.consumer().stop().await.unwrap();
}
