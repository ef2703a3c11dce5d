//! A disk that fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::world::{Hook, Reply, World, builder, event, hooked, open, until, until_sent};
use crate::producer::outbox::{Change, OutboxReason};

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
