//! What a sink says that fails at the first failure.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix_kinesis::config::ProducerConf;
use actix_kinesis::producer::{InvalidEvent, KinesisProducer, ProducerEvent, SendReason};
use actix_kinesis::stream::sink::{KinesisSink, SinkError};
use futures::{FutureExt, SinkExt, StreamExt, poll, stream};
use kinesis_local::faults::Fault;

use super::{Reported, counted, events, failed, feed, holding, in_time, invalid, payloads, single};
use crate::producing::{STREAM, assert_once_each, conf, event, local_aws, start};

#[derive(Debug, PartialEq)]
enum CopyError {
    Read(&'static str),
    Send(SinkError),
}

#[actix::test]
async fn a_stream_that_fails_leaves_a_sink_that_was_not_closed() {
    let aws = local_aws(1).await;
    let sink = KinesisSink::builder(start(conf(&aws)).await).build().unwrap();
    let finished = sink.finished();
    let read = events(10).map(Ok).chain(stream::iter([Err(CopyError::Read("no more"))]));
    let copied = in_time(read.forward(sink.sink_map_err(CopyError::Send))).await;
    assert_eq!(copied, Err(CopyError::Read("no more")));
    let end = in_time(finished).await.unwrap_err();
    let SinkError::Dropped { counts, .. } = end else { panic!("{end:?}") };
    assert_eq!(counted(counts), (10, 0));
    assert_once_each(&aws, 10);
}

#[actix::test]
async fn a_stream_that_fails_may_be_followed_by_another_into_the_same_sink() {
    let aws = local_aws(1).await;
    let sink = KinesisSink::builder(start(conf(&aws)).await).build().unwrap();
    let mut sink = sink.sink_map_err(CopyError::Send);
    let mut read = events(10).map(Ok).chain(stream::iter([Err(CopyError::Read("no more"))]));
    assert_eq!(in_time(sink.send_all(&mut read)).await, Err(CopyError::Read("no more")));
    in_time(sink.send_all(&mut stream::iter([Ok(event(10, 11))]))).await.unwrap();
    in_time(sink.close()).await.unwrap();
    assert_once_each(&aws, 11);
}

#[actix::test]
async fn the_failed_element_comes_back_with_its_calls_when_all_under_way_is_known() {
    let aws = local_aws(1).await;
    // Of 200 elements, these two are refused, for want of throughput.
    aws.faults().add(Fault::on("PutRecords").times(1).fail_records([3, 7]));
    let mut conf = single(&aws);
    conf.record_max_buffered_time = super::HOUR;
    conf.collection.max_count = 100;
    let producer = start(conf).await;
    let reported = Reported::default();
    let report = reported.clone();
    let sink = KinesisSink::builder(producer.clone()).report_failures(move |it| report.take(it));
    let sink = sink.build().unwrap();
    let finished = sink.finished();
    let (index, cause, counts) = failed(in_time(events(200).map(Ok).forward(sink)).await.unwrap_err());
    assert_eq!(cause.event, event(index as usize, 200));
    assert!(matches!(cause.reason, SendReason::Throttled(_)), "{cause}");
    assert_eq!(cause.attempts.len(), 1);
    assert_eq!(failed(in_time(finished).await.unwrap_err()), (index, cause, counts));
    let (stored, missing) = (payloads(&aws), reported.payloads());
    assert_eq!(counts, (stored.len() as u64, 2));
    assert_eq!(missing.len(), 2);
    assert!(missing.contains(&(index as usize)));
    assert!(missing.iter().all(|index| !stored.contains(index)));
}

#[actix::test]
async fn a_failure_is_told_when_the_last_outcome_is_known_and_again_at_each_call() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    let mut sink = KinesisSink::builder(producer.clone()).build().unwrap();
    feed(&mut sink, (0..5).map(|index| event(index, 5)).chain([invalid()])).await;
    let mut flush = sink.flush();
    assert_eq!(poll!(&mut flush), Poll::Pending);
    producer.flush().await;
    let error = in_time(flush).await.unwrap_err();
    let (index, cause, counts) = failed(error.clone());
    let reason = SendReason::Invalid(Arc::new(InvalidEvent::PartitionKey { characters: 0 }));
    assert_eq!((index, cause.event, cause.reason, counts), (5, invalid(), reason, (5, 1)));
    assert_eq!(sink.feed(event(6, 7)).await, Err(error.clone()));
    assert_eq!(sink.flush().await, Err(error.clone()));
    assert_eq!(sink.close().await, Err(error));
    let refused = sink.start_send_unpin(event(6, 7)).unwrap_err();
    let SinkError::Closed { event: Some(back), .. } = refused else { panic!("{refused:?}") };
    assert_eq!(*back, event(6, 7));
}

#[actix::test]
async fn an_element_that_was_asked_for_is_sent_whatever_happened_meanwhile() {
    let aws = local_aws(1).await;
    let producer = start(conf(&aws)).await;
    let mut sink = KinesisSink::builder(producer).build().unwrap();
    let finished = sink.finished();
    sink.feed(invalid()).await.unwrap();
    std::future::poll_fn(|context| sink.poll_ready_unpin(context)).await.unwrap();
    // The failure is known, and the end is not.
    while sink.counts().failed == 0 {
        tokio::task::yield_now().await;
    }
    assert!(sink.finished().now_or_never().is_none());
    sink.start_send_unpin(event(0, 1)).unwrap();
    assert_eq!(failed(in_time(finished).await.unwrap_err()).2, (1, 1));
    assert_once_each(&aws, 1);
}

#[actix::test]
async fn a_producer_that_is_stopped_fails_the_sink_with_what_it_gave_back() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    for skips in [false, true] {
        let reported = Reported::default();
        let report = reported.clone();
        let mut sink = KinesisSink::builder(producer.clone());
        if skips {
            sink = sink.skip_failures(move |it| report.take(it));
        } else {
            sink = sink.report_failures(move |it| report.take(it));
        }
        let mut sink = sink.build().unwrap();
        feed(&mut sink, (0..20).map(|index| event(index, 20))).await;
        // The second time it has been for long.
        producer.stop(Duration::ZERO).await;
        let (index, cause, counts) = failed(in_time(sink.close()).await.unwrap_err());
        assert!(matches!(cause.reason, SendReason::Stopped(_)), "{cause}");
        assert_eq!(cause.event, event(index as usize, 20));
        assert_eq!(counts.0 as usize, payloads(&aws).len());
        assert_eq!((counts.1 as usize, counts.0 + counts.1), (reported.payloads().len(), 20));
    }
}

#[test]
fn a_sink_needs_a_runtime_and_its_end_with_it_is_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut conf = ProducerConf::new(STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some("http://127.0.0.1:1".to_owned());
    let producer: KinesisProducer = runtime.block_on(start(conf));
    assert_eq!(KinesisSink::builder(producer.clone()).build().unwrap_err(), SinkError::NoRuntime);
    let mut sink = {
        let _inside = runtime.enter();
        KinesisSink::builder(producer).build().unwrap()
    };
    runtime.block_on(sink.feed(ProducerEvent::new("k", "x"))).unwrap();
    drop(runtime);
    let end = sink.finished().now_or_never().unwrap().unwrap_err();
    assert!(matches!(end, SinkError::Died { .. }), "{end:?}");
    assert_eq!(sink.flush().now_or_never(), Some(Err(end)));
    let refused = sink.start_send_unpin(event(0, 1)).unwrap_err();
    assert!(matches!(refused, SinkError::Closed { event: Some(_), .. }), "{refused:?}");
}
