//! The example `replay` as a person starts it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails panics")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinesis_lease::Coordinator;
use kinesis_lease::coordinator::{Effect, Settings};
use kinesis_lease::store::Scan;
use kinesis_record::{Checkpoint, HashRange, Shard};

/// A minute of a worker that creates the row of a shard and never learns how that ended, as lines of a log.
fn log(worker: &str) -> Vec<String> {
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
    let shard = Shard {
        id: "shardId-000000000000".into(),
        hash_range: HashRange::ALL,
        parents: Vec::new(),
        starting_sequence: 1.into(),
        ending_sequence: None,
    };
    let sink = Arc::clone(&lines);
    let mut coordinator = Coordinator::recorded(settings, fastrand::Rng::with_seed(1), move |line| {
        sink.lock().unwrap().push(format!("2026-11-30T01:02:03Z TRACE kinesis_lease::journal: {line}"));
    });
    let mut now = Duration::ZERO;
    while now < Duration::from_secs(60) {
        coordinator.tick(now);
        while let Some(effect) = coordinator.next_effect() {
            match effect {
                Effect::Scan => coordinator.scanned(now, Ok(Scan::default())),
                Effect::ListShards => coordinator.listed(now, Ok(vec![shard.clone()])).unwrap(),
                _ => {}
            }
        }
        now = coordinator.next_wakeup().unwrap();
    }
    lines.lock().unwrap().clone()
}

/// What the example prints of a log on stdin, and its exit code.
fn replay(lines: &[String]) -> (String, i32) {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples").join("replay");
    assert!(example.exists(), "{} is missing: `cargo build --examples` makes it", example.display());
    let mut child = Command::new(example).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
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
    for part in ["#1 begins: one/", "#2 begins: two/", "#2     0.000000 < Tick\n", "#1              > Scan\n"]
    {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    let verdicts: Vec<&str> = printed.lines().rev().take(2).collect();
    assert!(verdicts.iter().all(|verdict| verdict.ends_with(", same effects")), "{verdicts:?}");
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
    let mut cut = lines.clone();
    cut[3].truncate(lines[3].len() - 2);
    told(&cut, "line 4: broken entry");
    let other = lines[0].replace(r#""lease_journal":1"#, r#""lease_journal":99"#);
    told(&[other], "line 1: the entry is of version 99");
}
