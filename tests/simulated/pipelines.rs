//! Pipelines whose shards are paused and lost.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{ConsumerBuilder, Placement, World};
use actix_kinesis::pipeline::{
    Batch, DeadLetter, DeadLetters, EmitError, Emitter, Gather, Pipeline, RunningPipeline,
};
use actix_kinesis::{Checkpoint, Position, ShardId};

use super::logs::Logs;
use super::world::Place;
use super::{MINUTE, SECOND, conf, pass};

/// Takes a time for each batch, and knows afterwards what it has, whoever has waited for that.
#[derive(Clone, Default)]
struct Slow {
    takes_ms: Arc<AtomicU64>,
    began: Arc<AtomicU64>,
    out: Arc<Mutex<Vec<u64>>>,
    ranges: Arc<Mutex<Vec<RangeInclusive<Position>>>>,
}

impl Slow {
    fn taking(time: Duration) -> Self {
        let slow = Self::default();
        slow.take(time);
        slow
    }

    fn take(&self, time: Duration) {
        self.takes_ms.store(time.as_millis() as u64, Ordering::Relaxed);
    }

    fn out(&self) -> Vec<u64> {
        self.out.lock().unwrap().clone()
    }

    async fn until(&self, count: usize) {
        while self.out().len() < count {
            pass(SECOND / 10).await;
        }
    }

    async fn until_begun(&self, batches: u64) {
        while self.began.load(Ordering::Relaxed) < batches {
            pass(SECOND / 10).await;
        }
    }
}

impl Emitter<u64> for Slow {
    async fn emit(&self, batch: &Batch<u64>) -> Result<(), EmitError> {
        self.began.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(self.takes_ms.load(Ordering::Relaxed))).await;
        self.out.lock().unwrap().extend(batch.items().map(|item| item.value));
        self.ranges.lock().unwrap().push(batch.range().clone());
        Ok(())
    }

    async fn emitted(&self, _: &ShardId, _: &Checkpoint) -> Result<Vec<RangeInclusive<Position>>, EmitError> {
        Ok(self.ranges.lock().unwrap().clone())
    }
}

struct NoLetters;

impl DeadLetters for NoLetters {
    async fn put(&self, letter: &DeadLetter) -> Result<(), EmitError> {
        panic!("{letter:?}");
    }
}

fn numbers() -> Pipeline<u64> {
    Pipeline::decode(|event| String::from_utf8_lossy(event.payload()).parse::<u64>())
        .gather(Gather::records(5).with_time(SECOND))
}

fn start(conf: ConsumerConf, world: World, emitter: &Slow) -> RunningPipeline {
    let configure =
        |consumer: ConsumerBuilder| consumer.world(world).placement(Placement::CurrentThread).seed(1);
    numbers().start_with(conf, emitter.clone(), NoLetters, configure).unwrap()
}

fn put_numbers(place: &Place, numbers: std::ops::Range<usize>) {
    for number in numbers {
        place.put("key", number.to_string());
    }
}

#[actix::test]
async fn a_pause_that_an_emitter_outlasts_makes_nothing_twice_of_what_it_knows() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = place.open_shards()[0].id.clone();
    put_numbers(&place, 0..20);
    let emitter = Slow::taking(MINUTE);
    let running = start(conf(), place.connect().0, &emitter);
    emitter.until_begun(1).await;
    // It waits as long as an event may take, and goes on without the emitter.
    running.consumer().pause(&shard).await.unwrap();
    assert!(emitter.out().is_empty());
    running.consumer().resume(&shard).await.unwrap();
    emitter.until(20).await;
    pass(5 * MINUTE).await;
    assert_eq!(emitter.out(), (0..20).collect::<Vec<_>>());
    let counts = running.counts();
    assert_eq!(counts.already_emitted, 5, "{counts:?}");
    assert!(running.stop().await.unwrap().is_clean());
    let last = place.row().checkpoint;
    assert_eq!(last, Checkpoint::At(emitter.ranges.lock().unwrap().last().unwrap().end().clone()));
}

#[actix::test]
async fn a_destination_that_is_away_keeps_no_paused_shard_from_its_next_start() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = place.open_shards()[0].id.clone();
    put_numbers(&place, 0..20);

    /// Nothing arrives before there is a door.
    #[derive(Clone)]
    struct Door(Slow, Arc<AtomicU64>);
    impl Emitter<u64> for Door {
        async fn emit(&self, batch: &Batch<u64>) -> Result<(), EmitError> {
            match self.1.load(Ordering::Relaxed) {
                0 => Err(EmitError::unavailable("closed")),
                _ => self.0.emit(batch).await,
            }
        }
    }

    let emitter = Door(Slow::default(), Arc::default());
    let world = place.connect().0;
    let configure =
        |consumer: ConsumerBuilder| consumer.world(world).placement(Placement::CurrentThread).seed(1);
    let running = numbers().start_with(conf(), emitter.clone(), NoLetters, configure).unwrap();
    pass(5 * MINUTE).await;
    running.consumer().pause(&shard).await.unwrap();
    emitter.1.store(1, Ordering::Relaxed);
    running.consumer().resume(&shard).await.unwrap();
    // The pauses between attempts have grown longer than this by then.
    pass(5 * SECOND).await;
    assert_eq!(emitter.0.out(), (0..20).collect::<Vec<_>>());
    let counts = running.counts();
    assert!(counts.unavailable > 5 && counts.failures == 0, "{counts:?}");
    assert!(running.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn what_was_taken_under_a_lease_that_is_lost_is_not_emitted_and_comes_again_with_the_lease() {
    tokio::time::pause();
    let place = Place::new(1);
    let shard = place.open_shards()[0].id.clone();
    put_numbers(&place, 0..20);
    let emitter = Slow::taking(MINUTE);
    let running = start(conf(), place.connect().0, &emitter);
    emitter.until_begun(1).await;
    place.steal(&shard);
    pass(2 * MINUTE).await;
    // Nobody renews it, so it is taken back after a while.
    emitter.take(Duration::ZERO);
    emitter.until(20).await;
    pass(5 * MINUTE).await;
    assert_eq!(emitter.out(), (0..20).collect::<Vec<_>>());
    assert!(running.stop().await.unwrap().is_clean());
}

#[actix::test]
async fn a_call_of_an_emitter_that_takes_long_is_logged_once_each() {
    tokio::time::pause();
    let logs = Logs::of_this_thread();
    let place = Place::new(1);
    put_numbers(&place, 0..5);
    let emitter = Slow::taking(MINUTE - SECOND);
    let running = start(conf(), place.connect().0, &emitter);
    emitter.until(5).await;
    let warnings = || logs.with(&[" WARN ", "the emitter has not answered"]).len();
    assert_eq!(warnings(), 0);
    emitter.take(10 * MINUTE);
    for batches in [1, 2] {
        put_numbers(&place, 5 * batches..5 * batches + 5);
        emitter.until(5 * batches + 5).await;
        assert_eq!(warnings(), batches);
    }
    assert!(running.stop().await.unwrap().is_clean());
}
