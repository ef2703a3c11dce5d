//! How the limits of the whole process are shared among the shards that it reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The limits on events and bytes, divided evenly among the shards' workers: a shard that is stuck with its share
/// takes nothing from the others.
#[derive(Debug)]
pub(crate) struct Load {
    max_events: usize,
    max_bytes: u64,
    workers: AtomicUsize,
}

/// Counts one worker as long as it lives.
#[derive(Debug)]
pub(crate) struct Share(Arc<Load>);

impl Load {
    pub(crate) fn new(max_events: usize, max_bytes: u64) -> Self {
        Self { max_events, max_bytes, workers: AtomicUsize::new(0) }
    }

    pub(crate) fn join(self: &Arc<Self>) -> Share {
        self.workers.fetch_add(1, Ordering::Relaxed);
        Share(Arc::clone(self))
    }

    fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed).max(1)
    }
}

impl Share {
    /// How many events of the shard may be under way.
    pub(crate) fn events(&self) -> usize {
        (self.0.max_events / self.0.workers()).max(1)
    }

    /// How much memory events of the shard may hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.max_bytes / self.0.workers() as u64
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.workers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_divided_among_the_workers_that_live() {
        let load = Arc::new(Load::new(100, 1000));
        let first = load.join();
        assert_eq!((first.events(), first.bytes()), (100, 1000));
        let second = load.join();
        let third = load.join();
        assert_eq!((first.events(), third.bytes()), (33, 333));
        drop(second);
        assert_eq!((first.events(), third.bytes()), (50, 500));
    }

    #[test]
    fn each_worker_may_deliver_one_event_however_many_workers_there_are() {
        let load = Arc::new(Load::new(2, 1000));
        let shares: Vec<_> = (0..5).map(|_| load.join()).collect();
        assert!(shares.iter().all(|share| share.events() == 1));
    }
}
