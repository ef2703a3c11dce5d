//! Consumers as processes of their own, which are killed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

#[allow(dead_code, reason = "the tests of the producer use the rest")]
#[path = "../support/child.rs"]
mod child;
#[path = "../support/example.rs"]
mod example;
mod process;
mod recording;
mod spoiled;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use kinesis_local::LocalAws;
use kinesis_record::aggregation::Aggregate;
use kinesis_record::{HashKey, Position};

use child::Patience;
use process::{Delivery, Probe, STREAM, checkpoints};
use recording::Recording;

/// What a run of one process delivered, behind which checkpoints.
struct Run {
    started_behind: BTreeMap<String, Position>,
    deliveries: Vec<Delivery>,
}

impl Run {
    fn note(&mut self, deliveries: Vec<Delivery>, seen: &mut HashSet<(String, Position)>) {
        seen.extend(deliveries.iter().map(|delivery| (delivery.shard.clone(), delivery.position.clone())));
        self.deliveries.extend(deliveries);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_five_times_under_load_it_loses_nothing_and_repeats_nothing_that_was_checkpointed() {
    killed_five_times_under_load("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_it_is_when_it_processes_several_partition_keys_of_a_shard_at_once() {
    killed_five_times_under_load("worker.concurrency = key(8)").await;
}

/// Each life of the consumer has these settings.
async fn killed_five_times_under_load(settings: &str) {
    const RECORDS: usize = 5_000;
    const KEYS: usize = 40;
    const KILLS: usize = 5;
    let aws = LocalAws::builder().stream(STREAM, 4).start().await.unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    let mut put = 0;
    let mut runs: Vec<Run> = Vec::new();
    let mut stored: BTreeMap<String, Position> = BTreeMap::new();
    let mut seen = HashSet::new();
    while runs.len() <= KILLS {
        let mut run = Run { started_behind: checkpoints(&aws).await, deliveries: Vec::new() };
        let mut probe = Probe::start_with(&aws, "", settings);
        // All lives but the last end after so many deliveries; there are enough records for all of them.
        let life = random.usize(200..900);
        let patience = Patience::until("the records of a life");
        while if runs.len() == KILLS { seen.len() < RECORDS } else { run.deliveries.len() < life } {
            patience.check();
            // No more than the process keeps up with, so that every life has records of its own.
            let ahead = put - seen.len();
            for _ in 0..20.min(RECORDS - put).min(100_usize.saturating_sub(ahead)) {
                aws.put(STREAM, &format!("key-{}", put % KEYS), (put / KEYS).to_string()).unwrap();
                put += 1;
            }
            run.note(probe.deliveries(Duration::from_millis(10)), &mut seen);
            for (shard, checkpoint) in checkpoints(&aws).await {
                if let Some(before) = stored.insert(shard, checkpoint.clone()) {
                    assert!(before <= checkpoint, "a checkpoint went back from {before} to {checkpoint}");
                }
            }
        }
        run.note(probe.kill(), &mut seen);
        runs.push(run);
    }

    let mut first = HashSet::new();
    let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
    for run in &runs {
        for delivery in &run.deliveries {
            if let Some(checkpoint) = run.started_behind.get(&delivery.shard) {
                assert!(delivery.position > *checkpoint, "{delivery:?} had been checkpointed");
            }
            if first.insert((delivery.shard.clone(), delivery.position.clone())) {
                by_key.entry(delivery.key.clone()).or_default().push(delivery.number);
            }
        }
    }
    assert_eq!(first.len(), RECORDS);
    for (key, numbers) in by_key {
        assert_eq!(numbers, (0..RECORDS / KEYS).collect::<Vec<_>>(), "key {key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_an_aggregate_it_goes_on_behind_the_stored_user_record() {
    let aws = LocalAws::builder().stream(STREAM, 1).start().await.unwrap();
    let mut aggregate = Aggregate::new();
    for index in 0..1_000 {
        aggregate.push("key", None::<HashKey>, index.to_string().into());
    }
    aws.put(STREAM, "key", aggregate.encode()).unwrap();

    let mut probe = Probe::start(&aws, r#"{"hold_after": 500}"#);
    let patience = Patience::until("a checkpoint behind the 500th record");
    let stored = loop {
        patience.check();
        let _ = probe.deliveries(Duration::from_millis(20));
        match checkpoints(&aws).await.into_values().next() {
            Some(position) if position.sub_sequence >= 499 => break position,
            _ => {}
        }
    };
    assert_eq!(stored.sub_sequence, 499);
    probe.kill();

    let mut probe = Probe::start(&aws, "");
    let mut numbers = Vec::new();
    let patience = Patience::until("the other 500 records");
    while numbers.len() < 500 {
        patience.check();
        numbers
            .extend(probe.deliveries(Duration::from_millis(20)).into_iter().map(|delivery| delivery.number));
    }
    assert_eq!(numbers, (500..1_000).collect::<Vec<_>>());
    assert_eq!(probe.terminate(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_code_tells_how_it_ended() {
    let aws = LocalAws::builder().stream(STREAM, 1).start().await.unwrap();
    aws.put(STREAM, "key", "0").unwrap();

    let mut unanswered = Probe::start(&aws, r#"{"ack": "none"}"#);
    unanswered.first_delivery();
    assert_eq!(unanswered.terminate(), 3, "an event was left unsettled");

    let mut clean = Probe::start(&aws, "");
    clean.first_delivery();
    assert_eq!(clean.terminate(), 0);

    assert_eq!(Probe::start_with(&aws, "", "worker { batch-timout = 1s }").wait(), 2, "a misspelt key");
    assert_eq!(Probe::start_with(&aws, "", "stream-name = nowhere").wait(), 4, "no such stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_run_with_a_killed_process_is_good_and_what_is_wrong_in_a_copy_of_it_is_found() {
    let recording = Recording::of_a_run().await;
    let (code, found) = recording.check();
    assert_eq!((code, found.as_str()), (0, ""));
    for spoil in [
        spoiled::without_a_delivery,
        spoiled::with_a_key_out_of_order,
        spoiled::with_a_checkpoint_turned_back,
        spoiled::with_a_stored_event_again,
    ] {
        let mut spoilt = recording.clone();
        let wanted = spoil(&mut spoilt);
        let (code, found) = spoilt.check();
        assert_eq!(code, 1, "{wanted} is not found");
        assert!(found.lines().any(|line| line.starts_with(&wanted)), "not {wanted}, but\n{found}");
    }
}
