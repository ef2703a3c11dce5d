use kinesis_local::model::{
    DescribeStreamRequest, KinesisError, ListShardsRequest, ListStreamsRequest, ShardFilter, StreamTarget,
    Timestamp,
};
use kinesis_record::ShardId;

use crate::{Bench, HOUR, SHARD_0, SHARD_1, SHARD_2, code};

fn numbers(bench: &mut Bench, filter: ShardFilter) -> Result<Vec<u32>, KinesisError> {
    let request = ListShardsRequest { stream: "flights".into(), filter: Some(filter), ..Default::default() };
    let shards = bench.model.list_shards(request, bench.now)?.shards;
    Ok(shards.iter().map(|shard| shard.id.as_str()[8..].parse().unwrap()).collect())
}

fn first_page(bench: &mut Bench, max_results: u32) -> ListShardsRequest {
    let request =
        ListShardsRequest { stream: "flights".into(), max_results: Some(max_results), ..Default::default() };
    let next_token = bench.model.list_shards(request, bench.now).unwrap().next_token;
    ListShardsRequest { next_token, ..Default::default() }
}

#[test]
fn pages_follow_one_another_without_gap_or_overlap() {
    let mut bench = Bench::new(7);
    for size in 1..=8 {
        let mut ids: Vec<ShardId> = Vec::new();
        let mut request = ListShardsRequest { stream: "flights".into(), ..Default::default() };
        loop {
            request.max_results = Some(size);
            let page = bench.model.list_shards(request, bench.now).unwrap();
            assert!(page.shards.len() as u32 <= size && !page.shards.is_empty());
            ids.extend(page.shards.into_iter().map(|shard| shard.id));
            request = ListShardsRequest { next_token: page.next_token, ..Default::default() };
            if request.next_token.is_none() {
                break;
            }
        }
        assert_eq!(ids.len(), 7);
        assert!(ids.is_sorted_by(|a, b| a < b));
    }
}

#[test]
fn a_page_has_a_thousand_shards_at_most() {
    let mut bench = Bench::new(1_001);
    for max_results in [None, Some(10_000)] {
        let request = ListShardsRequest { stream: "flights".into(), max_results, ..Default::default() };
        let page = bench.model.list_shards(request, bench.now).unwrap();
        assert_eq!((page.shards.len(), page.next_token.is_some()), (1_000, true));
    }
    for max_results in [0, 10_001] {
        let request = ListShardsRequest {
            stream: "flights".into(),
            max_results: Some(max_results),
            ..Default::default()
        };
        assert_eq!(code(bench.model.list_shards(request, bench.now)), "ValidationException");
    }
}

#[test]
fn a_token_is_refused_together_with_what_it_stands_for() {
    let mut bench = Bench::new(3);
    let token = first_page(&mut bench, 1);
    let others = [
        ListShardsRequest { stream: "flights".into(), ..token.clone() },
        ListShardsRequest { exclusive_start_shard_id: Some(SHARD_0.into()), ..token.clone() },
        ListShardsRequest { filter: Some(ShardFilter::AtLatest), ..token.clone() },
        ListShardsRequest { stream_created: Some(bench.now), ..token.clone() },
        ListShardsRequest { next_token: Some("garbage".into()), ..Default::default() },
    ];
    for request in others {
        assert_eq!(code(bench.model.list_shards(request, bench.now)), "InvalidArgumentException");
    }
    bench.model.list_shards(token, bench.now).unwrap();
}

#[test]
fn a_token_expires_after_five_minutes() {
    let mut bench = Bench::new(3);
    let token = first_page(&mut bench, 1);
    bench.pass(300_000);
    bench.model.list_shards(token.clone(), bench.now).unwrap();
    bench.pass(1);
    assert_eq!(code(bench.model.list_shards(token, bench.now)), "ExpiredNextTokenException");
}

#[test]
fn a_token_carries_its_filter_over_a_reshard() {
    let mut bench = Bench::new(3);
    bench.split(SHARD_1, 170_141_183_460_469_231_731_687_303_715_884_105_728).unwrap();
    let request = ListShardsRequest {
        stream: "flights".into(),
        filter: Some(ShardFilter::AtLatest),
        max_results: Some(1),
        ..Default::default()
    };
    let page = bench.model.list_shards(request, bench.now).unwrap();
    assert_eq!(page.shards[0].id.as_str(), SHARD_0);
    let request = ListShardsRequest { next_token: page.next_token, ..Default::default() };
    let rest = bench.model.list_shards(request, bench.now).unwrap();
    let ids: Vec<&str> = rest.shards.iter().map(|shard| shard.id.as_str()).collect();
    assert_eq!(ids, [SHARD_2, "shardId-000000000003", "shardId-000000000004"]);
}

#[test]
fn each_filter_lists_what_it_says() {
    let mut bench = Bench::new(2);
    bench.pass(1_000);
    bench.split(SHARD_0, 1_000).unwrap();
    let split_at = bench.now;
    bench.pass(1_000);
    bench.merge("shardId-000000000003", SHARD_1).unwrap();
    let merged_at = bench.now;
    bench.pass(1_000);
    let at = |instant: Timestamp, offset: i64| {
        Timestamp::from_millis(instant.as_millis().wrapping_add_signed(offset))
    };
    let cases = [
        (ShardFilter::FromTrimHorizon, vec![0, 1, 2, 3, 4]),
        (ShardFilter::AtTrimHorizon, vec![0, 1]),
        (ShardFilter::AtLatest, vec![2, 4]),
        (ShardFilter::AfterShardId(SHARD_1.into()), vec![2, 3, 4]),
        (ShardFilter::AtTimestamp(at(split_at, -1)), vec![0, 1]),
        (ShardFilter::AtTimestamp(split_at), vec![1, 2, 3]),
        (ShardFilter::AtTimestamp(at(merged_at, -1)), vec![1, 2, 3]),
        (ShardFilter::AtTimestamp(merged_at), vec![2, 4]),
        (ShardFilter::AtTimestamp(bench.now), vec![2, 4]),
        (ShardFilter::AtTimestamp(Timestamp::from_millis(1)), vec![0, 1]),
        (ShardFilter::FromTimestamp(Timestamp::from_millis(1)), vec![0, 1, 2, 3, 4]),
        (ShardFilter::FromTimestamp(split_at), vec![0, 1, 2, 3, 4]),
        (ShardFilter::FromTimestamp(at(split_at, 1)), vec![1, 2, 3, 4]),
        (ShardFilter::FromTimestamp(bench.now), vec![2, 4]),
    ];
    for (filter, expected) in cases {
        assert_eq!(numbers(&mut bench, filter.clone()).unwrap(), expected, "{filter:?}");
    }
    let future = at(bench.now, 1);
    assert_eq!(code(numbers(&mut bench, ShardFilter::AtTimestamp(future))), "InvalidArgumentException");
    bench.pass(24 * HOUR - 1_500);
    assert_eq!(numbers(&mut bench, ShardFilter::AtTrimHorizon).unwrap(), [1, 2, 3]);
}

#[test]
fn a_description_shows_a_hundred_shards_at_most() {
    let mut bench = Bench::new(150);
    let mut request = DescribeStreamRequest { stream: "flights".into(), ..Default::default() };
    let page = bench.model.describe_stream(request.clone(), bench.now).unwrap();
    assert_eq!((page.shards.len(), page.has_more_shards), (100, true));
    request.exclusive_start_shard_id = page.shards.last().map(|shard| shard.id.clone());
    request.limit = Some(50);
    let page = bench.model.describe_stream(request.clone(), bench.now).unwrap();
    assert_eq!((page.shards.len(), page.has_more_shards), (50, false));
    request.limit = Some(0);
    assert_eq!(code(bench.model.describe_stream(request, bench.now)), "ValidationException");
}

#[test]
fn streams_are_listed_by_name() {
    let mut bench = Bench::new(1);
    for name in ["trains", "buses", "ferries"] {
        bench.create(name, 1);
    }
    let list = |bench: &mut Bench, start: Option<&str>, token: Option<String>| {
        let request = ListStreamsRequest {
            exclusive_start_stream_name: start.map(str::to_owned),
            next_token: token,
            limit: Some(2),
        };
        let response = bench.model.list_streams(request, bench.now).unwrap();
        let names: Vec<String> = response.streams.into_iter().map(|stream| stream.stream_name).collect();
        (names, response.next_token)
    };
    let (names, token) = list(&mut bench, None, None);
    assert_eq!(names, ["buses", "ferries"]);
    let expired = ListStreamsRequest { next_token: token.clone(), ..Default::default() };
    let (names, token) = list(&mut bench, None, token);
    assert_eq!((names, token), (vec!["flights".to_owned(), "trains".to_owned()], None));
    assert_eq!(list(&mut bench, Some("ferries"), None).0, ["flights", "trains"]);
    bench.model.delete_stream(&StreamTarget::from("trains"), bench.now).unwrap();
    assert_eq!(list(&mut bench, Some("ferries"), None).0, ["flights"]);
    bench.pass(300_001);
    assert_eq!(code(bench.model.list_streams(expired, bench.now)), "ExpiredNextTokenException");
}

#[test]
fn a_list_is_of_the_stream_that_was_created_then() {
    let mut bench = Bench::new(1);
    let created = bench.now;
    let list = |bench: &mut Bench, stream_created| {
        let request = ListShardsRequest { stream: "flights".into(), stream_created, ..Default::default() };
        bench.model.list_shards(request, bench.now).map(|response| response.shards.len())
    };
    assert_eq!(list(&mut bench, Some(created)), Ok(1));
    bench.model.delete_stream(&StreamTarget::from("flights"), bench.now).unwrap();
    bench.pass(60_000);
    bench.create("flights", 1);
    assert_eq!(code(list(&mut bench, Some(created))), "ResourceNotFoundException");
    let now = bench.now;
    assert_eq!(list(&mut bench, Some(now)), Ok(1));
}

#[test]
fn what_is_asked_for_behind_two_shards_is_behind_both() {
    let mut bench = Bench::new(4);
    for (start, after) in [(SHARD_0, SHARD_2), (SHARD_2, SHARD_0), (SHARD_2, SHARD_2)] {
        let request = ListShardsRequest {
            stream: "flights".into(),
            exclusive_start_shard_id: Some(start.into()),
            filter: Some(ShardFilter::AfterShardId(after.into())),
            ..Default::default()
        };
        let shards = bench.model.list_shards(request, bench.now).unwrap().shards;
        assert_eq!((shards.len(), shards[0].id.as_str()), (1, "shardId-000000000003"), "{start} {after}");
    }
}
