//! How much runs have covered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use actix_kinesis_test::check::Event;

use crate::trace::Entry;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    runs: u64,
    millis: u64,
    counts: BTreeMap<&'static str, u64>,
    /// The most memory that the events of a process have taken.
    most_bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, entries: &[Entry]) {
        self.runs += 1;
        let mut started = BTreeSet::new();
        let mut end = 0;
        for entry in entries {
            let Entry::Line(line) = entry else { continue };
            end = line.at_ms;
            if let Event::Load { bytes, .. } = line.event {
                self.most_bytes = self.most_bytes.max(bytes);
            }
            let what = match &line.event {
                Event::ShardStarted { .. } if line.worker.starts_with("kcl.") => "leases taken by a KCL",
                Event::Crashed => "crashes",
                Event::Frozen => "freezes",
                Event::Stopped { .. } => "stops",
                Event::ShardStarted { shard, .. } if !started.insert(shard) => "lease moves",
                Event::Shard { parents, .. } if !parents.is_empty() => "shards from resharding",
                Event::Put { .. } => "records",
                Event::Delivery { .. } => "deliveries",
                _ => continue,
            };
            *self.counts.entry(what).or_default() += 1;
        }
        self.millis += end;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} seeds, {:.1} simulated hours", self.runs, self.millis as f64 / 3_600_000.0)?;
        self.counts.iter().try_for_each(|(what, count)| write!(f, ", {count} {what}"))?;
        write!(f, ", at most {} KiB in a process", self.most_bytes / 1024)
    }
}
