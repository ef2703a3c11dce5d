//! One subscription of a consumer to a shard: how far it is and when it is due.
//!
//! ```text
//!                        record arrives, shard ends          5 s without an event
//!   SubscribeToShard ──► running ──► event ──► running ──► empty event ──► running
//!                          │
//!                          └──► ended: shard end, five minutes, taken over, something is gone
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::iterator::Cursor;
use super::time::Timestamp;

/// A subscription. Numbers are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub(crate) u64);

/// A subscription that has not ended.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) consumer_arn: String,
    /// The stream, the shard and the next record. Issued when the subscription was made.
    pub(crate) cursor: Cursor,
    /// When the last event was given, at first when the subscription was made.
    pub(crate) last_event: Timestamp,
    /// When the throughput of the subscription allows another record.
    pub(crate) paced_until: Timestamp,
    /// Whether the last event told the shard's end.
    pub(crate) told_end: bool,
}

/// All subscriptions that have not ended, and which of them may have news.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    issued: u64,
    live: BTreeMap<SubscriptionId, Subscription>,
    /// By stream and shard.
    readers: BTreeMap<String, BTreeMap<u64, BTreeSet<SubscriptionId>>>,
    woken: BTreeSet<SubscriptionId>,
}

impl Subscriptions {
    pub(crate) fn add(&mut self, subscription: Subscription) -> SubscriptionId {
        self.issued += 1;
        let id = SubscriptionId(self.issued);
        self.put_back(id, subscription);
        id
    }

    /// Forgets a subscription and gives what there was.
    pub(crate) fn take(&mut self, id: SubscriptionId) -> Option<Subscription> {
        let subscription = self.live.remove(&id)?;
        let cursor = &subscription.cursor;
        if let Some(shards) = self.readers.get_mut(&cursor.stream)
            && let Some(readers) = shards.get_mut(&cursor.shard)
        {
            readers.remove(&id);
            if readers.is_empty() {
                shards.remove(&cursor.shard);
            }
            if shards.is_empty() {
                self.readers.remove(&cursor.stream);
            }
        }
        Some(subscription)
    }

    /// Undoes [`Subscriptions::take`].
    pub(crate) fn put_back(&mut self, id: SubscriptionId, subscription: Subscription) {
        let cursor = &subscription.cursor;
        let shards = self.readers.entry(cursor.stream.clone()).or_default();
        shards.entry(cursor.shard).or_default().insert(id);
        self.live.insert(id, subscription);
    }

    /// The subscriptions to a shard may have news.
    pub(crate) fn wake_shard(&mut self, stream: &str, shard: u64) {
        let shards = self.readers.get(stream);
        self.woken.extend(shards.and_then(|shards| shards.get(&shard)).into_iter().flatten());
    }

    /// The subscriptions to all shards of a stream may have news.
    pub(crate) fn wake_stream(&mut self, stream: &str) {
        self.woken.extend(self.readers.get(stream).into_iter().flat_map(BTreeMap::values).flatten());
    }

    pub(crate) fn wake(&mut self, id: SubscriptionId) {
        self.woken.insert(id);
    }

    pub(crate) fn take_woken(&mut self) -> BTreeSet<SubscriptionId> {
        std::mem::take(&mut self.woken)
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }
}
