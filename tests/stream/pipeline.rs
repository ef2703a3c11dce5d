//! [`Pipeline`](actix_kinesis::pipeline::Pipeline): decode, filter, transform, gather, emit.

#[cfg(feature = "object-store")]
mod objects;
mod redrive;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_kinesis::config::{BackoffConf, Concurrency, FailurePolicy};
use actix_kinesis::consumer::ConsumerEvent;
use actix_kinesis::pipeline::{
    Batch, DeadLetter, DeadLetterStore, DeadLetters, EmitError, Emitter, FailedItem, Gather, Pipeline, Retry,
    RunningPipeline, Stage,
};
use actix_kinesis::{Checkpoint, Position, ShardId};
use kinesis_local::LocalAws;

use crate::support::*;

const MS: Duration = Duration::from_millis(1);

type Refuses = fn(u64) -> bool;

/// Keeps what is emitted, in order, and fails as it is told.
#[derive(Clone, Default)]
struct Sink {
    out: Arc<Mutex<Vec<(String, u64)>>>,
    batches: Arc<AtomicUsize>,
    refuses: Arc<Mutex<Option<Refuses>>>,
    is_unavailable: Arc<AtomicBool>,
}

impl Sink {
    fn refusing(refuses: Refuses) -> Self {
        let sink = Self::default();
        *sink.refuses.lock().unwrap() = Some(refuses);
        sink
    }

    fn out(&self) -> Vec<u64> {
        self.out.lock().unwrap().iter().map(|(_, number)| *number).collect()
    }

    async fn until(&self, count: usize) {
        let is_out = async {
            let mut pause = tokio::time::interval(10 * MS);
            while self.out().len() < count {
                pause.tick().await;
            }
        };
        soon("the output", is_out).await;
    }
}

impl Emitter<u64> for Sink {
    async fn emit(&self, batch: &Batch<u64>) -> Result<(), EmitError> {
        if self.is_unavailable.load(Ordering::Relaxed) {
            return Err(EmitError::unavailable("closed"));
        }
        self.batches.fetch_add(1, Ordering::Relaxed);
        let refuses = *self.refuses.lock().unwrap();
        let mut failed = Vec::new();
        for (place, item) in batch.items().enumerate() {
            if refuses.is_some_and(|refuses| refuses(item.value)) {
                failed.push(FailedItem { place, cause: "refused".to_owned() });
            } else {
                self.out.lock().unwrap().push((batch.shard().to_string(), item.value));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(EmitError::Items(failed)) }
    }
}

#[derive(Clone, Default)]
struct Dead(Arc<Mutex<BTreeMap<String, DeadLetter>>>);

impl Dead {
    fn letters(&self) -> Vec<DeadLetter> {
        self.0.lock().unwrap().values().cloned().collect()
    }

    async fn until(&self, count: usize) {
        let are_there = async {
            let mut pause = tokio::time::interval(10 * MS);
            while self.letters().len() < count {
                pause.tick().await;
            }
        };
        soon("dead letters", are_there).await;
    }
}

impl DeadLetters for Dead {
    async fn put(&self, letter: &DeadLetter) -> Result<(), EmitError> {
        let key = format!("{} {}", letter.shard(), letter.position());
        self.0.lock().unwrap().insert(key, letter.clone());
        Ok(())
    }
}

impl DeadLetterStore for Dead {
    type Key = String;

    async fn list(&self) -> Result<Vec<String>, EmitError> {
        Ok(self.0.lock().unwrap().keys().cloned().collect())
    }

    async fn get(&self, key: &String) -> Result<DeadLetter, EmitError> {
        self.0.lock().unwrap().get(key).cloned().ok_or_else(|| EmitError::unavailable("gone"))
    }

    async fn delete(&self, key: &String) -> Result<(), EmitError> {
        self.0.lock().unwrap().remove(key);
        Ok(())
    }
}

fn number(event: &ConsumerEvent) -> Result<u64, String> {
    let text = String::from_utf8(event.payload().to_vec()).map_err(|error| error.to_string())?;
    text.parse().map_err(|error| format!("{text}: {error}"))
}

/// Quick to give up and to flush.
fn numbers() -> Pipeline<u64> {
    let backoff = BackoffConf { min: MS, max: 5 * MS };
    Pipeline::decode(number)
        .gather(Gather::records(10).with_time(20 * MS))
        .retry(Retry::times(3).with_backoff(backoff))
}

fn start(pipeline: Pipeline<u64>, aws: &LocalAws, sink: &Sink, dead: &Dead) -> RunningPipeline {
    pipeline.start_with(conf(aws), sink.clone(), dead.clone(), with_credentials).unwrap()
}

#[actix::test]
async fn every_event_is_emitted_in_the_order_of_its_shard_or_is_accounted_for() {
    let aws = local_aws(2).await;
    put_numbers(&aws, 0..200);
    aws.put(STREAM, "key", "rubbish").unwrap();
    let (sink, dead) = (Sink::default(), Dead::default());
    // Of three numbers one is not wanted; of the others two are made each.
    let twice = |number: u64| async move {
        tokio::time::sleep(if number.is_multiple_of(2) { 2 * MS } else { Duration::ZERO }).await;
        Ok::<_, String>([10 * number, 10 * number + 1])
    };
    let pipeline = numbers().filter(|number| !number.is_multiple_of(3)).transform(twice);
    let running = start(pipeline, &aws, &sink, &dead);
    sink.until(266).await;
    dead.until(1).await;
    assert!(running.stop().await.unwrap().is_clean());
    let out = sink.out.lock().unwrap().clone();
    let wanted = (0..200u64).filter(|number| !number.is_multiple_of(3));
    let wanted: BTreeSet<u64> = wanted.flat_map(|number| [10 * number, 10 * number + 1]).collect();
    assert_eq!(out.iter().map(|(_, number)| *number).collect::<BTreeSet<_>>(), wanted);
    assert_eq!(out.len(), 266);
    for shard in out.iter().map(|(shard, _)| shard).collect::<BTreeSet<_>>() {
        let of_shard: Vec<_> = out.iter().filter(|(of, _)| of == shard).map(|(_, number)| number).collect();
        assert!(of_shard.is_sorted(), "{of_shard:?}");
    }
    let counts = running.counts();
    assert_eq!((counts.emitted, counts.filtered, counts.dead, counts.done()), (133, 67, 1, 201));
    let letter = &dead.letters()[0];
    assert_eq!(
        (letter.stage(), letter.attempts(), &letter.payload()[..]),
        (Stage::Decode, 1, &b"rubbish"[..])
    );
    assert!(letter.cause().contains("invalid digit"), "{}", letter.cause());
}

#[actix::test]
async fn what_an_emitter_refuses_for_ever_is_in_the_dead_letters_and_comes_out_of_them() {
    let aws = local_aws(2).await;
    put_numbers(&aws, 0..300);
    let (sink, dead) = (Sink::refusing(|number| number.is_multiple_of(10)), Dead::default());
    let running = start(numbers(), &aws, &sink, &dead);
    sink.until(270).await;
    dead.until(30).await;
    assert!(running.stop().await.unwrap().is_clean());
    let counts = running.counts();
    assert_eq!((counts.emitted, counts.dead, counts.done()), (270, 30, 300));
    let letters = dead.letters();
    assert!(letters.iter().all(|letter| letter.stage() == Stage::Emit && letter.attempts() == 3));
    let dead_numbers: BTreeSet<u64> = letters.iter().map(|letter| number(letter.event()).unwrap()).collect();
    assert_eq!(dead_numbers, (0..300).step_by(10).collect());
    // Still refused, they stay; mended, they come out.
    let redriven = numbers().redrive(&dead, &sink).await.unwrap();
    assert_eq!((redriven.emitted, redriven.failed), (0, 30));
    *sink.refuses.lock().unwrap() = None;
    let redriven = numbers().redrive(&dead, &sink).await.unwrap();
    assert_eq!((redriven.emitted, redriven.failed), (30, 0));
    assert!(dead.letters().is_empty());
    assert_eq!(sink.out().into_iter().collect::<BTreeSet<_>>(), (0..300).collect());
    assert_eq!(sink.out().len(), 300);
}

#[actix::test]
async fn a_transform_is_tried_again_and_a_panic_is_a_failure_of_its_event_alone() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..30);
    let (sink, dead) = (Sink::default(), Dead::default());
    let attempts = Arc::new(AtomicUsize::new(0));
    let pipeline = numbers().transform({
        let attempts = Arc::clone(&attempts);
        move |number| {
            let attempts = Arc::clone(&attempts);
            async move {
                match number {
                    7 if attempts.fetch_add(1, Ordering::Relaxed) < 2 => Err("not yet".to_owned()),
                    13 => panic!("thirteen"),
                    number => Ok([number]),
                }
            }
        }
    });
    let running = start(pipeline, &aws, &sink, &dead);
    sink.until(29).await;
    dead.until(1).await;
    assert!(running.stop().await.unwrap().is_clean());
    assert_eq!(attempts.load(Ordering::Relaxed), 3);
    let letter = &dead.letters()[0];
    assert_eq!((number(letter.event()), letter.stage(), letter.attempts()), (Ok(13), Stage::Transform, 3));
    assert_eq!(running.counts().failures, 4);
}

#[actix::test]
async fn nothing_is_checkpointed_before_it_is_emitted_and_other_shards_go_on() {
    let aws = local_aws(2).await;
    put_numbers(&aws, 0..100);
    let (sink, dead) = (Sink::default(), Dead::default());

    /// Stands still for the first shard.
    struct HalfClosed(Sink);
    impl Emitter<u64> for HalfClosed {
        async fn emit(&self, batch: &Batch<u64>) -> Result<(), EmitError> {
            if batch.shard().as_str() == FIRST && self.0.is_unavailable.load(Ordering::Relaxed) {
                return Err(EmitError::unavailable("closed"));
            }
            self.0
                .out
                .lock()
                .unwrap()
                .extend(batch.items().map(|item| (batch.shard().to_string(), item.value)));
            Ok(())
        }
    }

    sink.is_unavailable.store(true, Ordering::Relaxed);
    let halves = HalfClosed(sink.clone());
    let running = numbers().start_with(conf(&aws), halves, dead.clone(), with_credentials).unwrap();
    let second = aws.records(STREAM).unwrap().iter().filter(|(shard, _)| shard.as_str() != FIRST).count();
    sink.until(second).await;
    // An early checkpoint of the one would be there by the time that the other's is.
    until_checkpoint(&aws, "shardId-000000000001", |checkpoint| matches!(checkpoint, Checkpoint::At(_)))
        .await;
    assert_eq!(checkpoint(&aws, FIRST).await, Some(Checkpoint::TrimHorizon));
    sink.is_unavailable.store(false, Ordering::Relaxed);
    sink.until(100).await;
    assert!(running.stop().await.unwrap().is_clean());
    assert!(matches!(checkpoint(&aws, FIRST).await, Some(Checkpoint::At(_))));
    assert_eq!(running.counts().emitted, 100);
}

#[actix::test]
async fn what_was_gathered_is_emitted_when_the_time_is_over_at_a_stop_and_at_the_end_of_a_shard() {
    let aws = local_aws(1).await;
    let gather = Gather::records(1_000_000).with_bytes(1 << 30).with_time(Duration::MAX);
    let (sink, dead) = (Sink::default(), Dead::default());
    put_numbers(&aws, 0..10);
    aws.split(STREAM, FIRST).unwrap();
    put_numbers(&aws, 10..20);
    let running = start(numbers().gather(gather), &aws, &sink, &dead);
    sink.until(10).await;
    until_checkpoint(&aws, FIRST, |checkpoint| *checkpoint == Checkpoint::ShardEnd).await;
    let taken = async {
        let mut status = running.consumer().watch();
        let is_all = |status: &actix_kinesis::consumer::ConsumerStatus| {
            status.shards.iter().map(|shard| shard.in_flight).sum::<u64>() == 10
        };
        status.wait_for(is_all).await.unwrap();
    };
    soon("the children's records", taken).await;
    assert!(running.stop().await.unwrap().is_clean());
    assert_eq!(sink.out().len(), 20);

    put_numbers(&aws, 20..30);
    let running = start(numbers().gather(gather.with_time(20 * MS)), &aws, &sink, &dead);
    sink.until(30).await;
    running.stop().await.unwrap();
}

#[actix::test]
async fn batches_that_are_filtered_out_move_the_checkpoint() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..100);
    let (sink, dead) = (Sink::default(), Dead::default());
    let running = start(numbers().filter(|_| false), &aws, &sink, &dead);
    let last = aws.records(STREAM).unwrap().last().unwrap().1.sequence_number.to_string();
    until_checkpoint(&aws, FIRST, |checkpoint| checkpoint.text() == last).await;
    running.stop().await.unwrap();
    assert_eq!((running.counts().filtered, sink.batches.load(Ordering::Relaxed)), (100, 0));
}

#[actix::test]
async fn events_of_a_key_are_transformed_one_after_the_other_and_of_others_at_once() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..200);
    let (sink, dead) = (Sink::default(), Dead::default());
    let under_way: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
    let most = Arc::new(AtomicUsize::new(0));
    let pipeline = numbers().transform({
        let (under_way, most) = (Arc::clone(&under_way), Arc::clone(&most));
        move |number| {
            let (under_way, most) = (Arc::clone(&under_way), Arc::clone(&most));
            async move {
                let count = {
                    let mut under_way = under_way.lock().unwrap();
                    assert!(under_way.insert(number % 10), "two of a key at once");
                    under_way.len()
                };
                most.fetch_max(count, Ordering::Relaxed);
                tokio::time::sleep(2 * MS).await;
                under_way.lock().unwrap().remove(&(number % 10));
                Ok::<_, String>([number])
            }
        }
    });
    let mut conf = conf(&aws);
    conf.worker.concurrency = Concurrency::Key(30);
    let running = pipeline.start_with(conf, sink.clone(), dead.clone(), with_credentials).unwrap();
    sink.until(200).await;
    running.stop().await.unwrap();
    assert_eq!((sink.out(), dead.letters().len()), ((0..200).collect::<Vec<_>>(), 0));
    assert!(most.load(Ordering::Relaxed) > 5, "{most:?}");
}

#[actix::test]
async fn what_an_emitter_knows_is_not_emitted_again_however_its_ranges_lie() {
    /// Was killed between some batches and their checkpoint, more than once, with other limits each time.
    #[derive(Clone)]
    struct Knows(Sink, Vec<RangeInclusive<Position>>);
    impl Emitter<u64> for Knows {
        async fn emit(&self, batch: &Batch<u64>) -> Result<(), EmitError> {
            self.0.emit(batch).await
        }

        async fn emitted(
            &self,
            _: &ShardId,
            checkpoint: &Checkpoint,
        ) -> Result<Vec<RangeInclusive<Position>>, EmitError> {
            assert_eq!(*checkpoint, Checkpoint::TrimHorizon);
            Ok(self.1.clone())
        }
    }

    let aws = local_aws(1).await;
    put_numbers(&aws, 0..50);
    let at = |number: usize| Position::new(aws.records(STREAM).unwrap()[number].1.sequence_number.clone(), 0);
    let ranges = [(20, 29), (5, 8), (8, 12), (6, 7), (25, 35), (40, 40)];
    let ranges = ranges.map(|(first, last)| at(first)..=at(last)).to_vec();
    let (sink, dead) = (Sink::default(), Dead::default());
    let running = numbers()
        .start_with(conf(&aws), Knows(sink.clone(), ranges), dead.clone(), with_credentials)
        .unwrap();
    sink.until(25).await;
    until_checkpoint(&aws, FIRST, |checkpoint| *checkpoint == Checkpoint::At(at(49))).await;
    assert!(running.stop().await.unwrap().is_clean());
    let known = |number: &u64| matches!(number, 5..=12 | 20..=35 | 40);
    assert_eq!(sink.out(), (0..50).filter(|number| !known(number)).collect::<Vec<_>>());
    assert_eq!((running.counts().emitted, running.counts().already_emitted), (25, 25));
}

#[actix::test]
async fn a_consumer_that_an_emitters_panic_stops_says_that_there_may_have_been_a_panic() {
    struct Panics;
    impl Emitter<u64> for Panics {
        async fn emit(&self, _: &Batch<u64>) -> Result<(), EmitError> {
            panic!("a bug in an emitter");
        }
    }

    let aws = local_aws(1).await;
    put_numbers(&aws, 0..10);
    let mut conf = conf(&aws);
    conf.worker.failure_policy = FailurePolicy::StopConsumer;
    let running = numbers().start_with(conf, Panics, Dead::default(), with_credentials).unwrap();
    let error = soon("the end", running.finished()).await.unwrap_err().to_string();
    assert!(error.contains("panicked"), "{error}");
}
