//! Which of the kept events are sent next: a state machine without I/O or clock.
//!
//! What waits is taken oldest first. The room of the producer is shared so that trouble stays where it is: a partition
//! key takes at most a sixteenth of it, and a stream at most half of what the others leave, so that there is always
//! some for another.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use kinesis_record::HashKey;

use super::store::Entry;

/// A key takes at most the room divided by this.
const KEY_SHARE: u64 = 16;

/// The name of a stream; none for that of the configuration.
type Stream = Option<Arc<str>>;

/// What is counted of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) events: u64,
    pub(super) bytes: u64,
}

impl Load {
    pub(super) fn add(&mut self, bytes: u64) {
        self.events += 1;
        self.bytes += bytes;
    }

    pub(super) fn remove(&mut self, bytes: u64) {
        self.events = self.events.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether one more is within `max`. One alone always is.
    fn fits(self, bytes: u64, max: Self) -> bool {
        self.events == 0 || (self.events < max.events && self.bytes + bytes <= max.bytes)
    }

    fn divided(self, by: u64) -> Self {
        Self { events: self.events / by, bytes: self.bytes / by }
    }

    fn without(self, other: Self) -> Self {
        Self {
            events: self.events.saturating_sub(other.events),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// The events that are kept and not parked.
#[derive(Debug)]
pub(super) struct Backlog {
    room: Load,
    under_way: BTreeMap<u64, UnderWay>,
    used: Load,
    streams: BTreeMap<Stream, Lanes>,
    /// The stream that was served last.
    last: Option<Stream>,
    waiting: u64,
}

#[derive(Debug)]
struct UnderWay {
    stream: Stream,
    group: HashKey,
    bytes: u64,
    accepted: SystemTime,
}

/// The keys of a stream that have events.
#[derive(Debug, Default)]
struct Lanes {
    used: Load,
    keys: HashMap<HashKey, Lane>,
    /// The keys that may go on, by the number of their next event.
    ready: BTreeSet<(u64, HashKey)>,
}

#[derive(Debug, Default)]
struct Lane {
    used: Load,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    number: u64,
    bytes: u64,
    accepted: SystemTime,
}

impl Backlog {
    /// `room` is what may be under way at once.
    pub(super) fn new(room: Load) -> Self {
        Self {
            room,
            under_way: BTreeMap::new(),
            used: Load::default(),
            streams: BTreeMap::new(),
            last: None,
            waiting: 0,
        }
    }

    /// Takes an event, whose number is above all before.
    pub(super) fn add(&mut self, entry: &Entry) {
        let Entry { number, bytes, accepted, .. } = *entry;
        let lanes = self.streams.entry(entry.stream.clone()).or_default();
        let lane = lanes.keys.entry(entry.group).or_default();
        lane.waiting.push_back(Waiting { number, bytes, accepted });
        self.waiting += 1;
        lanes.look(entry.group, self.room);
    }

    /// The number of the event to send next, which then is under way.
    pub(super) fn next(&mut self) -> Option<u64> {
        let after = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut in_turn = self.streams.range((after, Bound::Unbounded)).chain(&self.streams);
        let (stream, _) = in_turn.find(|(_, lanes)| lanes.has_next(self.used, self.room))?;
        let stream = stream.clone();
        let lanes = self.streams.get_mut(&stream)?;
        let (number, group) = lanes.ready.pop_first()?;
        let lane = lanes.keys.get_mut(&group)?;
        let Waiting { bytes, accepted, .. } = lane.waiting.pop_front()?;
        lane.used.add(bytes);
        lanes.used.add(bytes);
        self.used.add(bytes);
        self.waiting -= 1;
        lanes.look(group, self.room);
        self.under_way.insert(number, UnderWay { stream: stream.clone(), group, bytes, accepted });
        self.last = Some(stream);
        Some(number)
    }

    /// An event is no longer under way, and not kept as one to be sent. Gives its bytes.
    pub(super) fn settled(&mut self, number: u64) -> Option<u64> {
        let UnderWay { stream, group, bytes, .. } = self.under_way.remove(&number)?;
        self.used.remove(bytes);
        if let Some(lanes) = self.streams.get_mut(&stream) {
            lanes.used.remove(bytes);
            if let Some(lane) = lanes.keys.get_mut(&group) {
                lane.used.remove(bytes);
            }
            lanes.look(group, self.room);
            if lanes.keys.is_empty() {
                self.streams.remove(&stream);
            }
        }
        Some(bytes)
    }

    /// All events.
    pub(super) fn len(&self) -> u64 {
        self.waiting + self.used.events
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Events that are under way.
    pub(super) fn under_way(&self) -> u64 {
        self.used.events
    }

    /// When the first in line was accepted.
    pub(super) fn oldest(&self) -> Option<SystemTime> {
        let under_way = self.under_way.first_key_value().map(|(number, it)| (*number, it.accepted));
        let ready = self.streams.values().filter_map(Lanes::oldest);
        under_way.into_iter().chain(ready).min_by_key(|(number, _)| *number).map(|(_, accepted)| accepted)
    }
}

impl Lanes {
    /// Whether a key may go on, and the stream has room for its next event.
    fn has_next(&self, used: Load, room: Load) -> bool {
        let Some(next) = self.next() else { return false };
        let left = room.without(used.without(self.used));
        left.events > 0 && self.used.fits(next.bytes, left.divided(2))
    }

    fn next(&self) -> Option<Waiting> {
        let (_, group) = self.ready.first()?;
        self.keys.get(group)?.waiting.front().copied()
    }

    fn oldest(&self) -> Option<(u64, SystemTime)> {
        self.next().map(|next| (next.number, next.accepted))
    }

    /// Brings up to date what is known of a key: whether it may go on, or has nothing any more.
    fn look(&mut self, group: HashKey, room: Load) {
        let Some(lane) = self.keys.get(&group) else { return };
        match lane.waiting.front() {
            Some(next) if lane.used.fits(next.bytes, room.divided(KEY_SHARE)) => {
                self.ready.insert((next.number, group));
            }
            None if lane.used.events == 0 => {
                self.keys.remove(&group);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
