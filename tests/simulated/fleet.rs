//! Several processes that share the shards of a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::Actor;
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{EventProcessed, KinesisConsumer, Placement};
use kinesis_record::{HashKey, ShardId};
use tokio::time::Instant;

use super::world::Place;
use super::{MINUTE, conf, new_notes, pass};
use crate::recorder::Recorder;

const SECOND: Duration = Duration::from_secs(1);

/// What all processes have delivered, in order.
#[derive(Clone, Default)]
struct Deliveries(Arc<Mutex<Vec<(Instant, ShardId, String)>>>);

impl Deliveries {
    /// A processor that takes 20 ms for an event.
    fn recorder(&self) -> Recorder {
        let deliveries = self.clone();
        Recorder::answering(&new_notes(), move |message| {
            let payload = String::from_utf8_lossy(message.event.payload()).into_owned();
            deliveries.0.lock().unwrap().push((Instant::now(), message.event.shard().clone(), payload));
            let handle = message.answer_later();
            actix::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                handle.answer(EventProcessed::Processed);
            });
            EventProcessed::Later
        })
    }

    fn payloads(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(.., payload)| payload.clone()).collect()
    }

    /// The longest time that a shard has gone without a delivery between two of its own.
    fn longest_gap(&self) -> Duration {
        let mut last = BTreeMap::new();
        let mut longest = Duration::ZERO;
        for (at, shard, _) in self.0.lock().unwrap().iter() {
            if let Some(before) = last.insert(shard.clone(), *at) {
                longest = longest.max(*at - before);
            }
        }
        longest
    }
}

fn start(place: &Place, conf: ConsumerConf, seed: u64, recorder: Recorder) -> KinesisConsumer {
    KinesisConsumer::builder(conf, recorder.start())
        .world(place.connect().0)
        .placement(Placement::CurrentThread)
        .seed(seed)
        .start()
        .unwrap()
}

fn shares(consumers: &[KinesisConsumer]) -> Vec<usize> {
    consumers.iter().map(|consumer| consumer.status().shards.len()).collect()
}

/// Puts a record into each open shard every 100 ms, numbered from `from` on. Returns how many.
async fn put_steadily(place: &Place, from: usize, time: Duration) -> usize {
    let end = Instant::now() + time;
    let mut number = from;
    while Instant::now() < end {
        for shard in place.shards().iter().filter(|shard| shard.is_open()) {
            let is_there = |key: &String| shard.hash_range.contains(HashKey::of_partition_key(key));
            let key = (0..).map(|index| format!("key-{index}")).find(is_there).unwrap();
            place.put(&key, number.to_string());
            number += 1;
        }
        pass(SECOND / 10).await;
    }
    number - from
}

#[actix::test]
async fn planned_changes_deliver_nothing_twice_and_leave_no_shard_without_a_reader() {
    tokio::time::pause();
    let place = Place::new(8);
    let deliveries = Deliveries::default();
    let mut conf = conf();
    conf.polling.idle_time = SECOND / 5;
    let mut put = 0;
    let first = start(&place, conf.clone(), 1, deliveries.recorder());
    put += put_steadily(&place, put, 20 * SECOND).await;
    let second = start(&place, conf.clone(), 2, deliveries.recorder());
    put += put_steadily(&place, put, MINUTE).await;
    assert_eq!(shares(&[first.clone(), second.clone()]), [4, 4]);
    let third = start(&place, conf.clone(), 3, deliveries.recorder());
    put += put_steadily(&place, put, MINUTE).await;
    let mut even = shares(&[first.clone(), second.clone(), third.clone()]);
    even.sort();
    assert_eq!(even, [2, 3, 3]);
    let (stopped, while_stopping) = tokio::join!(first.stop(), put_steadily(&place, put, 30 * SECOND));
    assert!(stopped.unwrap().is_clean());
    put += while_stopping;
    assert_eq!(shares(&[second.clone(), third.clone()]), [4, 4]);
    pass(5 * SECOND).await;

    let payloads = deliveries.payloads();
    assert_eq!(payloads.len(), put, "each once");
    assert_eq!(payloads.iter().collect::<BTreeSet<_>>().len(), put);
    let gap = deliveries.longest_gap();
    assert!(gap < 2 * SECOND, "{gap:?}");
    for consumer in [second, third] {
        assert!(consumer.stop().await.unwrap().is_clean());
    }
}

#[actix::test]
async fn six_processes_that_start_together_share_evenly_with_few_moves() {
    tokio::time::pause();
    let place = Place::new(24);
    let consumers: Vec<_> =
        (0..6).map(|seed| start(&place, conf(), seed, Recorder::new(&new_notes()))).collect();
    pass(MINUTE).await;
    assert_eq!(shares(&consumers), [4; 6]);
    let moved = |place: &Place| -> BTreeMap<ShardId, Option<String>> {
        place.rows().values().map(|row| (row.shard.clone(), row.token.clone())).collect()
    };
    let before = moved(&place);
    pass(10 * MINUTE).await;
    assert_eq!(before, moved(&place), "nothing moves any more");
    for consumer in consumers {
        assert!(consumer.stop().await.unwrap().is_clean());
    }
}

#[actix::test]
async fn a_thousand_shards_are_read_within_a_minute_and_shared_with_a_third_process_within_another() {
    tokio::time::pause();
    let place = Place::new(1_000);
    let mut consumers: Vec<_> =
        (0..2).map(|seed| start(&place, conf(), seed, Recorder::new(&new_notes()))).collect();
    pass(MINUTE).await;
    assert_eq!(shares(&consumers).iter().sum::<usize>(), 1_000);
    assert_eq!(shares(&consumers), [500, 500]);
    consumers.push(start(&place, conf(), 2, Recorder::new(&new_notes())));
    pass(MINUTE).await;
    let mut shared = shares(&consumers);
    shared.sort();
    assert_eq!(shared, [333, 333, 334]);
}
