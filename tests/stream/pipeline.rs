//! [`Pipeline`](actix_kinesis::pipeline::Pipeline): decode, filter, transform, gather, emit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_kinesis::Checkpoint;
use actix_kinesis::config::{BackoffConf, Concurrency};
use actix_kinesis::consumer::ConsumerEvent;
use actix_kinesis::pipeline::{
    Batch, DeadLetter, DeadLetterStore, DeadLetters, EmitError, Emitter, FailedItem, Gather, Pipeline, Retry,
    RunningPipeline, Stage,
};
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
async fn of_an_event_that_was_emitted_in_part_the_rest_is_redriven() {
    let aws = local_aws(1).await;
    put_numbers(&aws, 0..10);
    let (sink, dead) = (Sink::refusing(|number| number % 100 == 42), Dead::default());
    let spread =
        || numbers().transform(async |number: u64| Ok::<_, String>((0..10).map(move |it| 10 * number + it)));
    let running = start(spread(), &aws, &sink, &dead);
    dead.until(1).await;
    sink.until(99).await;
    running.stop().await.unwrap();
    let letter = &dead.letters()[0];
    assert_eq!((number(letter.event()), letter.failed()), (Ok(4), &[2][..]));
    *sink.refuses.lock().unwrap() = None;
    assert_eq!(spread().redrive(&dead, &sink).await.unwrap().emitted, 1);
    let mut out = sink.out();
    out.sort();
    assert_eq!(out, (0..100).collect::<Vec<_>>());
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
    let gather = Gather::records(1_000_000).with_bytes(1 << 30).with_time(Duration::from_secs(3_600));
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

#[cfg(feature = "object-store")]
mod objects {
    use actix_kinesis::pipeline::{ObjectDeadLetters, ObjectEmitter};
    use object_store::ObjectStore;
    use object_store::local::LocalFileSystem;

    use super::*;

    fn lines(folder: &std::path::Path) -> Vec<u64> {
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                lines.extend(self::lines(&path));
            } else if !path.to_string_lossy().contains('#') {
                // What is being written has such a name, until it is whole.
                let text = std::fs::read_to_string(&path).unwrap();
                lines.extend(text.lines().map(|line| line.parse::<u64>().unwrap()));
            }
        }
        lines.sort();
        lines
    }

    fn texts() -> Pipeline<String> {
        numbers().transform(async |number: u64| match number {
            number if number.is_multiple_of(50) => Err("a poor number".to_owned()),
            number => Ok([number.to_string()]),
        })
    }

    #[actix::test]
    async fn objects_hold_each_event_once_though_the_checkpoint_is_behind_them() {
        let aws = local_aws(2).await;
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        let start = |conf, gather| {
            let emitter = ObjectEmitter::new(Arc::clone(&store), "numbers");
            let dead = ObjectDeadLetters::new(Arc::clone(&store), "dead");
            texts().gather(gather).start_with(conf, emitter, dead, with_credentials).unwrap()
        };
        put_numbers(&aws, 0..100);
        // This run's checkpoints do not come to the table of the next one.
        let mut other = conf(&aws);
        other.application_name = "forgotten".to_owned();
        let running = start(other, Gather::records(7).with_time(20 * MS));
        let out = async {
            let mut pause = tokio::time::interval(10 * MS);
            while lines(&folder.path().join("numbers")).len() < 98 {
                pause.tick().await;
            }
        };
        soon("the objects", out).await;
        assert!(running.stop().await.unwrap().is_clean());
        put_numbers(&aws, 100..150);
        let running = start(conf(&aws), Gather::records(11).with_time(20 * MS));
        let out = async {
            let mut pause = tokio::time::interval(10 * MS);
            while lines(&folder.path().join("numbers")).len() < 147 {
                pause.tick().await;
            }
        };
        soon("the objects", out).await;
        assert!(running.stop().await.unwrap().is_clean());
        let wanted: Vec<u64> = (0..150u64).filter(|number| !number.is_multiple_of(50)).collect();
        assert_eq!(lines(&folder.path().join("numbers")), wanted);
        let counts = running.counts();
        assert!(counts.already_emitted >= 98, "{counts:?}");
        assert_eq!(counts.done(), 150);

        let dead = ObjectDeadLetters::new(Arc::clone(&store), "dead");
        let emitter = ObjectEmitter::new(Arc::clone(&store), "numbers");
        let pipeline = numbers().transform(async |number: u64| Ok::<_, String>([number.to_string()]));
        let redriven = pipeline.redrive(&dead, &emitter).await.unwrap();
        assert_eq!((redriven.emitted, redriven.failed), (3, 0));
        assert_eq!(lines(&folder.path().join("numbers")), (0..150).collect::<Vec<_>>());
        assert!(dead.list().await.unwrap().is_empty());
    }
}
