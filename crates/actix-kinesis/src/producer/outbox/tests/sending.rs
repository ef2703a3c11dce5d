//! What happens to events that are accepted.

use std::sync::Arc;

use kinesis_lease::StreamErrorKind;

use super::world::{DAY, Reply, SECOND, World, event, open, send_all, until, until_sent};
use crate::producer::outbox::{Outbox, OutboxReason};

#[tokio::test(start_paused = true)]
async fn events_wait_for_as_long_as_their_stream_is_in_trouble() {
    for kind in [
        StreamErrorKind::Unavailable,
        StreamErrorKind::Throttled,
        StreamErrorKind::NotFound,
        StreamErrorKind::Denied,
        StreamErrorKind::Encryption,
    ] {
        let directory = tempfile::tempdir().unwrap();
        let world = World::new(move |_, _| Reply::Fails(kind));
        let outbox = open(&directory, &world).await;
        outbox.send(event("key", 1)).await.unwrap();
        tokio::time::sleep(DAY / 4).await;
        let status = outbox.status();
        assert_eq!((status.waiting, status.parked, world.stored().len()), (1, 0, 0), "{kind:?}");
        assert!(status.oldest.is_some());
        world.answers(|_, _| Reply::Stored);
        until_sent(&outbox).await;
        assert_eq!(world.payloads("key"), ["1"], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_in_trouble_holds_up_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(|stream, _| match stream {
        "orders" => Reply::Stored,
        _ => Reply::Fails(StreamErrorKind::NotFound),
    });
    let mut conf = super::world::conf(&directory);
    conf.max_outstanding_requests = 64;
    let api = Arc::clone(&world);
    let outbox = Outbox::builder(conf).api(api).open().await.unwrap();
    for gone in ["gone-1", "gone-2"] {
        send_all(&outbox, (0..60).map(|it| event(&format!("key-{it}"), it).with_stream(gone))).await;
    }
    tokio::time::sleep(SECOND).await;
    for from in [0, 60, 120] {
        send_all(&outbox, (from..from + 60).map(|it| event(&format!("key-{it}"), it))).await;
    }
    until(|| outbox.status().sent == 180).await;
    assert_eq!(outbox.status().waiting, 120);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_trouble_holds_up_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(|_, _| Reply::Refuses("stuck"));
    let mut conf = super::world::conf(&directory);
    conf.max_outstanding_requests = 64;
    let api = Arc::clone(&world);
    let outbox = Outbox::builder(conf).api(api).open().await.unwrap();
    send_all(&outbox, (0..60).map(|number| event("stuck", number))).await;
    tokio::time::sleep(SECOND).await;
    send_all(&outbox, (0..60).map(|number| event(&format!("key-{number}"), number))).await;
    until(|| outbox.status().sent == 60).await;
    world.answers(|_, _| Reply::Stored);
    until_sent(&outbox).await;
    assert_eq!(world.payloads("stuck"), (0..60).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_stop_sends_what_it_can_and_leaves_the_rest_on_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(|stream, _| match stream {
        "orders" => Reply::Stored,
        _ => Reply::Fails(StreamErrorKind::Unavailable),
    });
    let outbox = open(&directory, &world).await;
    send_all(&outbox, (0..10).map(|number| event("key", number))).await;
    outbox.send(event("key", 10).with_stream("gone")).await.unwrap();
    let begin = tokio::time::Instant::now();
    let stopping = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.stop(10 * SECOND).await }
    });
    tokio::task::yield_now().await;
    let late = outbox.send(event("key", 11)).await.unwrap_err();
    assert_eq!((late.reason, late.event), (OutboxReason::Stopped, event("key", 11)));
    let stopped = stopping.await.unwrap();
    assert_eq!((stopped.sent, stopped.left), (10, 1));
    assert!(begin.elapsed() >= 10 * SECOND && begin.elapsed() < 11 * SECOND);
    assert_eq!(outbox.stop(SECOND).await, Default::default());
    world.answers(|_, _| Reply::Stored);
    let outbox = open(&directory, &world).await;
    until_sent(&outbox).await;
    assert_eq!(world.stored().len(), 11);
    // With nothing left, a stop does not wait.
    let begin = tokio::time::Instant::now();
    assert_eq!(outbox.stop(DAY).await.left, 0);
    assert!(begin.elapsed() < SECOND);
}
