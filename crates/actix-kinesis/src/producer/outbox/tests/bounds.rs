//! How much is kept.

use std::sync::Arc;

use super::world::{Reply, SECOND, World, conf, event, send_all, until, until_sent};
use crate::producer::MessageId;
use crate::producer::outbox::{Outbox, OutboxReason};

#[tokio::test(start_paused = true)]
async fn beyond_its_events_an_outbox_refuses_until_some_are_sent() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::unreachable();
    let mut conf = conf(&directory);
    conf.outbox.max_events = 10;
    let outbox = Outbox::builder(conf.clone()).api(Arc::clone(&world) as _).open().await.unwrap();
    send_all(&outbox, (0..10).map(|number| event("key", number))).await;
    let error = outbox.send(event("key", 10)).await.unwrap_err();
    assert_eq!((error.reason, error.event), (OutboxReason::Full, event("key", 10)));
    let begin = tokio::time::Instant::now();
    let waited = outbox.send_timeout(event("key", 10), MessageId::random(), 5 * SECOND).await.unwrap_err();
    assert_eq!((waited.reason, begin.elapsed()), (OutboxReason::Full, 5 * SECOND));
    // What is found at the start counts as well.
    outbox.stop(SECOND).await;
    let outbox = Outbox::builder(conf).api(Arc::clone(&world) as _).open().await.unwrap();
    assert_eq!(outbox.send(event("key", 10)).await.unwrap_err().reason, OutboxReason::Full);
    let waiting = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.send_timeout(event("key", 10), MessageId::random(), 1_000 * SECOND).await }
    });
    tokio::time::sleep(SECOND).await;
    assert!(!waiting.is_finished());
    world.answers(|_, _| Reply::Stored);
    waiting.await.unwrap().unwrap();
    until_sent(&outbox).await;
    assert_eq!(world.stored().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn beyond_its_bytes_an_outbox_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let mut conf = conf(&directory);
    conf.outbox.max_bytes = 1 << 20;
    let outbox = Outbox::builder(conf).api(World::unreachable()).open().await.unwrap();
    let large = || event("key", "x".repeat(300_000));
    for _ in 0..3 {
        outbox.send(large()).await.unwrap();
    }
    assert_eq!(outbox.send(large()).await.unwrap_err().reason, OutboxReason::Full);
    outbox.send(event("key", "small")).await.unwrap();
    assert!(outbox.status().bytes < 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn parked_events_take_room_until_they_are_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let mut conf = conf(&directory);
    conf.outbox.max_events = 2;
    let world = World::new(|_, _| Reply::Fails(kinesis_lease::StreamErrorKind::InvalidArgument));
    let outbox = Outbox::builder(conf).api(world).open().await.unwrap();
    for number in 0..2 {
        outbox.send(event("key", number)).await.unwrap();
    }
    until(|| outbox.status().parked == 2).await;
    assert_eq!(outbox.send(event("key", 2)).await.unwrap_err().reason, OutboxReason::Full);
    outbox.discard(outbox.parked(0, 1).await.unwrap()[0].number).await.unwrap();
    outbox.send(event("key", 2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_the_disk_is_bounded_by_the_limits_of_the_producer() {
    let directory = tempfile::tempdir().unwrap();
    let mut conf = conf(&directory);
    conf.max_outstanding_requests = 10;
    let outbox = Outbox::builder(conf).api(World::unreachable()).open().await.unwrap();
    let sends: Vec<_> = (0..11).map(|number| outbox.send(event("key", number))).collect();
    let results = futures::future::join_all(sends).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 10);
    assert_eq!(results[10].as_ref().unwrap_err().reason, OutboxReason::Full);
    outbox.send(event("key", 11)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_larger_than_all_that_may_be_kept_is_invalid_and_the_limit_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let mut conf = conf(&directory);
    conf.outbox.max_bytes = 1 << 20;
    conf.max_record_size = 10 << 20;
    let outbox = Outbox::builder(conf).api(World::working()).open().await.unwrap();
    let large = event("key", "x".repeat(1 << 20));
    let waited = outbox.send_timeout(large.clone(), MessageId::random(), 1_000 * SECOND);
    for refused in [outbox.send(large.clone()).await, waited.await] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused.reason, OutboxReason::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains("outbox.max-bytes allows 1048576"), "{refused}");
        assert_eq!((&refused.event, outbox.status().bytes), (&large, 0));
    }
    outbox.send(event("key", "x".repeat(1_000_000))).await.unwrap();
}
