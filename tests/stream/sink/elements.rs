//! The way of elements through a sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Atomic};
use std::task::Poll;

use actix_kinesis::config::Ordering;
use actix_kinesis::producer::SendReason;
use actix_kinesis::stream::sink::{KinesisSink, SinkError};
use futures::{FutureExt, SinkExt, StreamExt, poll};
use kinesis_local::faults::Fault;

use super::{counted, events, failed, feed, holding, in_time, invalid, payloads, until_stored};
use crate::producing::{MS, assert_once_each, by_key, conf, error, event, local_aws, start};

#[actix::test]
async fn a_hundred_thousand_elements_all_arrive() {
    let aws = local_aws(4).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 5_000;
    let producer = start(conf).await;
    let sink = KinesisSink::builder(producer.clone()).stop_producer().build().unwrap();
    let finished = sink.finished();
    in_time(events(100_000).map(Ok).forward(sink)).await.unwrap();
    assert_eq!(counted(finished.now_or_never().unwrap().unwrap()), (100_000, 0));
    assert_once_each(&aws, 100_000);
    assert_eq!(error(producer.send(event(0, 1))).await.reason, SendReason::Stopped(None));
}

#[actix::test]
async fn no_more_is_taken_than_the_producer_has_room_for() {
    let aws = local_aws(1).await;
    let mut conf = holding(&aws);
    conf.max_outstanding_requests = 10;
    let producer = start(conf).await;
    let mut sink = KinesisSink::builder(producer.clone()).build().unwrap();
    feed(&mut sink, (0..10).map(|index| event(index, 10))).await;
    assert!(sink.feed(event(10, 10)).now_or_never().is_none());
    let status = producer.status();
    assert_eq!((status.outstanding, status.waiting), (10, 0));
    producer.flush().await;
    in_time(sink.feed(event(10, 10))).await.unwrap();
    in_time(sink.close()).await.unwrap();
    assert_once_each(&aws, 11);
}

#[actix::test]
async fn all_along_a_stream_the_limit_is_kept() {
    let aws = local_aws(2).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 20;
    conf.record_max_buffered_time = MS;
    let producer = start(conf).await;
    let sink = KinesisSink::builder(producer.clone()).build().unwrap();
    let most = AtomicU64::new(0);
    let watched = events(2_000).map(|event| {
        let status = producer.status();
        most.fetch_max(status.outstanding + status.waiting as u64, Atomic::Relaxed);
        Ok(event)
    });
    in_time(watched.forward(sink)).await.unwrap();
    assert_eq!(most.into_inner(), 20);
    assert_once_each(&aws, 2_000);
}

#[actix::test]
async fn a_sink_has_its_turn_at_a_producer_that_others_keep_full() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.max_outstanding_requests = 1;
    conf.record_max_buffered_time = MS;
    let producer = start(conf).await;
    let is_over = Arc::new(AtomicBool::new(false));
    for _ in 0..3 {
        let (producer, is_over) = (producer.clone(), Arc::clone(&is_over));
        actix::spawn(async move {
            while !is_over.load(Atomic::Relaxed) {
                producer.send(event(0, 1)).await.unwrap();
            }
        });
    }
    producer.send(event(0, 1)).await.unwrap();
    let sink = KinesisSink::builder(producer).build().unwrap();
    in_time(events(20).map(Ok).forward(sink)).await.unwrap();
    is_over.store(true, Atomic::Relaxed);
}

#[actix::test]
async fn a_flush_ends_with_the_last_outcome() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    let mut sink = KinesisSink::builder(producer.clone()).build().unwrap();
    feed(&mut sink, (0..5).map(|index| event(index, 5))).await;
    let mut flush = sink.flush();
    assert_eq!(poll!(&mut flush), Poll::Pending);
    producer.flush().await;
    in_time(flush).await.unwrap();
    assert_eq!(counted(sink.counts()), (5, 0));
    assert_eq!(sink.flush().now_or_never(), Some(Ok(())));
}

#[actix::test]
async fn closing_waits_for_outcomes_and_for_no_buffered_time() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    let mut sink = KinesisSink::builder(producer.clone()).build().unwrap();
    let finished = sink.finished();
    feed(&mut sink, (0..5).map(|index| event(index, 5))).await;
    in_time(sink.close()).await.unwrap();
    assert_once_each(&aws, 5);
    assert_eq!(counted(in_time(finished).await.unwrap()), (5, 0));
    // It was running before, and still is.
    let _sending = producer.try_send(event(5, 1)).unwrap();
}

#[actix::test]
async fn what_is_given_to_a_closed_sink_comes_back() {
    let aws = local_aws(1).await;
    let mut sink = KinesisSink::builder(start(conf(&aws)).await).build().unwrap();
    in_time(sink.close()).await.unwrap();
    assert_eq!(sink.close().await, Ok(()));
    assert!(matches!(sink.feed(event(0, 1)).await, Err(SinkError::Closed { event: None, .. })));
    let refused = sink.start_send_unpin(event(0, 1));
    let Err(SinkError::Closed { event: Some(back), .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(*back, event(0, 1));
}

#[actix::test]
async fn each_sink_on_a_producer_has_an_end_of_its_own() {
    let aws = local_aws(1).await;
    let producer = start(conf(&aws)).await;
    let sink = || KinesisSink::builder(producer.clone()).build().unwrap();
    let (mut good, mut bad) = (sink(), sink());
    feed(&mut good, [event(0, 2), event(1, 2)]).await;
    feed(&mut bad, [event(2, 3), invalid()]).await;
    let (index, cause, counts) = failed(in_time(bad.close()).await.unwrap_err());
    assert_eq!((index, cause.event, counts), (1, invalid(), (1, 1)));
    in_time(good.close()).await.unwrap();
    assert_eq!(counted(good.finished().await.unwrap()), (2, 0));
}

/// Most of what can happen between the threads, and each time the counts are those of the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn counts_are_true_on_several_threads() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.record_max_buffered_time = MS;
    conf.max_outstanding_requests = 50;
    let producer = start(conf).await;
    let mut sent = 0;
    for round in 0..100 {
        let sink = KinesisSink::builder(producer.clone()).build().unwrap();
        let finished = sink.finished();
        let element = move |index| if index == round + 20 { invalid() } else { event(index, 200) };
        let forward = tokio::spawn(futures::stream::iter(0..200).map(element).map(Ok).forward(sink));
        let told = in_time(forward).await.unwrap().unwrap_err();
        let (index, cause, counts) = failed(in_time(finished).await.unwrap_err());
        assert_eq!((index as usize, cause.event, counts.1), (round + 20, invalid(), 1));
        assert_eq!(failed(told).2, counts);
        assert!(counts.0 >= index);
        sent += counts.0 as usize;
    }
    assert_eq!(payloads(&aws).len(), sent);
}

#[actix::test]
async fn keys_stay_in_order_under_partial_failures() {
    let aws = local_aws(2).await;
    let mut conf = conf(&aws);
    conf.ordering = Ordering::PartitionKey;
    conf.aggregation.max_count = 20;
    conf.record_max_buffered_time = 2 * MS;
    conf.max_outstanding_requests = 300;
    let sink = KinesisSink::builder(start(conf).await).build().unwrap();
    let places = [0, 1, 3, 7, 10, 11, 15, 20];
    aws.faults().add(Fault::on("PutRecords").chance(0.5).times(20).fail_records(places));
    let elements = futures::stream::iter(0..2_000).map(|index| Ok(event(index, 40)));
    in_time(elements.forward(sink)).await.unwrap();
    assert_once_each(&aws, 2_000);
    assert!(by_key(&aws).values().all(|payloads| payloads.is_sorted()));
}

#[actix::test]
async fn a_sink_that_is_dropped_sends_what_it_has_and_does_not_call_that_success() {
    let aws = local_aws(1).await;
    for elements in [0, 10] {
        let producer = start(conf(&aws)).await;
        let mut sink = KinesisSink::builder(producer.clone()).stop_producer().build().unwrap();
        let finished = sink.finished();
        feed(&mut sink, (0..elements).map(|index| event(index, 10))).await;
        drop(sink);
        let end = in_time(finished).await.unwrap_err();
        let SinkError::Dropped { counts, .. } = end else { panic!("{end:?}") };
        assert_eq!(counted(counts), (elements as u64, 0));
        assert!(producer.try_send(event(0, 1)).is_err());
    }
    until_stored(&aws, 10).await;
}
