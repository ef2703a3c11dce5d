//! What is answered to those who hand events over while an outbox ends.

use std::collections::BTreeSet;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;

use super::world::{Hook, Reply, SECOND, World, builder, event, hooked, open, until_sent};
use crate::producer::outbox::OutboxReason;

#[tokio::test(start_paused = true)]
async fn each_event_that_meets_a_stop_is_answered_once_and_kept_exactly_if_the_answer_says_so() {
    let (mut accepted, mut stopped) = (0, 0);
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let directory = tempfile::tempdir().unwrap();
        let world = World::unreachable();
        let outbox = open(&directory, &world).await;
        let (mut sends, mut stops) = (Vec::new(), Vec::new());
        let stop_after = random.usize(50..150);
        for number in 0..200 {
            let sending = outbox.send(event(&format!("key-{number}"), number));
            sends.push(tokio::spawn(async move { (number, sending.await) }));
            if number == stop_after {
                let outbox = outbox.clone();
                stops.push(tokio::spawn(async move { outbox.stop(Duration::ZERO).await }));
            }
            if random.u8(..4) == 0 {
                tokio::task::yield_now().await;
            }
        }
        let mut expected = BTreeSet::new();
        for sent in join_all(sends).await {
            match sent.unwrap() {
                (number, Ok(_)) => drop(expected.insert(number.to_string())),
                (number, Err(error)) => {
                    assert_eq!(error.reason, OutboxReason::Stopped, "seed {seed}");
                    assert_eq!(error.event, event(&format!("key-{number}"), number), "seed {seed}");
                    stopped += 1;
                }
            }
        }
        accepted += expected.len();
        let left = stops.pop().unwrap().await.unwrap().left;
        assert_eq!(left, expected.len() as u64, "seed {seed}");
        world.answers(|_, _| Reply::Stored);
        let outbox = open(&directory, &world).await;
        until_sent(&outbox).await;
        let stored: BTreeSet<String> = world.stored().into_iter().map(|(_, _, payload)| payload).collect();
        assert_eq!(stored, expected, "seed {seed}");
    }
    assert!(accepted > 100 && stopped > 100, "{accepted} accepted, {stopped} not");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_disk_does_not_answer_for_at_the_end_is_given_back_with_that_reason() {
    let directory = tempfile::tempdir().unwrap();
    let (reached, begins) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let store = hooked(&directory, move |_| {
        reached.send(()).unwrap();
        let _ = gate.lock().unwrap().recv();
        Hook::Done
    });
    let outbox = builder(&directory, &World::working()).store(store).open().await.unwrap();
    let mut begun = Box::pin(outbox.send(event("key", 1)));
    while begins.try_recv().is_err() {
        assert!(begun.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let waiting = outbox.send(event("key", 2));
    let stopping = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.stop(SECOND).await }
    });
    while !stopping.is_finished() {
        // The clock stands still while a thread is blocked.
        tokio::time::advance(SECOND).await;
        tokio::task::yield_now().await;
    }
    let error = begun.await.unwrap_err();
    assert!(matches!(error.reason, OutboxReason::Store(_)), "{error}");
    assert!(error.to_string().contains("may be kept"), "{error}");
    assert_eq!(error.event, event("key", 1));
    assert_eq!(waiting.await.unwrap_err().reason, OutboxReason::Stopped);
    drop(go_on);
}
