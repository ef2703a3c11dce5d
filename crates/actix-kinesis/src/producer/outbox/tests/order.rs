//! The order of each key, and that nothing is lost, through failures and restarts by chance.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use kinesis_lease::StreamErrorKind;

use super::world::{DAY, Reply, World, conf, event, open, send_all, until_sent};
use crate::producer::outbox::Outbox;

const KEYS: usize = 5;

/// The first deliveries of each key, which must be all of them in order.
fn assert_complete(world: &World, sent: &BTreeMap<String, usize>, seed: u64) {
    for (key, count) in sent {
        let mut first = Vec::new();
        for payload in world.payloads(key) {
            let number: usize = payload.parse().unwrap();
            assert!(number <= first.len(), "seed {seed}: {key} has {number} after {first:?}");
            if number == first.len() {
                first.push(number);
            }
        }
        assert_eq!(first.len(), *count, "seed {seed}: {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_key_is_complete_and_in_order_after_failures_and_restarts_by_chance() {
    for seed in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let mut chance = fastrand::Rng::with_seed(seed);
        let world = World::new(move |_, _| match chance.u8(..10) {
            0 => Reply::Lost,
            1 => Reply::Fails(StreamErrorKind::Unavailable),
            2 => Reply::Fails(StreamErrorKind::Throttled),
            3..6 => Reply::Half,
            _ => Reply::Stored,
        });
        let mut random = fastrand::Rng::with_seed(seed);
        let mut sent = BTreeMap::new();
        for _ in 0..6 {
            let outbox = open(&directory, &world).await;
            let mut accepting = Vec::new();
            for _ in 0..random.usize(20..80) {
                let key = format!("key-{}", random.usize(..KEYS));
                let number = sent.entry(key.clone()).or_insert(0);
                accepting.push(outbox.send(event(&key, *number)));
                *number += 1;
                if random.u8(..8) == 0 {
                    tokio::time::sleep(Duration::from_millis(random.u64(..400))).await;
                }
            }
            assert!(join_all(accepting).await.iter().all(Result::is_ok));
            outbox.stop(Duration::from_millis(random.u64(..300))).await;
        }
        let outbox = open(&directory, &world).await;
        until_sent(&outbox).await;
        assert_complete(&world, &sent, seed);
        outbox.stop(Duration::ZERO).await;
    }
}

#[tokio::test(start_paused = true)]
async fn naming_the_stream_of_the_configuration_makes_no_difference_to_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::working();
    let outbox = open(&directory, &world).await;
    let events = (0..10).map(|number| event("key", number));
    send_all(&outbox, events.map(|it| if it.payload[0] < b'5' { it } else { it.with_stream("orders") }))
        .await;
    until_sent(&outbox).await;
    assert_eq!(world.payloads("key"), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_event_goes_to_the_stream_of_the_configuration_that_accepted_it() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::unreachable();
    let outbox = open(&directory, &world).await;
    outbox.send(event("key", 1)).await.unwrap();
    outbox.stop(Duration::ZERO).await;
    let is_gone = |stream: &str| match stream {
        "orders" => Reply::Fails(StreamErrorKind::NotFound),
        _ => Reply::Stored,
    };
    world.answers(move |stream, _| is_gone(stream));
    let mut conf = conf(&directory);
    conf.stream_name = "others".to_owned();
    let outbox = Outbox::builder(conf).api(world.clone()).open().await.unwrap();
    outbox.send(event("key", 2)).await.unwrap();
    tokio::time::sleep(DAY).await;
    // The former stream is gone: its event waits for it, and no other waits for that.
    assert_eq!((world.payloads("key"), outbox.status().waiting), (vec!["2".to_owned()], 1));
    world.answers(|_, _| Reply::Stored);
    until_sent(&outbox).await;
    let streams: Vec<_> = world.stored().into_iter().map(|(stream, _, payload)| (payload, stream)).collect();
    assert_eq!(streams, [("2".to_owned(), "others".to_owned()), ("1".to_owned(), "orders".to_owned())]);
}
