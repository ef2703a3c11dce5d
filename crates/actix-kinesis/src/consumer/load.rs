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
    /// Events under way in all of them.
    under_way: AtomicUsize,
}

/// Counts one worker, and its events under way, as long as it lives.
#[derive(Debug)]
pub(crate) struct Share {
    load: Arc<Load>,
    under_way: usize,
}

impl Load {
    pub(crate) fn new(max_events: usize, max_bytes: u64) -> Self {
        Self { max_events, max_bytes, workers: AtomicUsize::new(0), under_way: AtomicUsize::new(0) }
    }

    pub(crate) fn join(self: &Arc<Self>) -> Share {
        self.workers.fetch_add(1, Ordering::Relaxed);
        Share { load: Arc::clone(self), under_way: 0 }
    }

    fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed).max(1)
    }
}

impl Share {
    /// How many events of the shard may be under way.
    pub(crate) fn events(&self) -> usize {
        (self.load.max_events / self.load.workers()).max(1)
    }

    /// Takes note of how many events of the shard are under way.
    pub(crate) fn set_under_way(&mut self, events: usize) {
        self.load.under_way.fetch_add(events, Ordering::Relaxed);
        self.load.under_way.fetch_sub(self.under_way, Ordering::Relaxed);
        self.under_way = events;
    }

    /// Whether one more event of the shard may be under way: the others may still have more than their share, from before
    /// they had to divide it. One for each shard always may.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way == 0 || self.load.under_way.load(Ordering::Relaxed) < self.load.max_events
    }

    /// How much memory events of the shard may hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.load.max_bytes / self.load.workers() as u64
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.load.workers.fetch_sub(1, Ordering::Relaxed);
        self.load.under_way.fetch_sub(self.under_way, Ordering::Relaxed);
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
    fn a_worker_that_comes_later_waits_until_the_others_have_come_down_to_their_share() {
        let load = Arc::new(Load::new(10, 1000));
        let (mut first, mut second) = (load.join(), load.join());
        first.set_under_way(9);
        assert!(first.has_room());
        assert!(second.has_room(), "one event in any case");
        second.set_under_way(1);
        assert!(!first.has_room() && !second.has_room());
        first.set_under_way(8);
        assert!(first.has_room() && second.has_room());
        first.set_under_way(9);
        drop(first);
        assert!(second.has_room());
    }

    #[test]
    fn each_worker_may_deliver_one_event_however_many_workers_there_are() {
        let load = Arc::new(Load::new(2, 1000));
        let shares: Vec<_> = (0..5).map(|_| load.join()).collect();
        assert!(shares.iter().all(|share| share.events() == 1));
    }
}
