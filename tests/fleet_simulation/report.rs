//! What people are told of a run.

use std::fmt::Write;

use crate::fleet::Outcome;
use crate::schedule::{Deed, Plan};
use crate::shrink::shrink;
use crate::trace::{self, Entry};

/// So much of the trace is shown around the line of a violation, of what concerns its shard.
const LINES_BEFORE: usize = 40;
const LINES_AFTER: usize = 20;

/// A run that failed: the smallest schedule that fails in the same way, what was violated, and the trace around it.
pub(crate) fn failure(plan: &Plan, outcome: Outcome) -> String {
    let (deeds, outcome) = shrink(plan, &plan.deeds, outcome);
    let mut text = format!("seed {} fails, {:?}\n", plan.seed, plan.trial);
    header(&mut text, plan, &deeds);
    found(&mut text, &outcome);
    if let Some(violation) = outcome.violations.first() {
        let shard = outcome.entries.get(violation.line - 1).and_then(shard_of);
        let is_near = |entry: &&Entry| {
            matches!(entry, Entry::Remark { .. }) || shard.is_none() || shard_of(entry) == shard
        };
        let (before, after) = outcome.entries.split_at(violation.line);
        let near: Vec<_> = before.iter().filter(is_near).collect();
        let _ = writeln!(text, "trace:");
        for entry in &near[near.len().saturating_sub(LINES_BEFORE)..] {
            let _ = writeln!(text, "  {entry}");
        }
        let _ = writeln!(text, "  ^ {}", violation.oracle);
        for entry in after.iter().filter(is_near).take(LINES_AFTER) {
            let _ = writeln!(text, "  {entry}");
        }
    }
    let numbers: Vec<String> = deeds.iter().map(|deed| deed.number.to_string()).collect();
    let _ = writeln!(
        text,
        "again: FLEET_SEED={} FLEET_DEEDS={} cargo test --test fleet_simulation replay -- --nocapture",
        plan.seed,
        numbers.join(",")
    );
    text
}

/// A run that failed, in a line.
pub(crate) fn brief(seed: u64, outcome: &Outcome) -> String {
    let first = outcome.violations.first().map(ToString::to_string);
    let first = first.or_else(|| outcome.failures.first().map(|failure| format!("Failed: {failure}")));
    format!("seed {seed}: {}", first.unwrap_or_default())
}

/// A run with everything that happened.
pub(crate) fn replay(plan: &Plan, outcome: &Outcome) -> String {
    let mut text = String::new();
    for entry in &outcome.entries {
        let _ = writeln!(text, "{entry}");
    }
    header(&mut text, plan, &plan.deeds);
    found(&mut text, outcome);
    let _ = writeln!(text, "digest: {:016x}", trace::digest(&outcome.entries));
    text
}

fn header(text: &mut String, plan: &Plan, deeds: &[Deed]) {
    let _ = writeln!(text, "{} shards, {:?}", plan.shards, plan.processes);
    let _ = writeln!(text, "schedule:");
    for deed in deeds {
        let _ = writeln!(text, "  {deed}");
    }
}

fn found(text: &mut String, outcome: &Outcome) {
    for violation in &outcome.violations {
        let _ = writeln!(text, "violated: {violation}");
    }
    for failure in &outcome.failures {
        let _ = writeln!(text, "failed: {failure}");
    }
}

fn shard_of(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::Line(line) => line.event.shard(),
        Entry::Remark { .. } => None,
    }
}
