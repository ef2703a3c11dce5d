//! What the supervisor tells the leader of a KCL 3.x fleet on the same table.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Context;
use kinesis_lease::store::Reported;
use kinesis_lease::{Coordinator, LeaseStore, StoreError};
use kinesis_record::ShardId;
use tokio::time::Instant;
use tracing::{debug, info};

use super::{Supervisor, settled};

/// Weighs what has just been measured against what was before, as the KCL does.
const SMOOTHING: f64 = 0.5;

/// What the shards carry.
#[derive(Debug, Default)]
pub(super) struct Throughputs(BTreeMap<ShardId, Throughput>);

#[derive(Debug)]
struct Throughput {
    measured_at: Instant,
    fetched_bytes: u64,
    kilobytes_per_second: Option<f64>,
    is_told: bool,
}

impl Throughput {
    /// Begins to measure.
    fn new(fetched_bytes: u64) -> Self {
        Self { measured_at: Instant::now(), fetched_bytes, kilobytes_per_second: None, is_told: false }
    }

    fn measure(&mut self, fetched_bytes: u64) {
        let seconds = self.measured_at.elapsed().as_secs_f64();
        if seconds == 0.0 {
            return;
        }
        // A count that is less than before is that of another acquisition of the lease.
        let bytes = fetched_bytes.checked_sub(self.fetched_bytes).unwrap_or(fetched_bytes);
        (self.measured_at, self.fetched_bytes) = (Instant::now(), fetched_bytes);
        let latest = bytes as f64 / 1024.0 / seconds;
        let former = self.kilobytes_per_second;
        let smooth = former.map_or(latest, |former| SMOOTHING * latest + (1.0 - SMOOTHING) * former);
        let rounded = Some((smooth * 1000.0).round() / 1000.0);
        self.is_told &= rounded == former;
        self.kilobytes_per_second = rounded;
    }
}

impl Throughputs {
    fn measure(&mut self, fetched: BTreeMap<ShardId, u64>) {
        self.0.retain(|shard, _| fetched.contains_key(shard));
        for (shard, bytes) in fetched {
            match self.0.get_mut(&shard) {
                Some(throughput) => throughput.measure(bytes),
                None => {
                    self.0.insert(shard, Throughput::new(bytes));
                }
            }
        }
    }

    /// The figures that are to be told, which counts as done.
    fn tell(&mut self) -> Vec<(ShardId, f64)> {
        let untold = self.0.iter_mut().filter(|(_, throughput)| !throughput.is_told);
        let told = untold.filter_map(|(shard, throughput)| {
            throughput.is_told = throughput.kilobytes_per_second.is_some();
            throughput.kilobytes_per_second.map(|figure| (shard.clone(), figure))
        });
        told.collect()
    }

    /// Nobody knows which of the figures are stored.
    fn forget_told(&mut self) {
        self.0.values_mut().for_each(|throughput| throughput.is_told = false);
    }
}

impl Supervisor {
    pub(super) fn report_to_leader(
        &mut self,
        leases: Arc<dyn LeaseStore>,
        wants_leases: bool,
        ctx: &mut Context<Self>,
    ) {
        let worker = self.parts.board.worker_id().clone();
        let store = Arc::clone(&leases);
        let reported = async move { settled(store.report(&worker, wants_leases), StoreError::Unknown).await };
        self.call(ctx, reported, |supervisor, reported, ctx| {
            supervisor.note_report(reported.as_ref().err());
            if matches!(reported, Ok(Reported::Stored(_))) {
                supervisor.tell_throughput(leases, ctx);
            }
            supervisor.tell(|coordinator, now| coordinator.reported(now, reported));
        });
    }

    fn note_report(&mut self, error: Option<&StoreError>) {
        let span = &self.parts.span;
        let is_refused = error.is_some_and(|error| !error.is_passing());
        match error {
            Some(error) if is_refused && !self.is_report_refused => info!(
                parent: span, %error,
                "not reported to a KCL 3.x leader, which matters only if there is one: it then gives this worker no leases"
            ),
            Some(error) => debug!(parent: span, %error, "not reported to a KCL 3.x leader"),
            None if self.is_report_refused => info!(parent: span, "KCL 3.x leaders can be reported to again"),
            None => {}
        }
        self.is_report_refused = is_refused;
    }

    fn tell_throughput(&mut self, leases: Arc<dyn LeaseStore>, ctx: &mut Context<Self>) {
        let fetched = self.slots.iter().map(|(shard, slot)| (shard.clone(), slot.fetched_bytes()));
        self.throughput.measure(fetched.collect());
        let figures = self.throughput.tell();
        if figures.is_empty() {
            return;
        }
        let worker = self.parts.board.worker_id().clone();
        let told =
            async move { settled(leases.tell_throughput(&worker, &figures), StoreError::Unknown).await };
        self.call(ctx, told, |supervisor, told, _| {
            if let Err(error) = told {
                debug!(parent: &supervisor.parts.span, %error, "the throughput of shards is told again");
                supervisor.throughput.forget_told();
            }
        });
    }

    pub(super) fn retire(&mut self, leases: Arc<dyn LeaseStore>, ctx: &mut Context<Self>) {
        let worker = self.parts.board.worker_id().clone();
        let retired = async move { settled(leases.retire(&worker), StoreError::Unknown).await };
        self.call(ctx, retired, |supervisor, retired, _| {
            // A leader forgets by itself whoever reports no more.
            debug!(parent: &supervisor.parts.span, ?retired, "report to a KCL 3.x leader taken back");
            supervisor.tell(Coordinator::retired);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn figures(throughput: &mut Throughputs, fetched: &[(&str, u64)]) -> Vec<(String, f64)> {
        let fetched = fetched.iter().map(|(shard, bytes)| ((*shard).into(), *bytes)).collect();
        throughput.measure(fetched);
        let figures = throughput.tell().into_iter();
        figures.map(|(shard, figure)| (shard.to_string(), figure)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_carries_what_was_fetched_since_the_last_report_half_weighed_by_the_one_before() {
        let mut shards = Throughputs::default();
        assert_eq!(figures(&mut shards, &[("a", 1024)]), [], "nothing is measured yet");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut shards, &[("a", 1024 * 41)]), [("a".to_owned(), 4.0)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut shards, &[("a", 1024 * 61)]), [("a".to_owned(), 3.0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_figure_is_told_when_it_changes_and_forgotten_with_the_lease() {
        let mut shards = Throughputs::default();
        figures(&mut shards, &[("a", 0), ("b", 0)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        let told = figures(&mut shards, &[("a", 0), ("b", 1024)]);
        assert_eq!(told, [("a".to_owned(), 0.0), ("b".to_owned(), 0.1)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut shards, &[("a", 0), ("b", 2048)]), []);
        figures(&mut shards, &[]);
        assert_eq!(figures(&mut shards, &[("b", 0)]), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_count_that_begins_anew_is_measured_from_nothing() {
        let mut shards = Throughputs::default();
        figures(&mut shards, &[("a", 1_000_000)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut shards, &[("a", 10_240)]), [("a".to_owned(), 1.0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_figure_that_may_not_be_stored_is_told_again() {
        let mut shards = Throughputs::default();
        figures(&mut shards, &[("a", 0)]);
        tokio::time::advance(Duration::from_secs(10)).await;
        figures(&mut shards, &[("a", 0)]);
        shards.forget_told();
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(figures(&mut shards, &[("a", 0)]), [("a".to_owned(), 0.0)]);
    }
}
