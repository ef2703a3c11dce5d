//! Events that the service refuses for good.

use std::sync::Arc;
use std::time::Duration;

use kinesis_lease::StreamErrorKind;
use kinesis_lease::put::PutRecord;

use super::world::{Reply, World, event, open, until, until_sent};
use crate::producer::outbox::Outbox;

/// A stream that refuses calls with the payload `poison`.
fn picky() -> Arc<World> {
    World::new(|_, records: &[PutRecord]| {
        let is_poison = |record: &PutRecord| record.data.as_ref() == b"poison";
        match records.iter().any(is_poison) {
            true => Reply::Fails(StreamErrorKind::InvalidArgument),
            false => Reply::Stored,
        }
    })
}

async fn send_all(outbox: &Outbox, payloads: &[&str]) {
    for payload in payloads {
        outbox.send(event("key", payload)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_event_is_parked_and_the_others_of_its_key_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let world = picky();
    let outbox = open(&directory, &world).await;
    send_all(&outbox, &["1", "poison", "2", "3"]).await;
    until_sent(&outbox).await;
    assert_eq!(world.payloads("key"), ["1", "2", "3"]);
    let parked = outbox.parked(0, 10).await.unwrap();
    let [parked] = &parked[..] else { panic!("{parked:?}") };
    assert_eq!(parked.event, event("key", "poison").with_stream("orders"));
    assert!(parked.reason.contains("InvalidArgument"), "{}", parked.reason);
    assert_eq!(outbox.status().parked, 1);
    assert!(outbox.parked(parked.number, 10).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_parked_event_stays_so_over_a_restart_until_it_is_retried_and_then_goes_last() {
    let directory = tempfile::tempdir().unwrap();
    let world = picky();
    let outbox = open(&directory, &world).await;
    send_all(&outbox, &["poison"]).await;
    until_sent(&outbox).await;
    outbox.stop(Duration::ZERO).await;
    world.answers(|_, _| Reply::Stored);
    let outbox = open(&directory, &world).await;
    send_all(&outbox, &["1"]).await;
    until_sent(&outbox).await;
    assert_eq!((world.payloads("key"), outbox.status().parked), (vec!["1".to_owned()], 1));
    let number = outbox.parked(0, 10).await.unwrap()[0].number;
    assert_eq!(outbox.retry(number).await, Ok(true));
    assert_eq!(outbox.retry(number).await, Ok(false));
    until_sent(&outbox).await;
    assert_eq!(world.payloads("key"), ["1", "poison"]);
    assert_eq!((outbox.status().parked, outbox.status().bytes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_parked_event_that_is_discarded_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let world = picky();
    let outbox = open(&directory, &world).await;
    send_all(&outbox, &["poison"]).await;
    until(|| outbox.status().parked == 1).await;
    assert!(outbox.status().bytes > 0);
    let number = outbox.parked(0, 10).await.unwrap()[0].number;
    assert_eq!(outbox.discard(number + 1).await, Ok(false));
    assert_eq!(outbox.discard(number).await, Ok(true));
    assert_eq!((outbox.status().parked, outbox.status().bytes), (0, 0));
    outbox.stop(Duration::ZERO).await;
    let outbox = open(&directory, &world).await;
    assert!(outbox.parked(0, 10).await.unwrap().is_empty());
    until_sent(&outbox).await;
}
