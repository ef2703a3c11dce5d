//! Into which Kinesis records and calls events go, and when.

use std::collections::BTreeSet;

use kinesis_record::HashKey;

use super::bench::{Bench, MS, SECOND, conf, events};
use crate::config::ProducerConf;
use crate::producer::event::ProducerEvent;

/// The indices of the events in each Kinesis record of each waiting call.
fn waiting(bench: &Bench) -> Vec<Vec<Vec<usize>>> {
    let indices = |record| events(record).into_iter().map(|(index, _)| index).collect();
    bench.waiting.iter().map(|call| call.records.iter().map(indices).collect()).collect()
}

fn without_aggregation() -> ProducerConf {
    let mut conf = conf();
    conf.aggregation.enabled = false;
    conf
}

#[test]
fn events_of_a_shard_go_as_one_record_when_the_buffered_time_is_over() {
    let mut bench = Bench::new(conf(), 1);
    for key in 0..3 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(99 * MS);
    assert!(bench.waiting.is_empty());
    bench.pass(MS);
    assert_eq!(waiting(&bench), [[[0, 1, 2]]]);
    let record = &bench.waiting[0].records[0];
    assert_eq!(&*record.partition_key, "a");
    assert_eq!(record.explicit_hash_key, Some(HashKey::of_partition_key("key-0")));
    bench.answer(0, |_, _| None);
    let subs: Vec<_> = bench.outcomes.values().map(|it| it.as_ref().unwrap().sub_sequence).collect();
    assert_eq!(subs, [Some(0), Some(1), Some(2)]);
}

#[test]
fn a_single_event_goes_as_it_is() {
    let mut bench = Bench::new(conf(), 1);
    bench.send("key");
    bench.pass(100 * MS);
    let record = &bench.waiting[0].records[0];
    assert_eq!(
        (&*record.partition_key, &record.data[..], record.explicit_hash_key),
        ("key", &b"0;"[..], None)
    );
    bench.answer(0, |_, _| None);
    assert_eq!(bench.outcomes[&0].as_ref().unwrap().sub_sequence, None);
}

#[test]
fn an_aggregate_has_the_events_of_one_shard() {
    let mut bench = Bench::new(conf(), 4);
    for key in 0..100 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(100 * MS);
    assert_eq!(bench.waiting[0].records.len(), 4);
    bench.answer_all();
    assert!(bench.stored.iter().all(|stored| !stored.is_dropped()));
    assert_eq!(bench.succeeded(), 100);
}

#[test]
fn each_aggregate_is_routed_by_its_own_first_event() {
    let mut conf = conf();
    conf.aggregation.max_count = 2;
    let mut bench = Bench::new(conf, 4);
    for byte in [0u128, 0, 255, 255] {
        let event = |payload| ProducerEvent::new("key", payload).with_explicit_hash_key(HashKey(byte << 120));
        bench.send_event(event, 0);
    }
    bench.pass(100 * MS);
    bench.answer_all();
    let shards: BTreeSet<_> =
        bench.stored.iter().map(|stored| (stored.shard.to_string(), stored.events.len())).collect();
    assert_eq!(shards, BTreeSet::from([("shardId-0".to_owned(), 2), ("shardId-3".to_owned(), 2)]));
}

#[test]
fn the_first_and_the_last_hash_key_find_the_first_and_the_last_shard() {
    let mut bench = Bench::new(without_aggregation(), 4);
    for key in [HashKey::MIN, HashKey::MAX] {
        bench.send_event(|payload| ProducerEvent::new("key", payload).with_explicit_hash_key(key), 0);
    }
    bench.run(SECOND);
    let shard = |index: usize| bench.outcomes[&index].as_ref().unwrap().shard.to_string();
    assert_eq!((shard(0), shard(1)), ("shardId-0".to_owned(), "shardId-3".to_owned()));
}

#[test]
fn an_aggregate_is_closed_by_its_count_and_by_its_exact_size() {
    let mut conf = conf();
    conf.aggregation.max_count = 3;
    conf.aggregation.max_size = 400;
    let mut bench = Bench::new(conf, 1);
    for _ in 0..4 {
        bench.send("key");
    }
    for _ in 0..3 {
        bench.send_event(|payload| ProducerEvent::new("key", payload), 150);
    }
    // Too large to be packed at all.
    bench.send_event(|payload| ProducerEvent::new("key", payload), 500);
    bench.pass(100 * MS);
    let mut records = waiting(&bench).remove(0);
    records.sort();
    assert_eq!(records, [vec![0, 1, 2], vec![3, 4, 5], vec![6], vec![7]]);
    let lens: Vec<_> = bench.waiting[0].records.iter().map(|record| record.data.len()).collect();
    assert!(lens.iter().all(|len| *len <= 400 || *len == 500), "{lens:?}");
}

#[test]
fn an_aggregate_is_as_large_as_it_may_be_to_the_byte() {
    for max_size in 180..230 {
        let mut conf = conf();
        conf.aggregation.max_size = max_size;
        let mut bench = Bench::new(conf, 1);
        for _ in 0..2 {
            bench.send_event(|payload| ProducerEvent::new("key", payload), 75);
        }
        bench.pass(100 * MS);
        // Magic number and MD5, the key, and each event with its key's index and two lengths.
        let len = 20 + 5 + 2 * (4 + 2 + 75);
        let records = if max_size < len as u64 { vec![vec![0], vec![1]] } else { vec![vec![0, 1]] };
        assert_eq!(waiting(&bench), [records], "{max_size}");
    }
}

#[test]
fn a_call_is_full_by_its_count_and_by_its_size() {
    let mut conf = without_aggregation();
    conf.collection.max_count = 3;
    conf.collection.max_size = 60_000;
    let mut bench = Bench::new(conf, 1);
    for _ in 0..4 {
        bench.send("key");
    }
    bench.poll();
    assert_eq!(waiting(&bench), [[[0], [1], [2]]]);
    for _ in 0..3 {
        bench.send_event(|payload| ProducerEvent::new("key", payload), 25_000);
    }
    bench.pass(100 * MS);
    assert_eq!(waiting(&bench)[1..], [vec![vec![3], vec![4], vec![5]], vec![vec![6]]]);
    // Larger than a call: alone.
    bench.send_event(|payload| ProducerEvent::new("key", payload), 70_000);
    bench.pass(100 * MS);
    assert_eq!(waiting(&bench).last().unwrap(), &[[7]]);
}

#[test]
fn many_sends_make_few_calls() {
    let mut bench = Bench::new(without_aggregation(), 4);
    for index in 0..10_000 {
        bench.send(&format!("key-{index}"));
        if index % 10 == 9 {
            bench.run(MS);
        }
    }
    bench.run(SECOND);
    assert_eq!(bench.succeeded(), 10_000);
    let calls = bench.pipeline.calls_made;
    assert!(calls <= 10_000 / 500 + 1_000 / 100 + 1, "{calls} calls");
}

#[test]
fn without_a_buffered_time_nothing_waits() {
    let mut conf = conf();
    conf.record_max_buffered_time = std::time::Duration::ZERO;
    let mut bench = Bench::new(conf, 1);
    bench.send("key");
    bench.poll();
    assert_eq!(waiting(&bench), [[[0]]]);
}

#[test]
fn a_flush_sends_at_once_and_reports_what_became_of_all_before_it() {
    let mut conf = conf();
    conf.fail_if_throttled = true;
    let mut bench = Bench::new(conf, 2);
    for key in 0..10 {
        bench.send(&format!("key-{key}"));
    }
    let mut flushed = bench.flush();
    assert_eq!(bench.waiting.len(), 1);
    let first = events(&bench.waiting[0].records[0]).len() as u64;
    bench.send("later");
    assert!(flushed.try_recv().is_err());
    bench.answer(0, |index, _| (index == 0).then_some("ProvisionedThroughputExceededException"));
    let flushed = flushed.try_recv().unwrap();
    assert_eq!((flushed.sent, flushed.failed), (10 - first, first));
    assert!(!flushed.is_clean());
    assert_eq!(bench.pipeline.outstanding(), 1);
    assert!(bench.flush().try_recv().is_err());
    bench.answer_all();
    assert_eq!(bench.flush().try_recv().unwrap().sent, 0);
}

#[test]
fn a_flush_sends_what_is_ready_and_waits_for_others_to_go_with_it() {
    for conf in [without_aggregation(), conf()] {
        let mut bench = Bench::new(conf, 1);
        bench.send("key-0");
        bench.send("key-1");
        bench.pass(90 * MS);
        // An aggregate is closed by now, and waits for a call as single events do.
        assert!(bench.waiting.is_empty() && bench.pipeline.wake_at() == Some(bench.begin + 100 * MS));
        let _flushed = bench.flush();
        assert_eq!(waiting(&bench).into_iter().flatten().flatten().collect::<Vec<_>>(), [0, 1]);
    }
}

#[test]
fn what_comes_after_a_flush_is_packed_while_its_outcome_is_awaited() {
    let mut bench = Bench::new(conf(), 1);
    bench.send("flushed");
    let _flushed = bench.flush();
    assert_eq!(waiting(&bench), [[[0]]]);
    for _ in 0..3 {
        bench.send("later");
        bench.pass(20 * MS);
    }
    assert_eq!(bench.waiting.len(), 1);
    bench.pass(100 * MS);
    assert_eq!(waiting(&bench)[1..], [[[1, 2, 3]]]);
}

#[test]
fn events_wait_for_the_first_list_of_shards_and_are_then_packed() {
    let mut bench = Bench::blank(conf(), 2);
    for key in 0..20 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(SECOND);
    assert!(bench.waiting.is_empty());
    bench.list();
    assert_eq!(bench.waiting[0].records.len(), 2);
}

#[test]
fn without_a_list_of_shards_events_go_one_by_one() {
    let mut bench = Bench::blank(conf(), 2);
    for key in 0..20 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(SECOND);
    bench.fail_list();
    assert_eq!(bench.waiting[0].records.len(), 20);
    bench.answer(0, |_, _| None);
    assert_eq!(bench.succeeded(), 20);
    // What arrived has used up the rate of its shard as soon as that is known.
    bench.pass(3 * SECOND);
    bench.list();
    assert_eq!(bench.pipeline.status("orders").shards.len(), 2);
}

#[test]
fn a_first_list_of_many_pages_is_waited_for_as_long_as_a_call_takes_and_then_used_when_it_comes() {
    let mut conf = conf();
    conf.request_timeout = 2 * SECOND;
    let mut bench = Bench::blank(conf, 2);
    bench.poll();
    bench.send("key-0");
    bench.pass(2 * SECOND);
    assert!(bench.waiting.is_empty() && bench.is_listing);
    let wake = bench.pipeline.wake_at().unwrap();
    bench.pass(wake - bench.now);
    assert_eq!(wake, bench.begin + 3 * SECOND);
    assert_eq!(waiting(&bench), [[[0]]]);
    bench.answer(0, |_, _| None);
    bench.pass(2 * SECOND);
    bench.list();
    assert!(bench.pipeline.status("orders").listed);
    for key in 0..20 {
        bench.send(&format!("key-{key}"));
    }
    bench.run(SECOND);
    assert_eq!((bench.succeeded(), bench.lists), (21, 1));
    assert!(bench.stored.iter().any(|stored| stored.events.len() > 1));
}

#[test]
fn the_old_list_is_used_until_the_new_one_is_there() {
    let mut bench = Bench::new(conf(), 1);
    bench.split(0);
    bench.send("key-0");
    bench.pass(100 * MS);
    bench.answer(0, |_, _| None);
    assert!(bench.is_listing && bench.succeeded() == 1);
    for key in 0..20 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(80 * MS);
    bench.pass(20 * MS);
    assert_eq!(bench.waiting[0].records.len(), 1);
    // Whether the aggregate is right where it went is not known before the list.
    bench.answer(0, |_, _| None);
    assert_eq!(bench.succeeded(), 1);
    bench.list();
    bench.run(SECOND);
    assert_eq!(bench.succeeded(), 21);
    assert!(bench.outcomes.values().all(|outcome| outcome.as_ref().unwrap().attempts.len() <= 2));
}
