use bytes::Bytes;
use kinesis_local::model::StartingPosition::TrimHorizon;
use kinesis_local::model::{
    CreateStreamRequest, PutRecordRequest, PutRecordsEntry, PutRecordsRequest, PutRecordsResponse,
    RecordDistribution, StreamMode, StreamTarget,
};
use kinesis_record::HashKey;
use proptest::prelude::*;

use crate::{Bench, SHARD_0, code};

fn put_all(
    bench: &mut Bench,
    records: Vec<PutRecordsEntry>,
) -> Result<PutRecordsResponse, kinesis_local::model::KinesisError> {
    let request = PutRecordsRequest { stream: "flights".into(), records };
    bench.model.put_records(request, bench.now)
}

fn count(bench: &mut Bench) -> usize {
    bench.shards().iter().map(|shard| bench.read(shard.id.as_str(), TrimHorizon).records.len()).sum()
}

#[test]
fn a_call_takes_one_to_five_hundred_records() {
    let mut bench = Bench::new(3);
    let records = |count| vec![PutRecordsEntry::new("k", ""); count];
    assert_eq!(code(put_all(&mut bench, records(0))), "ValidationException");
    assert_eq!(code(put_all(&mut bench, records(501))), "ValidationException");
    assert_eq!(count(&mut bench), 0);
    let response = put_all(&mut bench, records(500)).unwrap();
    assert_eq!((response.records.len(), response.failed_record_count()), (500, 0));
    assert_eq!(count(&mut bench), 500);
}

#[test]
fn one_record_that_breaks_a_rule_keeps_the_whole_call_out() {
    let mut bench = Bench::new(1);
    let records = vec![PutRecordsEntry::new("k", "fine"), PutRecordsEntry::new("", "not")];
    assert_eq!(code(put_all(&mut bench, records)), "ValidationException");
    assert_eq!(count(&mut bench), 0);
}

#[test]
fn a_partition_key_has_one_to_256_characters_of_any_script() {
    let mut bench = Bench::new(1);
    for letter in ["a", "\u{df}", "\u{6771}", "\u{1f6eb}"] {
        let longest = letter.repeat(256);
        bench.put_entry(PutRecordsEntry::new(longest.clone(), "x")).unwrap();
        let longer = PutRecordsEntry::new(longest + letter, "x");
        assert_eq!(code(bench.put_entry(longer)), "ValidationException");
    }
    assert_eq!(code(bench.put_entry(PutRecordsEntry::new("", "x"))), "ValidationException");
    let without = PutRecordsEntry { partition_key: None, ..PutRecordsEntry::new("", "x") };
    assert_eq!(code(bench.put_entry(without)), "ValidationException");
}

#[test]
fn a_record_may_be_empty_and_has_one_mib_at_most_with_its_key() {
    let mut bench = Bench::new(1);
    let zeros = Bytes::from(vec![0; (1 << 20) + 1]);
    bench.put_entry(PutRecordsEntry::new("k", "")).unwrap();
    bench.put_entry(PutRecordsEntry::new("key", zeros.slice(..(1 << 20) - 3))).unwrap();
    assert_eq!(
        code(bench.put_entry(PutRecordsEntry::new("key", zeros.slice(..(1 << 20) - 2)))),
        "InvalidArgumentException"
    );
    assert_eq!(code(bench.put_entry(PutRecordsEntry::new("key", zeros))), "ValidationException");
}

#[test]
fn a_stream_may_take_records_of_ten_mib() {
    let mut bench = Bench::new(1);
    let flights = StreamTarget::from("flights");
    let greatest = PutRecordsEntry::new("k", vec![0; (10 << 20) - 1]);
    assert!(bench.put_entry(greatest.clone()).is_err());
    bench.model.update_max_record_size(&flights, 10_240, bench.now).unwrap();
    bench.put_entry(greatest.clone()).unwrap();
    put_all(&mut bench, vec![greatest.clone()]).unwrap();
    let two = vec![greatest, PutRecordsEntry::new("k", "")];
    assert_eq!(code(put_all(&mut bench, two)), "InvalidArgumentException");
    for kib in [1_023, 10_241] {
        assert_eq!(code(bench.model.update_max_record_size(&flights, kib, bench.now)), "ValidationException");
    }
    assert_eq!(bench.read(SHARD_0, TrimHorizon).records.len(), 1, "one such record fills a page");
}

#[test]
fn an_explicit_hash_key_is_checked() {
    let mut bench = Bench::new(2);
    let put = |bench: &mut Bench, key: &str| {
        let record =
            PutRecordsEntry { explicit_hash_key: Some(key.to_owned()), ..PutRecordsEntry::new("k", "x") };
        bench.put_entry(record).map(|put| put.shard_id.as_str().to_owned()).map_err(|error| error.code())
    };
    let middle = 1u128 << 127;
    for (key, shard) in [(0, 0), (middle - 1, 0), (middle, 1), (u128::MAX, 1)] {
        assert_eq!(put(&mut bench, &key.to_string()), Ok(format!("shardId-{shard:012}")));
    }
    let too_great = "340282366920938463463374607431768211456";
    assert_eq!(put(&mut bench, too_great), Err("InvalidArgumentException"));
    for text in ["", "00", "007", "-1", "+1", "1e3", "abc", "\u{663}", &"9".repeat(40)] {
        assert_eq!(put(&mut bench, text), Err("ValidationException"), "{text:?}");
    }
}

#[test]
fn a_number_for_ordering_is_taken_if_it_is_one() {
    let mut bench = Bench::new(1);
    let before = bench.put("one").sequence_number;
    let request = |text: &str| PutRecordRequest {
        stream: "flights".into(),
        record: PutRecordsEntry::new("k", "x"),
        sequence_number_for_ordering: Some(text.to_owned()),
    };
    let after = bench.model.put_record(request(before.as_str()), bench.now).unwrap();
    assert!(after.sequence_number > before);
    assert_eq!(code(bench.model.put_record(request("5"), bench.now)), "InvalidArgumentException");
}

#[test]
fn a_stream_that_distributes_by_itself_ignores_keys_and_does_without() {
    let mut bench = Bench::new(1);
    let mut create = CreateStreamRequest {
        stream_name: "auto".into(),
        shard_count: Some(3),
        distribution: RecordDistribution::Auto,
        ..Default::default()
    };
    assert_eq!(code(bench.model.create_stream(create.clone(), bench.now)), "InvalidArgumentException");
    create.mode = StreamMode::OnDemand;
    bench.model.create_stream(create, bench.now).unwrap();
    let keyless = PutRecordsEntry { partition_key: None, ..PutRecordsEntry::new("", "x") };
    let records = vec![PutRecordsEntry::new("k", "x"), keyless, PutRecordsEntry::new("k", "x")];
    let request = PutRecordsRequest { stream: "auto".into(), records };
    let response = bench.model.put_records(request, bench.now).unwrap();
    let mut shards: Vec<_> = response.records.into_iter().map(|record| record.unwrap().shard_id).collect();
    shards.dedup();
    assert_eq!(shards.len(), 3);
}

proptest! {
    #[test]
    fn a_record_goes_to_the_shard_of_its_keys_md5(shards in 1..50u32, key in "\\PC{1,20}") {
        let mut bench = Bench::new(shards);
        let put = bench.put_entry(PutRecordsEntry::new(key.clone(), "x")).unwrap();
        let shard = bench.shards().into_iter().find(|shard| shard.id == put.shard_id).unwrap();
        prop_assert!(shard.hash_range.contains(HashKey::of_partition_key(&key)));
        let page = bench.read(put.shard_id.as_str(), TrimHorizon);
        prop_assert_eq!(page.records[0].partition_key.as_deref(), Some(key.as_str()));
    }
}
