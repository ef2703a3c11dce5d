//! Events that follow each other: those of a partition key, or all of a shard.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use super::EventId;
use crate::config::Concurrency;
use crate::consumer::event::ConsumerEvent;

/// Queues of events, of each of which only the first may be delivered. The first leaves when it is settled or given up.
///
/// The queues are links from event to event, which the tracker keeps with them, so that an event costs no memory of its
/// own here and is never searched for.
#[derive(Debug)]
pub(super) struct Lanes {
    per_key: bool,
    /// The last event of each lane. Those without a partition key share one.
    last: HashMap<Option<Arc<str>>, EventId>,
    /// The first events of their lanes, as far as they have never been delivered.
    fresh: BinaryHeap<Reverse<EventId>>,
}

impl Lanes {
    /// None if no event waits for another one.
    pub(super) fn of(concurrency: Concurrency) -> Option<Self> {
        let per_key = match concurrency {
            Concurrency::None => return None,
            Concurrency::Shard => false,
            Concurrency::Key(_) => true,
        };
        Some(Self { per_key, last: HashMap::new(), fresh: BinaryHeap::new() })
    }

    /// Puts the event behind the last one of its lane, which is returned if there is one.
    pub(super) fn enter(&mut self, id: EventId, event: &ConsumerEvent) -> Option<EventId> {
        let before = self.last.insert(self.lane(event), id);
        if before.is_none() {
            self.fresh.push(Reverse(id));
        }
        before
    }

    /// The first event of a lane is done with, and `next` is the one behind it.
    pub(super) fn leave(&mut self, event: &ConsumerEvent, next: Option<EventId>) {
        match next {
            Some(next) => self.fresh.push(Reverse(next)),
            None => _ = self.last.remove(&self.lane(event)),
        }
    }

    /// The oldest event that is the first of its lane and has never been delivered. It is to be delivered now.
    pub(super) fn pop_fresh(&mut self) -> Option<EventId> {
        self.fresh.pop().map(|Reverse(id)| id)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty() && self.fresh.is_empty()
    }

    /// The same, if it is older than `id`.
    pub(super) fn pop_fresh_before(&mut self, id: EventId) -> Option<EventId> {
        let is_before = self.fresh.peek().is_some_and(|Reverse(oldest)| *oldest < id);
        if is_before { self.pop_fresh() } else { None }
    }

    fn lane(&self, event: &ConsumerEvent) -> Option<Arc<str>> {
        if self.per_key { event.shared_partition_key() } else { None }
    }
}
