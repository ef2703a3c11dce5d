//! A stream in memory, and a pipeline that sends to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kinesis_lease::put::{PutPlace, PutRecord, PutRefusal, PutReply};
use kinesis_lease::{StreamError, StreamErrorKind};
use kinesis_record::aggregation::{Deaggregated, deaggregate};
use kinesis_record::{HashKey, HashRange, Shard, ShardId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::super::{Action, Pipeline};
use crate::config::ProducerConf;
use crate::producer::event::ProducerEvent;
use crate::producer::outcome::{Flushed, Outcome};
use crate::producer::record::Record;
use crate::producer::testing::shard;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A Kinesis record in the stream.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) shard: ShardId,
    pub(super) record: PutRecord,
    /// The indices of its events, in order, with their hash keys.
    pub(super) events: Vec<(usize, HashKey)>,
    pub(super) range: HashRange,
    /// Whether nothing can tell that it is in a wrong shard: the list had the shard with another range when the reply came,
    /// or the stream is deleted since.
    pub(super) is_mistaken: bool,
}

impl Stored {
    /// Whether a KCL drops it, since some event does not belong to its shard.
    pub(super) fn is_dropped(&self) -> bool {
        self.events.len() > 1 && self.events.iter().any(|(_, key)| !self.range.contains(*key))
    }
}

/// A call that waits for its reply.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) call: u64,
    pub(super) records: Vec<PutRecord>,
    pub(super) at: Instant,
}

pub(super) struct Bench {
    pub(super) pipeline: Pipeline,
    pub(super) now: Instant,
    pub(super) begin: Instant,
    pub(super) shards: Vec<Shard>,
    pub(super) stored: Vec<Stored>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) is_listing: bool,
    pub(super) lists: usize,
    pub(super) keys: Vec<String>,
    pending: Vec<(usize, oneshot::Receiver<Outcome>)>,
    pub(super) outcomes: BTreeMap<usize, Outcome>,
}

/// The settings of most tests: what takes time takes little.
pub(super) fn conf() -> ProducerConf {
    let mut conf = ProducerConf::new("orders");
    conf.rate_limit = 100_000;
    conf
}

/// The same without aggregation.
pub(super) fn single() -> ProducerConf {
    let mut conf = conf();
    conf.aggregation.enabled = false;
    conf
}

impl Bench {
    /// A pipeline that does not know the shards yet.
    pub(super) fn blank(conf: ProducerConf, shards: u32) -> Self {
        let now = Instant::now();
        Self {
            pipeline: Pipeline::new(Arc::new(conf), now, fastrand::Rng::with_seed(7)),
            now,
            begin: now,
            shards: equal(shards),
            stored: Vec::new(),
            waiting: Vec::new(),
            is_listing: false,
            lists: 0,
            keys: Vec::new(),
            pending: Vec::new(),
            outcomes: BTreeMap::new(),
        }
    }

    /// A pipeline that knows the shards.
    pub(super) fn new(conf: ProducerConf, shards: u32) -> Self {
        let mut bench = Self::blank(conf, shards);
        bench.poll();
        bench.list();
        bench
    }

    /// Sends the next event: its index, and filling up to a length.
    pub(super) fn send_event(&mut self, event: impl FnOnce(Bytes) -> ProducerEvent, len: usize) -> usize {
        let index = self.keys.len();
        let mut payload = format!("{index};").into_bytes();
        payload.resize(len.max(payload.len()), b'.');
        let event = event(payload.into());
        self.keys.push(event.partition_key.to_string());
        let (record, receiver) = Record::new(event, self.now);
        self.pending.push((index, receiver));
        self.pipeline.accept(record, self.now);
        index
    }

    pub(super) fn send(&mut self, key: &str) -> usize {
        self.send_event(|payload| ProducerEvent::new(key, payload), 0)
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.poll();
    }

    /// Lets time pass in steps, as the pipeline asks for them, and answers every call with success after each.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.poll();
        self.answer_all();
        while let Some(at) = self.pipeline.wake_at().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.poll();
            self.answer_all();
        }
        self.now = end;
        self.poll();
        self.answer_all();
    }

    pub(super) fn poll(&mut self) {
        self.gather();
        for action in self.pipeline.poll(self.now) {
            match action {
                Action::List => {
                    assert!(!self.is_listing, "two lists at once");
                    self.is_listing = true;
                    self.lists += 1;
                }
                Action::Put { call, records } => {
                    for (index, _) in records.iter().flat_map(events) {
                        assert!(
                            !self.outcomes.contains_key(&index),
                            "{index} is sent after its outcome is known"
                        );
                    }
                    self.waiting.push(Waiting { call, records, at: self.now });
                }
            }
        }
        self.gather();
    }

    fn gather(&mut self) {
        let outcomes = &mut self.outcomes;
        self.pending.retain_mut(|(index, receiver)| match receiver.try_recv() {
            Ok(outcome) => outcomes.insert(*index, outcome).is_some(),
            Err(_) => true,
        });
    }

    /// Asks for a list, and answers it.
    pub(super) fn list_again(&mut self) {
        self.pipeline.map.contradicted(self.now, self.now);
        self.poll();
        self.list();
    }

    /// Answers the list that is asked for.
    pub(super) fn list(&mut self) {
        assert!(std::mem::take(&mut self.is_listing), "no list is asked for");
        self.pipeline.listed(Ok(self.shards.clone()), self.now);
        self.poll();
    }

    pub(super) fn fail_list(&mut self) {
        self.is_listing = false;
        self.pipeline.listed(Err(error(StreamErrorKind::Unavailable)), self.now);
        self.poll();
    }

    /// Answers all calls with success, and lists, until there are no more.
    pub(super) fn answer_all(&mut self) {
        while self.is_listing || !self.waiting.is_empty() {
            if self.is_listing {
                self.list();
            }
            if !self.waiting.is_empty() {
                self.answer(0, |_, _| None);
            }
        }
    }

    /// Answers a call: `refuse` says by index and record which are refused.
    pub(super) fn answer(
        &mut self,
        waiting: usize,
        mut refuse: impl FnMut(usize, &PutRecord) -> Option<&'static str>,
    ) {
        let Waiting { call, records, .. } = self.waiting.remove(waiting);
        let replies = records.into_iter().enumerate().map(|(index, record)| match refuse(index, &record) {
            Some(code) => Err(PutRefusal { code: code.to_owned(), message: "refused".to_owned() }),
            None => Ok(self.store(record)),
        });
        let replies: Vec<PutReply> = replies.collect();
        self.pipeline.replied(call, Ok(replies), self.now);
        self.poll();
    }

    /// Lets a call fail as a whole, applied or not.
    pub(super) fn fail(&mut self, waiting: usize, kind: StreamErrorKind, is_applied: bool) {
        let Waiting { call, records, .. } = self.waiting.remove(waiting);
        if is_applied {
            records.into_iter().for_each(|record| drop(self.store(record)));
        }
        self.pipeline.replied(call, Err(error(kind)), self.now);
        self.poll();
    }

    fn store(&mut self, record: PutRecord) -> PutPlace {
        let key = record.explicit_hash_key.unwrap_or(HashKey::of_partition_key(&record.partition_key));
        let open =
            self.shards.iter().find(|shard| shard.is_open() && shard.hash_range.contains(key)).unwrap();
        let place = PutPlace { shard: open.id.clone(), sequence: (self.stored.len() as u128).into() };
        let (shard, range) = (open.id.clone(), open.hash_range);
        let is_mistaken = self.pipeline.map.range(&shard).is_some_and(|listed| listed != range);
        self.stored.push(Stored { shard, range, is_mistaken, events: events(&record), record });
        place
    }

    /// Splits an open shard in the middle.
    pub(super) fn split(&mut self, index: usize) {
        let open: Vec<_> = (0..self.shards.len()).filter(|at| self.shards[*at].is_open()).collect();
        let at = open[index % open.len()];
        let HashRange { start, end } = self.shards[at].hash_range;
        let middle = start.0 + (end.0 - start.0) / 2;
        self.shards[at].ending_sequence = Some(1.into());
        let number = self.shards.len() as u32;
        self.shards.extend([shard(number, start.0, middle), shard(number + 1, middle + 1, end.0)]);
    }

    /// Deletes the stream and creates it again under its name. Ids begin anew.
    pub(super) fn create_again(&mut self, shards: u32) {
        self.stored.iter_mut().for_each(|stored| stored.is_mistaken = true);
        self.shards = equal(shards);
    }

    pub(super) fn flush(&mut self) -> mpsc::UnboundedReceiver<Flushed> {
        let (done, flushed) = mpsc::unbounded_channel();
        self.pipeline.flush(done);
        self.poll();
        flushed
    }

    /// The events in the stream by key, as indices, in the order in which a KCL delivers them.
    pub(super) fn read(&self) -> BTreeMap<String, Vec<usize>> {
        let mut read: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for stored in self.stored.iter().filter(|stored| !stored.is_dropped()) {
            for (event, _) in &stored.events {
                read.entry(self.keys[*event].clone()).or_default().push(*event);
            }
        }
        read
    }

    pub(super) fn succeeded(&self) -> usize {
        self.outcomes.values().filter(|outcome| outcome.is_ok()).count()
    }
}

/// So many shards of one size.
fn equal(shards: u32) -> Vec<Shard> {
    let part = u128::MAX / u128::from(shards);
    let shards = (0..shards).map(|index| {
        let start = part * u128::from(index) + u128::from(index != 0);
        let end = if index + 1 == shards { u128::MAX } else { part * u128::from(index + 1) };
        shard(index, start, end)
    });
    shards.collect()
}

pub(super) fn error(kind: StreamErrorKind) -> StreamError {
    StreamError { kind, message: format!("it is {kind:?}") }
}

/// The indices of the events in a Kinesis record, with their hash keys.
pub(super) fn events(record: &PutRecord) -> Vec<(usize, HashKey)> {
    let index = |data: &Bytes| std::str::from_utf8(data).unwrap().split(';').next().unwrap().parse().unwrap();
    match deaggregate(&record.data, None) {
        Deaggregated::Aggregated { records, .. } => {
            records.iter().map(|it| (index(&it.data), it.hash_key().unwrap())).collect()
        }
        Deaggregated::Plain => {
            let key = record.explicit_hash_key.unwrap_or(HashKey::of_partition_key(&record.partition_key));
            vec![(index(&record.data), key)]
        }
        Deaggregated::Broken(error) => panic!("{error}"),
    }
}
