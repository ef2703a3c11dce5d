use kinesis_local::model::StartingPosition::{
    self, AfterSequenceNumber, AtSequenceNumber, AtTimestamp, TrimHorizon,
};
use kinesis_local::model::{ListShardsRequest, ShardFilter, Timestamp};
use kinesis_record::{SequenceNumber, ShardId};
use proptest::prelude::*;

use crate::{Bench, HOUR, SHARD_0, SHARD_1, code, texts};

#[test]
fn a_position_below_the_horizon_means_the_oldest_record_that_is_left() {
    let mut bench = Bench::new(1);
    let start = bench.now;
    let old = bench.put("old").sequence_number.to_string();
    bench.put("older than the horizon too");
    bench.pass(20 * HOUR);
    bench.put("left");
    bench.pass(5 * HOUR);
    for position in [TrimHorizon, AtSequenceNumber(old.clone()), AfterSequenceNumber(old), AtTimestamp(start)]
    {
        assert_eq!(texts(&bench.read(SHARD_0, position.clone())), ["left"], "{position:?}");
    }
}

#[test]
fn a_closed_shard_leaves_every_list_when_its_last_record_may_be_gone() {
    let mut bench = Bench::new(1);
    bench.split(SHARD_0, 1_000).unwrap();
    let number = bench.shards()[0].ending_sequence.clone().unwrap().to_string();
    let iterator = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    bench.pass(24 * HOUR + 1);
    let filters = [
        None,
        Some(ShardFilter::AtTrimHorizon),
        Some(ShardFilter::FromTrimHorizon),
        Some(ShardFilter::FromTimestamp(Timestamp::default())),
        Some(ShardFilter::AfterShardId(ShardId::from("shardId-000000000000"))),
    ];
    for filter in filters {
        let request = ListShardsRequest { stream: "flights".into(), filter, ..Default::default() };
        let shards = bench.model.list_shards(request, bench.now).unwrap().shards;
        assert!(shards.iter().all(|shard| shard.is_open()) && shards.len() == 2);
    }
    assert_eq!(code(bench.iterator(SHARD_0, AtSequenceNumber(number))), "ResourceNotFoundException");
    assert_eq!(code(bench.get(&iterator, None)), "ExpiredIteratorException");
}

#[test]
fn an_iterator_of_a_shard_that_is_gone_finds_nothing() {
    let mut bench = Bench::new(1);
    bench.split(SHARD_0, 1_000).unwrap();
    bench.pass(24 * HOUR - 1_000);
    let iterator = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    bench.pass(2_000);
    assert_eq!(code(bench.get(&iterator, None)), "ResourceNotFoundException");
}

#[test]
fn a_shorter_retention_takes_records_and_closed_shards_with_it_at_once() {
    let mut bench = Bench::new(1);
    let flights = "flights".into();
    bench.model.increase_stream_retention_period(&flights, 48, bench.now).unwrap();
    bench.put("x");
    bench.split(SHARD_0, 1_000).unwrap();
    bench.pass(30 * HOUR);
    assert_eq!(bench.shards().len(), 3);
    bench.model.decrease_stream_retention_period(&flights, 24, bench.now).unwrap();
    assert_eq!(bench.shards().len(), 2);
    bench.model.increase_stream_retention_period(&flights, 48, bench.now).unwrap();
    assert_eq!(bench.shards().len(), 2, "what is gone stays gone");
}

#[derive(Debug, Clone)]
enum Step {
    Put(u16),
    Pass(u64),
    Split(usize),
    Merge(usize),
    Retention(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => any::<u16>().prop_map(Step::Put),
        4 => (0..9 * HOUR).prop_map(Step::Pass),
        1 => any::<usize>().prop_map(Step::Split),
        1 => any::<usize>().prop_map(Step::Merge),
        1 => (24..60u32).prop_map(Step::Retention),
    ]
}

/// A record that was written.
#[derive(Debug)]
struct Written {
    at: Timestamp,
    shard: ShardId,
    number: SequenceNumber,
    /// Whether a horizon has gone over it.
    gone: bool,
}

/// Lets the horizon go over what is older than the retention.
fn age(written: &mut [Written], retention: u32, now: Timestamp) {
    let retention = u64::from(retention) * HOUR;
    written.iter_mut().for_each(|record| record.gone |= now.millis_since(record.at) > retention);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn exactly_what_no_horizon_has_gone_over_is_read_and_every_shard_that_holds_it_is_listed(
        steps in prop::collection::vec(step(), 0..50),
    ) {
        let mut bench = Bench::new(2);
        let mut retention = 24;
        let mut written: Vec<Written> = Vec::new();
        for step in steps {
            let shards = bench.shards();
            let open: Vec<_> = {
                let mut open: Vec<_> = shards.iter().filter(|shard| shard.is_open()).collect();
                open.sort_by_key(|shard| shard.hash_range.start);
                open
            };
            match step {
                Step::Put(value) => {
                    let put = bench.put(&value.to_string());
                    let number = put.sequence_number;
                    written.push(Written { at: bench.now, shard: put.shard_id, number, gone: false });
                }
                Step::Pass(millis) => bench.pass(millis),
                Step::Split(index) => {
                    let shard = open[index % open.len()];
                    let (start, end) = (shard.hash_range.start.0, shard.hash_range.end.0);
                    if end - start > 8 {
                        bench.split(shard.id.as_str(), start + (end - start) / 2).unwrap();
                    }
                }
                Step::Merge(index) if open.len() > 1 => {
                    let index = index % (open.len() - 1);
                    bench.merge(open[index].id.as_str(), open[index + 1].id.as_str()).unwrap();
                }
                Step::Merge(_) => {}
                Step::Retention(hours) => {
                    let flights = "flights".into();
                    if hours >= retention {
                        bench.model.increase_stream_retention_period(&flights, hours, bench.now).unwrap();
                    } else {
                        bench.model.decrease_stream_retention_period(&flights, hours, bench.now).unwrap();
                    }
                    // The old horizon first, then the new one.
                    age(&mut written, retention, bench.now);
                    retention = hours;
                }
            }
            age(&mut written, retention, bench.now);

            let shards = bench.shards();
            for parent in shards.iter().flat_map(|shard| &shard.parents) {
                let listed = shards.iter().find(|shard| shard.id == *parent);
                prop_assert!(listed.is_none_or(|parent| !parent.is_open()));
            }
            let mut read = Vec::new();
            for shard in &shards {
                let page = bench.read(shard.id.as_str(), TrimHorizon);
                prop_assert_eq!(page.next_shard_iterator.is_some(), shard.is_open());
                let numbers = page.records.into_iter().map(|record| record.sequence_number);
                read.extend(numbers.map(|number| (shard.id.clone(), number)));
            }
            let left = written.iter().filter(|record| !record.gone);
            let mut left: Vec<_> =
                left.map(|record| (record.shard.clone(), record.number.clone())).collect();
            left.sort();
            read.sort();
            prop_assert_eq!(&read, &left);

            // From the number of whatever record, the rest of its shard follows.
            for record in &written {
                let position = AfterSequenceNumber(record.number.to_string());
                match bench.iterator(record.shard.as_str(), position) {
                    Err(error) => {
                        prop_assert_eq!(error.code(), "ResourceNotFoundException");
                        prop_assert!(record.gone && shards.iter().all(|shard| shard.id != record.shard));
                    }
                    Ok(iterator) => {
                        let page = bench.get(&iterator, None).unwrap();
                        let rest = left.iter().filter(|(shard, number)| {
                            *shard == record.shard && *number > record.number
                        });
                        prop_assert_eq!(page.records.len(), rest.count());
                    }
                }
            }
        }
    }
}

#[test]
fn the_other_shard_keeps_its_records_when_one_is_trimmed_by_a_read() {
    let mut bench = Bench::new(2);
    let put = bench.put("x");
    bench.pass(23 * HOUR);
    let other = if put.shard_id.as_str() == SHARD_0 { SHARD_1 } else { SHARD_0 };
    bench.read(other, StartingPosition::TrimHorizon);
    assert_eq!(texts(&bench.read(put.shard_id.as_str(), TrimHorizon)), ["x"]);
}
