//! A stream and a lease table in memory, under tokio's clock, and networks that fail on demand between them and a
//! consumer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_kinesis::consumer::World;
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::lease::{Lease, LeaseWrite, NewLease};
use kinesis_lease::store::{Created, LeaseStore, StoreError, Written};
use kinesis_lease::stream::{
    ChildShard, RawRecord, RecordsPage, ShardIterator, StartAt, StreamApi, StreamError, StreamErrorKind,
};
use kinesis_local::model::{
    CreateStreamRequest, GetRecordsRequest, GetShardIteratorRequest, Kinesis, KinesisError,
    ListShardsRequest, MergeShardsRequest, PutRecordRequest, PutRecordsEntry, SplitShardRequest,
    StartingPosition, Timestamp,
};
use kinesis_record::{Shard, ShardId};
use tokio::time::Instant;

pub(crate) const STREAM: &str = "orders";

/// The stream and the table, shared by all processes.
#[derive(Clone)]
pub(crate) struct Place {
    begin: Instant,
    begin_millis: u64,
    kinesis: Arc<Mutex<Kinesis>>,
    rows: Arc<Mutex<BTreeMap<ShardId, Lease>>>,
}

impl Place {
    pub(crate) fn new(shards: u32) -> Self {
        let begin_millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let (kinesis, rows) = (Arc::default(), Arc::default());
        let place = Self { begin: Instant::now(), begin_millis, kinesis, rows };
        let create = CreateStreamRequest {
            stream_name: STREAM.to_owned(),
            shard_count: Some(shards),
            ..CreateStreamRequest::default()
        };
        place.kinesis().create_stream(create, place.now()).unwrap();
        place
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.begin_millis + self.begin.elapsed().as_millis() as u64)
    }

    fn kinesis(&self) -> MutexGuard<'_, Kinesis> {
        self.kinesis.lock().unwrap()
    }

    pub(crate) fn rows(&self) -> MutexGuard<'_, BTreeMap<ShardId, Lease>> {
        self.rows.lock().unwrap()
    }

    pub(crate) fn put(&self, key: &str, payload: impl Into<String>) {
        let payload = payload.into().into_bytes();
        let request = PutRecordRequest {
            stream: STREAM.into(),
            record: PutRecordsEntry::new(key, payload),
            sequence_number_for_ordering: None,
        };
        self.kinesis().put_record(request, self.now()).unwrap();
    }

    pub(crate) fn shards(&self) -> Vec<Shard> {
        let request = ListShardsRequest { stream: STREAM.into(), ..ListShardsRequest::default() };
        self.kinesis().list_shards(request, self.now()).unwrap().shards
    }

    pub(crate) fn split(&self, shard: &Shard) {
        let middle = shard.hash_range.start.0 + (shard.hash_range.end.0 - shard.hash_range.start.0) / 2 + 1;
        let request = SplitShardRequest {
            stream: STREAM.into(),
            shard_to_split: shard.id.clone(),
            new_starting_hash_key: middle.to_string(),
        };
        self.kinesis().split_shard(request, self.now()).unwrap();
    }

    pub(crate) fn merge(&self, first: &Shard, second: &Shard) {
        let request = MergeShardsRequest {
            stream: STREAM.into(),
            shard_to_merge: first.id.clone(),
            adjacent_shard_to_merge: second.id.clone(),
        };
        self.kinesis().merge_shards(request, self.now()).unwrap();
    }

    /// The world as one process sees it, and the network that it sees it through.
    pub(crate) fn connect(&self) -> (World, Network) {
        let network = Network::default();
        let link = Link { place: self.clone(), network: network.clone() };
        (World { stream: Arc::new(link.clone()), leases: Arc::new(link) }, network)
    }
}

/// What happens to a call on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: it is answered.
    None,
    /// It is refused for throttling.
    Throttled,
    /// It is applied, and the reply is lost.
    ReplyLost,
    /// It does not arrive.
    RequestLost,
    /// The client panics.
    Panic,
}

type Rule = dyn FnMut(&str) -> Fault + Send;

/// A process's way to the services: counts calls, and lets them fail as told.
#[derive(Clone)]
pub(crate) struct Network {
    calls: Arc<Mutex<BTreeMap<&'static str, u64>>>,
    rule: Arc<Mutex<Box<Rule>>>,
}

impl Default for Network {
    fn default() -> Self {
        Self { calls: Arc::default(), rule: Arc::new(Mutex::new(Box::new(|_| Fault::None))) }
    }
}

impl Network {
    /// From now on each call, by its name, meets the fault that `rule` says.
    pub(crate) fn fail(&self, rule: impl FnMut(&str) -> Fault + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    pub(crate) fn heal(&self) {
        self.fail(|_| Fault::None);
    }

    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.calls.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

/// How long a reply takes, and how long one that never comes is waited for.
const LATENCY: Duration = Duration::from_millis(5);
const TIME_OUT: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Link {
    place: Place,
    network: Network,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Link {
    async fn call<T>(&self, name: &'static str, apply: impl FnOnce(&Place) -> T) -> Result<T, Fault> {
        *self.network.calls.lock().unwrap().entry(name).or_default() += 1;
        let fault = (self.network.rule.lock().unwrap())(name);
        tokio::time::sleep(LATENCY).await;
        match fault {
            Fault::None => return Ok(apply(&self.place)),
            Fault::Throttled => return Err(fault),
            Fault::ReplyLost => drop(apply(&self.place)),
            Fault::RequestLost => {}
            Fault::Panic => panic!("a bug in a client"),
        }
        tokio::time::sleep(TIME_OUT).await;
        Err(fault)
    }

    async fn table<T>(
        &self,
        name: &'static str,
        apply: impl FnOnce(&mut BTreeMap<ShardId, Lease>) -> T,
    ) -> Result<T, StoreError> {
        self.call(name, |place| apply(&mut place.rows())).await.map_err(|fault| match fault {
            Fault::Throttled => StoreError::Throttled(format!("{name}: throttled")),
            _ => StoreError::Unknown(format!("{name}: timed out")),
        })
    }

    async fn stream<T>(
        &self,
        name: &'static str,
        apply: impl FnOnce(&mut Kinesis, Timestamp) -> Result<T, KinesisError>,
    ) -> Result<T, StreamError> {
        let error = |kind, message: String| StreamError { kind, message };
        match self.call(name, |place| apply(&mut place.kinesis(), place.now())).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(refusal)) => Err(error(
                match refusal {
                    KinesisError::ResourceNotFound(_) => StreamErrorKind::NotFound,
                    KinesisError::ExpiredIterator(_) => StreamErrorKind::ExpiredIterator,
                    KinesisError::InvalidArgument(_) => StreamErrorKind::InvalidArgument,
                    _ => StreamErrorKind::Unavailable,
                },
                refusal.to_string(),
            )),
            Err(Fault::Throttled) => Err(error(StreamErrorKind::Throttled, format!("{name}: throttled"))),
            Err(_) => Err(error(StreamErrorKind::Unavailable, format!("{name}: timed out"))),
        }
    }
}

impl LeaseStore for Link {
    fn name(&self) -> &str {
        "test-orders"
    }

    fn ensure(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.table("ensure", |_| ()).boxed()
    }

    fn scan(&self) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>> {
        self.table("scan", |rows| rows.values().cloned().collect()).boxed()
    }

    fn read<'a>(&'a self, shard: &'a ShardId) -> BoxFuture<'a, Result<Option<Lease>, StoreError>> {
        self.table("read", |rows| rows.get(shard).cloned()).boxed()
    }

    fn create<'a>(&'a self, lease: &'a NewLease) -> BoxFuture<'a, Result<Created, StoreError>> {
        self.table("create", |rows| {
            if rows.contains_key(&lease.shard) {
                return Created::Existed;
            }
            rows.insert(lease.shard.clone(), lease.clone().into());
            Created::New
        })
        .boxed()
    }

    fn write<'a>(&'a self, write: &'a LeaseWrite) -> BoxFuture<'a, Result<Written, StoreError>> {
        self.table("write", |rows| {
            let Some(row) = rows.get_mut(&write.shard) else { return Written::Refused(None) };
            if row.counter != write.expected_counter {
                return Written::Refused(Some(Box::new(row.clone())));
            }
            row.counter += 1;
            write.change.apply_to(row);
            Written::Applied
        })
        .boxed()
    }
}

impl StreamApi for Link {
    fn name(&self) -> &str {
        STREAM
    }

    fn list_shards(&self) -> BoxFuture<'_, Result<Vec<Shard>, StreamError>> {
        let request = ListShardsRequest { stream: STREAM.into(), ..ListShardsRequest::default() };
        self.stream("ListShards", |kinesis, now| Ok(kinesis.list_shards(request, now)?.shards)).boxed()
    }

    fn shard_iterator<'a>(
        &'a self,
        shard: &'a ShardId,
        start: &'a StartAt,
    ) -> BoxFuture<'a, Result<ShardIterator, StreamError>> {
        let position = match start {
            StartAt::TrimHorizon => StartingPosition::TrimHorizon,
            StartAt::Latest => StartingPosition::Latest,
            StartAt::Timestamp(instant) => {
                let millis = instant.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
                StartingPosition::AtTimestamp(Timestamp::from_millis(millis))
            }
            StartAt::At(sequence) => StartingPosition::AtSequenceNumber(sequence.to_string()),
            StartAt::After(sequence) => StartingPosition::AfterSequenceNumber(sequence.to_string()),
        };
        let request = GetShardIteratorRequest { stream: STREAM.into(), shard_id: shard.clone(), position };
        self.stream("GetShardIterator", |kinesis, now| {
            kinesis.get_shard_iterator(request, now).map(ShardIterator)
        })
        .boxed()
    }

    fn get_records<'a>(
        &'a self,
        iterator: &'a ShardIterator,
        limit: u32,
    ) -> BoxFuture<'a, Result<RecordsPage, StreamError>> {
        let request = GetRecordsRequest {
            shard_iterator: iterator.0.clone(),
            stream: STREAM.into(),
            limit: Some(limit),
        };
        self.stream("GetRecords", |kinesis, now| {
            let reply = kinesis.get_records(request, now)?;
            Ok(RecordsPage {
                records: reply.records.into_iter().map(raw_record).collect(),
                next: reply.next_shard_iterator.map(ShardIterator),
                behind: Duration::from_millis(reply.millis_behind_latest),
                children: reply.child_shards.into_iter().map(child).collect(),
            })
        })
        .boxed()
    }
}

fn raw_record(record: kinesis_local::model::Record) -> RawRecord {
    RawRecord {
        sequence: record.sequence_number,
        partition_key: record.partition_key.map(|key| key.to_string()),
        data: record.data,
        arrival: Some(UNIX_EPOCH + Duration::from_millis(record.arrival.as_millis())),
    }
}

fn child(child: kinesis_local::model::ChildShard) -> ChildShard {
    ChildShard { id: child.shard_id, parents: child.parent_shards, hash_range: child.hash_range }
}
