//! What a test that fails tells.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

use actix_kinesis::consumer::{ConsumerStatus, DeliveryOutcome, ShardStatus};
use kinesis_lease::Lease;
use kinesis_record::{Position, ShardId};

use crate::seen::{Delivery, Seen};

/// How many records, failures or notices are told of, so that the text stays one that is read.
const TOLD: usize = 10;

/// All that is known when something did not come.
pub(crate) struct Report<'a> {
    pub(crate) place: &'a Location<'a>,
    pub(crate) title: &'a str,
    /// What is not as it should be.
    pub(crate) lacking: &'a str,
    pub(crate) seen: Seen,
    pub(crate) status: ConsumerStatus,
    pub(crate) leases: BTreeMap<ShardId, Lease>,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, title, lacking, seen, status, leases } = self;
        writeln!(f, "{title} (at {place})\n{lacking}")?;
        let shards: Vec<_> = status.shards.iter().map(shard).collect();
        writeln!(f, "consumer {}, {:?}, reads:{}", status.worker_id, status.state, listed(&shards))?;
        let rows: Vec<_> = leases.values().map(row).collect();
        writeln!(f, "lease table {}:{}", status.table, listed(&rows))?;
        // An event may fail often; its last failure tells enough.
        let failures: BTreeMap<_, _> = seen.deliveries.iter().filter_map(failure).collect();
        let failures: Vec<_> = failures.into_values().collect();
        writeln!(f, "the last failure of each event:{}", listed(&failures))?;
        let notices = seen.notices.iter().map(|notice| format!("{notice:?}"));
        write!(f, "the last notices:{}", listed(&last(notices.collect())))
    }
}

fn failure(delivery: &Delivery) -> Option<((&ShardId, &Position), String)> {
    let outcome =
        delivery.outcome.as_ref().filter(|outcome| matches!(outcome, DeliveryOutcome::Failed(_)))?;
    Some((delivery.place(), format!("{delivery}: {outcome}")))
}

/// A line for each item; how many more there are.
pub(crate) fn listed(items: &[String]) -> String {
    let mut text: String = items.iter().take(TOLD).map(|item| format!("\n  {item}")).collect();
    match items.len() {
        0 => text.push_str("\n  none"),
        len if len > TOLD => text.push_str(&format!("\n  and {} more", len - TOLD)),
        _ => {}
    }
    text
}

fn last(mut items: Vec<String>) -> Vec<String> {
    items.split_off(items.len().saturating_sub(TOLD))
}

fn shard(status: &ShardStatus) -> String {
    let ShardStatus { shard, checkpoint, delivered, processed, skipped, failed, in_flight, .. } = status;
    format!(
        "{shard}: checkpoint {checkpoint}, delivered {delivered}, processed {processed}, skipped {skipped}, \
         failed {failed}, given up {}, under way {in_flight}, left out {}, restarts {}",
        status.given_up, status.left_out, status.restarts
    )
}

fn row(lease: &Lease) -> String {
    let owner = lease.owner.as_ref().map_or("nobody", |owner| owner.as_str());
    format!("{}: checkpoint {}, owner {owner}", lease.shard, lease.checkpoint)
}
