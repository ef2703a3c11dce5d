//! Events that are sent without trouble.

use actix_kinesis::HashKey;
use actix_kinesis::config::Ordering;
use actix_kinesis::producer::{ProducerEvent, SendReason};
use kinesis_local::LocalAws;
use kinesis_local::model::Settings;

use crate::support::*;

#[actix::test]
async fn every_event_is_stored_once_where_its_result_says() {
    for is_aggregated in [true, false] {
        let aws = local_aws(4).await;
        let mut conf = conf(&aws);
        conf.aggregation.enabled = is_aggregated;
        let producer = start(conf).await;
        let results = results(send_many(&producer, 5_000, 300)).await;
        assert_once_each(&aws, 5_000);
        assert_told(&aws, &results);
        let records = aws.records(STREAM).unwrap().len();
        assert!(if is_aggregated { records < 200 } else { records == 5_000 }, "{records}");
        let status = producer.status();
        assert_eq!((status.sent, status.failed, status.outstanding), (5_000, 0, 0));
        assert_eq!((status.streams[0].shards.len(), status.streams[0].calls), (4, aws.calls("PutRecords")));
    }
}

#[actix::test]
async fn events_of_a_key_are_stored_in_the_order_of_sending() {
    for is_aggregated in [true, false] {
        let aws = local_aws(2).await;
        let mut conf = conf(&aws);
        conf.ordering = Ordering::PartitionKey;
        conf.aggregation.enabled = is_aggregated;
        conf.record_max_buffered_time = 2 * MS;
        let producer = start(conf).await;
        results(send_many(&producer, 2_000, 100)).await;
        assert_once_each(&aws, 2_000);
        assert!(by_key(&aws).values().all(|payloads| payloads.is_sorted()));
    }
}

#[actix::test]
async fn keys_of_any_script_and_empty_payloads_go_as_they_are() {
    let aws = local_aws(2).await;
    let producer = start(conf(&aws)).await;
    let long = "\u{10348}".repeat(256);
    let keys = ["k", "\u{663}\u{664}", "ключ", " ", "10", "9", &long];
    results(keys.iter().map(|key| producer.send(ProducerEvent::new(*key, ""))).collect()).await;
    results(vec![producer.send(ProducerEvent::new(long.as_str(), ""))]).await;
    let mut sent: Vec<_> = keys.to_vec();
    sent.push(&long);
    sent.sort_unstable();
    let stored = stored(&aws, STREAM);
    let mut found: Vec<_> = stored.iter().map(|it| it.key.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, sent);
    assert!(stored.iter().all(|it| it.payload.is_empty()));
}

#[actix::test]
async fn what_can_never_be_sent_comes_back_at_once_and_spoils_nothing() {
    let aws = local_aws(1).await;
    let producer = start(conf(&aws)).await;
    let good = send_many(&producer, 100, 10);
    let bad = [
        ProducerEvent::new("", "x"),
        ProducerEvent::new("k".repeat(257), "x"),
        ProducerEvent::new("k", vec![0; 2 << 20]),
        ProducerEvent::new("k", "x").with_stream("no stream"),
    ];
    for event in bad {
        let error = error(producer.send(event.clone())).await;
        assert!(matches!(error.reason, SendReason::Invalid(_)), "{error}");
        assert_eq!(error.event, event);
        assert!(producer.try_send(event).is_err());
    }
    results(good).await;
    assert_once_each(&aws, 100);
}

#[actix::test]
async fn records_of_ten_mebibytes_go_where_the_stream_takes_them() {
    let aws = LocalAws::builder().start().await.unwrap();
    let create = kinesis_local::model::CreateStreamRequest {
        stream_name: STREAM.to_owned(),
        shard_count: Some(1),
        max_record_kib: Some(10_240),
        ..Default::default()
    };
    aws.with_model(|model, now| model.create_stream(create, now)).unwrap();
    let mut conf = conf(&aws);
    conf.max_record_size = 10 << 20;
    let producer = start(conf).await;
    let large = ProducerEvent::new("k", vec![b'x'; (10 << 20) - 1]);
    let results = results(vec![producer.send(large), producer.send(event(1, 1))]).await;
    assert_eq!(results.len(), 2);
    let mut lens: Vec<_> = stored(&aws, STREAM).iter().map(|it| it.payload.len()).collect();
    lens.sort_unstable();
    assert_eq!(lens, [1, (10 << 20) - 1]);
}

#[actix::test]
async fn explicit_hash_keys_find_their_shards() {
    let aws = local_aws(4).await;
    let producer = start(conf(&aws)).await;
    let keys = [HashKey::MIN, HashKey::MAX, HashKey(1 << 126)];
    let sends = keys.map(|key| producer.send(ProducerEvent::new("k", "x").with_explicit_hash_key(key)));
    let shards: Vec<_> = results(sends.into()).await.iter().map(|it| it.shard.to_string()).collect();
    assert_eq!(shards, ["shardId-000000000000", "shardId-000000000003", "shardId-000000000001"]);
}

#[actix::test]
async fn one_producer_sends_to_many_streams() {
    let aws = local_aws(1).await;
    let producer = start(conf(&aws)).await;
    for index in 0..120 {
        let stream = format!("stream-{index}");
        aws.create_stream(&stream, 1).unwrap();
        let sends = (0..3).map(|_| producer.send(ProducerEvent::new("k", "x").with_stream(stream.as_str())));
        results(sends.collect()).await;
        assert_eq!(stored(&aws, &stream).len(), 3);
    }
    results(send_many(&producer, 3, 3)).await;
    assert_eq!(stored(&aws, STREAM).len(), 3);
    assert_eq!(producer.status().sent, 363);
    assert!(producer.status().streams.len() <= 100);
}

#[actix::test]
async fn under_the_limits_of_the_service_nothing_is_lost() {
    let settings = Settings { limits: true, ..Settings::default() };
    let aws = LocalAws::builder().stream(STREAM, 4).settings(settings).start().await.unwrap();
    let mut conf = conf(&aws);
    conf.rate_limit = 150;
    conf.aggregation.enabled = false;
    let producer = start(conf).await;
    results(send_many(&producer, 12_000, 1_000)).await;
    assert_once_each(&aws, 12_000);
    let refused: u64 = producer.status().streams[0].shards.iter().map(|shard| shard.refused).sum();
    assert!(refused > 0, "the limits were not met");
}
