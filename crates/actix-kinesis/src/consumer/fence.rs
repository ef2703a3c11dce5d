//! Until when a lease is surely ours.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The end of a lease's validity, which the coordination moves on with each renewal and the shard's worker looks at
/// before each delivery. A process that was frozen for longer than its leases last thus delivers nothing more, even
/// before it has found out that they are lost.
#[derive(Debug)]
pub(crate) struct Fence {
    epoch: Instant,
    valid_until_ms: AtomicU64,
}

impl Fence {
    pub(crate) fn new(epoch: Instant) -> Self {
        Self { epoch, valid_until_ms: AtomicU64::new(0) }
    }

    /// Moves the end to `valid_until` after the epoch.
    pub(crate) fn extend(&self, valid_until: Duration) {
        let ms = u64::try_from(valid_until.as_millis()).unwrap_or(u64::MAX);
        self.valid_until_ms.store(ms, Ordering::Release);
    }

    pub(crate) fn holds(&self) -> bool {
        self.epoch.elapsed().as_millis() < u128::from(self.valid_until_ms.load(Ordering::Acquire))
    }
}
