//! Checks a recorded history of a fleet: JSON lines of `probe` and `put`, or those that applications write with
//! `actix_kinesis_test::check::Recorder`.
//!
//! ```sh
//! cargo run --example check -- --window-ms 15000 worker-1.jsonl worker-2.jsonl put.jsonl
//! ```
//!
//! The lines of all files are put into the order of their `unix_ms`; those of one file keep theirs. What was put is told
//! by lines like `{"unix_ms":1,"event":"put","shard":"shardId-0","seq":"1","sub":0,"pk":"key"}`, and what each line may
//! say by `actix_kinesis_test::check::Event`. A process that says nothing any more, its stop included, counts as killed.
//!
//! Violations go to stdout, the first twenty, each with the file and line that show it. A last line that is cut off, as a
//! killed process leaves it, is left out. Exit code: 0 if nothing was violated, 1 if something was, 2 for a file or line that
//! cannot be read or written.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use actix_kinesis::config::Concurrency;
use actix_kinesis_test::check::{Checker, Event, Line, Rules, Violation};
use clap::Parser;

/// Looks for what no fleet of consumers may do in what one did
#[derive(Debug, Parser)]
struct Arguments {
    /// Files of JSON lines
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Nothing went wrong: no event may come twice
    #[arg(long)]
    only_planned: bool,
    /// What was done with longer than this before a crash must not come again
    #[arg(long, value_name = "MS")]
    window_ms: Option<u64>,
    /// Behind the line `calm`, everything is done with and stored within this time
    #[arg(long, value_name = "MS")]
    progress_ms: Option<u64>,
    /// The most events that a process may have under way
    #[arg(long, value_name = "EVENTS")]
    max_in_flight: Option<u64>,
    /// The most memory that the events of a process may take
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// The setting was `concurrency = shard`: one event of a shard after the other
    #[arg(long, conflicts_with = "keys_at_once")]
    shard_in_order: bool,
    /// The setting was `concurrency = key(KEYS)`: so many keys of a shard at once, each in order
    #[arg(long, value_name = "KEYS")]
    keys_at_once: Option<usize>,
    /// No failure is tolerated: no event is given up
    #[arg(long)]
    gives_up_nothing: bool,
}

fn main() -> ExitCode {
    match check(&Arguments::parse()) {
        Ok(violations) => ExitCode::from(u8::from(violations > 0)),
        Err(error) => {
            eprintln!("check: {error}");
            ExitCode::from(2)
        }
    }
}

/// A line, and where it stands.
struct Found<'a> {
    file: &'a Path,
    number: usize,
    line: Line,
    /// The latest time in its file so far.
    since_ms: u64,
}

/// Prints the violations. Returns how many there are.
fn check(arguments: &Arguments) -> Result<usize, Box<dyn Error>> {
    let mut history = Vec::new();
    for file in &arguments.files {
        read(file, &mut history)?;
    }
    if history.is_empty() {
        return Err("there are no lines to check".into());
    }
    history.sort_by_key(|found| found.since_ms);
    let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
    let mut checker = Checker::new(Rules {
        only_planned: arguments.only_planned,
        window: millis(arguments.window_ms),
        progress: millis(arguments.progress_ms),
        max_in_flight: arguments.max_in_flight,
        max_bytes: arguments.max_bytes,
        owners_may_overlap: false,
        concurrency: match arguments.keys_at_once {
            Some(keys) => Concurrency::Key(keys),
            None if arguments.shard_in_order => Concurrency::Shard,
            None => Concurrency::None,
        },
        gives_up_nothing: arguments.gives_up_nothing,
        silence_is_death: true,
    });
    let unknown = history.iter().filter(|found| found.line.event == Event::Other).count();
    if unknown == history.len() {
        return Err("no line tells anything that is checked".into());
    }
    history.iter().for_each(|found| checker.observe(&found.line));
    let violations = checker.finish();
    let mut stdout = io::stdout().lock();
    for Violation { oracle, line, at_ms, text, .. } in &violations {
        let Some(Found { file, number, .. }) = history.get(line.saturating_sub(1)) else { continue };
        writeln!(stdout, "{}:{number}: {oracle} at {at_ms} ms: {text}", file.display())?;
    }
    let (lines, violated) = (history.len(), violations.len());
    eprintln!(
        "check: {lines} lines, {unknown} of them of kinds that are not looked at, {violated} violations"
    );
    Ok(violations.len())
}

fn read<'a>(file: &'a Path, history: &mut Vec<Found<'a>>) -> Result<(), Box<dyn Error>> {
    let name = file.display();
    let bytes = fs::read(file).map_err(|error| format!("{name}: {error}"))?;
    let mut since_ms = 0;
    let lines = (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n'));
    for (number, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let parsed = str::from_utf8(line).map_err(|error| error.to_string());
        match parsed.and_then(|line| Line::parse(line).map_err(|error| error.to_string())) {
            Ok(line) => {
                since_ms = line.at_ms.max(since_ms);
                history.push(Found { file, number, line, since_ms });
            }
            // A process that was killed leaves half a line.
            Err(_) if !line.ends_with(b"\n") => eprintln!("check: {name}:{number}: cut off, left out"),
            Err(error) => return Err(format!("{name}:{number}: {error}").into()),
        }
    }
    Ok(())
}
