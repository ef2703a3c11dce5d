use std::time::Duration;

use kinesis_local::model::StartingPosition::Latest;
use kinesis_local::model::{
    CreateStreamRequest, DescribeStreamRequest, ListShardsRequest, PutRecordsEntry, Settings,
    StartingPosition, StreamMode, StreamStatus, StreamTarget,
};

use crate::{Bench, SHARD_0, code};

fn slow() -> Bench {
    Bench::with(Settings { transition: Duration::from_secs(10), ..Default::default() }, 1)
}

fn status(bench: &mut Bench) -> StreamStatus {
    let flights = StreamTarget::from("flights");
    bench.model.describe_stream_summary(&flights, bench.now).unwrap().status
}

#[test]
fn a_stream_that_is_being_created_serves_nothing_yet() {
    let mut bench = slow();
    assert_eq!(status(&mut bench), StreamStatus::Creating);
    assert_eq!(code(bench.put_entry(PutRecordsEntry::new("k", "x"))), "ResourceNotFoundException");
    assert_eq!(code(bench.iterator(SHARD_0, Latest)), "ResourceNotFoundException");
    assert_eq!(code(bench.split(SHARD_0, 1_000)), "ResourceInUseException");
    let list = ListShardsRequest { stream: "flights".into(), ..Default::default() };
    assert_eq!(code(bench.model.list_shards(list, bench.now)), "ResourceInUseException");
    let describe = DescribeStreamRequest { stream: "flights".into(), ..Default::default() };
    assert!(bench.model.describe_stream(describe, bench.now).unwrap().shards.is_empty());
    bench.pass(10_000);
    assert_eq!(status(&mut bench), StreamStatus::Active);
    bench.put("x");
}

#[test]
fn a_stream_that_is_being_changed_serves_reads_and_writes_but_no_further_change() {
    let mut bench = slow();
    bench.pass(10_000);
    let [left, _] = bench.split(SHARD_0, 1_000).unwrap();
    assert_eq!(status(&mut bench), StreamStatus::Updating);
    assert_eq!(code(bench.split(left.as_str(), 500)), "ResourceInUseException");
    bench.put("x");
    bench.iterator(SHARD_0, Latest).unwrap();
    bench.pass(10_000);
    bench.split(left.as_str(), 500).unwrap();
}

#[test]
fn a_stream_that_is_being_deleted_keeps_its_name_until_it_is_gone() {
    let mut bench = slow();
    bench.pass(10_000);
    let flights = StreamTarget::from("flights");
    bench.model.delete_stream(&flights, bench.now).unwrap();
    assert_eq!(status(&mut bench), StreamStatus::Deleting);
    let create =
        CreateStreamRequest { stream_name: "flights".into(), shard_count: Some(1), ..Default::default() };
    assert_eq!(code(bench.model.create_stream(create.clone(), bench.now)), "ResourceInUseException");
    bench.pass(10_000);
    assert_eq!(code(bench.model.describe_stream_summary(&flights, bench.now)), "ResourceNotFoundException");
    bench.model.create_stream(create, bench.now).unwrap();
}

#[test]
fn a_stream_is_created_with_one_to_ten_thousand_shards() {
    let mut bench = Bench::new(1);
    for (name, shard_count, mode, expected) in [
        ("a", Some(0), StreamMode::Provisioned, Err("ValidationException")),
        ("a", Some(10_001), StreamMode::Provisioned, Err("ValidationException")),
        ("a", None, StreamMode::Provisioned, Err("ValidationException")),
        ("a b", Some(1), StreamMode::Provisioned, Err("ValidationException")),
        ("flights", Some(1), StreamMode::Provisioned, Err("ResourceInUseException")),
        ("a", Some(10_000), StreamMode::Provisioned, Ok(10_000)),
        ("b", None, StreamMode::OnDemand, Ok(4)),
    ] {
        let request =
            CreateStreamRequest { stream_name: name.into(), shard_count, mode, ..Default::default() };
        let created = bench.model.create_stream(request, bench.now).map_err(|error| error.code());
        let count = created
            .map(|()| bench.model.describe_stream_summary(&name.into(), bench.now).unwrap().open_shard_count);
        assert_eq!(count, expected, "{name} {shard_count:?}");
    }
}

#[test]
fn the_retention_is_changed_only_in_the_direction_of_the_call() {
    let mut bench = Bench::new(1);
    let flights = StreamTarget::from("flights");
    for (increase, hours, fits) in [
        (true, 23, false),
        (true, 48, true),
        (true, 47, false),
        (true, 8_761, false),
        (true, 8_760, true),
        (false, 8_761, false),
        (false, 23, false),
        (false, 24, true),
        (false, 25, false),
    ] {
        let result = if increase {
            bench.model.increase_stream_retention_period(&flights, hours, bench.now)
        } else {
            bench.model.decrease_stream_retention_period(&flights, hours, bench.now)
        };
        assert_eq!(
            result.map_err(|error| error.code()),
            if fits { Ok(()) } else { Err("InvalidArgumentException") }
        );
    }
}

#[test]
fn a_stream_made_again_within_a_millisecond_is_another_with_higher_numbers() {
    let mut bench = Bench::new(1);
    let mut last = bench.put("old").sequence_number;
    let [left, right] = bench.split(SHARD_0, 1_000).unwrap();
    bench.merge(left.as_str(), right.as_str()).unwrap();
    last = last.max(bench.put("old").sequence_number);
    let old = bench.iterator(SHARD_0, Latest).unwrap();
    let page = ListShardsRequest { stream: "flights".into(), max_results: Some(1), ..Default::default() };
    let token = bench.model.list_shards(page, bench.now).unwrap().next_token;
    bench.model.delete_stream(&"flights".into(), bench.now).unwrap();
    bench.create("flights", 2);

    assert_eq!(code(bench.get(&old, None)), "ResourceNotFoundException");
    let next_page = ListShardsRequest { next_token: token, ..Default::default() };
    assert_eq!(code(bench.model.list_shards(next_page, bench.now)), "InvalidArgumentException");
    assert!(bench.shards().iter().all(|shard| shard.starting_sequence > last));
    assert!(bench.put("new").sequence_number > last);
    let at = StartingPosition::AfterSequenceNumber(last.to_string());
    assert_eq!(code(bench.iterator(SHARD_0, at)), "InvalidArgumentException");
}
