//! Pausing, resuming and draining shards.

mod drain;
mod pause;

use std::time::Duration;

use actix::Actor;
use actix_kinesis::ShardId;
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{EventProcessed, KinesisConsumer, OperationError, ShardStatus};
use kinesis_lease::Lease;

use super::world::{Network, Place};
use super::{HOUR, conf, new_notes, pass, start};
use crate::recorder::{Held, Notes, Recorder};

const SECOND: Duration = Duration::from_secs(1);

/// A consumer that answers at once, and the network that it sees the place through.
fn start_noting(place: &Place, notes: &Notes) -> (KinesisConsumer, Network) {
    let (world, network) = place.connect();
    (super::start_noting(conf(), world, Recorder::new(notes)), network)
}

/// A consumer that answers at once, and the only shard that there is.
struct One {
    place: Place,
    shard: ShardId,
    notes: Notes,
    consumer: KinesisConsumer,
    network: Network,
}

fn one_shard() -> One {
    let place = Place::new(1);
    let notes = new_notes();
    let (consumer, network) = start_noting(&place, &notes);
    One { shard: only_shard(&place), place, notes, consumer, network }
}

/// A consumer whose events are answered by the test.
struct Holding {
    notes: Notes,
    held: Held,
    consumer: KinesisConsumer,
    network: Network,
}

fn start_holding(place: &Place, conf: ConsumerConf) -> Holding {
    let (world, network) = place.connect();
    let notes = new_notes();
    let (recorder, held) = Recorder::holding(&notes);
    let consumer = start(conf, world, recorder.start());
    Holding { notes, held, consumer, network }
}

/// Events have much time.
fn patient() -> ConsumerConf {
    let mut conf = conf();
    conf.worker.batch_timeout = HOUR;
    conf
}

fn answer_all(held: &Held) {
    for handle in held.take() {
        handle.answer(EventProcessed::Processed);
    }
}

fn put_numbers(place: &Place, numbers: std::ops::Range<usize>) {
    for number in numbers {
        place.put("key", number.to_string());
    }
}

/// Twenty keys in turn.
fn put_by_key(place: &Place, numbers: std::ops::Range<usize>) {
    for number in numbers {
        place.put(&format!("key-{}", number % 20), number.to_string());
    }
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn only_shard(place: &Place) -> ShardId {
    place.shards()[0].id.clone()
}

fn row(place: &Place, shard: &ShardId) -> Lease {
    place.rows()[shard].clone()
}

fn status_of(consumer: &KinesisConsumer, shard: &ShardId) -> ShardStatus {
    let shards = consumer.status().shards;
    shards.into_iter().find(|status| status.shard == *shard).expect("the shard is held")
}

fn reads(consumer: &KinesisConsumer, shard: &ShardId) -> bool {
    consumer.status().shards.iter().any(|status| status.shard == *shard)
}

fn not_held(shard: &ShardId) -> Result<(), OperationError> {
    Err(OperationError::NotHeld { shard: shard.clone() })
}

/// Waits until a condition outside of the notes holds.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..24 * 60 {
        if is_so() {
            return;
        }
        pass(SECOND).await;
    }
    panic!("waited in vain until {what}");
}

#[actix::test]
async fn pauses_drains_and_resumes_at_random_lose_repeat_and_reorder_nothing() {
    tokio::time::pause();
    for seed in 0..10 {
        let mut random = fastrand::Rng::with_seed(seed);
        let place = Place::new(4);
        let notes = new_notes();
        let consumers = [(); 3].map(|()| start_noting(&place, &notes).0);
        let mut put = 0;
        for step in 0..600 {
            for _ in 0..random.usize(0..4) {
                place.put(&format!("key-{}", random.usize(0..16)), put.to_string());
                put += 1;
            }
            let shards = place.shards();
            let shard = &shards[random.usize(0..shards.len())];
            let consumer = &consumers[random.usize(0..consumers.len())];
            // Most of them are told that the shard is not theirs.
            let _ = match random.u8(0..12) {
                0 => consumer.pause(&shard.id).await,
                1 => consumer.drain(&shard.id).await,
                2..5 => consumer.resume(&shard.id).await,
                _ => Ok(()),
            };
            if step % 200 == 100 && shard.is_open() {
                place.split(shard);
            }
            pass(random.u32(0..10) * SECOND / 10).await;
        }
        for consumer in &consumers {
            for shard in place.shards() {
                let _ = consumer.resume(&shard.id).await;
            }
        }
        let noted = notes.wait_for("all records", |noted| noted.deliveries.len() >= put).await;
        assert_eq!(noted.deliveries.len(), put, "seed {seed}");
        for (key, payloads) in noted.first_by_key() {
            let numbers: Vec<usize> = payloads.iter().map(|payload| payload.parse().unwrap()).collect();
            assert!(numbers.is_sorted(), "seed {seed}: {key}: {numbers:?}");
        }
        for consumer in consumers {
            assert!(consumer.stop().await.unwrap().is_clean(), "seed {seed}");
        }
    }
}
