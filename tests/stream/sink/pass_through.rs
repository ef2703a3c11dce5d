//! Sending the elements of a stream on their way.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;

use actix_kinesis::producer::SendReason;
use actix_kinesis::stream::sink::PassThrough;
use futures::{FutureExt, Stream, StreamExt, poll, stream};
use kinesis_local::faults::Fault;

use super::{events, holding, in_time, invalid, payloads, single};
use crate::producing::{MS, assert_once_each, assert_told, conf, event, local_aws, start};

/// Events with their numbers, which stay on this thread.
fn numbered(count: usize) -> impl Stream<Item = (actix_kinesis::producer::ProducerEvent, Rc<usize>)> {
    events(count).zip(stream::iter((0..count).map(Rc::new)))
}

#[actix::test]
async fn each_element_comes_out_once_with_its_own_outcome() {
    let aws = local_aws(2).await;
    aws.faults().add(Fault::on("PutRecords").times(4).fail_records([0, 2]));
    let mut conf = single(&aws);
    conf.max_outstanding_requests = 100;
    conf.collection.max_count = 50;
    let producer = start(conf).await;
    let sent: Vec<_> = in_time(PassThrough::new(producer.clone(), numbered(1_000)).collect()).await;
    let (mut stored, mut missing) = (Vec::new(), Vec::new());
    for (outcome, number) in sent {
        match outcome {
            Ok(_) => stored.push(*number),
            Err(failed) => {
                assert!(matches!(failed.reason, SendReason::Throttled(_)), "{failed}");
                assert_eq!(failed.event, event(*number, 1_000));
                missing.push(*number);
            }
        }
    }
    assert!((2..=8).contains(&missing.len()), "{missing:?}");
    stored.sort_unstable();
    assert_eq!(stored, payloads(&aws));
    assert_eq!(stored.len() + missing.len(), 1_000);
    let _sending = producer.try_send(event(0, 1)).unwrap();
}

#[actix::test]
async fn outcomes_come_as_they_are_known_or_in_the_order_of_the_stream() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    let elements = || {
        // Something is still to come, so that what is under way is not told to go.
        stream::iter([(event(0, 1), 0), (invalid(), 1)]).chain(stream::pending())
    };
    let mut sent = PassThrough::new(producer.clone(), elements());
    assert_eq!(in_time(sent.next()).await.unwrap().1, 1);
    let mut in_order = PassThrough::new(producer.clone(), elements()).in_order();
    assert!(in_order.next().now_or_never().is_none());
    producer.flush().await;
    for number in [0, 1] {
        let (outcome, next) = in_time(in_order.next()).await.unwrap();
        assert_eq!((outcome.is_ok(), next), (number == 0, number));
    }
    assert_eq!(in_time(sent.next()).await.unwrap().1, 0);
}

#[actix::test]
async fn results_in_order_tell_where_each_element_is() {
    let aws = local_aws(2).await;
    let producer = start(conf(&aws)).await;
    let sent: Vec<_> = in_time(PassThrough::new(producer, numbered(3_000)).in_order().collect()).await;
    assert!(sent.iter().enumerate().all(|(index, (_, number))| index == **number));
    let results: Vec<_> = sent.into_iter().map(|(outcome, _)| outcome.unwrap()).collect();
    assert_told(&aws, &results);
}

#[actix::test]
async fn the_stream_is_asked_only_while_there_is_room() {
    let aws = local_aws(1).await;
    for is_in_order in [false, true] {
        let mut conf = holding(&aws);
        conf.max_outstanding_requests = 10;
        let producer = start(conf).await;
        let asked = Cell::new(0);
        let elements = numbered(100).inspect(|_| asked.set(asked.get() + 1));
        let mut sent = PassThrough::new(producer.clone(), elements);
        if is_in_order {
            sent = sent.in_order();
        }
        let mut next = sent.next();
        assert!(matches!(poll!(&mut next), Poll::Pending));
        assert_eq!(asked.get(), 10);
        let status = producer.status();
        assert_eq!((status.outstanding, status.waiting), (10, 0));
        producer.flush().await;
        in_time(next).await.unwrap().0.unwrap();
        assert!(asked.get() <= 10 + 10);
    }
}

#[actix::test]
async fn the_end_of_the_stream_waits_for_no_buffered_time() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    let mut sent = PassThrough::new(producer, numbered(1_000));
    for _ in 0..1_000 {
        in_time(sent.next()).await.unwrap().0.unwrap();
    }
    assert!(sent.next().await.is_none());
    assert!(sent.next().await.is_none());
    assert_once_each(&aws, 1_000);
}

#[actix::test]
async fn what_is_throttled_is_sent_again_until_it_is_stored() {
    let aws = local_aws(2).await;
    aws.faults().add(Fault::on("PutRecords").times(20).fail_records([0, 1, 2]));
    let mut conf = single(&aws);
    conf.record_max_buffered_time = MS;
    let sent = PassThrough::new(start(conf).await, numbered(500)).resend_for_ever().seed(1);
    let sent: Vec<_> = in_time(sent.collect()).await;
    assert!(sent.iter().all(|(outcome, _)| outcome.is_ok()));
    assert!(sent.iter().any(|(outcome, _)| outcome.as_ref().unwrap().attempts.len() > 1));
    assert_once_each(&aws, 500);
}

#[actix::test]
async fn dropping_it_drops_what_came_beside_and_sends_what_was_taken() {
    let aws = local_aws(1).await;
    let producer = start(holding(&aws)).await;
    let beside = Rc::new(());
    let elements = events(10).chain(stream::pending()).map(|event| (event, Rc::clone(&beside)));
    let mut sent = PassThrough::new(producer.clone(), elements);
    assert!(sent.next().now_or_never().is_none());
    assert_eq!(Rc::strong_count(&beside), 11);
    drop(sent);
    assert_eq!(Rc::strong_count(&beside), 1);
    producer.flush().await;
    assert_once_each(&aws, 10);
}
