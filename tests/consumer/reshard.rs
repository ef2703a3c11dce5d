//! Shards split and merge while they are read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use actix::Actor;
use actix_kinesis::consumer::{ConsumerNotice, EventHandle, EventProcessed, ShutdownReason};
use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;

use crate::support::*;

const KEYS: usize = 16;

/// Puts so many records for each of the keys, numbered from `from` on.
fn put_round(aws: &LocalAws, from: usize, count: usize) {
    for index in from..from + count {
        for key in 0..KEYS {
            aws.put(STREAM, &format!("key-{key}"), index.to_string()).unwrap();
        }
    }
}

fn open_shards(aws: &LocalAws) -> Vec<String> {
    let shards = aws.shards(STREAM).unwrap();
    let mut open: Vec<_> = shards.into_iter().filter(|shard| shard.is_open()).collect();
    open.sort_by_key(|shard| shard.hash_range.start);
    open.into_iter().map(|shard| shard.id.to_string()).collect()
}

#[actix::test]
async fn a_split_and_a_merge_under_load_lose_nothing_and_keep_the_order_of_each_key() {
    let aws = local_aws(2).await;
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let recorder = Recorder::new(&notes).start();
    let consumer = builder(conf, recorder.clone()).notices(recorder.recipient()).start().unwrap();

    put_round(&aws, 0, 20);
    notes.wait_for("the first round", |noted| noted.deliveries.len() >= KEYS * 5).await;
    put_round(&aws, 20, 20);
    aws.split(STREAM, &open_shards(&aws)[0]).unwrap();
    put_round(&aws, 40, 20);
    let open = open_shards(&aws);
    aws.merge(STREAM, &open[1], &open[2]).unwrap();
    put_round(&aws, 60, 20);
    let noted = notes.wait_for("all rounds", |noted| noted.deliveries.len() >= KEYS * 80).await;

    let wanted: Vec<String> = (0..80).map(|index| index.to_string()).collect();
    let by_key = noted.first_by_key();
    assert_eq!(by_key.len(), KEYS);
    for (key, payloads) in by_key {
        assert_eq!(payloads, wanted, "key {key}");
    }
    let mut ended = HashMap::new();
    let parents: HashMap<String, Vec<String>> = aws
        .shards(STREAM)
        .unwrap()
        .into_iter()
        .map(|shard| (shard.id.to_string(), shard.parents.iter().map(ToString::to_string).collect()))
        .collect();
    for notice in &noted.notices {
        match notice {
            ConsumerNotice::ShardEnded { shard } => drop(ended.insert(shard.to_string(), ())),
            ConsumerNotice::ShardStarted { shard, .. } => {
                for parent in &parents[shard.as_str()] {
                    assert!(ended.contains_key(parent), "{shard} started before its parent {parent} ended");
                }
            }
            _ => {}
        }
    }
    assert!(consumer.stop().await.unwrap().is_clean());
    let rows = rows(&aws, &table).await;
    for shard in aws.shards(STREAM).unwrap() {
        let row = &rows[shard.id.as_str()];
        let is_at_end = text(row, "checkpoint").as_deref() == Some("SHARD_END");
        assert_eq!(is_at_end, !shard.is_open(), "{}", shard.id);
    }
}

#[actix::test]
async fn the_end_of_a_shard_is_stored_only_when_every_event_is_answered() {
    let aws = local_aws(1).await;
    let parent = open_shards(&aws).remove(0);
    for index in 0..100 {
        aws.put(STREAM, "key", index.to_string()).unwrap();
    }
    let notes = new_notes();
    let held: Arc<Mutex<Vec<EventHandle>>> = Arc::default();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let of_parent = parent.clone();
    let recorder = Recorder::answering(&notes, {
        let held = Arc::clone(&held);
        move |message| {
            let is_held = message.event.payload() == "60";
            if !is_held || message.event.shard().as_str() != of_parent {
                return EventProcessed::Processed;
            }
            held.lock().unwrap().push(message.answer_later());
            EventProcessed::Later
        }
    });
    let recorder = recorder.start();
    let consumer = builder(conf, recorder.clone()).notices(recorder.recipient()).start().unwrap();

    aws.split(STREAM, &parent).unwrap();
    aws.put(STREAM, "key", "of a child").unwrap();
    notes.wait_for("the parent's records", |noted| noted.deliveries.len() >= 100).await;
    eventually("the checkpoint stands before the held event", async || {
        let rows = rows(&aws, &table).await;
        let noted = notes.now();
        let before = noted.deliveries.iter().find(|delivery| delivery.payload == "59").unwrap();
        text(&rows[&parent], "checkpoint").as_deref() == Some(&before.sequence)
    })
    .await;
    assert_eq!(notes.now().deliveries.len(), 100, "no record of a child comes before the parent's end");

    held.lock().unwrap().remove(0).answer(EventProcessed::Processed);
    let noted = notes.wait_for("the child's record", |noted| noted.deliveries.len() > 100).await;
    assert_eq!(noted.deliveries[100].payload, "of a child");
    assert_eq!(text(&rows(&aws, &table).await[&parent], "checkpoint").as_deref(), Some("SHARD_END"));
    assert!(noted.shutdowns.iter().any(|shutdown| {
        shutdown.shard.as_str() == parent && shutdown.reason == ShutdownReason::ShardEnded
    }));
    assert!(consumer.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn an_exhausted_shard_is_not_called_any_more() {
    let aws = local_aws(1).await;
    let parent = open_shards(&aws).remove(0);
    aws.put(STREAM, "key", "last").unwrap();
    aws.split(STREAM, &parent).unwrap();
    let notes = new_notes();
    let conf = quick_conf(&aws);
    let table = conf.table_name();
    let first = start_noting(conf.clone(), &notes);
    let started = |noted: &Noted| {
        let started = |notice: &&ConsumerNotice| matches!(notice, ConsumerNotice::ShardStarted { .. });
        noted.notices.iter().filter(started).count()
    };
    notes.wait_for("both children", |noted| started(noted) == 3).await;

    // The shard has left the stream, whoever asks for it.
    let of_parent = ["GetShardIterator", "GetRecords"]
        .map(|call| aws.faults().add(Fault::on(call).shard(&parent).error("ResourceNotFoundException")));
    let children = open_shards(&aws);
    let polls = async |times| {
        let reads = children.iter().map(|child| aws.faults().add(Fault::on("GetRecords").shard(child)));
        let lists = aws.faults().add(Fault::on("ListShards"));
        for read in reads.collect::<Vec<_>>() {
            struck(&read, times).await;
        }
        struck(&lists, 2).await;
    };
    polls(10).await;
    assert!(first.stop().await.unwrap().is_clean());
    let second = start_noting(conf, &notes);
    notes.wait_for("the children again", |noted| started(noted) == 5).await;
    polls(10).await;
    assert!(second.stop().await.unwrap().is_clean());

    assert_eq!(of_parent.map(|call| call.seen()), [0, 0]);
    let noted = notes.now();
    assert_eq!(noted.payloads(), ["last"]);
    let is_told = |notice: &&ConsumerNotice| {
        matches!(notice, ConsumerNotice::ShardEnded { .. } | ConsumerNotice::Gap { .. })
    };
    assert_eq!(noted.notices.iter().filter(is_told).count(), 1, "its end, once");
    assert_eq!(text(&rows(&aws, &table).await[&parent], "checkpoint").as_deref(), Some("SHARD_END"));
}
