//! The example `replay` as a person starts it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails panics")]

#[path = "../../../tests/support/example.rs"]
mod example;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use example::example;
use kinesis_lease::Coordinator;
use kinesis_lease::coordinator::{Effect, Settings};
use kinesis_lease::store::Scan;
use kinesis_record::{Checkpoint, HashRange, Shard};

/// A minute of a worker that creates the row of a shard and never learns how that ended, as lines of a log.
fn log(worker: &str) -> Vec<String> {
    log_of(worker, 1)
}

/// The same with so many shards.
fn log_of(worker: &str, shards: u32) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let settings = Settings {
        worker: worker.into(),
        failover: Duration::from_secs(10),
        shard_sync_interval: Duration::from_secs(60),
        initial: Checkpoint::TrimHorizon,
        max_leases: 10,
        max_steals: None,
        clean_up_after: Duration::from_secs(300),
        hand_over_timeout: Duration::from_secs(30),
    };
    let shard = |number: u32| Shard {
        id: format!("shardId-{number:012}").as_str().into(),
        hash_range: HashRange::ALL,
        parents: Vec::new(),
        starting_sequence: 1.into(),
        ending_sequence: None,
    };
    let shards: Vec<Shard> = (0..shards).map(shard).collect();
    let sink = Arc::clone(&lines);
    let mut coordinator =
        Coordinator::recorded(settings, fastrand::Rng::with_seed(seed_of(worker)), move |line| {
            sink.lock().unwrap().push(format!("2026-11-30T01:02:03Z TRACE kinesis_lease::journal: {line}"));
            true
        });
    let mut now = Duration::ZERO;
    while now < Duration::from_secs(60) {
        coordinator.tick(now);
        while let Some(effect) = coordinator.next_effect() {
            match effect {
                Effect::Scan => coordinator.scanned(now, Ok(Scan::default())),
                // Many that take all hash keys each are no complete list, which is told of all the same.
                Effect::ListShards => drop(coordinator.listed(now, Ok(shards.clone()))),
                _ => {}
            }
        }
        now = coordinator.next_wakeup().unwrap();
    }
    drop(coordinator);
    lines.lock().unwrap().clone()
}

/// Runs differ by their seeds.
fn seed_of(worker: &str) -> u64 {
    worker.bytes().map(u64::from).sum()
}

/// What a log driver makes of lines: none is longer than 16 KiB.
fn folded(lines: &[String]) -> Vec<String> {
    lines
        .iter()
        .flat_map(|line| line.as_bytes().chunks(16 * 1024))
        .map(|part| String::from_utf8(part.to_vec()).unwrap())
        .collect()
}

/// What the example prints of a log on stdin, and its exit code.
fn replay(lines: &[String]) -> (String, i32) {
    let mut child =
        Command::new(example("replay", &[])).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let log = lines.join("\n");
    let writer = std::thread::spawn(move || {
        // One that has seen enough reads no more.
        let _ = stdin.write_all(log.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

fn position(lines: &[String], part: &str) -> usize {
    lines.iter().position(|line| line.contains(part)).unwrap()
}

#[test]
fn a_log_of_several_runs_among_other_lines_is_replayed() {
    let other = "2026-11-30T01:02:03Z INFO something else".to_owned();
    let (one, two) = (log("one"), log("two"));
    let mixed = one.into_iter().zip(two).flat_map(|(one, two)| [one, other.clone(), two]);
    let (printed, code) = replay(&mixed.collect::<Vec<_>>());
    assert_eq!(code, 0, "{printed}");
    for part in [" of one, seed ", "#2 begins: run ", "#2     0.000000 < Tick\n", "#1              > Scan\n"]
    {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    let verdicts: Vec<&str> = printed.lines().rev().take(2).collect();
    assert!(verdicts.iter().all(|verdict| verdict.ends_with(", same effects")), "{verdicts:?}");
}

#[test]
fn a_log_of_many_shards_is_replayed_after_a_driver_has_folded_its_lines_and_put_them_into_json() {
    let lines: Vec<String> = log_of("one", 400)
        .iter()
        .map(|line| serde_json::json!({ "fields": { "message": line } }).to_string())
        .collect();
    let wrap =
        |line: &String| serde_json::json!({ "log": format!("{line}\n"), "stream": "stderr" }).to_string();
    let wrapped: Vec<String> = folded(&lines).iter().map(wrap).collect();
    assert_eq!(wrapped.len(), lines.len());
    let (printed, code) = replay(&wrapped);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("Listed: 400 shards"));
    assert!(printed.lines().last().unwrap().ends_with(", same effects"));
}

#[test]
fn a_difference_is_told_with_its_line() {
    let mut lines = log("one");
    let create = position(&lines, r#"{"out":{"Create""#);
    lines[create] = lines[create].replace("TRIM_HORIZON", "LATEST");
    let (printed, code) = replay(&lines);
    assert_eq!(code, 1, "{printed}");
    let last = printed.lines().last().unwrap();
    assert!(
        last.contains(&format!("line {}: the replay differs: recorded was Create(", create + 1)),
        "{last}"
    );
}

#[test]
fn a_line_that_is_missing_or_torn_ends_the_replay_of_its_own_run_only() {
    let mixed: Vec<String> =
        log("one").into_iter().zip(log("two")).flat_map(|(one, two)| [one, two]).collect();
    let told = |lines: &[String], parts: &[&str]| {
        let (printed, code) = replay(lines);
        assert_eq!(code, 3, "{printed}");
        for part in parts {
            assert!(printed.contains(part), "no {part:?} in {printed}");
        }
        let verdicts: Vec<&str> = printed.lines().filter(|line| line.contains(" effects, ")).collect();
        assert!(verdicts[0].starts_with("#1 ") && verdicts[0].contains(" then line "), "{verdicts:?}");
        assert!(verdicts[1].starts_with("#2 ") && verdicts[1].ends_with(", same effects"), "{verdicts:?}");
    };
    let mut missing = mixed.clone();
    missing.remove(4);
    told(&missing, &["line 6: entry 3 is missing (the log has 2, then 4)"]);
    let mut torn = mixed.clone();
    torn[4].pop();
    told(&torn, &["line 5: broken entry"]);
    let mut torn = mixed.clone();
    let head = torn[4].find(r#","run""#).unwrap();
    torn[4].truncate(head + 6);
    told(&torn, &["line 5: broken entry", "line 7: entry 3 is missing (the log has 2, then 4)"]);
}

#[test]
fn a_journal_that_ended_before_its_run_is_told() {
    let mut lines = log("one");
    let number = lines.len();
    let head = lines[0].split_once(r#""entry":"#).unwrap().0.to_owned();
    lines.push(format!(r#"{head}"entry":{},"events":[{{"ended":"not_taken"}}]}}"#, number + 1));
    let (printed, code) = replay(&lines);
    assert_eq!(code, 3, "{printed}");
    let last = printed.lines().last().unwrap();
    assert!(last.ends_with("the journal ended: the log did not take it in time"), "{last}");
}

#[test]
fn a_log_that_cannot_be_replayed_says_why() {
    let lines = log("one");
    let told = |lines: &[String], part: &str| {
        let (printed, code) = replay(lines);
        assert_eq!(code, 2, "{printed}");
        let last = printed.lines().last().unwrap_or_default();
        assert!(last.contains(part), "no {part:?} in {last}");
    };
    told(&lines[1..], "line 1: the log does not have the beginning of this run");
    told(&[], "no entry of a journal in this log");
    let other = lines[0].replace(r#""lease_journal":2"#, r#""lease_journal":99"#);
    told(&[other], "line 1: the entry is of version 99");
}
