//! `ordering = partition-key`.

use kinesis_lease::StreamErrorKind;

use super::bench::{Bench, MS, SECOND, conf, events};
use crate::config::{Ordering, ProducerConf};
use crate::producer::event::ProducerEvent;

fn ordered() -> ProducerConf {
    let mut conf = conf();
    conf.ordering = Ordering::PartitionKey;
    conf
}

fn read(bench: &Bench, key: &str) -> Vec<usize> {
    bench.read().remove(key).unwrap_or_default()
}

#[test]
fn events_of_a_key_wait_for_the_record_with_those_before_them() {
    let mut bench = Bench::new(ordered(), 1);
    for _ in 0..2 {
        bench.send("a");
    }
    bench.pass(100 * MS);
    assert_eq!(bench.waiting.len(), 1);
    bench.send("a");
    bench.send("b");
    bench.pass(100 * MS);
    let second: Vec<_> = bench.waiting[1].records.iter().flat_map(events).map(|(index, _)| index).collect();
    assert_eq!(second, [3]);
    bench.answer(1, |_, _| None);
    bench.answer(0, |_, _| Some("InternalFailure"));
    bench.run(SECOND);
    assert_eq!((read(&bench, "a"), read(&bench, "b")), (vec![0, 1, 2], vec![3]));
}

#[test]
fn keys_do_not_wait_for_each_other() {
    let mut conf = ordered();
    conf.aggregation.enabled = false;
    let mut bench = Bench::new(conf, 1);
    for _ in 0..2 {
        for key in 0..100 {
            bench.send(&format!("key-{key}"));
        }
    }
    bench.pass(100 * MS);
    assert_eq!(bench.waiting[0].records.len(), 100);
    bench.answer(0, |index, _| (index == 0).then_some("InternalFailure"));
    assert_eq!(bench.waiting[0].records.len(), 99);
    bench.run(SECOND);
    assert!(bench.read().values().all(|read| read.is_sorted() && read.len() == 2));
}

#[test]
fn a_lost_reply_repeats_events_and_keeps_their_order() {
    let mut bench = Bench::new(ordered(), 1);
    for _ in 0..3 {
        bench.send("a");
    }
    bench.pass(100 * MS);
    for _ in 0..3 {
        bench.send("a");
    }
    bench.fail(0, StreamErrorKind::Unavailable, true);
    bench.run(SECOND);
    assert_eq!(read(&bench, "a"), [0, 1, 2, 0, 1, 2, 3, 4, 5]);
    assert!(bench.outcomes[&0].as_ref().unwrap().attempts[0].error.as_ref().unwrap().may_be_stored);
}

#[test]
fn an_event_that_expires_lets_the_next_ones_of_its_key_go() {
    let mut bench = Bench::new(ordered(), 1);
    bench.send("a");
    bench.pass(100 * MS);
    bench.pass(20 * SECOND);
    bench.send("a");
    bench.fail(0, StreamErrorKind::Unavailable, false);
    bench.waiting.clear();
    for _ in 0..3 {
        bench.pass(4 * SECOND);
        while !bench.waiting.is_empty() {
            bench.fail(0, StreamErrorKind::Unavailable, false);
        }
    }
    assert!(bench.outcomes[&0].is_err() && !bench.outcomes.contains_key(&1));
    bench.run(10 * SECOND);
    assert_eq!(read(&bench, "a"), [1]);
}

#[test]
fn a_key_with_two_hash_keys_keeps_its_order_in_both_shards() {
    let mut bench = Bench::new(ordered(), 2);
    for byte in [0u128, 255, 0, 255] {
        let key = kinesis_record::HashKey(byte << 120);
        bench.send_event(|payload| ProducerEvent::new("a", payload).with_explicit_hash_key(key), 0);
    }
    bench.run(2 * SECOND);
    assert_eq!(read(&bench, "a"), [0, 1, 2, 3]);
}

#[test]
fn a_split_keeps_the_order() {
    let mut bench = Bench::new(ordered(), 1);
    for round in 0..50 {
        for key in 0..20 {
            bench.send(&format!("key-{key}"));
        }
        if round == 10 || round == 20 {
            bench.split(0);
        }
        bench.pass(20 * MS);
        if round % 3 == 0 && !bench.waiting.is_empty() {
            bench.answer(0, |_, _| None);
        }
        if bench.is_listing && round % 4 == 0 {
            bench.list();
        }
    }
    bench.run(5 * SECOND);
    assert_eq!(bench.succeeded(), 1000);
    for (key, read) in bench.read() {
        assert!(read.is_sorted() && read.len() == 50, "{key}: {read:?}");
    }
}
