//! The whole fleet under simulated time and faults: real consumers, a modelled Kinesis and lease table, one thread, one
//! seed. What it does is written down and checked by `actix_kinesis_test::check`.
//!
//! ```sh
//! cargo test --test fleet_simulation                                      # some hundred seeds
//! FLEET_SEEDS=5000 cargo test --release --test fleet_simulation           # many: those below 5000, in two minutes
//! FLEET_SEED=17 cargo test --test fleet_simulation replay -- --nocapture  # one, with all that happens
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `schedule` | what a seed stands for: the fleet, and the list of what is done to it |
//! | `fleet` | a run of that |
//! | `process`, `processor`, `producer`, `kcl`, `wire` | who takes part, and the network between |
//! | `trace`, `tally`, `panics` | what happened |
//! | `shrink`, `report` | from a run that fails to the smallest schedule that does |
//! | `planted` | bugs that the checks must see |

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

#[allow(dead_code, reason = "each of the tests uses a part of it")]
#[path = "../support/example.rs"]
mod example;
mod fleet;
mod kcl;
#[allow(dead_code, reason = "each of the tests uses a part of it")]
#[path = "../support/logs.rs"]
mod logs;
mod panics;
mod planted;
mod process;
mod processor;
mod producer;
mod report;
mod schedule;
mod shrink;
mod tally;
mod trace;
mod wire;
#[allow(dead_code, unused_imports, reason = "each of the tests uses a part of it")]
#[path = "../support/world/mod.rs"]
mod world;

use std::io::Write;

use schedule::{Plan, Trial};
use tally::Tally;

pub(crate) const PLANNED_PANIC: &str = "as planned";

/// Without `FLEET_SEEDS`, the seeds below this one.
const SEEDS: u64 = 160;

/// Seeds that have shown a fault, which is mended: a shard that came later was given its share of the events under way
/// while another one still had more than that; a shard was handed over with events left behind that waited for others of
/// their key; at a first start from `LATEST`, closed shards were read whose descendants had begun, when the creation of
/// rows had failed (four times).
const REGRESSIONS: [u64; 6] = [1708, 379, 2101, 3329, 6285, 9801];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Runs the seeds of a trial, and says what they covered on the terminal, past what a test run captures.
fn try_seeds(trial: Trial) {
    let first = number("FLEET_FIRST").unwrap_or(0);
    let seeds = first..number("FLEET_SEEDS").unwrap_or(SEEDS);
    let mut tally = Tally::default();
    for seed in REGRESSIONS.into_iter().chain(seeds).filter(|seed| Trial::of(*seed) == trial) {
        let plan = Plan::of(seed);
        let outcome = fleet::run(&plan, &plan.deeds);
        if !outcome.is_good() {
            panic!("{}", report::failure(&plan, outcome));
        }
        tally.add(&outcome.entries);
    }
    let _ = writeln!(std::io::stderr(), "{trial:?}: {tally}");
}

#[test]
fn a_fleet_keeps_every_promise_through_crashes_freezes_bad_networks_and_bad_processors() {
    try_seeds(Trial::Trouble);
}

#[test]
fn a_fleet_that_begins_at_the_newest_record_keeps_every_promise() {
    try_seeds(Trial::Latest);
}

#[test]
fn a_fleet_whose_clocks_run_at_half_to_twice_the_true_rate_loses_nothing() {
    try_seeds(Trial::Clocks);
}

#[test]
fn a_fleet_repeats_nothing_when_all_that_happens_is_planned() {
    try_seeds(Trial::Planned);
}

#[test]
fn a_seed_gives_the_same_run_event_for_event() {
    for seed in [4, 5, 6, 7, 12, 34] {
        let plan = Plan::of(seed);
        let [first, second] = [(); 2].map(|()| fleet::run(&plan, &plan.deeds).entries);
        let pair = first.iter().zip(&second).enumerate().find(|(_, (first, second))| first != second);
        assert!(pair.is_none(), "seed {seed}: {pair:?}");
        assert_eq!(trace::digest(&first), trace::digest(&second), "seed {seed}");
    }
}

/// Prints a line for each seed that fails, until so many have as `FLEET_MOST` says, one without it. The planted bugs use
/// it: the other tests fail at the first such seed.
#[test]
#[ignore = "a search without a verdict: FLEET_SEEDS=5000 FLEET_MOST=20 cargo test --test fleet_simulation list_failing -- --ignored --nocapture"]
fn list_failing_seeds() {
    let first = number("FLEET_FIRST").unwrap_or(0);
    let most = number("FLEET_MOST").unwrap_or(1);
    let mut failing = 0;
    for seed in first..number("FLEET_SEEDS").unwrap_or(SEEDS) {
        let plan = Plan::of(seed);
        let outcome = fleet::run(&plan, &plan.deeds);
        if !outcome.is_good() {
            let _ = writeln!(std::io::stdout(), "{}", report::brief(seed, &outcome));
            failing += 1;
        }
        if failing == most {
            break;
        }
    }
}

/// `FLEET_SEED` is the seed; `FLEET_DEEDS` are the numbers of the deeds to keep, all of them without it.
#[test]
fn replay_a_seed() {
    let Some(seed) = number("FLEET_SEED") else { return };
    logs::install();
    let mut plan = Plan::of(seed);
    if let Ok(kept) = std::env::var("FLEET_DEEDS") {
        let is_known = |number: &usize| plan.deeds.iter().any(|deed| deed.number == *number);
        let number = |text: &str| {
            let known = text.parse().ok().filter(is_known);
            known.unwrap_or_else(|| panic!("FLEET_DEEDS: seed {seed} has no deed {text:?}"))
        };
        let kept: Vec<usize> = kept.split(',').map(number).collect();
        plan.deeds.retain(|deed| kept.contains(&deed.number));
    }
    let outcome = fleet::run(&plan, &plan.deeds);
    println!("{}", report::replay(&plan, &outcome));
    assert!(outcome.is_good());
}
