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

    /// Moves the end to `valid_until` after the epoch. Returns whether the fence held until now.
    pub(crate) fn extend(&self, valid_until: Duration) -> bool {
        let ms = u64::try_from(valid_until.as_millis()).unwrap_or(u64::MAX);
        let former = self.valid_until_ms.swap(ms, Ordering::AcqRel);
        // The time is read behind the swap: whoever has seen that it does not hold, and waits, was earlier than this.
        self.is_before(former)
    }

    /// Ends it now: the lease is not ours any more.
    pub(crate) fn end(&self) {
        self.valid_until_ms.store(0, Ordering::Release);
    }

    pub(crate) fn holds(&self) -> bool {
        self.is_before(self.valid_until_ms.load(Ordering::Acquire))
    }

    fn is_before(&self, end_ms: u64) -> bool {
        self.epoch.elapsed().as_millis() < u128::from(end_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn it_holds_until_the_end_of_the_lease_and_not_a_moment_longer() {
        let fence = Fence::new(Instant::now());
        assert!(!fence.holds());
        assert!(!fence.extend(1000 * MS));
        tokio::time::advance(999 * MS).await;
        assert!(fence.holds());
        tokio::time::advance(MS).await;
        assert!(!fence.holds());
        assert!(!fence.extend(2000 * MS));
        assert!(fence.holds());
        assert!(fence.extend(3000 * MS));
        fence.end();
        assert!(!fence.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_a_millisecond_is_not_made_a_whole_one() {
        let fence = Fence::new(Instant::now());
        fence.extend(MS + MS / 2);
        tokio::time::advance(MS).await;
        assert!(!fence.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_beyond_all_time_holds() {
        let fence = Fence::new(Instant::now());
        fence.extend(Duration::MAX);
        tokio::time::advance(1_000_000 * MS).await;
        assert!(fence.holds());
    }
}
