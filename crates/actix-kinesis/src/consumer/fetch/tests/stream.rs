//! A stream with one shard to read, in memory, and faults on demand.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;
use kinesis_lease::stream::{
    ChildShard, RawRecord, RecordsPage, ShardIterator, StartAt, StreamApi, StreamError, StreamErrorKind,
};
use kinesis_record::{HashRange, SequenceNumber, Shard, ShardId};
use tokio::time::{Instant, sleep};

use super::MIB;

pub(super) fn shard_id() -> ShardId {
    "shardId-000000000000".into()
}

fn shard(id: ShardId, parents: Vec<ShardId>) -> Shard {
    Shard { id, hash_range: HashRange::ALL, parents, starting_sequence: 0.into(), ending_sequence: None }
}

/// A child of the shard.
pub(super) fn child() -> ChildShard {
    (&shard("shardId-000000000001".into(), vec![shard_id()])).into()
}

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Iterator(StartAt),
    Records { limit: u32, bytes: usize },
    List,
}

/// What becomes of a call.
pub(super) enum Fault {
    Error(StreamErrorKind),
    /// The reply has neither an iterator nor children.
    Severed,
    /// Nor has it the records that it should have.
    SeveredAndEmpty,
}

impl Fault {
    pub(super) fn times(kind: StreamErrorKind, times: usize) -> Vec<Self> {
        (0..times).map(|_| Self::Error(kind)).collect()
    }
}

#[derive(Debug)]
pub(super) struct Stream(Mutex<State>);

pub(super) struct State {
    pub(super) records: Vec<RawRecord>,
    /// How many of the records have expired.
    pub(super) expired: usize,
    pub(super) shards: Vec<Shard>,
    /// Whether the final reply names the children.
    pub(super) names_children: bool,
    /// What every reply says of its distance to the tip, whatever it is.
    pub(super) behind: Option<Duration>,
    /// Iterators that are older are refused.
    pub(super) iterator_life: Duration,
    /// Whether a place whose record is not there is refused.
    pub(super) refuses_unknown_places: bool,
    /// The service's clock at the start of the test's.
    pub(super) clock: SystemTime,
    pub(super) latency: Duration,
    pub(super) iterator_faults: VecDeque<Fault>,
    pub(super) records_faults: VecDeque<Fault>,
    pub(super) list_faults: VecDeque<Fault>,
    pub(super) calls: Vec<(Duration, Call)>,
    start: Instant,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("State")
    }
}

pub(super) fn record(sequence: u128, data: impl Into<Bytes>) -> RawRecord {
    let partition_key = Some("key".to_owned());
    RawRecord { sequence: sequence.into(), partition_key, data: data.into(), arrival: None }
}

impl Stream {
    pub(super) fn new(records: impl IntoIterator<Item = RawRecord>) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self(Mutex::new(State {
            records: records.into_iter().collect(),
            expired: 0,
            shards: vec![shard(shard_id(), Vec::new())],
            names_children: true,
            behind: None,
            iterator_life: Duration::from_secs(300),
            refuses_unknown_places: false,
            clock: SystemTime::now(),
            latency: Duration::ZERO,
            iterator_faults: VecDeque::new(),
            records_faults: VecDeque::new(),
            list_faults: VecDeque::new(),
            calls: Vec::new(),
            start: Instant::now(),
        })))
    }

    /// One with plain records of a byte each.
    pub(super) fn of(sequences: impl IntoIterator<Item = u128>) -> std::sync::Arc<Self> {
        Self::new(sequences.into_iter().map(|sequence| record(sequence, "x")))
    }

    pub(super) fn with(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    pub(super) fn put(&self, sequences: impl IntoIterator<Item = u128>) {
        self.with(|state| state.records.extend(sequences.into_iter().map(|sequence| record(sequence, "x"))));
    }

    /// Closes the shard. It has one child.
    pub(super) fn close(&self, ending_sequence: u128) {
        self.with(|state| {
            state.shards[0].ending_sequence = Some(ending_sequence.into());
            let child = child();
            state.shards.push(shard(child.id, child.parents));
        });
    }

    pub(super) fn calls(&self) -> Vec<(Duration, Call)> {
        self.0.lock().unwrap().calls.clone()
    }

    /// The places at which iterators were opened.
    pub(super) fn opened(&self) -> Vec<StartAt> {
        let place = |call| match call {
            (_, Call::Iterator(place)) => Some(place),
            _ => None,
        };
        self.calls().into_iter().filter_map(place).collect()
    }

    /// When GetRecords was called, and how many bytes each call brought.
    pub(super) fn reads(&self) -> Vec<(Duration, usize)> {
        let read = |call| match call {
            (when, Call::Records { bytes, .. }) => Some((when, bytes)),
            _ => None,
        };
        self.calls().into_iter().filter_map(read).collect()
    }

    /// The limits with which GetRecords was called.
    pub(super) fn limits(&self) -> Vec<u32> {
        let limit = |call| match call {
            (_, Call::Records { limit, .. }) => Some(limit),
            _ => None,
        };
        self.calls().into_iter().filter_map(limit).collect()
    }

    async fn answer<T>(
        &self,
        answer: impl FnOnce(&mut State) -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        let latency = self.0.lock().unwrap().latency;
        let answer = answer(&mut self.0.lock().unwrap());
        sleep(latency).await;
        answer
    }
}

fn error(kind: StreamErrorKind) -> StreamError {
    StreamError { kind, message: format!("{kind:?} by the test") }
}

/// What is to become of a call that does not fail.
fn fail(faults: &mut VecDeque<Fault>) -> Result<Option<Fault>, StreamError> {
    match faults.pop_front() {
        Some(Fault::Error(kind)) => Err(error(kind)),
        fault => Ok(fault),
    }
}

impl State {
    fn call(&mut self, call: Call) {
        let when = self.start.elapsed();
        self.calls.push((when, call));
    }

    fn is_listed(&self) -> bool {
        self.shards.iter().any(|shard| shard.id == shard_id())
    }

    /// The index of the first record behind a place.
    fn place(&self, start: &StartAt) -> Result<usize, StreamError> {
        let first = |is_it: &dyn Fn(&RawRecord) -> bool| {
            self.records.iter().position(is_it).unwrap_or(self.records.len())
        };
        let known = |sequence: &SequenceNumber| {
            let mut live = self.records[self.expired..].iter();
            let is_known = live.any(|record| record.sequence == *sequence) || !self.refuses_unknown_places;
            is_known.then_some(()).ok_or_else(|| error(StreamErrorKind::InvalidArgument))
        };
        let index = match start {
            StartAt::TrimHorizon => 0,
            StartAt::Latest => self.records.len(),
            StartAt::Timestamp(instant) if *instant > self.clock + self.start.elapsed() => {
                return Err(error(StreamErrorKind::InvalidArgument));
            }
            StartAt::Timestamp(instant) => {
                first(&|record| record.arrival.is_some_and(|arrival| arrival >= *instant))
            }
            StartAt::At(sequence) => {
                known(sequence)?;
                first(&|record| record.sequence >= *sequence)
            }
            StartAt::After(sequence) => {
                known(sequence)?;
                first(&|record| record.sequence > *sequence)
            }
        };
        Ok(index.max(self.expired))
    }

    fn iterator(&self, index: usize) -> ShardIterator {
        ShardIterator(format!("{index} {}", self.start.elapsed().as_millis()))
    }

    fn reply(&mut self, iterator: &ShardIterator, limit: u32) -> Result<RecordsPage, StreamError> {
        let fault = fail(&mut self.records_faults)?;
        if !self.is_listed() && fault.is_none() {
            return Err(error(StreamErrorKind::NotFound));
        }
        let page = self.page(iterator, limit)?;
        Ok(match fault {
            None => page,
            Some(Fault::SeveredAndEmpty) => {
                RecordsPage { records: Vec::new(), next: None, children: Vec::new(), ..page }
            }
            Some(_) => RecordsPage { next: None, children: Vec::new(), ..page },
        })
    }

    fn page(&self, iterator: &ShardIterator, limit: u32) -> Result<RecordsPage, StreamError> {
        let (index, made) = iterator.0.split_once(' ').unwrap();
        if self.start.elapsed() > Duration::from_millis(made.parse().unwrap()) + self.iterator_life {
            return Err(error(StreamErrorKind::ExpiredIterator));
        }
        let index = index.parse::<usize>().unwrap().max(self.expired);
        let mut bytes = 0;
        let fits = |record: &&RawRecord| {
            bytes += record.data.len();
            bytes <= 10 * MIB
        };
        let records: Vec<_> =
            self.records[index..].iter().take(limit as usize).take_while(fits).cloned().collect();
        let next = index + records.len();
        let is_at_tip = next == self.records.len();
        let ends = is_at_tip && self.shards.first().is_some_and(|shard| !shard.is_open());
        Ok(RecordsPage {
            records,
            next: (!ends).then(|| self.iterator(next)),
            behind: self.behind.unwrap_or(if is_at_tip { Duration::ZERO } else { Duration::from_secs(9) }),
            children: if ends && self.names_children { vec![child()] } else { Vec::new() },
        })
    }
}

impl StreamApi for Stream {
    fn name(&self) -> &str {
        "stream"
    }

    fn list_shards(&self) -> BoxFuture<'_, Result<Vec<Shard>, StreamError>> {
        Box::pin(self.answer(|state| {
            state.call(Call::List);
            fail(&mut state.list_faults)?;
            Ok(state.shards.clone())
        }))
    }

    fn shard_iterator<'a>(
        &'a self,
        shard: &'a ShardId,
        start: &'a StartAt,
    ) -> BoxFuture<'a, Result<ShardIterator, StreamError>> {
        assert_eq!(*shard, shard_id());
        Box::pin(self.answer(|state| {
            state.call(Call::Iterator(start.clone()));
            fail(&mut state.iterator_faults)?;
            if !state.is_listed() {
                return Err(error(StreamErrorKind::NotFound));
            }
            let index = state.place(start)?;
            Ok(state.iterator(index))
        }))
    }

    fn get_records<'a>(
        &'a self,
        iterator: &'a ShardIterator,
        limit: u32,
    ) -> BoxFuture<'a, Result<RecordsPage, StreamError>> {
        assert!((1..=10_000).contains(&limit));
        Box::pin(self.answer(move |state| {
            let reply = state.reply(iterator, limit);
            let records = reply.iter().flat_map(|page| &page.records);
            let bytes = records.map(|record| record.data.len()).sum();
            state.call(Call::Records { limit, bytes });
            reply
        }))
    }
}
