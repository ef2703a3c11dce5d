//! Which events of a shard are delivered, answered, to be delivered again or given up, and how far the checkpoint
//! may go. A state machine that knows neither actors nor time.

mod lanes;

use std::collections::{BTreeSet, VecDeque};

use kinesis_record::Position;

use super::event::{ConsumerEvent, EventProcessed};
use super::failure::{FailedEvent, FailureCause};
use crate::config::Concurrency;
use lanes::Lanes;

/// What an event costs in memory besides its payload: its keys, position and bookkeeping, a lane included.
const OVERHEAD_BYTES: usize = 328;

/// Names an event to its worker. Never used twice by the same worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EventId(u64);

/// One thing on a page of a shard, in the order of the stream.
#[derive(Debug)]
pub(crate) enum PageItem {
    Event(ConsumerEvent),
    /// Nothing to deliver, yet the checkpoint must pass it: a user record that belongs to another shard, or an
    /// aggregate without user records.
    Nothing(Position),
}

impl PageItem {
    pub(crate) fn position(&self) -> &Position {
        match self {
            Self::Event(event) => event.position(),
            Self::Nothing(position) => position,
        }
    }

    /// The memory that it holds, estimated, in bytes.
    pub(crate) fn cost(&self) -> usize {
        OVERHEAD_BYTES
            + match self {
                Self::Event(event) => event.payload().len(),
                Self::Nothing(_) => 0,
            }
    }
}

/// A delivery to make.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) id: EventId,
    pub(crate) attempt: u32,
    pub(crate) event: ConsumerEvent,
}

/// What an answer meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The event is done with.
    Settled,
    /// It will be delivered again.
    Again,
    /// It has been delivered as often as it may be. [`Tracker::exceeded`] tells what follows.
    Exhausted,
    /// It had been answered before, or was never delivered.
    Late,
}

#[derive(Debug)]
struct Entry {
    position: Position,
    page: u64,
    attempts: u32,
    failures: u32,
    /// The event that waits for this one in its lane.
    next: Option<EventId>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// To be delivered, for the first time or again.
    Due(ConsumerEvent),
    InFlight(ConsumerEvent),
    /// Delivered as often as it may be, and never with success.
    Exhausted(ConsumerEvent, FailureCause),
    Settled,
}

/// The events of one GetRecords reply: the batch to which the failure tolerance applies.
#[derive(Debug)]
struct Page {
    /// How many of them may yet be given up.
    tolerated: usize,
    unsettled: usize,
    exhausted: BTreeSet<EventId>,
}

#[derive(Debug)]
pub(crate) struct Tracker {
    retries: u32,
    tolerance_percentage: f64,
    entries: VecDeque<Entry>,
    /// The id of the first entry.
    first: u64,
    /// The first entry behind all that have been delivered.
    fresh: u64,
    lanes: Option<Lanes>,
    /// The entries that are due and have been delivered before.
    again: BTreeSet<EventId>,
    pages: VecDeque<Page>,
    first_page: u64,
    /// The pages that have exhausted events.
    troubled: BTreeSet<u64>,
    in_flight: usize,
    payload_bytes: usize,
    done: Option<Position>,
}

impl Tracker {
    /// How many partition keys are under way at once is the caller's part.
    pub(crate) fn new(retries: u32, tolerance_percentage: f64, concurrency: Concurrency) -> Self {
        Self {
            retries,
            tolerance_percentage,
            entries: VecDeque::new(),
            first: 0,
            fresh: 0,
            lanes: Lanes::of(concurrency),
            again: BTreeSet::new(),
            pages: VecDeque::new(),
            first_page: 0,
            troubled: BTreeSet::new(),
            in_flight: 0,
            payload_bytes: 0,
            done: None,
        }
    }

    /// Adds what a page brought.
    pub(crate) fn add_page(&mut self, items: Vec<PageItem>) {
        let page = self.first_page + self.pages.len() as u64;
        let mut size = 0;
        for item in items {
            let (position, state) = match item {
                PageItem::Event(event) => {
                    size += 1;
                    self.payload_bytes += event.payload().len();
                    self.enter_lane(&event);
                    (event.position().clone(), State::Due(event))
                }
                PageItem::Nothing(position) => (position, State::Settled),
            };
            self.entries.push_back(Entry { position, page, attempts: 0, failures: 0, next: None, state });
        }
        let tolerated = tolerated(self.tolerance_percentage, size);
        self.pages.push_back(Page { tolerated, unsettled: size, exhausted: BTreeSet::new() });
        self.advance();
    }

    /// The next event to deliver: the oldest one that is due again, then the oldest one that was never delivered and
    /// waits for no other.
    pub(crate) fn next_delivery(&mut self) -> Option<Delivery> {
        if let Some(id) = self.again.pop_first() {
            return self.deliver(id);
        }
        if let Some(lanes) = &mut self.lanes {
            let id = lanes.pop_fresh()?;
            return self.deliver(id);
        }
        while self.fresh < self.first + self.entries.len() as u64 {
            let id = EventId(self.fresh);
            self.fresh += 1;
            if let Some(delivery) = self.deliver(id) {
                return Some(delivery);
            }
        }
        None
    }

    /// The next event to deliver of those that wait for others while events behind them have been delivered. As long as
    /// there are any, the checkpoint is not where the newest delivery is.
    pub(crate) fn next_left_behind(&mut self) -> Option<Delivery> {
        let newest = self.fresh.checked_sub(1)?;
        let lanes = self.lanes.as_mut()?;
        let is_again = self.again.first().is_some_and(|oldest| oldest.0 < newest);
        let id = if is_again { self.again.pop_first() } else { lanes.pop_fresh_before(EventId(newest)) };
        self.deliver(id?)
    }

    /// Takes an answer to a delivery. [`EventProcessed::Later`] is none and changes nothing.
    pub(crate) fn answer(&mut self, id: EventId, attempt: u32, answer: EventProcessed) -> Verdict {
        match answer {
            EventProcessed::Processed | EventProcessed::Skipped => self.settle(id),
            EventProcessed::Failed { reason } => self.fail(id, attempt, FailureCause::Reported(reason)),
            EventProcessed::Later => Verdict::Late,
        }
    }

    /// The delivery under way failed. That an earlier one did says nothing new, while success of any counts.
    pub(crate) fn fail(&mut self, id: EventId, attempt: u32, cause: FailureCause) -> Verdict {
        let retries = self.retries;
        let Some(entry) = self.entry(id).filter(|entry| entry.attempts == attempt) else {
            return Verdict::Late;
        };
        let State::InFlight(event) = &entry.state else { return Verdict::Late };
        let event = event.clone();
        entry.failures += 1;
        if entry.failures <= retries {
            entry.state = State::Due(event);
            self.again.insert(id);
            self.in_flight -= 1;
            return Verdict::Again;
        }
        let number = entry.page;
        entry.state = State::Exhausted(event, cause);
        if let Some(page) = self.page(number) {
            page.exhausted.insert(id);
            self.troubled.insert(number);
        }
        self.in_flight -= 1;
        Verdict::Exhausted
    }

    /// The delivery under way was not begun: the event is as if it had not been delivered.
    pub(crate) fn give_back(&mut self, id: EventId, attempt: u32) {
        let Some(entry) = self.entry(id).filter(|entry| entry.attempts == attempt) else { return };
        let State::InFlight(event) = &entry.state else { return };
        entry.state = State::Due(event.clone());
        entry.attempts -= 1;
        self.again.insert(id);
        self.in_flight -= 1;
    }

    /// Everything under way is to be delivered again, oldest first, and nobody is to blame: its processor died.
    pub(crate) fn recall_all(&mut self) {
        for (id, entry) in (self.first..).zip(&mut self.entries) {
            if let State::InFlight(event) = &entry.state {
                entry.state = State::Due(event.clone());
                self.again.insert(EventId(id));
            }
        }
        self.in_flight = 0;
    }

    /// Whether an event waits to be delivered again.
    pub(crate) fn has_again(&self) -> bool {
        !self.again.is_empty()
    }

    /// Whether an event waits to be delivered.
    pub(crate) fn has_due(&self) -> bool {
        match self.lanes {
            Some(_) => self.entries.iter().any(|entry| matches!(entry.state, State::Due(_))),
            None => self.has_again() || self.fresh < self.first + self.entries.len() as u64,
        }
    }

    /// Where the event is, as long as it or one before it is open.
    pub(crate) fn position(&self, id: EventId) -> Option<&Position> {
        Some(&self.get(id)?.position)
    }

    /// Whether the event is neither settled nor given up.
    pub(crate) fn is_open(&self, id: EventId) -> bool {
        self.get(id).is_some_and(|entry| !matches!(entry.state, State::Settled))
    }

    /// Whether the delivery is under way.
    pub(crate) fn is_in_flight(&self, id: EventId, attempt: u32) -> bool {
        self.get(id)
            .is_some_and(|entry| entry.attempts == attempt && matches!(entry.state, State::InFlight(_)))
    }

    /// Whether an event has been delivered as often as it may be and is not given up.
    pub(crate) fn has_exhausted(&self) -> bool {
        !self.troubled.is_empty()
    }

    /// The exhausted events of the first page that has more of them than the tolerance allows.
    pub(crate) fn exceeded(&self) -> Option<Vec<FailedEvent>> {
        let page = self.troubled_pages().find(|page| page.exhausted.len() > page.tolerated)?;
        Some(page.exhausted.iter().filter_map(|id| self.failed_event(*id)).collect())
    }

    /// Gives up the exhausted events of each page that has no other events left open, within the tolerance; at once if
    /// others of the page wait for them.
    pub(crate) fn give_up_tolerated(&mut self) -> Vec<FailedEvent> {
        let mut ids: Vec<EventId> = Vec::new();
        for number in &self.troubled {
            let index = number.checked_sub(self.first_page).map(|index| index as usize);
            let Some(page) = index.and_then(|index| self.pages.get_mut(index)) else { continue };
            let is_time = self.lanes.is_some() || page.unsettled == page.exhausted.len();
            if let Some(left) = page.tolerated.checked_sub(page.exhausted.len()).filter(|_| is_time) {
                page.tolerated = left;
                ids.extend(&page.exhausted);
            }
        }
        self.give_up(ids)
    }

    /// Gives up all exhausted events.
    pub(crate) fn give_up_all(&mut self) -> Vec<FailedEvent> {
        let ids = self.troubled_pages().flat_map(|page| page.exhausted.iter().copied()).collect();
        self.give_up(ids)
    }

    /// The highest position with nothing before it that is not settled; none before the first.
    pub(crate) fn done(&self) -> Option<&Position> {
        self.done.as_ref()
    }

    /// Whether everything added is settled.
    pub(crate) fn is_drained(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many events are delivered and neither settled nor given up.
    pub(crate) fn unsettled(&self) -> usize {
        let is_open = |entry: &&Entry| entry.attempts > 0 && !matches!(entry.state, State::Settled);
        self.entries.iter().filter(is_open).count()
    }

    /// How many events are delivered and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The memory that the events hold, estimated.
    pub(crate) fn bytes(&self) -> usize {
        self.payload_bytes + self.entries.len() * OVERHEAD_BYTES
    }

    /// Puts the event, which is to be added next, behind the one that it waits for.
    fn enter_lane(&mut self, event: &ConsumerEvent) {
        let id = EventId(self.first + self.entries.len() as u64);
        let before = self.lanes.as_mut().and_then(|lanes| lanes.enter(id, event));
        if let Some(before) = before.and_then(|before| self.entry(before)) {
            before.next = Some(id);
        }
    }

    fn deliver(&mut self, id: EventId) -> Option<Delivery> {
        let entry = self.entry(id)?;
        let State::Due(event) = &entry.state else { return None };
        let event = event.clone();
        entry.attempts += 1;
        let attempt = entry.attempts;
        entry.state = State::InFlight(event.clone());
        self.in_flight += 1;
        self.fresh = self.fresh.max(id.0 + 1);
        Some(Delivery { id, attempt, event })
    }

    fn settle(&mut self, id: EventId) -> Verdict {
        let Some(entry) = self.entry(id).filter(|entry| entry.attempts > 0) else { return Verdict::Late };
        let (number, next) = (entry.page, entry.next);
        let state = std::mem::replace(&mut entry.state, State::Settled);
        let event = match &state {
            State::Settled => return Verdict::Late,
            State::Due(event) | State::InFlight(event) | State::Exhausted(event, _) => event,
        };
        self.payload_bytes -= event.payload().len();
        if let Some(lanes) = &mut self.lanes {
            lanes.leave(event, next);
        }
        match state {
            State::InFlight(_) => self.in_flight -= 1,
            State::Due(_) => {
                self.again.remove(&id);
            }
            State::Exhausted(..) | State::Settled => {}
        }
        if let Some(page) = self.page(number) {
            page.unsettled -= 1;
            if page.exhausted.remove(&id) && page.exhausted.is_empty() {
                self.troubled.remove(&number);
            }
        }
        self.advance();
        Verdict::Settled
    }

    fn give_up(&mut self, ids: Vec<EventId>) -> Vec<FailedEvent> {
        let given_up = ids.iter().filter_map(|id| self.failed_event(*id)).collect();
        for id in ids {
            self.settle(id);
        }
        given_up
    }

    /// Forgets what is settled at the front and moves the checkpoint there.
    fn advance(&mut self) {
        while let Some(entry) = self.entries.pop_front_if(|entry| matches!(entry.state, State::Settled)) {
            self.done = Some(entry.position);
            self.first += 1;
        }
        self.fresh = self.fresh.max(self.first);
        let oldest =
            self.entries.front().map_or(self.first_page + self.pages.len() as u64, |entry| entry.page);
        while self.first_page < oldest {
            self.pages.pop_front();
            self.first_page += 1;
        }
    }

    fn troubled_pages(&self) -> impl Iterator<Item = &Page> {
        self.troubled
            .iter()
            .filter_map(|number| self.pages.get(number.checked_sub(self.first_page)? as usize))
    }

    fn failed_event(&self, id: EventId) -> Option<FailedEvent> {
        let entry = self.get(id)?;
        let State::Exhausted(event, cause) = &entry.state else { return None };
        Some(FailedEvent { event: event.clone(), attempts: entry.attempts, cause: cause.clone() })
    }

    fn get(&self, id: EventId) -> Option<&Entry> {
        self.entries.get(id.0.checked_sub(self.first)? as usize)
    }

    fn entry(&mut self, id: EventId) -> Option<&mut Entry> {
        self.entries.get_mut(id.0.checked_sub(self.first)? as usize)
    }

    fn page(&mut self, page: u64) -> Option<&mut Page> {
        self.pages.get_mut(page.checked_sub(self.first_page)? as usize)
    }
}

/// How many of `size` events are within the tolerance, rounded down. The small addition makes good what the binary
/// form of a percentage may lack.
fn tolerated(percentage: f64, size: usize) -> usize {
    (percentage * size as f64 / 100.0 + 1e-6).floor() as usize
}

#[cfg(test)]
mod tests;
