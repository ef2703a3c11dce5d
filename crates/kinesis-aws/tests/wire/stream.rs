//! A stream of the Kinesis on loopback, read as a consumer reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kinesis_aws::{Clients, KinesisStream};
use kinesis_lease::stream::{RecordsPage, ShardIterator, StartAt};
use kinesis_lease::{StreamApi, StreamErrorKind};
use kinesis_local::LocalAws;
use kinesis_record::{HashRange, ShardId};

use crate::support::settings_for;

const SHARD: &str = "shardId-000000000000";

async fn stream(aws: &LocalAws, name: &str) -> KinesisStream {
    KinesisStream::new(&Clients::connect(&settings_for(aws)).await.unwrap(), name)
}

async fn local(shards: u32) -> (LocalAws, KinesisStream) {
    let aws = LocalAws::builder().stream("orders", shards).start().await.unwrap();
    let orders = stream(&aws, "orders").await;
    (aws, orders)
}

async fn read(stream: &KinesisStream, start: StartAt) -> RecordsPage {
    let iterator = stream.shard_iterator(&SHARD.into(), &start).await.unwrap();
    stream.get_records(&iterator, 10_000).await.unwrap()
}

async fn data(stream: &KinesisStream, start: StartAt) -> Vec<String> {
    let page = read(stream, start).await;
    page.records.iter().map(|record| String::from_utf8(record.data.to_vec()).unwrap()).collect()
}

/// A clock that a test sets, in milliseconds.
fn clock() -> (Arc<AtomicU64>, impl Fn() -> SystemTime + Send + Sync + 'static) {
    let millis = Arc::new(AtomicU64::new(1_800_000_000_000));
    let shown = Arc::clone(&millis);
    (millis, move || UNIX_EPOCH + Duration::from_millis(shown.load(Ordering::SeqCst)))
}

#[tokio::test]
async fn all_shards_of_a_large_stream_are_listed_over_several_pages() {
    let (aws, orders) = local(2_500).await;
    let shards = orders.list_shards().await.unwrap();
    assert_eq!(shards.len(), 2_500);
    assert!(aws.calls("ListShards") >= 3);
    assert_eq!(shards, aws.shards("orders").unwrap());
    assert!(shards.windows(2).all(|pair| pair[0].hash_range.is_followed_by(&pair[1].hash_range)));
}

#[tokio::test]
async fn closed_shards_are_listed_with_their_parents() {
    let (aws, orders) = local(1).await;
    let [left, right] = aws.split("orders", SHARD).unwrap();
    let merged = aws.merge("orders", left.as_str(), right.as_str()).unwrap();
    let shards = orders.list_shards().await.unwrap();
    let find = |id: &ShardId| shards.iter().find(|shard| shard.id == *id).unwrap();
    assert_eq!(find(&left).parents, [SHARD.into()]);
    assert!(!find(&left).is_open());
    let mut parents = find(&merged).parents.clone();
    parents.sort();
    assert_eq!(parents, [left, right]);
    assert!(find(&merged).is_open());
}

#[tokio::test]
async fn a_shard_is_read_from_every_kind_of_start() {
    let (millis, now) = clock();
    let aws = LocalAws::builder().stream("orders", 1).clock(now).start().await.unwrap();
    let orders = stream(&aws, "orders").await;
    for text in ["first", "second", "third"] {
        millis.fetch_add(10, Ordering::SeqCst);
        aws.put("orders", "key", text).unwrap();
    }
    let page = read(&orders, StartAt::TrimHorizon).await;
    assert_eq!(page.records.len(), 3);
    let second = &page.records[1];
    assert_eq!(second.partition_key.as_deref(), Some("key"));
    let arrival = second.arrival.unwrap();
    assert_eq!(arrival, UNIX_EPOCH + Duration::from_millis(1_800_000_000_020));

    assert_eq!(data(&orders, StartAt::TrimHorizon).await, ["first", "second", "third"]);
    assert_eq!(data(&orders, StartAt::At(second.sequence.clone())).await, ["second", "third"]);
    assert_eq!(data(&orders, StartAt::After(second.sequence.clone())).await, ["third"]);
    assert_eq!(data(&orders, StartAt::Timestamp(arrival)).await, ["second", "third"]);
    let within = arrival + Duration::from_nanos(999_999);
    assert_eq!(data(&orders, StartAt::Timestamp(within)).await, ["second", "third"]);
    assert_eq!(data(&orders, StartAt::Timestamp(UNIX_EPOCH)).await, ["first", "second", "third"]);

    let latest = orders.shard_iterator(&SHARD.into(), &StartAt::Latest).await.unwrap();
    aws.put("orders", "key", "fourth").unwrap();
    let page = orders.get_records(&latest, 10).await.unwrap();
    assert_eq!(page.records.len(), 1);
    assert_eq!(&page.records[0].data[..], b"fourth");
}

#[tokio::test]
async fn a_page_holds_no_more_records_than_asked_for_and_says_where_to_go_on() {
    let (aws, orders) = local(1).await;
    for text in ["first", "second", "third"] {
        aws.put("orders", "key", text).unwrap();
    }
    let start = orders.shard_iterator(&SHARD.into(), &StartAt::TrimHorizon).await.unwrap();
    let page = orders.get_records(&start, 2).await.unwrap();
    assert_eq!(page.records.len(), 2);
    let rest = orders.get_records(&page.next.unwrap(), 2).await.unwrap();
    assert_eq!(rest.records.len(), 1);
    assert_eq!(rest.behind, Duration::ZERO);
    assert!(rest.children.is_empty());
}

#[tokio::test]
async fn a_page_tells_how_far_it_is_behind() {
    let (millis, now) = clock();
    let aws = LocalAws::builder().stream("orders", 1).clock(now).start().await.unwrap();
    let orders = stream(&aws, "orders").await;
    aws.put("orders", "key", "first").unwrap();
    aws.put("orders", "key", "second").unwrap();
    millis.fetch_add(1_500, Ordering::SeqCst);
    let start = orders.shard_iterator(&SHARD.into(), &StartAt::TrimHorizon).await.unwrap();
    assert_eq!(orders.get_records(&start, 1).await.unwrap().behind, Duration::from_millis(1_500));
}

#[tokio::test]
async fn the_end_of_a_shard_has_no_next_iterator_and_names_the_children() {
    let (aws, orders) = local(1).await;
    aws.put("orders", "key", "last").unwrap();
    let [left, right] = aws.split("orders", SHARD).unwrap();
    let mut page = read(&orders, StartAt::TrimHorizon).await;
    assert_eq!(page.records.len(), 1);
    while let Some(next) = page.next.take() {
        page = orders.get_records(&next, 10).await.unwrap();
    }
    assert!(page.next.is_none());
    let ids: Vec<_> = page.children.iter().map(|child| child.id.clone()).collect();
    assert_eq!(ids, [left, right]);
    assert!(page.children.iter().all(|child| child.parents == [SHARD.into()]));
    let ranges: Vec<HashRange> = page.children.iter().map(|child| child.hash_range).collect();
    assert!(ranges[0].is_followed_by(&ranges[1]));
}

#[tokio::test]
async fn an_iterator_expires_after_five_minutes() {
    let (millis, now) = clock();
    let aws = LocalAws::builder().stream("orders", 1).clock(now).start().await.unwrap();
    let orders = stream(&aws, "orders").await;
    let iterator = orders.shard_iterator(&SHARD.into(), &StartAt::TrimHorizon).await.unwrap();
    millis.fetch_add(301_000, Ordering::SeqCst);
    let error = orders.get_records(&iterator, 10).await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::ExpiredIterator, "{error}");
    assert!(!error.message.contains(&iterator.0));
}

#[tokio::test]
async fn a_stream_or_shard_that_does_not_exist_is_named() {
    let (aws, orders) = local(1).await;
    let error = stream(&aws, "no-such-stream").await.list_shards().await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::NotFound, "{error}");
    assert!(error.message.contains("no-such-stream") && error.message.contains("check the stream's name"));
    let shard = "shardId-000000000099".into();
    let error = orders.shard_iterator(&shard, &StartAt::Latest).await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::NotFound, "{error}");
    assert!(error.message.contains(shard.as_str()), "{error}");
}

#[tokio::test]
async fn an_argument_that_the_service_refuses_is_the_callers() {
    let (_aws, orders) = local(1).await;
    let error = orders.get_records(&ShardIterator("nonsense".to_owned()), 10).await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::InvalidArgument, "{error}");
    let start = orders.shard_iterator(&SHARD.into(), &StartAt::TrimHorizon).await.unwrap();
    let error = orders.get_records(&start, 10_001).await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::InvalidArgument, "{error}");
}

#[tokio::test]
async fn a_stream_can_be_named_by_its_arn() {
    let (aws, orders) = local(1).await;
    aws.put("orders", "key", "first").unwrap();
    let summary = Clients::connect(&settings_for(&aws)).await.unwrap();
    let summary = summary.kinesis().describe_stream_summary().stream_name("orders").send().await.unwrap();
    let arn = summary.stream_description_summary.unwrap().stream_arn;
    let by_arn = stream(&aws, &arn).await;
    assert_eq!((by_arn.name(), by_arn.arn()), ("orders", Some(arn.as_str())));
    assert_eq!(by_arn.list_shards().await, orders.list_shards().await);
    assert_eq!(data(&by_arn, StartAt::TrimHorizon).await, ["first"]);
}
