use std::collections::BTreeMap;

use kinesis_local::model::StartingPosition::{self, AfterSequenceNumber, AtSequenceNumber, TrimHorizon};
use kinesis_local::model::{PutRecordsEntry, PutRecordsRequest, Settings};
use kinesis_record::{HashKey, SequenceNumber, ShardId};
use proptest::prelude::*;

use crate::{Bench, HOUR, SHARD_0, SHARD_1, texts};

const MIB: usize = 1 << 20;

/// A service with room for so many bytes.
fn bounded(max_stored_bytes: usize, shards: u32) -> Bench {
    Bench::with(Settings { max_stored_bytes, ..Settings::default() }, shards)
}

/// Puts a record of so many bytes into a shard of two.
fn put(bench: &mut Bench, shard: usize, size: usize) -> String {
    let key = [HashKey::MIN, HashKey::MAX][shard];
    let record = PutRecordsEntry {
        explicit_hash_key: Some(key.to_string()),
        ..PutRecordsEntry::new("k", vec![b'x'; size])
    };
    bench.put_entry(record).unwrap().sequence_number.to_string()
}

fn count(bench: &mut Bench, shard: &str) -> usize {
    bench.read(shard, TrimHorizon).records.len()
}

#[test]
fn the_oldest_of_the_biggest_shard_go_and_a_small_shard_keeps_all() {
    let mut bench = bounded(MIB, 2);
    put(&mut bench, 1, 1_000);
    for _ in 0..3_000 {
        put(&mut bench, 0, 1_000);
    }
    let left = count(&mut bench, SHARD_0);
    assert!((800..1_000).contains(&left), "{left}");
    assert_eq!(count(&mut bench, SHARD_1), 1);
    assert_eq!(bench.model.evicted_records(), 3_000 - left as u64);
}

#[test]
fn a_reader_behind_the_bound_goes_on_at_the_oldest_record_that_is_left() {
    let mut bench = bounded(MIB, 1);
    let first = bench.put("first").sequence_number.to_string();
    let iterator = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    bench.pass(1_000);
    for _ in 0..2_000 {
        bench.put_entry(PutRecordsEntry::new("k", vec![b'x'; 1_000])).unwrap();
    }
    let oldest = bench.get(&iterator, Some(1)).unwrap();
    assert!(texts(&oldest)[0].starts_with('x') && oldest.millis_behind_latest == 0);
    for position in [TrimHorizon, AtSequenceNumber(first.clone()), AfterSequenceNumber(first)] {
        assert_eq!(bench.read(SHARD_0, position.clone()).records[0], oldest.records[0], "{position:?}");
    }
}

#[test]
fn what_the_retention_has_outlived_makes_room_before_anything_else() {
    let mut bench = bounded(MIB, 2);
    for _ in 0..600 {
        put(&mut bench, 0, 1_000);
    }
    bench.pass(25 * HOUR);
    for _ in 0..600 {
        put(&mut bench, 1, 1_000);
    }
    assert_eq!((bench.model.evicted_records(), count(&mut bench, SHARD_1)), (0, 600));
}

#[test]
fn a_stream_that_was_deleted_takes_no_room() {
    let mut bench = bounded(MIB, 1);
    for _ in 0..5 {
        for _ in 0..600 {
            bench.put_entry(PutRecordsEntry::new("k", vec![b'x'; 1_000])).unwrap();
        }
        bench.model.delete_stream(&"flights".into(), bench.now).unwrap();
        bench.create("flights", 1);
    }
    assert_eq!(bench.model.evicted_records(), 0);
}

#[test]
fn records_without_a_payload_take_room_too() {
    let mut bench = bounded(MIB, 1);
    for _ in 0..20 {
        let request =
            PutRecordsRequest { stream: "flights".into(), records: vec![PutRecordsEntry::new("k", ""); 500] };
        bench.model.put_records(request, bench.now).unwrap();
    }
    assert!(count(&mut bench, SHARD_0) < MIB / 120);
}

#[test]
fn a_put_that_is_greater_than_the_bound_is_taken_and_stands_alone() {
    let mut bench = bounded(1_000, 1);
    for number in ["1", "2"] {
        let records: Vec<_> = (0..10).map(|_| PutRecordsEntry::new("k", number)).collect();
        let request = PutRecordsRequest { stream: "flights".into(), records };
        assert_eq!(bench.model.put_records(request, bench.now).unwrap().failed_record_count(), 0);
        assert_eq!(texts(&bench.read(SHARD_0, TrimHorizon)), [number; 10]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_left_fits_and_is_the_newest_of_each_shard(
        bound in 5_000..60_000usize,
        puts in prop::collection::vec((0..4usize, 0..3_000usize), 1..200),
    ) {
        let mut bench = bounded(bound, 4);
        let mut written: BTreeMap<ShardId, Vec<SequenceNumber>> = BTreeMap::new();
        let mut evicted = 0;
        for (shard, size) in puts {
            let record = PutRecordsEntry {
                explicit_hash_key: Some((u128::MAX / 4 * shard as u128 + 4).to_string()),
                ..PutRecordsEntry::new("k", vec![0; size])
            };
            let place = bench.put_entry(record).unwrap();
            written.entry(place.shard_id.clone()).or_default().push(place.sequence_number.clone());
            let (mut bytes, mut records) = (0, 0);
            for (shard, written) in &written {
                let page = bench.read(shard.as_str(), StartingPosition::TrimHorizon).records;
                let numbers: Vec<_> = page.iter().map(|record| record.sequence_number.clone()).collect();
                prop_assert!(written.ends_with(&numbers));
                if *shard == place.shard_id {
                    prop_assert_eq!(numbers.last(), Some(&place.sequence_number));
                }
                bytes += page.iter().map(|record| record.size() + 100).sum::<usize>();
                records += page.len() as u64;
            }
            prop_assert!(bytes <= bound);
            prop_assert!(bench.model.evicted_records() >= evicted);
            evicted = bench.model.evicted_records();
            let all = written.values().map(Vec::len).sum::<usize>() as u64;
            prop_assert_eq!(evicted + records, all);
        }
    }
}
