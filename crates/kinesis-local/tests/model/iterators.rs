use kinesis_local::model::StartingPosition::{
    AfterSequenceNumber, AtSequenceNumber, AtTimestamp, Latest, TrimHorizon,
};
use kinesis_local::model::{StreamTarget, Timestamp};
use proptest::prelude::*;

use crate::{Bench, HOUR, SHARD_0, SHARD_1, code, texts};

#[test]
fn each_type_starts_where_it_says() {
    let mut bench = Bench::new(1);
    bench.put("one");
    bench.pass(10);
    let two = bench.put("two");
    let at_two = bench.now;
    bench.pass(10);
    bench.put("three");
    let number = || two.sequence_number.to_string();

    assert_eq!(texts(&bench.read(SHARD_0, TrimHorizon)), ["one", "two", "three"]);
    assert_eq!(texts(&bench.read(SHARD_0, AtSequenceNumber(number()))), ["two", "three"]);
    assert_eq!(texts(&bench.read(SHARD_0, AfterSequenceNumber(number()))), ["three"]);
    assert_eq!(texts(&bench.read(SHARD_0, AtTimestamp(at_two))), ["two", "three"]);
    assert_eq!(texts(&bench.read(SHARD_0, Latest)), [""; 0]);
}

#[test]
fn latest_is_behind_the_newest_record_at_the_moment_of_the_call() {
    let mut bench = Bench::new(1);
    bench.put("before");
    let latest = bench.iterator(SHARD_0, Latest).unwrap();
    bench.put("between");
    bench.put("after");
    assert_eq!(texts(&bench.get(&latest, None).unwrap()), ["between", "after"]);
    assert_eq!(texts(&bench.get(&latest, None).unwrap()), ["between", "after"], "as often as one likes");
}

#[test]
fn the_bounds_of_a_shard_are_positions_in_it() {
    let mut bench = Bench::new(1);
    bench.put("one");
    let start = bench.shards()[0].starting_sequence.to_string();
    assert_eq!(texts(&bench.read(SHARD_0, AtSequenceNumber(start.clone()))), ["one"]);
    assert_eq!(texts(&bench.read(SHARD_0, AfterSequenceNumber(start))), ["one"]);
    bench.split(SHARD_0, 1000).unwrap();
    let ending = bench.shards()[0].ending_sequence.clone().unwrap().to_string();
    for position in [AtSequenceNumber(ending.clone()), AfterSequenceNumber(ending)] {
        let page = bench.read(SHARD_0, position);
        assert_eq!((page.records.len(), page.next_shard_iterator), (0, None));
        assert_eq!(page.child_shards.len(), 2);
    }
}

#[test]
fn a_number_that_the_shard_has_not_given_is_refused() {
    let mut bench = Bench::new(2);
    let record = bench.put("one");
    let (own, other) =
        if record.shard_id.as_str() == SHARD_0 { (SHARD_0, SHARD_1) } else { (SHARD_1, SHARD_0) };
    let number = record.sequence_number.to_string();
    let one_more = format!("{}{}", &number[..55], (number.as_bytes()[55] - b'0' + 1) % 10);
    let garbage = ["", "0", "5", "abc", "-1", "LATEST", &"9".repeat(56), &one_more];
    for text in garbage {
        let position = AtSequenceNumber(text.to_owned());
        assert_eq!(code(bench.iterator(own, position)), "InvalidArgumentException", "{text:?}");
    }
    let elsewhere = AfterSequenceNumber(number.clone());
    assert_eq!(code(bench.iterator(other, elsewhere)), "InvalidArgumentException");

    bench.model.delete_stream(&StreamTarget::from("flights"), bench.now).unwrap();
    bench.pass(1_000);
    bench.create("flights", 2);
    let from_a_stream_before = AfterSequenceNumber(number);
    assert_eq!(code(bench.iterator(own, from_a_stream_before)), "InvalidArgumentException");
}

#[test]
fn a_number_whose_record_is_gone_starts_at_the_oldest_record() {
    let mut bench = Bench::new(1);
    let gone = bench.put("one").sequence_number.to_string();
    bench.pass(23 * HOUR);
    bench.put("two");
    bench.pass(2 * HOUR);
    assert_eq!(texts(&bench.read(SHARD_0, AtSequenceNumber(gone.clone()))), ["two"]);
    assert_eq!(texts(&bench.read(SHARD_0, AfterSequenceNumber(gone))), ["two"]);
}

#[test]
fn a_timestamp_in_the_future_is_refused_and_one_of_long_ago_is_fine() {
    let mut bench = Bench::new(1);
    bench.put("one");
    let (now, future) = (bench.now, Timestamp::from_millis(bench.now.as_millis() + 1));
    assert_eq!(code(bench.iterator(SHARD_0, AtTimestamp(future))), "InvalidArgumentException");
    assert_eq!(texts(&bench.read(SHARD_0, AtTimestamp(now))), ["one"]);
    assert_eq!(texts(&bench.read(SHARD_0, AtTimestamp(Timestamp::from_millis(0)))), ["one"]);
}

#[test]
fn a_missing_shard_or_stream_is_not_found() {
    let mut bench = Bench::new(1);
    for shard in [SHARD_1, "shardId-0", "shardId-", "", "0", "shardId-0000000000000"] {
        assert_eq!(code(bench.iterator(shard, Latest)), "ResourceNotFoundException", "{shard:?}");
    }
    let held = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    bench.model.delete_stream(&StreamTarget::from("flights"), bench.now).unwrap();
    assert_eq!(code(bench.iterator(SHARD_0, Latest)), "ResourceNotFoundException");
    assert_eq!(code(bench.get(&held, None)), "ResourceNotFoundException");
    bench.pass(1);
    bench.create("flights", 1);
    bench.put("of another stream");
    assert_eq!(code(bench.get(&held, None)), "ResourceNotFoundException");
}

#[test]
fn an_iterator_expires_after_five_minutes_by_the_clock_of_the_call() {
    let mut bench = Bench::new(1);
    let first = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    bench.pass(300_000);
    let second = bench.get(&first, None).unwrap().next_shard_iterator.unwrap();
    bench.pass(1);
    assert_eq!(code(bench.get(&first, None)), "ExpiredIteratorException");
    bench.get(&second, None).unwrap();
}

#[test]
fn what_is_no_iterator_is_refused() {
    let mut bench = Bench::new(1);
    let good = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    let mut other_case = good.clone();
    other_case.make_ascii_lowercase();
    for text in
        ["", "garbage", "AAAAAAAAAAE=", &good[..good.len() - 4], &other_case, &format!("{good}{good}")]
    {
        assert_eq!(code(bench.get(text, None)), "InvalidArgumentException", "{text:?}");
    }
}

proptest! {
    #[test]
    fn reading_from_an_instant_starts_at_the_first_record_that_came_then_or_later(
        gaps in prop::collection::vec(0..4u64, 1..30),
        back in 0..60u64,
    ) {
        let mut bench = Bench::new(1);
        let mut arrivals = Vec::new();
        for gap in gaps {
            bench.pass(gap);
            bench.put("x");
            arrivals.push(bench.now);
        }
        let instant = Timestamp::from_millis(bench.now.as_millis() - back);
        let page = bench.read(SHARD_0, AtTimestamp(instant));
        let expected: Vec<Timestamp> = arrivals.into_iter().filter(|arrival| *arrival >= instant).collect();
        let read: Vec<Timestamp> = page.records.iter().map(|record| record.arrival).collect();
        prop_assert_eq!(read, expected);
    }
}
