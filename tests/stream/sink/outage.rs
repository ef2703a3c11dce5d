//! Sending again through outages, under tokio's paused clock.

use std::sync::Arc;
use std::time::Duration;

use actix_kinesis::ShardId;
use actix_kinesis::config::ProducerConf;
use actix_kinesis::producer::{KinesisProducer, PutApi, SendReason};
use actix_kinesis::stream::sink::KinesisSink;
use futures::future::BoxFuture;
use futures::{FutureExt, SinkExt};
use kinesis_lease::put::{PutPlace, PutRecord, PutReply};
use kinesis_lease::{StreamError, StreamErrorKind};
use kinesis_record::Shard;
use tokio::time::Instant;

use super::{HOUR, counted, failed, feed};
use crate::producing::{STREAM, event};

const MINUTE: Duration = Duration::from_secs(60);

/// A service that fails every call until then.
#[derive(Debug)]
struct Outage {
    until: Instant,
}

impl PutApi for Outage {
    fn list_shards<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Shard>, StreamError>> {
        futures::future::pending().boxed()
    }

    fn put_records<'a>(
        &'a self,
        _: &'a str,
        records: Vec<PutRecord>,
    ) -> BoxFuture<'a, Result<Vec<PutReply>, StreamError>> {
        let place = PutPlace { shard: ShardId::from("shardId-0".to_owned()), sequence: 1.into() };
        let reply = match Instant::now() < self.until {
            true => Err(StreamError { kind: StreamErrorKind::Unavailable, message: "not now".to_owned() }),
            false => Ok(records.iter().map(|_| Ok(place.clone())).collect()),
        };
        async move { reply }.boxed()
    }
}

/// A producer with the default settings, whose calls fail for so long.
async fn producer(outage: Duration) -> KinesisProducer {
    let api = Arc::new(Outage { until: Instant::now() + outage });
    KinesisProducer::builder(ProducerConf::new(STREAM)).api(api).seed(1).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn without_sending_again_an_outage_fails_what_expires_in_it() {
    let began = Instant::now();
    let mut sink = KinesisSink::builder(producer(HOUR).await).build().unwrap();
    feed(&mut sink, [event(0, 1)]).await;
    let (_, cause, _) = failed(sink.close().await.unwrap_err());
    assert!(matches!(cause.reason, SendReason::Expired(_)), "{cause}");
    assert!(began.elapsed() < MINUTE);
}

#[tokio::test(start_paused = true)]
async fn what_expires_is_sent_again_within_the_limit_and_has_the_calls_of_all_sends() {
    let began = Instant::now();
    let sink = KinesisSink::builder(producer(HOUR).await).resend_within(10 * MINUTE).seed(1);
    let mut sink = sink.build().unwrap();
    feed(&mut sink, [event(0, 1)]).await;
    let (_, cause, counts) = failed(sink.close().await.unwrap_err());
    assert!(matches!(cause.reason, SendReason::Expired(_)), "{cause}");
    assert_eq!((cause.event, counts), (event(0, 1), (0, 1)));
    // The last send began in time, and had the `record-ttl`.
    let took = began.elapsed();
    assert!((9 * MINUTE..11 * MINUTE).contains(&took), "{took:?}");
    let told: Duration = cause.attempts.iter().map(|call| call.delay + call.duration).sum();
    assert!((9 * MINUTE..=took).contains(&told), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_an_outage_only_holds_the_sink_up() {
    let began = Instant::now();
    let sink = KinesisSink::builder(producer(HOUR).await).resend_for_ever().seed(1);
    let mut sink = sink.build().unwrap();
    let finished = sink.finished();
    feed(&mut sink, (0..50).map(|index| event(index, 50))).await;
    sink.close().await.unwrap();
    assert_eq!(counted(finished.await.unwrap()), (50, 0));
    assert!(began.elapsed() >= HOUR);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_dropped_sends_again_all_the_same() {
    let sink = KinesisSink::builder(producer(HOUR).await).resend_for_ever().stop_producer().seed(1);
    let mut sink = sink.build().unwrap();
    let (finished, producer) = (sink.finished(), sink.producer().clone());
    feed(&mut sink, (0..10).map(|index| event(index, 10))).await;
    drop(sink);
    let end = finished.await.unwrap_err();
    assert!(end.to_string().contains("10 are stored"), "{end}");
    assert_eq!(producer.status().sent, 10);
}
