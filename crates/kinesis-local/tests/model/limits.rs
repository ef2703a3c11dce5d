use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_local::model::StartingPosition::{Latest, TrimHorizon};
use kinesis_local::model::{
    CreateStreamRequest, DescribeStreamRequest, KinesisError, ListShardsRequest, ListStreamsRequest,
    PutRecordsEntry, PutRecordsRequest, PutRecordsResponse, Settings, StreamMode, UpdateShardCountRequest,
};

use crate::{Bench, SHARD_0, SHARD_1, code};

const THROTTLED: &str = "ProvisionedThroughputExceededException";

fn limited(shards: u32) -> Bench {
    Bench::with(Settings { limits: true, ..Default::default() }, shards)
}

/// Puts records of `size` bytes into the shard that takes `hash_key`.
fn put_many(bench: &mut Bench, count: usize, size: usize, hash_key: u128) -> PutRecordsResponse {
    let mut record = PutRecordsEntry::new("k", vec![0; size - 1]);
    record.explicit_hash_key = Some(hash_key.to_string());
    let request = PutRecordsRequest { stream: "flights".into(), records: vec![record; count] };
    bench.model.put_records(request, bench.now).unwrap()
}

/// How often a call is let through in a row.
fn count(mut call: impl FnMut() -> Result<(), KinesisError>, expected: &str) -> usize {
    for number in 0..10_000 {
        if let Err(error) = call() {
            assert_eq!(error.code(), expected);
            return number;
        }
    }
    panic!("never refused");
}

#[test]
fn a_shard_takes_a_thousand_records_a_second() {
    let mut bench = limited(2);
    let failed = |response: &PutRecordsResponse| response.failed_record_count();
    assert_eq!(failed(&put_many(&mut bench, 500, 10, 0)), 0);
    assert_eq!(failed(&put_many(&mut bench, 500, 10, 0)), 0);
    let response = put_many(&mut bench, 500, 10, 0);
    assert_eq!(failed(&response), 500);
    let error = response.records[0].as_ref().unwrap_err();
    assert_eq!(error.code(), THROTTLED);
    assert_eq!(
        error.message(),
        "Rate exceeded for shard shardId-000000000000 in stream flights under account 000000000000."
    );
    assert_eq!(failed(&put_many(&mut bench, 500, 10, u128::MAX)), 0, "the other shard is free");
    bench.pass(100);
    assert_eq!(failed(&put_many(&mut bench, 150, 10, 0)), 50, "a tenth of a second makes room for a hundred");
    let put = PutRecordsEntry { explicit_hash_key: Some("0".to_owned()), ..PutRecordsEntry::new("k", "x") };
    assert_eq!(code(bench.put_entry(put)), THROTTLED);
}

#[test]
fn a_shard_takes_a_mebibyte_a_second() {
    let mut bench = limited(1);
    assert_eq!(put_many(&mut bench, 9, 128 << 10, 0).failed_record_count(), 1);
    bench.pass(500);
    assert_eq!(put_many(&mut bench, 9, 128 << 10, 0).failed_record_count(), 5);
}

#[test]
fn a_great_record_is_taken_once_and_paid_for_afterwards() {
    let mut bench = limited(1);
    bench.model.update_max_record_size(&"flights".into(), 10_240, bench.now).unwrap();
    assert_eq!(put_many(&mut bench, 1, 10 << 20, 0).failed_record_count(), 0);
    assert_eq!(put_many(&mut bench, 1, 1 << 20, 0).failed_record_count(), 1);
    bench.pass(1_000);
    assert_eq!(put_many(&mut bench, 2, 1 << 20, 0).failed_record_count(), 1);
}

#[test]
fn a_shard_is_read_five_times_a_second() {
    let mut bench = limited(2);
    let first = bench.iterator(SHARD_0, Latest).unwrap();
    let second = bench.iterator(SHARD_1, Latest).unwrap();
    assert_eq!(count(|| bench.get(&first, None).map(drop), THROTTLED), 5);
    bench.get(&second, None).unwrap();
    bench.pass(999);
    assert_eq!(code(bench.get(&first, None)), THROTTLED);
    bench.pass(1);
    assert_eq!(count(|| bench.get(&first, None).map(drop), THROTTLED), 5);
}

#[test]
fn a_shard_gives_five_iterators_a_second() {
    let mut bench = limited(2);
    assert_eq!(count(|| bench.iterator(SHARD_0, Latest).map(drop), THROTTLED), 5);
    bench.iterator(SHARD_1, Latest).unwrap();
    bench.pass(1_000);
    bench.iterator(SHARD_0, Latest).unwrap();
}

#[test]
fn after_ten_mebibytes_a_shard_is_not_read_for_five_seconds() {
    let mut bench = limited(1);
    for _ in 0..10 {
        put_many(&mut bench, 1, 1 << 20, 0);
        bench.pass(1_000);
    }
    let iterator = bench.iterator(SHARD_0, TrimHorizon).unwrap();
    let page = bench.get(&iterator, None).unwrap();
    assert_eq!(page.records.len(), 10);
    let next = page.next_shard_iterator.unwrap();
    bench.pass(4_999);
    assert_eq!(code(bench.get(&next, None)), THROTTLED);
    bench.pass(1);
    bench.get(&next, None).unwrap();
}

#[test]
fn calls_that_manage_are_limited_per_second() {
    let mut bench = limited(1);
    bench.create("trains", 1);
    let limit = "LimitExceededException";
    let list = |stream: &str| ListShardsRequest { stream: stream.into(), ..Default::default() };
    assert_eq!(count(|| bench.model.list_shards(list("flights"), bench.now).map(drop), limit), 1_000);
    bench.model.list_shards(list("trains"), bench.now).unwrap();
    let describe = |stream: &str| DescribeStreamRequest { stream: stream.into(), ..Default::default() };
    assert_eq!(count(|| bench.model.describe_stream(describe("flights"), bench.now).map(drop), limit), 10);
    assert_eq!(code(bench.model.describe_stream(describe("trains"), bench.now)), limit, "by account");
    let trains = "trains".into();
    assert_eq!(count(|| bench.model.describe_stream_summary(&trains, bench.now).map(drop), limit), 20);
    assert_eq!(count(|| bench.model.describe_limits(bench.now).map(drop), limit), 1);
    let streams = ListStreamsRequest::default;
    assert_eq!(count(|| bench.model.list_streams(streams(), bench.now).map(drop), limit), 5);
    let mut number = 0;
    let mut register = || {
        number += 1;
        bench.register("trains", &format!("radar-{number}")).map(drop)
    };
    assert_eq!(count(&mut register, limit), 5);
    assert_eq!(
        count(
            || bench.model.delete_stream(&"ships".into(), bench.now).or_else(|error| {
                if error.code() == "ResourceNotFoundException" { Ok(()) } else { Err(error) }
            }),
            limit
        ),
        5
    );
    bench.pass(1_000);
    bench.model.list_shards(list("flights"), bench.now).unwrap();
    bench.model.describe_stream(describe("flights"), bench.now).unwrap();
}

#[test]
fn a_stream_is_scaled_ten_times_in_a_day() {
    let mut bench = limited(1);
    let scale = |bench: &mut Bench, wait: u64| {
        bench.pass(wait);
        let request = UpdateShardCountRequest { stream: "flights".into(), target_shard_count: 1 };
        bench.model.update_shard_count(request, bench.now).map(drop).map_err(|error| error.code())
    };
    for _ in 0..10 {
        assert_eq!(scale(&mut bench, 60_000), Ok(()));
    }
    assert_eq!(scale(&mut bench, 60_000), Err("LimitExceededException"));
    assert_eq!(scale(&mut bench, 23 * 3_600_000 + 50 * 60_000), Ok(()));
}

#[test]
fn an_account_has_so_many_shards_and_on_demand_streams() {
    let mut bench = Bench::with(Settings { limits: true, shard_limit: 4, ..Default::default() }, 3);
    let create = |bench: &mut Bench, name: &str, shard_count, mode| {
        bench.pass(1_000);
        let request =
            CreateStreamRequest { stream_name: name.to_owned(), shard_count, mode, ..Default::default() };
        bench.model.create_stream(request, bench.now).map_err(|error| error.code())
    };
    let refused = Err("LimitExceededException");
    assert_eq!(create(&mut bench, "trains", Some(2), StreamMode::Provisioned), refused);
    assert_eq!(create(&mut bench, "trains", Some(1), StreamMode::Provisioned), Ok(()));
    assert_eq!(code(bench.split(SHARD_0, 1_000)), "LimitExceededException");
    let scale = |target| UpdateShardCountRequest { stream: "flights".into(), target_shard_count: target };
    assert_eq!(code(bench.model.update_shard_count(scale(4), bench.now)), "LimitExceededException");
    bench.model.update_shard_count(scale(3), bench.now).unwrap();
    for number in 0..50 {
        assert_eq!(create(&mut bench, &format!("ships-{number}"), None, StreamMode::OnDemand), Ok(()));
    }
    assert_eq!(create(&mut bench, "ships", None, StreamMode::OnDemand), refused);
}

#[test]
fn five_streams_are_created_at_a_time() {
    let transition = Duration::from_secs(10);
    let mut bench = Bench::with(Settings { limits: true, transition, ..Default::default() }, 1);
    for name in ["a", "b", "c", "d"] {
        bench.pass(1_000);
        bench.create(name, 1);
    }
    bench.pass(1_000);
    let request = CreateStreamRequest { stream_name: "e".into(), shard_count: Some(1), ..Default::default() };
    assert_eq!(code(bench.model.create_stream(request.clone(), bench.now)), "LimitExceededException");
    bench.pass(5_000);
    bench.model.create_stream(request, bench.now).unwrap();
}

#[test]
fn without_limits_nothing_is_refused_for_coming_too_fast() {
    let mut bench = Bench::new(1);
    for _ in 0..20 {
        assert_eq!(put_many(&mut bench, 10, 1 << 20, 0).failed_record_count(), 0);
        let iterator = bench.iterator(SHARD_0, TrimHorizon).unwrap();
        assert_eq!(bench.get(&iterator, None).unwrap().records.len(), 10);
        bench.model.describe_limits(bench.now).unwrap();
    }
}

#[test]
fn records_fail_one_by_one_where_they_are_told_to() {
    let mut bench = Bench::new(1);
    let records = ["a", "b", "c"].map(|text| PutRecordsEntry::new(text, text)).to_vec();
    let failures =
        BTreeMap::from([(1, KinesisError::InternalFailure("Internal Service Failure".to_owned()))]);
    let request = PutRecordsRequest { stream: "flights".into(), records };
    let response = bench.model.put_records_except(request, &failures, bench.now).unwrap();
    assert_eq!(response.failed_record_count(), 1);
    assert_eq!(response.records[1].as_ref().unwrap_err().code(), "InternalFailure");
    assert_eq!(crate::texts(&bench.read(SHARD_0, TrimHorizon)), ["a", "c"]);
}
