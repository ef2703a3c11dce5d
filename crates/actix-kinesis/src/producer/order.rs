//! Keeps the records of one partition key in the order in which they were sent.
//!
//! The service orders nothing by itself: of two records in one call the first may fail and the second may not, and calls
//! overtake each other. So at most one Kinesis record with records of a key is on its way at any time. It is on its way
//! from when it is closed until the outcome of all that is in it is known, attempts and pauses included; what comes
//! later for its keys waits. Until it is closed, more records of its keys may be added to it.

use std::collections::{HashMap, VecDeque};

use kinesis_record::HashKey;
use tokio::time::Instant;

use super::aggregate::take_expired;
use super::lane::LaneId;
use super::record::Record;

/// The keys that have records in the producer.
#[derive(Debug, Default)]
pub(crate) struct Order {
    keys: HashMap<HashKey, Key>,
}

#[derive(Debug, Default)]
struct Key {
    place: Option<Place>,
    waiting: VecDeque<Record>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// In the open aggregate of a lane.
    Open(LaneId),
    /// In a Kinesis record on its way.
    OnItsWay,
}

impl Order {
    /// Whether records of the key wait: a new one has to wait behind them.
    pub(crate) fn has_waiting(&self, key: HashKey) -> bool {
        self.keys.get(&key).is_some_and(|key| !key.waiting.is_empty())
    }

    /// Whether a record of the key may be placed: in the open aggregate of `lane`, or in a Kinesis record by itself.
    pub(crate) fn allows(&self, key: HashKey, lane: Option<LaneId>) -> bool {
        match self.keys.get(&key).and_then(|key| key.place) {
            None => true,
            Some(Place::Open(open)) => lane == Some(open),
            Some(Place::OnItsWay) => false,
        }
    }

    /// A record of the key is in the open aggregate of a lane.
    pub(crate) fn opened(&mut self, key: HashKey, lane: LaneId) {
        self.keys.entry(key).or_default().place = Some(Place::Open(lane));
    }

    /// Records of the key are on their way.
    pub(crate) fn closed(&mut self, key: HashKey) {
        self.keys.entry(key).or_default().place = Some(Place::OnItsWay);
    }

    /// Nothing of the key is placed any more. [`next`](Self::next) has to follow.
    pub(crate) fn freed(&mut self, key: HashKey) {
        if let Some(key) = self.keys.get_mut(&key) {
            key.place = None;
        }
    }

    /// The next waiting record of the key. With the last one gone and nothing placed, the key is forgotten.
    pub(crate) fn next(&mut self, key: HashKey) -> Option<Record> {
        let known = self.keys.get_mut(&key)?;
        let next = known.waiting.pop_front();
        if next.is_none() && known.place.is_none() {
            self.keys.remove(&key);
        }
        next
    }

    /// The record waits behind all others of its key.
    pub(crate) fn wait(&mut self, record: Record) {
        self.keys.entry(record.group).or_default().waiting.push_back(record);
    }

    /// The record waits before all others of its key.
    pub(crate) fn wait_first(&mut self, record: Record) {
        self.keys.entry(record.group).or_default().waiting.push_front(record);
    }

    /// Takes out the waiting records whose time is over, and tells when the next one's is.
    pub(crate) fn take_expired(&mut self, now: Instant) -> (Vec<Record>, Option<Instant>) {
        let (mut expired, mut next) = (Vec::new(), None::<Instant>);
        for key in self.keys.values_mut() {
            let mut waiting = Vec::from(std::mem::take(&mut key.waiting));
            expired.extend(take_expired(&mut waiting, now));
            next = waiting.iter().map(|record| record.expires).chain(next).min();
            key.waiting = waiting.into();
        }
        self.keys.retain(|_, key| key.place.is_some() || !key.waiting.is_empty());
        (expired, next)
    }

    /// Takes out all that waits.
    pub(crate) fn take_all(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.keys).into_values().flat_map(|key| key.waiting).collect()
    }

    /// Whether nothing is known of any key.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The distinct keys of records, in the order in which they come.
pub(crate) fn keys<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<HashKey> {
    let mut seen = std::collections::HashSet::new();
    records.into_iter().map(|record| record.group).filter(|key| seen.insert(*key)).collect()
}
