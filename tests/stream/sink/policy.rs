//! Skipping failures, and sending again.

use actix_kinesis::producer::SendReason;
use actix_kinesis::stream::sink::{KinesisSink, SinkError};
use futures::{FutureExt, SinkExt, StreamExt};
use kinesis_local::faults::Fault;

use super::{HOUR, Reported, counted, events, failed, feed, in_time, invalid, payloads, single};
use crate::producing::{MS, assert_once_each, conf, event, local_aws, start};

#[actix::test]
async fn failures_are_skipped_reported_and_counted() {
    let aws = local_aws(2).await;
    aws.faults().add(Fault::on("PutRecords").times(4).fail_records([0, 2]));
    let mut conf = single(&aws);
    conf.collection.max_count = 50;
    let reported = Reported::default();
    let report = reported.clone();
    let sink = KinesisSink::builder(start(conf).await).skip_failures(move |it| report.take(it));
    let sink = sink.build().unwrap();
    let finished = sink.finished();
    in_time(events(1_000).map(Ok).forward(sink)).await.unwrap();
    let (stored, missing) = (payloads(&aws), reported.payloads());
    assert!((2..=8).contains(&missing.len()), "{missing:?}");
    assert_eq!(counted(in_time(finished).await.unwrap()), (stored.len() as u64, missing.len() as u64));
    let mut all = [stored, missing].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..1_000));
}

#[actix::test]
async fn a_report_that_panics_ends_the_sink_with_that() {
    let aws = local_aws(1).await;
    let sink = KinesisSink::builder(start(conf(&aws)).await).skip_failures(|_| panic!("a bug in a report"));
    let mut sink = sink.build().unwrap();
    feed(&mut sink, [invalid()]).await;
    let end = in_time(sink.close()).await.unwrap_err();
    assert!(matches!(end, SinkError::Died { .. }), "{end:?}");
}

#[actix::test]
async fn a_report_that_panics_stops_the_producer_of_a_sink_that_stops_it() {
    let aws = local_aws(1).await;
    let producer = start(conf(&aws)).await;
    let sink = KinesisSink::builder(producer.clone()).skip_failures(|_| panic!("a bug in a report"));
    let mut sink = sink.stop_producer().build().unwrap();
    feed(&mut sink, [invalid()]).await;
    let end = in_time(sink.close()).await.unwrap_err();
    assert!(matches!(end, SinkError::Died { .. }), "{end:?}");
    let refused = in_time(producer.send(event(0, 1))).await.unwrap_err();
    assert!(matches!(refused.reason, SendReason::Stopped(_)), "{refused}");
}

#[actix::test]
async fn what_is_throttled_is_sent_again_until_it_is_stored() {
    let aws = local_aws(2).await;
    let fault = aws.faults().add(Fault::on("PutRecords").times(30).fail_records([0, 1, 2]));
    let sink = KinesisSink::builder(start(single(&aws)).await).resend_for_ever().seed(1).build().unwrap();
    let finished = sink.finished();
    in_time(events(1_000).map(Ok).forward(sink)).await.unwrap();
    assert!(fault.fired() > 3);
    assert_eq!(counted(in_time(finished).await.unwrap()), (1_000, 0));
    assert_once_each(&aws, 1_000);
}

#[actix::test]
async fn what_cannot_be_sent_is_not_sent_again() {
    let aws = local_aws(1).await;
    let mut sink = KinesisSink::builder(start(conf(&aws)).await).resend_for_ever().build().unwrap();
    feed(&mut sink, [invalid()]).await;
    let (_, cause, counts) = failed(in_time(sink.close()).await.unwrap_err());
    assert!(matches!(cause.reason, SendReason::Invalid(_)), "{cause}");
    assert_eq!(counts, (0, 1));
}

#[actix::test]
async fn what_waits_to_be_sent_again_counts_against_the_limit() {
    let aws = local_aws(1).await;
    let mut conf = single(&aws);
    conf.max_outstanding_requests = 10;
    conf.record_max_buffered_time = MS;
    conf.retry_backoff.min = HOUR;
    conf.retry_backoff.max = HOUR;
    aws.faults().add(Fault::on("PutRecords").fail_records(0..10));
    let producer = start(conf).await;
    let mut sink = KinesisSink::builder(producer.clone()).resend_for_ever().build().unwrap();
    feed(&mut sink, (0..10).map(|index| event(index, 10))).await;
    crate::producing::eventually("all have failed", || producer.status().outstanding == 0).await;
    assert!(sink.feed(event(10, 11)).now_or_never().is_none());
}

#[actix::test]
async fn a_sink_that_fails_sends_nothing_again() {
    let aws = local_aws(1).await;
    let mut conf = single(&aws);
    conf.record_max_buffered_time = MS;
    conf.retry_backoff.min = HOUR;
    conf.retry_backoff.max = HOUR;
    aws.faults().add(Fault::on("PutRecords").fail_records(0..10));
    let producer = start(conf).await;
    let reported = Reported::default();
    let report = reported.clone();
    let sink = KinesisSink::builder(producer.clone()).resend_for_ever();
    let mut sink = sink.report_failures(move |it| report.take(it)).build().unwrap();
    feed(&mut sink, (0..5).map(|index| event(index, 5))).await;
    crate::producing::eventually("all have failed", || producer.status().outstanding == 0).await;
    feed(&mut sink, [actix_kinesis::producer::ProducerEvent::new("", "5")]).await;
    let (index, _, counts) = failed(in_time(sink.close()).await.unwrap_err());
    assert_eq!((index, counts), (5, (0, 6)));
    assert_eq!(reported.payloads(), [0, 1, 2, 3, 4, 5]);
}
