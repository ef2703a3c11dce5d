//! How much may be under way: events and bytes, with those who wait for room in the order in which they came.
//!
//! A producer that sends to one stream may fill all the room with it. As soon as there are others, a stream may have three
//! quarters of the room that they leave, so that there is some for another stream however many of them are stuck: one
//! takes three quarters of all, a second one three quarters of the rest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::driver::Command;
use super::outcome::SendReason;
use super::record::Record;

/// Beyond a limit nothing more is taken until both are below this part of it, in tenths.
const RESUME_BELOW: u64 = 9;
/// What a stream may have of the room that others leave, in quarters.
const SHARE: u64 = 3;

/// The door of a producer: lets events through to its task, as many as may be under way at once.
#[derive(Debug)]
pub(crate) struct Admission {
    state: Mutex<State>,
    /// That of events which name none.
    stream: Arc<str>,
    max_records: u64,
    max_bytes: u64,
}

#[derive(Debug)]
struct State {
    used: Used,
    /// Streams with events that are under way or wait.
    streams: HashMap<Arc<str>, Stream>,
    /// Those that have reached their limit, and are not far enough below it again.
    throttled: BTreeSet<Arc<str>>,
    /// Whether events have come for other streams than that of the configuration.
    is_shared: bool,
    /// Why nothing is taken any more.
    closed: Option<SendReason>,
    next_ticket: u64,
    task: mpsc::UnboundedSender<Command>,
}

#[derive(Debug, Default)]
struct Stream {
    used: Used,
    /// Of a throttled stream, by their places.
    waiting: BTreeMap<u64, Record>,
    /// Who waits for room without an event, in the same order. One that is dropped tells that it has come, too.
    asking: BTreeMap<u64, oneshot::Sender<()>>,
}

/// Records under way, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    records: u64,
    bytes: u64,
}

/// The place of an event, or of somebody without one, that waits for room.
#[derive(Debug)]
pub(crate) struct Ticket {
    stream: Arc<str>,
    number: u64,
}

/// Somebody without an event who waits for room, and leaves when it is dropped.
struct Asking<'a> {
    admission: &'a Admission,
    ticket: Ticket,
    turn: oneshot::Receiver<()>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.admission.leave(&self.ticket);
    }
}

/// What became of an event at the door.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// It is through.
    Now,
    /// It waits for room.
    Later(Ticket),
    /// There is no room, and it was not to wait.
    Full(Record),
    /// Nothing is taken any more, for this reason.
    Closed(Record, SendReason),
}

/// The room that an event takes until its outcome is known.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    stream: Arc<str>,
    bytes: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.release(&self.stream, self.bytes);
    }
}

/// What is under way, and what waits for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) waiting: usize,
    pub(crate) throttled: bool,
}

impl Admission {
    pub(crate) fn new(
        stream: Arc<str>,
        max_records: u64,
        max_bytes: u64,
        task: mpsc::UnboundedSender<Command>,
    ) -> Arc<Self> {
        let state = State {
            used: Used::default(),
            streams: HashMap::new(),
            throttled: BTreeSet::new(),
            is_shared: false,
            closed: None,
            next_ticket: 0,
            task,
        };
        Arc::new(Self { state: Mutex::new(state), stream, max_records, max_bytes })
    }

    /// Lets the record through if there is room for its stream and nobody waits for that before it. Otherwise it takes
    /// its place among those who wait, if it `may_wait`.
    pub(crate) fn admit(self: &Arc<Self>, record: Record, may_wait: bool) -> Admitted {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Admitted::Closed(record, reason.clone());
        }
        let stream = record.event().and_then(|event| event.stream.clone());
        let stream = stream.unwrap_or_else(|| Arc::clone(&self.stream));
        state.is_shared |= stream != self.stream;
        if !state.throttled.contains(&stream) && self.fits(&state, &stream, size(&record)) {
            let unsent = self.let_through(&mut state, &stream, record);
            drop(state);
            // Only now: it gives its room back.
            drop(unsent);
            return Admitted::Now;
        }
        state.throttled.insert(Arc::clone(&stream));
        if !may_wait {
            return Admitted::Full(record);
        }
        let number = state.new_ticket();
        state.streams.entry(Arc::clone(&stream)).or_default().waiting.insert(number, record);
        Admitted::Later(Ticket { stream, number })
    }

    /// Takes a waiting record back. `None` if it is through.
    pub(crate) fn withdraw(&self, ticket: &Ticket) -> Option<Record> {
        self.lock().streams.get_mut(&ticket.stream)?.waiting.remove(&ticket.number)
    }

    /// Takes no more, and gives back what waits.
    pub(crate) fn close(&self, reason: SendReason) -> Vec<Record> {
        let mut state = self.lock();
        state.closed.get_or_insert(reason);
        state.take_waiting()
    }

    /// Hands something else to the task, behind all events that are through. False if the task has ended.
    pub(crate) fn command(&self, command: Command) -> bool {
        self.lock().task.send(command).is_ok()
    }

    /// Whether the stream has reached a limit, and there is not room enough again.
    pub(crate) fn is_throttled(&self, stream: &str) -> bool {
        self.lock().throttled.contains(stream)
    }

    /// Resolves at once if it is not, and otherwise when all that waited for room before is through and some is left.
    /// What comes later does not go before, so that nobody waits for ever among many.
    pub(crate) async fn room(&self, stream: &str) {
        if let Some(mut asking) = self.ask(stream) {
            // It tells nothing when nothing is taken any more.
            let _ = (&mut asking.turn).await;
        }
    }

    fn ask(&self, stream: &str) -> Option<Asking<'_>> {
        let mut state = self.lock();
        let stream = Arc::clone(state.throttled.get(stream)?);
        let (tell, turn) = oneshot::channel();
        let number = state.new_ticket();
        state.streams.entry(Arc::clone(&stream)).or_default().asking.insert(number, tell);
        Some(Asking { admission: self, ticket: Ticket { stream, number }, turn })
    }

    fn leave(&self, ticket: &Ticket) {
        if let Some(of) = self.lock().streams.get_mut(&ticket.stream) {
            of.asking.remove(&ticket.number);
        }
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.lock();
        let Used { records, bytes } = state.used;
        let throttled = state.throttled.iter().filter_map(|stream| state.streams.get(stream));
        let waiting = throttled.map(|stream| stream.waiting.len()).sum();
        Load { records, bytes, waiting, throttled: !state.throttled.is_empty() }
    }

    fn release(self: &Arc<Self>, stream: &Arc<str>, bytes: u64) {
        let mut state = self.lock();
        state.used.release(bytes);
        if let Some(of) = state.streams.get_mut(stream) {
            of.used.release(bytes);
        }
        let unsent = self.resume(&mut state);
        state.forget(stream);
        drop(state);
        drop(unsent);
    }

    /// Lets through what waits for streams that have room again, in the order in which it came. Gives back what cannot
    /// be sent any more.
    fn resume(self: &Arc<Self>, state: &mut State) -> Vec<Record> {
        let throttled = state.throttled.iter();
        let again: Vec<_> = throttled.filter(|stream| self.is_below(state, stream)).cloned().collect();
        if again.is_empty() {
            return Vec::new();
        }
        state.throttled.retain(|stream| !again.contains(stream));
        let mut unsent = Vec::new();
        while state.closed.is_none()
            && let Some((stream, bytes)) = state.next(&again)
        {
            if !self.fits(state, &stream, bytes) {
                state.throttled.insert(stream);
                continue;
            }
            if let Some(record) = state.streams.get_mut(&stream).and_then(Stream::pop) {
                unsent.extend(self.let_through(state, &stream, record));
            }
        }
        if state.closed.is_some() {
            // Without the task nobody else would give them back.
            unsent.extend(state.take_waiting());
        }
        again.iter().for_each(|stream| state.forget(stream));
        unsent
    }

    /// Under the lock, so that events reach the task in the order in which they were let through. Gives the record back
    /// if the task has ended.
    fn let_through(
        self: &Arc<Self>,
        state: &mut State,
        stream: &Arc<str>,
        mut record: Record,
    ) -> Option<Record> {
        let bytes = size(&record);
        state.used.take(bytes);
        let used = &mut state.streams.entry(Arc::clone(stream)).or_default().used;
        used.take(bytes);
        let (used, limit) = (*used, self.limit(state, stream));
        if used.records >= limit.records || used.bytes >= limit.bytes {
            state.throttled.insert(Arc::clone(stream));
        }
        record.hold(Permit { admission: Arc::clone(self), stream: Arc::clone(stream), bytes });
        let Err(mpsc::error::SendError(unsent)) = state.task.send(Command::Put(Box::new(record))) else {
            return None;
        };
        state.closed.get_or_insert(SendReason::Died);
        if let Command::Put(record) = unsent { Some(*record) } else { None }
    }

    /// What the stream may have: all that others leave, or its share of it.
    fn limit(&self, state: &State, stream: &str) -> Used {
        let used = state.used_by(stream);
        let records = self.max_records.saturating_sub(state.used.records - used.records);
        let bytes = self.max_bytes.saturating_sub(state.used.bytes - used.bytes);
        if !state.is_shared {
            return Used { records, bytes };
        }
        Used { records: (records * SHARE / 4).max(records.min(1)), bytes: bytes / 4 * SHARE }
    }

    /// Whether the stream may have one more event, of so many bytes. Of a stream that has none, one may take all the room
    /// there is, and what is larger than that goes when nothing else is under way.
    fn fits(&self, state: &State, stream: &str, bytes: u64) -> bool {
        let (used, limit, all) = (state.used_by(stream), self.limit(state, stream), state.used.bytes);
        let is_first = used.records == 0 && (all == 0 || all + bytes <= self.max_bytes);
        used.records < limit.records && (is_first || used.bytes + bytes <= limit.bytes)
    }

    fn is_below(&self, state: &State, stream: &str) -> bool {
        let (used, limit) = (state.used_by(stream), self.limit(state, stream));
        let is_below =
            |used: u64, max: u64| used == 0 || used.saturating_mul(10) < max.saturating_mul(RESUME_BELOW);
        is_below(used.records, limit.records) && is_below(used.bytes, limit.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn used_by(&self, stream: &str) -> Used {
        self.streams.get(stream).map(|stream| stream.used).unwrap_or_default()
    }

    fn new_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Which of these streams that are not throttled has waited longest, and for an event of how many bytes.
    fn next(&self, streams: &[Arc<str>]) -> Option<(Arc<str>, u64)> {
        let first = |stream: &Arc<str>| {
            let (number, bytes) = self.streams.get(stream)?.first()?;
            Some((number, Arc::clone(stream), bytes))
        };
        let open = streams.iter().filter(|stream| !self.throttled.contains(*stream));
        open.filter_map(first).min().map(|(_, stream, bytes)| (stream, bytes))
    }

    /// Nothing and nobody waits and no stream is throttled any more.
    fn take_waiting(&mut self) -> Vec<Record> {
        self.throttled.clear();
        let mut waiting = BTreeMap::new();
        for stream in self.streams.values_mut() {
            waiting.append(&mut stream.waiting);
            stream.asking.clear();
        }
        self.streams.retain(|_, stream| stream.used.records > 0);
        waiting.into_values().collect()
    }

    fn forget(&mut self, stream: &Arc<str>) {
        if self.streams.get(stream).is_some_and(|of| of.used.records == 0 && of.first().is_none()) {
            self.streams.remove(stream);
        }
    }
}

impl Stream {
    /// The first place of those that wait, and the bytes of the event there, if any.
    fn first(&self) -> Option<(u64, u64)> {
        let event = self.waiting.first_key_value().map(|(number, record)| (*number, size(record)));
        let asking = self.asking.first_key_value().map(|(number, _)| (*number, 0));
        event.into_iter().chain(asking).min()
    }

    /// Takes what waits at the first place. Whoever does so without an event is told, and takes no room.
    fn pop(&mut self) -> Option<Record> {
        let (first, _) = self.first()?;
        if let Some(tell) = self.asking.remove(&first) {
            // Whoever asked may have gone.
            let _ = tell.send(());
        }
        self.waiting.remove(&first)
    }
}

impl Used {
    fn take(&mut self, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
    }

    fn release(&mut self, bytes: u64) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

fn size(record: &Record) -> u64 {
    record.event().map_or(0, |event| event.size() as u64)
}

#[cfg(test)]
mod tests;
