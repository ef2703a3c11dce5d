//! What an acceptance means.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;

use super::world::{Hook, World, builder, conf, event, hooked, open, send_all, until, until_sent};
use crate::producer::outbox::{Outbox, OutboxOpenError, OutboxReason, StoreError};
use crate::producer::{KinesisProducer, ProducerError};

#[tokio::test(start_paused = true)]
async fn an_event_is_accepted_when_it_is_on_the_disk_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let (reached, begins) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let store = hooked(&directory, move |_| {
        reached.send(()).unwrap();
        gate.recv().unwrap();
        Hook::Done
    });
    let outbox = builder(&directory, &World::unreachable()).store(store).open().await.unwrap();
    let mut sending = std::pin::pin!(outbox.send(event("key", 1)));
    while begins.try_recv().is_err() {
        assert!(sending.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert!(sending.as_mut().now_or_never().is_none());
    assert_eq!(outbox.status().accepted, 0);
    go_on.send(()).unwrap();
    sending.await.unwrap();
}

/// Looks at the status of an outbox in the moment in which it is woken.
struct Looks {
    outbox: Outbox,
    accepted_and_waiting: Mutex<Option<(u64, u64)>>,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        let status = self.outbox.status();
        self.accepted_and_waiting.lock().unwrap().get_or_insert((status.accepted, status.waiting));
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_counts_when_its_sender_is_told_that_it_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let outbox = open(&directory, &World::unreachable()).await;
    let looks = Arc::new(Looks { outbox: outbox.clone(), accepted_and_waiting: Mutex::default() });
    let waker = Waker::from(Arc::clone(&looks));
    let mut sending = std::pin::pin!(outbox.send(event("key", 1)));
    assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    until(|| looks.accepted_and_waiting.lock().unwrap().is_some()).await;
    assert_eq!(*looks.accepted_and_waiting.lock().unwrap(), Some((1, 1)));
    assert!(sending.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_is_sent_by_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::unreachable();
    let outbox = open(&directory, &world).await;
    send_all(&outbox, (0..20).map(|number| event(["a", "b"][number % 2], number))).await;
    let stopped = outbox.stop(Duration::ZERO).await;
    assert_eq!((stopped.sent, stopped.left, stopped.parked), (0, 20, 0));
    world.answers(|_, _| super::world::Reply::Stored);
    let outbox = open(&directory, &world).await;
    until_sent(&outbox).await;
    assert_eq!(world.payloads("a"), (0..20).step_by(2).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(world.stored().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_sent_is_not_sent_by_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::working();
    let outbox = open(&directory, &world).await;
    outbox.send(event("key", 1)).await.unwrap();
    until_sent(&outbox).await;
    assert_eq!((outbox.status().sent, outbox.status().bytes), (1, 0));
    outbox.stop(Duration::ZERO).await;
    let outbox = open(&directory, &world).await;
    outbox.send(event("key", 2)).await.unwrap();
    until_sent(&outbox).await;
    assert_eq!(world.payloads("key"), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_at_once_share_an_fsync() {
    let directory = tempfile::tempdir().unwrap();
    let (applied, applies) = mpsc::channel();
    let store = hooked(&directory, move |changes| {
        applied.send(changes.len()).unwrap();
        Hook::Done
    });
    let outbox = builder(&directory, &World::unreachable()).store(store).open().await.unwrap();
    let sends = join_all((0..1_000).map(|number| outbox.send(event("key", number)))).await;
    assert!(sends.iter().all(Result::is_ok));
    let applies: Vec<usize> = applies.try_iter().collect();
    assert!(applies.len() <= 3 && applies.iter().sum::<usize>() == 1_000, "{applies:?}");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_event_comes_back_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let outbox = open(&directory, &World::working()).await;
    let invalid = event("", 1);
    let error = outbox.send(invalid.clone()).await.unwrap_err();
    assert!(matches!(error.reason, OutboxReason::Invalid(_)), "{error}");
    assert_eq!((error.event, outbox.status().waiting, outbox.status().bytes), (invalid, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_does_not_take_the_event_back() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::working();
    let outbox = open(&directory, &world).await;
    drop(outbox.send(event("key", 1)));
    outbox.send(event("key", 2)).await.unwrap();
    until_sent(&outbox).await;
    assert_eq!(world.payloads("key"), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_outbox_in_the_same_directory_is_refused_until_the_first_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::working();
    let outbox = open(&directory, &world).await;
    let refused = builder(&directory, &world).open().await.unwrap_err();
    assert!(matches!(refused, OutboxOpenError::Store(StoreError::InUse { .. })), "{refused}");
    outbox.stop(Duration::ZERO).await;
    let outbox = open(&directory, &world).await;
    drop(outbox);
    // Without handles it ends by itself, a little later.
    while builder(&directory, &world).open().await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_and_an_outbox_go_together() {
    let directory = tempfile::tempdir().unwrap();
    let alone = KinesisProducer::start(conf(&directory)).await.unwrap_err();
    assert!(matches!(alone, ProducerError::Outbox), "{alone}");
    let mut without = conf(&directory);
    without.outbox.path = None;
    let api = World::working();
    let refused = Outbox::builder(without).api(Arc::clone(&api) as _).open().await.unwrap_err();
    assert!(matches!(refused, OutboxOpenError::NoPath), "{refused}");
}
