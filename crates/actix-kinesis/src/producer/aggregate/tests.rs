use kinesis_record::HashKey;
use kinesis_record::aggregation::{Deaggregated, deaggregate};
use proptest::prelude::*;

use super::*;
use crate::producer::event::ProducerEvent;

fn record(event: ProducerEvent) -> Record {
    let (record, _) = Record::new(event, Instant::now());
    record
}

fn limits(max_size: u64, max_record_size: u64) -> Limits {
    let mut conf = ProducerConf::new("orders");
    conf.aggregation.max_size = max_size;
    conf.max_record_size = max_record_size;
    Limits::of(&conf)
}

fn events() -> impl Strategy<Value = Vec<ProducerEvent>> {
    let key = prop_oneof!["[a-c]", "\\PC{1,256}"];
    let explicit = prop::option::weighted(0.3, any::<u128>());
    let len = prop_oneof![4 => 0usize..200, 1 => 0usize..70_000];
    let event = (key, explicit, len).prop_map(|(key, explicit, len)| ProducerEvent {
        explicit_hash_key: explicit.map(HashKey),
        ..ProducerEvent::new(key, vec![7; len])
    });
    prop::collection::vec(event, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_aggregate_is_over_its_limit_and_none_holds_less_than_it_could(
        events in events(), max_size in prop_oneof![Just(51_200u64), Just(1 << 20), 64u64..3_000],
    ) {
        let limits = limits(max_size, 1 << 20);
        let mut gathering = Gathering::new(limits);
        let mut batches = Vec::new();
        let mut expected = Vec::new();
        for event in events {
            let record = record(event.clone());
            if !limits.allow(&record) {
                continue;
            }
            expected.push(event);
            if !gathering.fits(&record) {
                batches.extend(gathering.close(None));
            }
            gathering.push(record);
        }
        batches.extend(gathering.close(None));
        let mut sent = Vec::new();
        for batch in &batches {
            let put = batch.to_put().unwrap();
            prop_assert_eq!(put.data.len() + put.partition_key.len(), batch.size());
            match deaggregate(&put.data, None) {
                Deaggregated::Aggregated { records, .. } => {
                    prop_assert!(put.data.len() as u64 <= max_size && put.data.len() < 1 << 20);
                    sent.extend(records.into_iter().map(|it| (it.partition_key, it.data)));
                }
                _ => sent.push((put.partition_key, put.data)),
            }
        }
        let expected: Vec<_> = expected.into_iter().map(|it| (it.partition_key, it.payload)).collect();
        prop_assert_eq!(sent, expected);
    }
}

#[test]
fn the_partition_key_of_an_aggregate_counts_against_the_limit_of_a_record() {
    let limits = limits(1 << 20, 1_000);
    let mut gathering = Gathering::new(limits);
    gathering.push(record(ProducerEvent::new("k", vec![0; 480])));
    let next = |len: usize| record(ProducerEvent::new("k", vec![0; len]));
    let room = (400..600).filter(|len| gathering.fits(&next(*len))).max().unwrap();
    gathering.push(next(room));
    assert_eq!(gathering.close(None).unwrap().size(), 1_000);
}

#[test]
fn payloads_are_shared_and_not_copied_before_they_are_encoded() {
    let event = ProducerEvent::new("k", vec![0; 480]);
    let address = event.payload.as_ptr();
    let single = Batch::single(record(event.clone()), None, Instant::now());
    assert_eq!(single.to_put().unwrap().data.as_ptr(), address);
    let mut gathering = Gathering::new(limits(51_200, 1 << 20));
    gathering.push(record(event));
    assert_eq!(gathering.records()[0].event().unwrap().payload.as_ptr(), address);
}
