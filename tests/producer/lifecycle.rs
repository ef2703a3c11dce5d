//! Room, flushing, stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_kinesis::config::ProducerConf;
use actix_kinesis::producer::{
    KinesisProducer, ProducerError, PutApi, PutRecord, PutReply, SendReason, Shard, StreamError,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_local::faults::Fault;

use crate::support::*;

const FOREVER: Duration = Duration::from_secs(3600);

#[actix::test]
async fn beyond_the_limit_sends_wait_in_order_or_are_refused() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 10;
    conf.record_max_buffered_time = Duration::ZERO;
    let producer = start(conf).await;
    let hold = aws.faults().add(Fault::on("PutRecords").delay(300 * MS));
    let mut sendings = send_many(&producer, 10, 1);
    assert!(producer.status().throttled);
    let refused = producer.try_send(event(10, 1)).unwrap_err();
    assert_eq!((&refused.reason, &refused.event), (&SendReason::Full, &event(10, 1)));
    let late = within_patience("the outcome", producer.send_timeout(event(10, 1), MS)).await.unwrap_err();
    assert_eq!((late.reason, late.event), (SendReason::Full, event(10, 1)));
    sendings.extend((10..30).map(|index| producer.send(event(index, 1))));
    // Given up before there is room for it.
    drop(producer.send(event(99, 1)));
    let status = producer.status();
    assert_eq!((status.outstanding, status.waiting), (10, 20));
    hold.remove();
    within_patience("room", producer.room()).await;
    results(sendings).await;
    assert_once_each(&aws, 30);
    let status = producer.status();
    assert_eq!((status.outstanding, status.outstanding_bytes, status.waiting), (0, 0, 0));
    results(vec![producer.try_send(event(30, 1)).unwrap()]).await;
}

#[actix::test]
async fn a_flush_does_not_wait_for_the_buffered_time() {
    let aws = local_aws(2).await;
    let mut conf = conf(&aws);
    conf.record_max_buffered_time = Duration::from_secs(3600);
    let producer = start(conf).await;
    let sendings = send_many(&producer, 100, 10);
    let flushed = within_patience("the flush", producer.flush()).await;
    assert_eq!((flushed.sent, flushed.failed), (100, 0));
    results(sendings).await;
    assert_eq!(within_patience("the flush", producer.flush()).await.sent, 0);
}

#[actix::test]
async fn a_stop_sends_what_was_taken_and_takes_no_more() {
    let aws = local_aws(2).await;
    let mut conf = conf(&aws);
    conf.record_max_buffered_time = Duration::from_secs(3600);
    conf.max_outstanding_requests = 100;
    let producer = start(conf).await;
    let taken = send_many(&producer, 100, 10);
    let waiting = producer.send(event(100, 10));
    let stops = async { tokio::join!(producer.stop(FOREVER), producer.stop(FOREVER)) };
    let (first, second) = within_patience("the stops", stops).await;
    assert_eq!((first.sent, first.failed), (100, 0));
    assert_eq!(first, second);
    results(taken).await;
    assert_eq!(error(waiting).await.reason, SendReason::Stopped(None));
    let refused = error(producer.send(event(101, 10))).await;
    assert_eq!((refused.reason, refused.event), (SendReason::Stopped(None), event(101, 10)));
    assert_once_each(&aws, 100);
    assert_eq!(within_patience("the stop", producer.stop(FOREVER)).await.sent, 0);
    assert_eq!(within_patience("the flush", producer.flush()).await.sent, 0);
    within_patience("room", producer.room()).await;
}

#[actix::test]
async fn at_the_deadline_of_a_stop_the_rest_comes_back() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.aggregation.enabled = false;
    conf.collection.max_count = 10;
    conf.max_in_flight_calls = 1;
    let producer = start(conf).await;
    let hung = aws.faults().add(Fault::on("PutRecords").skip(1).hang());
    let sendings = send_many(&producer, 100, 100);
    tokio::time::timeout(Duration::from_secs(60), hung.until_fired(1)).await.unwrap();
    let flushed = within_patience("the stop", producer.stop(50 * MS)).await;
    assert_eq!((flushed.sent, flushed.failed), (0, 90));
    let outcomes = outcomes(sendings).await;
    let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(errors.iter().all(|it| matches!(it.reason, SendReason::Stopped(_))));
    assert_eq!(errors.iter().filter(|it| it.may_be_stored()).count(), 10);
    let status = producer.status();
    assert_eq!((status.sent, status.failed, status.outstanding), (10, 90, 0));
}

#[actix::test]
async fn what_was_taken_is_sent_when_all_handles_are_dropped() {
    let aws = local_aws(1).await;
    let producer = start(conf(&aws)).await;
    for sending in send_many(&producer, 100, 10) {
        drop(sending);
    }
    drop(producer);
    eventually("all is stored", || stored(&aws, STREAM).len() == 100).await;
}

/// A client that never lists and panics when it puts, even before it has a future to give.
#[derive(Debug, Default)]
struct Broken {
    at_once: bool,
}

impl PutApi for Broken {
    fn list_shards<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Shard>, StreamError>> {
        futures::future::pending().boxed()
    }

    fn put_records<'a>(
        &'a self,
        _: &'a str,
        _: Vec<PutRecord>,
    ) -> BoxFuture<'a, Result<Vec<PutReply>, StreamError>> {
        assert!(!self.at_once, "a bug in a client");
        async { panic!("a bug in a client") }.boxed()
    }
}

#[test]
fn the_end_of_the_runtime_gives_every_event_back() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let mut conf = ProducerConf::new(STREAM);
    conf.max_outstanding_requests = 10;
    let producer = KinesisProducer::builder(conf).api(Arc::new(Broken::default())).start();
    let producer = runtime.block_on(producer).unwrap();
    let sendings = send_many(&producer, 20, 10);
    runtime.block_on(async { tokio::time::sleep(10 * MS).await });
    drop(runtime);
    for (index, sending) in sendings.into_iter().enumerate() {
        let error = sending.now_or_never().unwrap().unwrap_err();
        assert_eq!((error.reason, error.event), (SendReason::Died, event(index, 10)));
    }
    let error = producer.send(event(0, 1)).now_or_never().unwrap().unwrap_err();
    assert_eq!(error.reason, SendReason::Died);
}

/// A client whose calls never end.
#[derive(Debug, Default)]
struct Hanging {
    called: AtomicBool,
}

impl PutApi for Hanging {
    fn list_shards<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Shard>, StreamError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn put_records<'a>(
        &'a self,
        _: &'a str,
        _: Vec<PutRecord>,
    ) -> BoxFuture<'a, Result<Vec<PutReply>, StreamError>> {
        self.called.store(true, Ordering::Relaxed);
        futures::future::pending().boxed()
    }
}

#[test]
fn at_the_end_of_the_runtime_an_event_whose_call_is_under_way_may_be_stored() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut conf = ProducerConf::new(STREAM);
    conf.record_max_buffered_time = Duration::ZERO;
    conf.max_in_flight_calls = 1;
    let api = Arc::new(Hanging::default());
    let producer = runtime.block_on(KinesisProducer::builder(conf).api(api.clone()).start()).unwrap();
    let called = producer.send(event(0, 1));
    runtime.block_on(eventually("the call is under way", || api.called.load(Ordering::Relaxed)));
    let waiting = producer.send(event(1, 1));
    runtime.block_on(tokio::task::yield_now());
    drop(runtime);
    let error = called.now_or_never().unwrap().unwrap_err();
    assert_eq!((&error.reason, error.attempts.len()), (&SendReason::Died, 1));
    assert!(error.may_be_stored());
    let error = waiting.now_or_never().unwrap().unwrap_err();
    assert_eq!((&error.reason, error.calls(), error.may_be_stored()), (&SendReason::Died, 0, false));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_panics_costs_an_attempt() {
    let mut conf = ProducerConf::new(STREAM);
    conf.record_ttl = 3 * SECOND;
    conf.request_timeout = 100 * MS;
    for at_once in [false, true] {
        let api = Arc::new(Broken { at_once });
        let producer = KinesisProducer::builder(conf.clone()).api(api).start().await.unwrap();
        let error = error(producer.send(event(0, 1))).await;
        let SendReason::Expired(Some(last)) = &error.reason else { panic!("{error:?}") };
        assert!(last.message.contains("panicked"), "{last}");
    }
}

/// A client whose calls to put never end, and panic when they are given up.
#[derive(Debug)]
struct BreaksWhenDropped;

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        // Not while the test itself ends.
        if !std::thread::panicking() {
            panic!("a bug in a client");
        }
    }
}

impl PutApi for BreaksWhenDropped {
    fn list_shards<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Shard>, StreamError>> {
        async {
            let _bomb = Bomb;
            Ok(Vec::new())
        }
        .boxed()
    }

    fn put_records<'a>(
        &'a self,
        _: &'a str,
        _: Vec<PutRecord>,
    ) -> BoxFuture<'a, Result<Vec<PutReply>, StreamError>> {
        async {
            let _bomb = Bomb;
            futures::future::pending().await
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_panics_while_its_call_is_given_up_costs_an_attempt() {
    let mut conf = ProducerConf::new(STREAM);
    conf.record_ttl = 10 * SECOND;
    conf.request_timeout = 100 * MS;
    let producer = KinesisProducer::builder(conf).api(Arc::new(BreaksWhenDropped)).start().await.unwrap();
    let error = error(producer.send(event(0, 1))).await;
    let SendReason::Expired(Some(last)) = &error.reason else { panic!("{error:?}") };
    assert!(last.message.contains("panicked"), "{last}");
    assert!(error.attempts.len() > 1 && error.may_be_stored());
}

#[tokio::test]
async fn settings_under_which_events_expire_unsent_are_warned_of_at_the_start() {
    let logs = crate::logs::Logs::of_this_thread();
    let mut conf = ProducerConf::new(STREAM);
    conf.record_max_buffered_time = conf.record_ttl;
    KinesisProducer::builder(conf).api(Arc::new(Hanging::default())).start().await.unwrap();
    let told = logs.with(&[" WARN ", "record-ttl", "record-max-buffered-time"]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(STREAM), "{told:?}");
}

#[test]
fn outside_of_a_runtime_or_with_wrong_settings_nothing_starts() {
    let start = |conf| KinesisProducer::start(conf).now_or_never().unwrap().unwrap_err();
    assert!(matches!(start(ProducerConf::new(STREAM)), ProducerError::NoRuntime));
    assert!(matches!(start(ProducerConf::new("no stream")), ProducerError::Config(_)));
}
