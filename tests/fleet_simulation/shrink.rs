//! From the schedule of a run that fails to the smallest part of it that still does.

use std::time::{Duration, Instant};

use actix_kinesis_test::check::Oracle;

use crate::fleet::{Outcome, run};
use crate::schedule::{Deed, Plan};

/// Nobody waits longer for a smaller schedule.
const PATIENCE: Duration = Duration::from_secs(60);

/// What went wrong, without where and when.
#[derive(Debug, PartialEq)]
struct Kind(Option<Oracle>);

fn kind(outcome: &Outcome) -> Option<Kind> {
    let oracle = outcome.violations.first().map(|violation| violation.oracle);
    (!outcome.is_good()).then_some(Kind(oracle))
}

/// The deeds without which the run does not fail in the same way any more, and that run.
pub(crate) fn shrink(plan: &Plan, deeds: &[Deed], outcome: Outcome) -> (Vec<Deed>, Outcome) {
    let begin = Instant::now();
    let wanted = kind(&outcome);
    let (mut deeds, mut outcome) = (deeds.to_vec(), outcome);
    let mut size = deeds.len().div_ceil(2);
    while size > 0 && begin.elapsed() < PATIENCE {
        let mut has_shrunk = false;
        let mut from = 0;
        while from < deeds.len() && begin.elapsed() < PATIENCE {
            let mut fewer = deeds.clone();
            fewer.drain(from..(from + size).min(deeds.len()));
            let tried = run(plan, &fewer);
            if kind(&tried) == wanted {
                (deeds, outcome, has_shrunk) = (fewer, tried, true);
            } else {
                from += size;
            }
        }
        if size == 1 && !has_shrunk {
            break;
        }
        size = if size == 1 { 1 } else { size / 2 };
    }
    (deeds, outcome)
}
