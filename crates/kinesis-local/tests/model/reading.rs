use kinesis_local::model::StartingPosition::{Latest, TrimHorizon};
use kinesis_local::model::{GetRecordsRequest, PutRecordsEntry, Settings, ShardEnd, StreamTarget, Timestamp};
use kinesis_record::ShardId;
use proptest::prelude::*;

use crate::{Bench, HOUR, SHARD_0, SHARD_1, SHARD_2, code, texts};

#[test]
fn an_open_shard_always_gives_a_next_iterator() {
    let mut bench = Bench::new(1);
    let mut iterator = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    for round in 0..3 {
        let page = bench.get(&iterator, None).unwrap();
        assert_eq!((page.records.len(), page.millis_behind_latest), (usize::from(round > 0), 0));
        assert!(page.child_shards.is_empty());
        iterator = page.next_shard_iterator.unwrap();
        bench.put("x");
    }
}

#[test]
fn the_end_comes_with_the_last_record_or_in_a_reply_of_its_own() {
    for (shard_end, last_page_has_end) in
        [(ShardEnd::WithLastRecord, true), (ShardEnd::AfterLastRecord, false)]
    {
        let mut bench = Bench::with(Settings { shard_end, ..Default::default() }, 1);
        bench.put("one");
        bench.put("two");
        bench.split(SHARD_0, 1000).unwrap();
        let start = bench.iterator(SHARD_0, TrimHorizon).unwrap();
        let first = bench.get(&start, Some(1)).unwrap();
        assert_eq!((texts(&first), first.child_shards.len()), (vec!["one"], 0));
        let second = bench.get(&first.next_shard_iterator.unwrap(), Some(1)).unwrap();
        assert_eq!(texts(&second), ["two"]);
        assert_eq!(second.next_shard_iterator.is_none(), last_page_has_end);
        assert_eq!(second.child_shards.len(), if last_page_has_end { 2 } else { 0 });
        if let Some(next) = second.next_shard_iterator {
            let end = bench.get(&next, None).unwrap();
            assert_eq!((end.records.len(), end.next_shard_iterator), (0, None));
            assert_eq!(end.child_shards.len(), 2);
        }
    }
}

#[test]
fn an_iterator_held_at_the_tip_of_a_shard_ends_when_the_shard_is_closed() {
    let mut bench = Bench::new(2);
    bench.put("one");
    let held = bench.iterator(SHARD_0, Latest).unwrap();
    bench.merge(SHARD_0, SHARD_1).unwrap();
    let page = bench.get(&held, None).unwrap();
    assert_eq!((page.records.len(), page.next_shard_iterator), (0, None));
    let [child] = &page.child_shards[..] else { panic!("{:?}", page.child_shards) };
    assert_eq!(child.shard_id.as_str(), SHARD_2);
    assert_eq!(child.parent_shards, [ShardId::from(SHARD_0), SHARD_1.into()]);
}

#[test]
fn a_page_has_at_most_ten_mib() {
    let mut bench = Bench::new(1);
    // With their keys of one byte, ten of these are 10 MiB to the byte.
    for _ in 0..21 {
        bench.put_entry(PutRecordsEntry::new("k", vec![0; (1 << 20) - 1])).unwrap();
    }
    let mut sizes = Vec::new();
    let mut iterator = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    while sizes.iter().sum::<usize>() < 21 {
        let page = bench.get(&iterator, None).unwrap();
        sizes.push(page.records.len());
        iterator = page.next_shard_iterator.unwrap();
    }
    assert_eq!(sizes, [10, 10, 1]);
}

#[test]
fn a_page_has_at_most_ten_thousand_records_or_as_many_as_asked_for() {
    let mut bench = Bench::new(1);
    for _ in 0..10_001 {
        bench.put("x");
    }
    let start = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    assert_eq!(bench.get(&start, None).unwrap().records.len(), 10_000);
    assert_eq!(bench.get(&start, Some(7)).unwrap().records.len(), 7);
    for limit in [0, 10_001] {
        assert_eq!(code(bench.get(&start, Some(limit))), "ValidationException");
    }
}

#[test]
fn the_lag_is_counted_in_milliseconds_from_the_last_record_of_the_page() {
    let mut bench = Bench::new(1);
    for _ in 0..3 {
        bench.put("x");
        bench.pass(1_234);
    }
    let start = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    for (limit, lag) in [(1, 3 * 1_234), (2, 2 * 1_234), (3, 0)] {
        assert_eq!(bench.get(&start, Some(limit)).unwrap().millis_behind_latest, lag);
    }
}

#[test]
fn records_are_gone_after_the_retention_and_a_longer_one_does_not_bring_them_back() {
    let mut bench = Bench::new(1);
    let flights = StreamTarget::from("flights");
    bench.put("one");
    bench.pass(24 * HOUR);
    assert_eq!(texts(&bench.read(SHARD_0, TrimHorizon)), ["one"]);
    bench.pass(1);
    bench.model.increase_stream_retention_period(&flights, 8_760, bench.now).unwrap();
    assert_eq!(texts(&bench.read(SHARD_0, TrimHorizon)), [""; 0]);
    bench.put("two");
    bench.pass(8_000 * HOUR);
    assert_eq!(texts(&bench.read(SHARD_0, TrimHorizon)), ["two"]);
    bench.model.decrease_stream_retention_period(&flights, 24, bench.now).unwrap();
    assert_eq!(texts(&bench.read(SHARD_0, TrimHorizon)), [""; 0]);
}

#[test]
fn a_look_at_all_records_is_no_read() {
    let mut bench = Bench::with(Settings { limits: true, ..Default::default() }, 2);
    let flights = StreamTarget::from("flights");
    for key in [u128::MAX, 0, 0] {
        let explicit_hash_key = Some(key.to_string());
        bench
            .put_entry(PutRecordsEntry { explicit_hash_key, ..PutRecordsEntry::new("key", "data") })
            .unwrap();
    }
    for _ in 0..100 {
        let all = bench.model.records(&flights, bench.now).unwrap();
        let shards: Vec<_> = all.iter().map(|(shard, _)| shard.as_str()).collect();
        assert_eq!(shards, [SHARD_0, SHARD_0, SHARD_1]);
        assert!(all[0].1.sequence_number < all[1].1.sequence_number);
    }
    assert_eq!(bench.read(SHARD_0, TrimHorizon).records.len(), 2);
    bench.pass(24 * HOUR + 1);
    assert_eq!(bench.model.records(&flights, bench.now).unwrap(), []);
    assert_eq!(code(bench.model.records(&"trains".into(), bench.now)), "ResourceNotFoundException");
}

#[test]
fn an_iterator_whose_records_are_gone_goes_on_with_the_oldest() {
    let mut bench = Bench::with(
        Settings { iterator_lifetime: std::time::Duration::from_secs(1_000_000), ..Default::default() },
        1,
    );
    bench.put("one");
    let held = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    bench.pass(20 * HOUR);
    bench.put("two");
    bench.pass(5 * HOUR);
    assert_eq!(texts(&bench.get(&held, None).unwrap()), ["two"]);
}

#[test]
fn a_clock_set_back_does_not_turn_arrivals_around() {
    let mut bench = Bench::new(1);
    bench.put("one");
    let first = bench.now;
    bench.now = Timestamp::from_millis(first.as_millis() - 5_000);
    let second = bench.put("two");
    let page = bench.read(SHARD_0, TrimHorizon);
    assert_eq!(page.records[1].arrival, first);
    assert!(second.sequence_number > page.records[0].sequence_number);
}

#[test]
fn an_iterator_is_not_taken_for_another_stream() {
    let mut bench = Bench::new(1);
    bench.create("trains", 1);
    let shard_iterator = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    for (stream, fits) in [("flights", true), ("trains", false)] {
        let request =
            GetRecordsRequest { stream: stream.into(), shard_iterator: shard_iterator.clone(), limit: None };
        assert_eq!(bench.model.get_records(request, bench.now).is_ok(), fits);
    }
}

proptest! {
    #[test]
    fn a_closed_shard_is_read_whole_and_ends_once_whatever_the_pages(
        count in 0..40usize,
        limits in prop::collection::vec(1..9u32, 1..6),
        with_last in any::<bool>(),
    ) {
        let shard_end = if with_last { ShardEnd::WithLastRecord } else { ShardEnd::AfterLastRecord };
        let mut bench = Bench::with(Settings { shard_end, ..Default::default() }, 1);
        let put: Vec<_> = (0..count).map(|number| bench.put(&number.to_string()).sequence_number).collect();
        bench.split(SHARD_0, 1 << 100).unwrap();
        let ending = bench.shards()[0].ending_sequence.clone().unwrap();

        let mut read = Vec::new();
        let mut iterator = Some(bench.iterator(SHARD_0, TrimHorizon).unwrap());
        let mut limits = limits.into_iter().cycle();
        while let Some(current) = iterator {
            let page = bench.get(&current, limits.next()).unwrap();
            let ended = page.next_shard_iterator.is_none();
            prop_assert_eq!(page.child_shards.len(), if ended { 2 } else { 0 });
            prop_assert!(!page.records.is_empty() || ended);
            read.extend(page.records.into_iter().map(|record| record.sequence_number));
            iterator = page.next_shard_iterator;
        }
        prop_assert!(put.is_sorted_by(|a, b| a < b));
        prop_assert!(put.last().is_none_or(|last| *last <= ending));
        prop_assert_eq!(read, put);
    }
}
