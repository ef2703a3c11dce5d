//! A sink for many senders.

use std::task::Poll;

use actix_kinesis::stream::sink::{KinesisSink, OfferError, SinkError};
use futures::{FutureExt, poll};
use kinesis_local::faults::Fault;

use super::{counted, failed, holding, in_time, invalid, until_stored};
use crate::producing::{MS, assert_once_each, by_key, conf, event, eventually, local_aws, start};

#[actix::test]
async fn a_full_queue_refuses_or_lets_wait_and_takes_in_order() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    let queue = KinesisSink::builder(producer.clone()).queue(3).unwrap();
    for index in 0..3 {
        queue.try_offer(event(index, 1)).unwrap();
    }
    let refused = queue.try_offer(event(3, 1)).unwrap_err();
    assert_eq!(refused, OfferError::Full(event(3, 1)));
    assert_eq!(refused.into_event(), event(3, 1));
    let (mut third, mut fourth) = (Box::pin(queue.offer(event(3, 1))), Box::pin(queue.offer(event(4, 1))));
    assert_eq!((poll!(&mut third), poll!(&mut fourth)), (Poll::Pending, Poll::Pending));
    producer.flush().await;
    in_time(fourth).await.unwrap();
    in_time(third).await.unwrap();
    queue.complete();
    assert_eq!(counted(in_time(queue.finished()).await.unwrap()), (5, 0));
    assert_once_each(&aws, 5);
}

#[actix::test]
async fn a_queue_is_bounded_in_bytes_too() {
    let aws = local_aws(1).await;
    let mut conf = holding(&aws);
    conf.max_outstanding_bytes = 1 << 20;
    let queue = KinesisSink::builder(start(conf).await).queue(100).unwrap();
    let large = actix_kinesis::producer::ProducerEvent::new("k", vec![b'1'; 600 << 10]);
    queue.try_offer(large.clone()).unwrap();
    assert_eq!(queue.try_offer(large.clone()), Err(OfferError::Full(large)));
    queue.try_offer(event(0, 1)).unwrap();
}

#[actix::test]
async fn no_more_is_under_way_than_the_queue_holds() {
    let aws = local_aws(1).await;
    let mut conf = conf(&aws);
    conf.record_max_buffered_time = MS;
    conf.max_outstanding_requests = 2;
    let producer = start(conf).await;
    let queue = KinesisSink::builder(producer.clone()).queue(5).unwrap();
    for index in 0..200 {
        in_time(queue.offer(event(index, 200))).await.unwrap();
        let status = producer.status();
        assert!(status.outstanding + status.waiting as u64 <= 5, "{status:?}");
    }
    queue.complete();
    in_time(queue.finished()).await.unwrap();
    assert_once_each(&aws, 200);
}

#[actix::test]
async fn a_completed_queue_takes_no_more_and_sends_what_it_has() {
    let aws = local_aws(1).await;
    let queue = KinesisSink::builder(start(holding(&aws)).await).queue(1).unwrap();
    let other = queue.clone();
    queue.try_offer(event(0, 1)).unwrap();
    let mut waiting = Box::pin(other.offer(event(1, 1)));
    assert_eq!(poll!(&mut waiting), Poll::Pending);
    queue.complete();
    assert_eq!(waiting.await, Err(OfferError::Closed(event(1, 1))));
    assert_eq!(other.offer(event(2, 1)).await, Err(OfferError::Closed(event(2, 1))));
    assert_eq!(other.try_offer(event(3, 1)), Err(OfferError::Closed(event(3, 1))));
    assert_eq!(counted(in_time(queue.finished()).await.unwrap()), (1, 0));
    assert_once_each(&aws, 1);
}

#[actix::test]
async fn a_queue_without_handles_sends_what_it_has_and_was_not_completed() {
    let aws = local_aws(1).await;
    let queue = KinesisSink::builder(start(holding(&aws)).await).queue(10).unwrap();
    let (other, finished) = (queue.clone(), queue.finished());
    queue.try_offer(event(0, 1)).unwrap();
    drop(queue);
    other.try_offer(event(1, 1)).unwrap();
    drop(other);
    let end = in_time(finished).await.unwrap_err();
    let SinkError::Dropped { counts, .. } = end else { panic!("{end:?}") };
    assert_eq!(counted(counts), (2, 0));
    until_stored(&aws, 2).await;
}

#[actix::test]
async fn a_queue_that_fails_closes_for_all_its_senders() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    let queue = KinesisSink::builder(producer.clone()).queue(2).unwrap();
    queue.try_offer(event(0, 1)).unwrap();
    let hold = queue.clone();
    queue.try_offer(invalid()).unwrap();
    eventually("the failure is known", || matches!(hold.try_offer(invalid()), Err(OfferError::Closed(_))))
        .await;
    // What was under way is still waited for.
    assert!(queue.finished().now_or_never().is_none());
    producer.flush().await;
    let (index, cause, counts) = failed(in_time(queue.finished()).await.unwrap_err());
    assert_eq!((index, cause.event, counts.0), (1, invalid(), 1));
    assert_eq!(queue.offer(event(2, 1)).await, Err(OfferError::Closed(event(2, 1))));
}

#[actix::test]
async fn senders_on_threads_of_their_own_keep_their_order() {
    let aws = local_aws(2).await;
    let mut conf = conf(&aws);
    conf.ordering = actix_kinesis::config::Ordering::PartitionKey;
    conf.record_max_buffered_time = MS;
    aws.faults().add(Fault::on("PutRecords").chance(0.3).times(20).fail_records([0, 1, 2]));
    let queue = KinesisSink::builder(start(conf).await).queue(50).unwrap();
    let finished = queue.finished();
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let queue = queue.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                for index in (sender..1_000).step_by(4) {
                    runtime.block_on(queue.offer(event(index, 4))).unwrap();
                }
            })
        })
        .collect();
    eventually("all is offered", || senders.iter().all(|sender| sender.is_finished())).await;
    queue.complete();
    assert_eq!(counted(in_time(finished).await.unwrap()), (1_000, 0));
    assert_once_each(&aws, 1_000);
    assert!(by_key(&aws).values().all(|payloads| payloads.is_sorted() && payloads.len() == 250));
}
