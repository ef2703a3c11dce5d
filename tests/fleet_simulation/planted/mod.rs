//! Planted bugs prove that the checks see. Each is put into a copy of the workspace, where seeds are run until one fails.
//!
//! ```sh
//! cargo test --test fleet_simulation planted_bugs -- --ignored --nocapture
//! FLEET_BUG="SHARD_END" cargo test --test fleet_simulation planted_bugs -- --ignored --nocapture    # some of them
//! ```

mod bugs;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bugs::{BUGS, Bug};

use crate::example::cargo;

/// A bug must be caught within so many seeds.
const SEEDS: u64 = 200;
/// A run that takes longer has no end.
const PATIENCE: Duration = Duration::from_secs(900);

/// What a copy of the workspace needs.
const PARTS: [&str; 6] = ["crates", "examples", "tests", "Cargo.toml", "Cargo.lock", "clippy.toml"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        write_if_new(to, &fs::read(from).unwrap());
    }
}

/// Leaves a file that is as it should be alone, so that it is not built again.
fn write_if_new(file: &Path, content: &[u8]) {
    if fs::read(file).ok().as_deref() != Some(content) {
        fs::write(file, content).unwrap();
    }
}

/// The first seed that fails with the bug, and what it violates.
fn first_failing_seed(bug: &Bug, copied: &Path, target: &Path) -> String {
    let original = fs::read_to_string(workspace().join(bug.file)).unwrap();
    let file = copied.join(bug.file);
    write_if_new(&file, original.replace(bug.find, bug.replace).as_bytes());
    let found = search(copied, target);
    write_if_new(&file, original.as_bytes());
    found
}

fn search(copied: &Path, target: &Path) -> String {
    let program = match build(copied, target) {
        Ok(program) => program,
        Err(error) => return format!("does not build: {error}"),
    };
    let found = target.join("planted.out");
    let mut search = Command::new(program)
        .args(["list_failing_seeds", "--ignored", "--nocapture"])
        .env("FLEET_SEEDS", SEEDS.to_string())
        .stdout(fs::File::create(&found).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while search.try_wait().unwrap().is_none() {
        if begin.elapsed() > PATIENCE {
            search.kill().unwrap();
            search.wait().unwrap();
            return "caught: a run has no end".to_owned();
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = fs::read_to_string(&found).unwrap();
    let seed = output.lines().find_map(|line| line.split_once("seed ").map(|(_, found)| found));
    let Some((seed, found)) = seed.and_then(|found| found.split_once(": ")) else {
        return format!("NOT CAUGHT in {SEEDS} seeds");
    };
    let oracle = found.split_whitespace().next().unwrap_or_default().trim_end_matches(':');
    format!("caught by {oracle:<10} after {:>3} seeds", seed.parse::<u64>().unwrap_or_default() + 1)
}

/// Builds this simulation with the bug in the product, and gives the program.
fn build(copied: &Path, target: &Path) -> Result<String, String> {
    let built = cargo()
        .args(["test", "--offline", "-p", "actix-kinesis-test", "--test", "fleet_simulation", "--no-run"])
        .arg("--message-format=json")
        .current_dir(copied)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&built.stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = messages.filter_map(|message| message["executable"].as_str().map(str::to_owned));
    let program = programs.next_back().filter(|_| built.status.success());
    program.ok_or_else(|| String::from_utf8_lossy(&built.stderr).into_owned())
}

#[test]
#[ignore = "builds the workspace once for each bug, many minutes: cargo test --test fleet_simulation planted_bugs -- --ignored --nocapture"]
fn planted_bugs_are_caught() {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let copied = target.join("planted");
    fs::create_dir_all(&copied).unwrap();
    for part in PARTS {
        copy(&workspace().join(part), &copied.join(part));
    }
    let only = std::env::var("FLEET_BUG").unwrap_or_default();
    let mut missed = Vec::new();
    assert!(BUGS.iter().any(|bug| bug.name.contains(&only)), "no bug has {only:?} in its name");
    for bug in BUGS.iter().filter(|bug| bug.name.contains(&only)) {
        let found = first_failing_seed(bug, &copied, &target);
        let _ = writeln!(std::io::stderr(), "{:<66} {found}", bug.name);
        if !found.starts_with("caught") {
            missed.push(bug.name);
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn what_a_planted_bug_replaces_stands_in_the_product_once() {
    for bug in BUGS {
        let text = fs::read_to_string(workspace().join(bug.file)).unwrap();
        assert_eq!(text.matches(bug.find).count(), 1, "{}", bug.name);
        assert_ne!(bug.find, bug.replace, "{}", bug.name);
    }
}
