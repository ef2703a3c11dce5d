//! What the supervisor reports to the leader of a KCL 3.x fleet on the same table.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Context;
use kinesis_lease::store::WorkerReport;
use kinesis_lease::{LeaseStore, StoreError};
use kinesis_record::ShardId;
use tokio::time::Instant;
use tracing::{Instrument, debug, info};

use super::{Supervisor, settled};

/// Weighs what has just been measured against what was before, as the KCL does.
const SMOOTHING: f64 = 0.5;

/// What was reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    shards: BTreeMap<ShardId, Throughput>,
    has_failed: bool,
}

/// What a shard carries.
#[derive(Debug)]
struct Throughput {
    measured_at: Instant,
    fetched_bytes: u64,
    kilobytes_per_second: Option<f64>,
}

impl Throughput {
    /// Begins to measure.
    fn new(fetched_bytes: u64) -> Self {
        Self { measured_at: Instant::now(), fetched_bytes, kilobytes_per_second: None }
    }

    /// The new figure, if it is another one. A counter that has begun anew belongs to another acquisition of the lease.
    fn measure(&mut self, fetched_bytes: u64) -> Option<f64> {
        let seconds = self.measured_at.elapsed().as_secs_f64();
        let bytes = fetched_bytes.saturating_sub(self.fetched_bytes);
        (self.measured_at, self.fetched_bytes) = (Instant::now(), fetched_bytes);
        if seconds == 0.0 {
            return None;
        }
        let latest = bytes as f64 / 1024.0 / seconds;
        let former = self.kilobytes_per_second;
        let smooth = former.map_or(latest, |former| SMOOTHING * latest + (1.0 - SMOOTHING) * former);
        let rounded = (smooth * 1000.0).round() / 1000.0;
        self.kilobytes_per_second = Some(rounded);
        (former != Some(rounded)).then_some(rounded)
    }
}

impl Reports {
    fn figures(&mut self, fetched: BTreeMap<ShardId, u64>) -> Vec<(ShardId, f64)> {
        self.shards.retain(|shard, _| fetched.contains_key(shard));
        let mut figures = Vec::new();
        for (shard, bytes) in fetched {
            match self.shards.get_mut(&shard) {
                Some(throughput) => {
                    figures.extend(throughput.measure(bytes).map(|figure| (shard, figure)));
                }
                None => {
                    self.shards.insert(shard, Throughput::new(bytes));
                }
            }
        }
        figures
    }
}

impl Supervisor {
    pub(super) fn report_to_leader(&mut self, leases: &Arc<dyn LeaseStore>, ctx: &mut Context<Self>) {
        let fetched = self.slots.iter().map(|(shard, slot)| (shard.clone(), slot.fetched_bytes()));
        let throughput = self.reports.figures(fetched.collect());
        let report = WorkerReport { worker: self.parts.board.worker_id().clone(), throughput };
        let leases = Arc::clone(leases);
        let reported = async move { settled(leases.report(&report), StoreError::Unknown).await };
        self.call(ctx, reported, |supervisor, reported, _| {
            let has_failed = reported.is_err();
            if let (Err(error), false) = (&reported, supervisor.reports.has_failed) {
                info!(
                    parent: &supervisor.parts.span, %error,
                    "not reported to a KCL 3.x leader, which matters only if there is one: it then moves no leases to or \
                     from this worker"
                );
            }
            supervisor.reports.has_failed = has_failed;
            supervisor.tell(|coordinator, now| coordinator.reported(now, reported));
        });
    }

    /// Of use if it comes to pass: a leader forgets by itself whoever reports no more.
    pub(super) fn retire(&self, leases: &Arc<dyn LeaseStore>) {
        let (leases, worker) = (Arc::clone(leases), self.parts.board.worker_id().clone());
        let retired = async move {
            let retired = settled(leases.retire(&worker), StoreError::Unknown).await;
            debug!(?retired, "report to the KCL 3.x leader taken back");
        };
        actix::spawn(retired.instrument(self.parts.span.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn figures(reports: &mut Reports, fetched: &[(&str, u64)]) -> Vec<(String, f64)> {
        let fetched = fetched.iter().map(|(shard, bytes)| ((*shard).into(), *bytes)).collect();
        let figures = reports.figures(fetched).into_iter();
        figures.map(|(shard, figure)| (shard.to_string(), figure)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_carries_what_was_fetched_since_the_last_report_half_weighed_by_the_one_before() {
        let mut reports = Reports::default();
        assert_eq!(figures(&mut reports, &[("a", 1024)]), [], "nothing is measured yet");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut reports, &[("a", 1024 * 41)]), [("a".to_owned(), 4.0)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut reports, &[("a", 1024 * 61)]), [("a".to_owned(), 3.0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_figure_is_told_when_it_changes_and_forgotten_with_the_lease() {
        let mut reports = Reports::default();
        figures(&mut reports, &[("a", 0), ("b", 0)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        let told = figures(&mut reports, &[("a", 0), ("b", 1024)]);
        assert_eq!(told, [("a".to_owned(), 0.0), ("b".to_owned(), 0.1)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut reports, &[("a", 0), ("b", 2048)]), []);
        figures(&mut reports, &[]);
        assert_eq!(figures(&mut reports, &[("b", 0)]), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_count_that_begins_anew_is_no_throughput() {
        let mut reports = Reports::default();
        figures(&mut reports, &[("a", 1_000_000)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut reports, &[("a", 500)]), [("a".to_owned(), 0.0)]);
    }
}
