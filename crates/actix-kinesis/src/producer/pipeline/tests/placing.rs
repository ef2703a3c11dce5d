//! Where Kinesis records arrive: an aggregate has to be in the shard of all its records.

use kinesis_lease::StreamErrorKind;

use super::bench::{Bench, MS, SECOND, conf, single};
use crate::producer::event::ProducerEvent;

#[test]
fn a_single_record_is_never_sent_again_for_its_shard() {
    let mut bench = Bench::new(single(), 1);
    bench.split(0);
    for key in 0..50 {
        bench.send(&format!("key-{key}"));
    }
    bench.run(SECOND);
    assert_eq!((bench.succeeded(), bench.stored.len()), (50, 50));
    assert_eq!(bench.lists, 2);
}

#[test]
fn an_aggregate_over_two_shards_is_sent_again_whole_and_one_within_a_shard_is_not() {
    let mut bench = Bench::new(conf(), 1);
    let key = kinesis_record::HashKey(1);
    for _ in 0..5 {
        bench.send_event(|it| ProducerEvent::new("a", it).with_explicit_hash_key(key), 0);
    }
    bench.pass(100 * MS);
    for key in 0..50 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(100 * MS);
    bench.split(0);
    bench.run(SECOND);
    assert_eq!(bench.succeeded(), 55);
    let copies: usize = bench.stored.iter().map(|stored| stored.events.len()).sum();
    assert_eq!(copies, 5 + 2 * 50);
    assert_eq!(bench.stored.iter().filter(|stored| stored.is_dropped()).count(), 1);
    assert!(bench.lists <= 3, "{} lists", bench.lists);
}

#[test]
fn a_stream_that_is_created_again_takes_what_was_meant_for_its_former_shards() {
    let mut bench = Bench::new(conf(), 2);
    let send = |bench: &mut Bench, byte: u128| {
        let key = kinesis_record::HashKey(byte << 120);
        bench.send_event(|it| ProducerEvent::new("key", it).with_explicit_hash_key(key), 0)
    };
    // Two aggregates under way, of which the first is one for the new shards as well.
    for byte in [0, 1, 130, 250] {
        send(&mut bench, byte);
    }
    bench.pass(100 * MS);
    assert_eq!(bench.waiting[0].records.len(), 2);
    // Its third shard is known by its place: this brings the list.
    send(&mut bench, 255);
    bench.pass(100 * MS);
    bench.create_again(3);
    send(&mut bench, 2);
    send(&mut bench, 120);
    bench.answer(1, |_, _| None);
    bench.list();
    let mut flushed = bench.flush();
    bench.run(SECOND);
    assert_eq!((bench.succeeded(), bench.pipeline.outstanding()), (7, 0));
    assert_eq!(flushed.try_recv().map(|flushed| flushed.sent), Ok(6));
    let placed = bench.outcomes.values().map(|outcome| outcome.as_ref().unwrap().sequence.as_str());
    let placed: Vec<usize> = placed.map(|sequence| sequence.parse().unwrap()).collect();
    assert!(placed.into_iter().all(|at| !bench.stored[at].is_dropped()));
}

#[test]
fn a_list_that_does_not_come_fails_what_hangs_on_it_when_its_time_is_over() {
    let mut bench = Bench::new(conf(), 1);
    bench.split(0);
    for key in 0..50 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(100 * MS);
    bench.answer(0, |_, _| None);
    assert!(bench.outcomes.is_empty() && bench.is_listing);
    bench.pass(30 * SECOND);
    assert_eq!(bench.outcomes.len(), 50);
    assert!(
        bench.outcomes.values().all(|outcome| outcome.as_ref().is_err_and(|error| error.may_be_stored()))
    );
}

#[test]
fn a_list_is_asked_for_when_a_newer_one_than_the_call_does_not_show_its_shard() {
    let mut bench = Bench::new(conf(), 1);
    for key in 0..20 {
        bench.send(&format!("key-{key}"));
    }
    bench.pass(100 * MS);
    bench.send("single");
    bench.pass(100 * MS);
    let before = bench.shards.clone();
    bench.split(0);
    bench.answer(1, |_, _| None);
    // The list is late.
    let split = std::mem::replace(&mut bench.shards, before);
    bench.list();
    bench.shards = split;
    bench.answer(0, |_, _| None);
    bench.run(5 * SECOND);
    assert_eq!(bench.succeeded(), 21);
}

#[test]
fn an_aggregate_in_a_shard_that_the_newest_list_leaves_out_waits_for_another_list() {
    let mut bench = Bench::new(conf(), 1);
    bench.split(0);
    bench.list_again();
    // Both into the upper half, which is shard 2.
    for byte in [250, 130] {
        let key = kinesis_record::HashKey(byte << 120);
        bench.send_event(|it| ProducerEvent::new("key", it).with_explicit_hash_key(key), 0);
    }
    bench.pass(100 * MS);
    bench.create_again(1);
    bench.list_again();
    // Again there is a shard 2, which is but the upper third.
    bench.create_again(3);
    bench.answer(0, |_, _| None);
    assert!(bench.stored[0].is_dropped() && bench.outcomes.is_empty());
    bench.run(5 * SECOND);
    assert_eq!(bench.succeeded(), 2);
    for outcome in bench.outcomes.values() {
        let at: usize = outcome.as_ref().unwrap().sequence.as_str().parse().unwrap();
        assert!(!bench.stored[at].is_dropped(), "{outcome:?}");
    }
}

#[test]
fn a_stream_that_comes_back_after_it_was_gone_is_not_taken_for_the_one_before() {
    let mut bench = Bench::new(conf(), 2);
    // Into the first of two shards, and into the first and the second of three.
    for byte in [10, 100] {
        let key = kinesis_record::HashKey(byte << 120);
        bench.send_event(|it| ProducerEvent::new("key", it).with_explicit_hash_key(key), 0);
    }
    bench.pass(100 * MS);
    bench.fail(0, StreamErrorKind::NotFound, false);
    bench.create_again(3);
    bench.run(5 * SECOND);
    assert_eq!(bench.succeeded(), 2);
    for outcome in bench.outcomes.values() {
        let at: usize = outcome.as_ref().unwrap().sequence.as_str().parse().unwrap();
        assert!(!bench.stored[at].is_dropped(), "{outcome:?}");
    }
}
