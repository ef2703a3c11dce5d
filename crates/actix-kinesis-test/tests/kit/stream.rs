//! Putting records and resharding.

use std::time::Duration;

use actix::Actor;
use actix_kinesis::HashKey;
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::KinesisConsumer;
use actix_kinesis_test::{LocalAws, TestStream};

use crate::processors::Clerk;

#[tokio::test]
async fn records_go_where_they_are_put() {
    let stream = TestStream::start("orders", 2).await;
    let shards = stream.open_shards();
    let keys: Vec<_> = stream.keys_of(&shards[1]).take(3).collect();
    for key in &keys {
        assert_eq!(stream.put(key, "tea").shard, shards[1]);
    }
    assert_eq!(stream.put_to(&shards[0], &keys[0], "tea").shard, shards[0]);
    assert_eq!(stream.put_hashed(&keys[0], HashKey::MIN, "tea").shard, shards[0]);
    let put: Vec<_> = stream.records().into_iter().map(|record| record.shard).collect();
    assert_eq!(put, [&shards[0], &shards[0], &shards[1], &shards[1], &shards[1]].map(Clone::clone));
}

#[tokio::test]
#[should_panic(expected = "stream \"orders\" has no shard \"shardId-7\"; open are [shardId-000000000000]")]
async fn an_unknown_shard_is_told() {
    TestStream::start("orders", 1).await.put_to("shardId-7", "ada", "tea");
}

#[tokio::test]
#[should_panic(
    expected = "shard shardId-000000000000 of \"orders\" is closed; open are [shardId-000000000001, "
)]
async fn a_closed_shard_is_told() {
    let stream = TestStream::start("orders", 1).await;
    stream.split("shardId-000000000000");
    stream.split("shardId-000000000000");
}

#[tokio::test]
#[should_panic(expected = "no local AWS: cannot create the stream \"orders\": ")]
async fn an_impossible_stream_is_told() {
    TestStream::start("orders", 0).await;
}

#[tokio::test]
#[should_panic(expected = "stream \"orders\" takes no record: ")]
async fn an_impossible_record_is_told() {
    TestStream::start("orders", 1).await.put("", "tea");
}

#[actix::test]
async fn streams_of_one_local_aws_are_consumed_apart() {
    let orders = TestStream::start_in(LocalAws::builder().seed(7), "orders", 1).await;
    let returns = orders.another("returns", 1);
    orders.put("ada", "tea");
    returns.put("bob", "milk");
    let ordered = orders.consume(Clerk::processing().start()).await;
    let returned = returns.consume(Clerk::processing().start()).await;
    ordered.until_all_processed().await;
    returned.until_all_processed().await;
    ordered.stop().await;
    returned.stop().await;
    assert_eq!(ordered.seen_by_all().payloads(), ["tea"]);
    assert_eq!(returned.seen_by_all().payloads(), ["milk"]);
}

#[actix::test]
async fn the_applications_own_settings_are_redirected() {
    let stream = TestStream::start("orders-test", 1).await;
    let mut own = ConsumerConf::new("shop", "orders");
    own.aws.profile = Some("production".to_owned());
    own.aws.endpoint_url = Some("http://192.0.2.1".to_owned());
    own.checkpointer.interval = Duration::from_millis(50);
    let conf = stream.redirect(own.clone());
    assert_eq!((&*conf.application_name, &conf.checkpointer), ("shop", &own.checkpointer));
    stream.put("ada", "tea");
    let consumer = stream.consume_with(KinesisConsumer::builder(conf, Clerk::processing().start())).await;
    consumer.until_all_checkpointed().await;
    consumer.stop().await;
}
