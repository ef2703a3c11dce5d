//! A disk that fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::world::{Hook, Reply, World, builder, conf, event, hooked, open, send_all, until, until_sent};
use crate::producer::outbox::{Change, Contents, Outbox, OutboxReason, OutboxStore, Row, StoreError};

#[tokio::test(start_paused = true)]
async fn events_are_refused_while_the_disk_fails_and_none_of_them_is_sent() {
    for failure in [Hook::Fails, Hook::FailsAfter] {
        let directory = tempfile::tempdir().unwrap();
        let world = World::working();
        let now = Arc::new(Mutex::new(Hook::Done));
        let hook = Arc::clone(&now);
        let store = hooked(&directory, move |_| *hook.lock().unwrap());
        let outbox = builder(&directory, &world).store(store).open().await.unwrap();
        outbox.send(event("key", "before")).await.unwrap();
        until_sent(&outbox).await;
        *now.lock().unwrap() = failure;
        for number in 0..10 {
            let error = outbox.send(event("key", number)).await.unwrap_err();
            assert!(matches!(error.reason, OutboxReason::Store(_)), "{error}");
            assert!(error.to_string().contains("no space left"), "{error}");
            assert_eq!(error.event, event("key", number));
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        assert!(outbox.status().disk_error.is_some());
        *now.lock().unwrap() = Hook::Done;
        until(|| outbox.status().disk_error.is_none()).await;
        outbox.send(event("key", "after")).await.unwrap();
        until_sent(&outbox).await;
        assert_eq!(outbox.status().bytes, 0);
        outbox.stop(Duration::ZERO).await;
        let outbox = open(&directory, &world).await;
        until_sent(&outbox).await;
        assert_eq!(world.payloads("key"), ["before", "after"], "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_that_cannot_be_noted_is_noted_when_the_disk_works_again() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::working();
    let failures = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&failures);
    let store = hooked(&directory, move |changes| {
        let removes = changes.iter().any(|change| matches!(change, Change::Remove { .. }));
        match removes && count.fetch_add(1, Ordering::Relaxed) < 5 {
            true => Hook::Fails,
            false => Hook::Done,
        }
    });
    let outbox = builder(&directory, &world).store(store).open().await.unwrap();
    outbox.send(event("key", 1)).await.unwrap();
    until_sent(&outbox).await;
    assert!(failures.load(Ordering::Relaxed) > 5);
    outbox.stop(Duration::ZERO).await;
    let outbox = open(&directory, &world).await;
    assert_eq!((outbox.status().waiting, world.payloads("key").len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_although_the_disk_does_not_work_and_what_it_could_not_note_is_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::working();
    let store = hooked(&directory, |changes| {
        match changes.iter().any(|change| matches!(change, Change::Remove { .. })) {
            true => Hook::Fails,
            false => Hook::Done,
        }
    });
    let outbox = builder(&directory, &world).store(store).open().await.unwrap();
    outbox.send(event("key", 1)).await.unwrap();
    let stopped = outbox.stop(Duration::from_secs(60)).await;
    assert_eq!((stopped.sent, stopped.left), (1, 1));
    let outbox = open(&directory, &world).await;
    until_sent(&outbox).await;
    assert_eq!(world.payloads("key"), ["1", "1"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_a_disk_that_fails() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(|_, _| Reply::Stored);
    let mut is_first = true;
    let store = hooked(&directory, move |_| {
        assert!(!std::mem::take(&mut is_first), "a bug in the store");
        Hook::Done
    });
    let outbox = builder(&directory, &world).store(store).open().await.unwrap();
    assert!(matches!(outbox.send(event("key", 1)).await.unwrap_err().reason, OutboxReason::Store(_)));
    until(|| outbox.status().disk_error.is_none()).await;
    outbox.send(event("key", 2)).await.unwrap();
    until_sent(&outbox).await;
    assert_eq!(world.payloads("key"), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_sent_although_nothing_can_be_noted_and_noted_when_the_disk_works_again() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::unreachable();
    let is_full = Arc::new(AtomicBool::new(false));
    let full = Arc::clone(&is_full);
    let store =
        hooked(&directory, move |_| if full.load(Ordering::Relaxed) { Hook::Fails } else { Hook::Done });
    let mut conf = conf(&directory);
    conf.max_outstanding_requests = 16;
    let outbox = Outbox::builder(conf).api(world.clone()).store(store).open().await.unwrap();
    for from in (0..96).step_by(16) {
        send_all(&outbox, (from..from + 16).map(|number| event(&format!("key-{}", number % 3), number)))
            .await;
    }
    is_full.store(true, Ordering::Relaxed);
    world.answers(|_, _| Reply::Stored);
    until(|| outbox.status().sent == 96).await;
    let refused = outbox.send(event("key", "late")).await.unwrap_err();
    assert!(matches!(refused.reason, OutboxReason::Store(_)), "{refused}");
    let status = outbox.status();
    assert_eq!((status.waiting, status.under_way, status.unnoted), (96, 0, 96));
    assert!(status.disk_error.is_some() && status.bytes > 0);
    is_full.store(false, Ordering::Relaxed);
    until_sent(&outbox).await;
    assert_eq!((outbox.status().unnoted, outbox.status().bytes), (0, 0));
    outbox.stop(Duration::ZERO).await;
    let outbox = open(&directory, &world).await;
    assert_eq!((outbox.status().waiting, world.stored().len()), (0, 96));
}

/// A store that can be written to, and for some time not be read.
#[derive(Debug)]
struct Blind<S> {
    inner: S,
    is_blind: Arc<AtomicBool>,
}

impl<S: OutboxStore> OutboxStore for Blind<S> {
    fn contents(&mut self) -> Result<Contents, StoreError> {
        self.inner.contents()
    }

    fn read(&mut self, numbers: &[u64]) -> Result<Vec<Row>, StoreError> {
        match self.is_blind.load(Ordering::Relaxed) {
            true => Err(StoreError::Failed { path: "the disk".into(), problem: "no light".to_owned() }),
            false => self.inner.read(numbers),
        }
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.inner.apply(changes)
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_accepted_although_nothing_can_be_read_and_sent_when_the_disk_works_again() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::working();
    let is_blind = Arc::new(AtomicBool::new(true));
    let store = Blind { inner: hooked(&directory, |_| Hook::Done), is_blind: Arc::clone(&is_blind) };
    let outbox = builder(&directory, &world).store(store).open().await.unwrap();
    for number in 0..10 {
        outbox.send(event("key", number)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(outbox.status().disk_error.is_some_and(|error| error.contains("no light")));
    is_blind.store(false, Ordering::Relaxed);
    until_sent(&outbox).await;
    assert_eq!(world.payloads("key"), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(outbox.status().disk_error, None);
}
