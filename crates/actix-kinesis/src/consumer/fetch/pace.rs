//! The service's limits on reading one shard: five calls and 2 MiB a second.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Calls closer than this would be more than five in a second.
const BETWEEN_CALLS: Duration = Duration::from_millis(205);
const BYTES_PER_SECOND: f64 = 2.0 * 1024.0 * 1024.0;

/// Keeps the calls to one shard within the limits. After a pause there is no burst: the distance between any two
/// calls is kept.
#[derive(Debug)]
pub(super) struct Pace {
    next_call: Instant,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { next_call: now }
    }

    /// Waits until a call may be made, and counts it.
    pub(super) async fn wait(&mut self) {
        sleep_until(self.next_call).await;
        self.next_call = Instant::now() + BETWEEN_CALLS;
    }

    /// The last call brought so many bytes.
    pub(super) fn read(&mut self, bytes: u64) {
        let for_bytes = Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND);
        self.next_call += for_bytes.saturating_sub(BETWEEN_CALLS);
    }
}
