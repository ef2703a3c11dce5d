//! A stream and a lease table in memory, under tokio's clock, and networks that fail on demand between them and a
//! consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_kinesis::consumer::World;
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::lease::{Lease, LeaseWrite, NewLease};
use kinesis_lease::store::{Created, Deleted, LeaseStore, Scan, StoreError, Written};
use kinesis_lease::stream::{
    ChildShard, RawRecord, RecordsPage, ShardIterator, StartAt, StreamApi, StreamError, StreamErrorKind,
};
use kinesis_local::model::{
    CreateStreamRequest, GetRecordsRequest, GetShardIteratorRequest, Kinesis, KinesisError,
    ListShardsRequest, MergeShardsRequest, PutRecordRequest, PutRecordsEntry, Settings, SplitShardRequest,
    StartingPosition, Timestamp, UpdateShardCountRequest,
};
use kinesis_record::{Checkpoint, HashKey, SequenceNumber, Shard, ShardId};
use tokio::time::Instant;

pub(crate) const STREAM: &str = "orders";

/// The stream and the table, shared by all processes.
#[derive(Clone)]
pub(crate) struct Place {
    begin: Instant,
    begin_millis: u64,
    kinesis: Arc<Mutex<Kinesis>>,
    rows: Arc<Mutex<BTreeMap<ShardId, Lease>>>,
    /// The shards whose rows cannot be read.
    unreadable: Arc<Mutex<BTreeSet<ShardId>>>,
    /// The shards that iterators are for.
    iterators: Arc<Mutex<BTreeMap<String, ShardId>>>,
}

impl Place {
    pub(crate) fn new(shards: u32) -> Self {
        Self::with(shards, Settings::default())
    }

    pub(crate) fn with(shards: u32, settings: Settings) -> Self {
        Self::behind(shards, settings, Duration::ZERO)
    }

    /// A stream whose clock is so far behind that of the host.
    pub(crate) fn behind(shards: u32, settings: Settings, behind: Duration) -> Self {
        let host = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let place = Self {
            begin: Instant::now(),
            begin_millis: (host - behind).as_millis() as u64,
            kinesis: Arc::new(Mutex::new(Kinesis::new(settings))),
            rows: Arc::default(),
            unreadable: Arc::default(),
            iterators: Arc::default(),
        };
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

    /// Makes the rows of these shards such as no worker can read, and those of all others such as all can.
    pub(crate) fn make_unreadable(&self, shards: impl IntoIterator<Item = ShardId>) {
        *self.unreadable.lock().unwrap() = shards.into_iter().collect();
    }

    fn is_unreadable(&self, shard: &ShardId) -> bool {
        self.unreadable.lock().unwrap().contains(shard)
    }

    /// The one row of a table that has one.
    pub(crate) fn row(&self) -> Lease {
        self.rows().values().next().unwrap().clone()
    }

    pub(crate) fn checkpoint(&self, shard: &ShardId) -> Option<String> {
        self.rows().get(shard).map(|row| row.checkpoint.text().to_owned())
    }

    /// Makes the row of a shard as a worker of the past left it.
    pub(crate) fn seed(&self, shard: &Shard, owner: Option<&str>, checkpoint: Checkpoint) {
        let mut row = Lease::from(NewLease::new(shard.into(), checkpoint));
        row.owner = owner.map(Into::into);
        row.counter = 7;
        self.rows().insert(row.shard.clone(), row);
    }

    /// Takes a lease away as another worker does.
    pub(crate) fn steal(&self, shard: &ShardId) {
        let mut rows = self.rows();
        let row = rows.get_mut(shard).unwrap();
        row.owner = Some("thief".into());
        row.counter += 1;
    }

    /// A partition key whose records go to the shard.
    pub(crate) fn key_of(&self, shard: &ShardId) -> String {
        let shards = self.shards();
        let range = shards.iter().find(|known| known.id == *shard).unwrap().hash_range;
        let fits = |key: &String| range.contains(HashKey::of_partition_key(key));
        (0..).map(|index| format!("key-{index}")).find(fits).unwrap()
    }

    pub(crate) fn open_shards(&self) -> Vec<Shard> {
        let mut open: Vec<_> = self.shards().into_iter().filter(Shard::is_open).collect();
        open.sort_by_key(|shard| shard.hash_range.start);
        open
    }

    pub(crate) fn update_shard_count(&self, target_shard_count: u32) {
        let request = UpdateShardCountRequest { stream: STREAM.into(), target_shard_count };
        self.kinesis().update_shard_count(request, self.now()).unwrap();
    }

    pub(crate) fn delete_stream(&self) {
        self.kinesis().delete_stream(&STREAM.into(), self.now()).unwrap();
    }

    pub(crate) fn put(&self, key: &str, payload: impl Into<String>) -> SequenceNumber {
        let payload = payload.into().into_bytes();
        let request = PutRecordRequest {
            stream: STREAM.into(),
            record: PutRecordsEntry::new(key, payload),
            sequence_number_for_ordering: None,
        };
        self.kinesis().put_record(request, self.now()).unwrap().sequence_number
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
    /// It is not answered, which shows after the longest time that a call may take.
    Hung,
    /// It arrives so much later, when nobody waits for it any more. For writes to the table.
    Late(Duration),
    /// It is refused for missing permission or bad credentials.
    Denied,
    /// It is refused since the stream or the table does not exist.
    Missing,
    /// It is refused for the stream's encryption key.
    Encryption,
    /// It is refused for its arguments.
    Invalid,
    /// The client panics.
    Panic,
}

/// A call on its way.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// The shard that it is about.
    pub(crate) shard: Option<ShardId>,
    pub(crate) at: Instant,
}

type Rule = dyn FnMut(&str) -> Fault + Send;
type Edit = dyn Fn(Vec<Shard>) -> Vec<Shard> + Send;

/// A process's way to the services: notes calls, and lets them fail as told.
#[derive(Clone)]
pub(crate) struct Network {
    calls: Arc<Mutex<Vec<Call>>>,
    rule: Arc<Mutex<Box<Rule>>>,
    edit_list: Arc<Mutex<Box<Edit>>>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            calls: Arc::default(),
            rule: Arc::new(Mutex::new(Box::new(|_| Fault::None))),
            edit_list: Arc::new(Mutex::new(Box::new(|shards| shards))),
        }
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

    /// From now on lists of shards are as `edit` makes them.
    pub(crate) fn edit_list(&self, edit: impl Fn(Vec<Shard>) -> Vec<Shard> + Send + 'static) {
        *self.edit_list.lock().unwrap() = Box::new(edit);
    }

    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.all_calls().iter().filter(|call| call.name == name).count() as u64
    }

    pub(crate) fn all_calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// The calls since the last time, by their names.
    pub(crate) fn take_calls(&self) -> BTreeMap<&'static str, usize> {
        let mut by_name = BTreeMap::new();
        for call in std::mem::take(&mut *self.calls.lock().unwrap()) {
            *by_name.entry(call.name).or_default() += 1;
        }
        by_name
    }
}

/// How long a reply takes, and how long one that never comes is waited for.
const LATENCY: Duration = Duration::from_millis(5);
const TIME_OUT: Duration = Duration::from_secs(1);

/// The same for a call that hangs, under the default settings: a call to the stream has `request-timeout`, one to the
/// table a third of `failover-time`.
const LONGEST_READ: Duration = Duration::from_secs(30);
const LONGEST_WRITE: Duration = Duration::from_millis(3_333);

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
    async fn call<T>(
        &self,
        (name, shard): Name<'_>,
        apply: impl FnOnce(&Place) -> T,
        longest: Duration,
    ) -> Result<T, Fault> {
        let call = Call { name, shard: shard.cloned(), at: Instant::now() };
        let fault = (self.network.rule.lock().unwrap())(name);
        self.network.calls.lock().unwrap().push(call);
        tokio::time::sleep(LATENCY).await;
        match fault {
            Fault::None => return Ok(apply(&self.place)),
            Fault::Throttled | Fault::Denied | Fault::Missing | Fault::Encryption | Fault::Invalid => {
                return Err(fault);
            }
            Fault::ReplyLost => drop(apply(&self.place)),
            Fault::RequestLost | Fault::Late(_) => {}
            Fault::Hung => {
                tokio::time::sleep(longest).await;
                return Err(fault);
            }
            Fault::Panic => panic!("a bug in a client"),
        }
        tokio::time::sleep(TIME_OUT).await;
        Err(fault)
    }

    async fn table<T>(
        &self,
        name: Name<'_>,
        apply: impl FnOnce(&mut BTreeMap<ShardId, Lease>) -> T,
    ) -> Result<T, StoreError> {
        to_store_error(name.0, self.call(name, |place| apply(&mut place.rows()), LONGEST_WRITE).await)
    }

    async fn stream<T>(
        &self,
        name: Name<'_>,
        apply: impl FnOnce(&mut Kinesis, Timestamp) -> Result<T, KinesisError>,
    ) -> Result<T, StreamError> {
        let error = |kind, message: String| StreamError { kind, message };
        let answer = self.call(name, |place| apply(&mut place.kinesis(), place.now()), LONGEST_READ).await;
        let (name, _) = name;
        match answer {
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
            Err(fault) => {
                let kind = match fault {
                    Fault::Throttled => StreamErrorKind::Throttled,
                    Fault::Denied => StreamErrorKind::Denied,
                    Fault::Missing => StreamErrorKind::NotFound,
                    Fault::Encryption => StreamErrorKind::Encryption,
                    Fault::Invalid => StreamErrorKind::InvalidArgument,
                    _ => StreamErrorKind::Unavailable,
                };
                Err(error(kind, format!("{name}: {fault:?}")))
            }
        }
    }

    fn shard_of(&self, iterator: &ShardIterator) -> Option<ShardId> {
        self.place.iterators.lock().unwrap().get(&iterator.0).cloned()
    }

    /// Applies a write after a while, whoever waits for it.
    fn write_later(&self, write: LeaseWrite, after: Duration) {
        let place = self.place.clone();
        actix::spawn(async move {
            tokio::time::sleep(after).await;
            write.apply_to(place.rows().get_mut(&write.shard));
        });
    }
}

/// The name of a call, and the shard that it is about.
type Name<'a> = (&'static str, Option<&'a ShardId>);

fn to_store_error<T>(name: &str, answer: Result<T, Fault>) -> Result<T, StoreError> {
    answer.map_err(|fault| match fault {
        Fault::Throttled => StoreError::Throttled(format!("{name}: throttled")),
        Fault::Missing => StoreError::TableMissing(format!("{name}: no such table")),
        Fault::Denied | Fault::Invalid => StoreError::Refused(format!("{name}: refused")),
        _ => StoreError::Unknown(format!("{name}: timed out")),
    })
}

fn unreadable() -> StoreError {
    StoreError::Unreadable("the row is no lease".to_owned())
}

impl LeaseStore for Link {
    fn name(&self) -> &str {
        "test-orders"
    }

    fn ensure(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.table(("ensure", None), |_| ()).boxed()
    }

    fn scan(&self) -> BoxFuture<'_, Result<Scan, StoreError>> {
        self.table(("scan", None), |rows| {
            let (unreadable, leases) =
                rows.values().cloned().partition(|row: &Lease| self.place.is_unreadable(&row.shard));
            let unreadable: Vec<Lease> = unreadable;
            Scan { leases, unreadable: unreadable.into_iter().map(|row| row.shard).collect() }
        })
        .boxed()
    }

    fn read<'a>(&'a self, shard: &'a ShardId) -> BoxFuture<'a, Result<Option<Lease>, StoreError>> {
        async move {
            let row = self.table(("read", Some(shard)), |rows| rows.get(shard).cloned()).await;
            if self.place.is_unreadable(shard) { Err(unreadable()) } else { row }
        }
        .boxed()
    }

    fn create<'a>(&'a self, lease: &'a NewLease) -> BoxFuture<'a, Result<Created, StoreError>> {
        self.table(("create", Some(&lease.shard)), |rows| {
            if rows.contains_key(&lease.shard) {
                return Created::Existed;
            }
            rows.insert(lease.shard.clone(), lease.clone().into());
            Created::New
        })
        .boxed()
    }

    fn write<'a>(&'a self, write: &'a LeaseWrite) -> BoxFuture<'a, Result<Written, StoreError>> {
        async move {
            let name = ("write", Some(&write.shard));
            let answer = self
                .call(name, |place| write.apply_to(place.rows().get_mut(&write.shard)), LONGEST_WRITE)
                .await;
            if let Err(Fault::Late(after)) = answer {
                self.write_later(write.clone(), after);
            }
            let written = to_store_error("write", answer);
            if self.place.is_unreadable(&write.shard) { written.and(Err(unreadable())) } else { written }
        }
        .boxed()
    }

    fn delete<'a>(
        &'a self,
        shard: &'a ShardId,
        expected_counter: i64,
    ) -> BoxFuture<'a, Result<Deleted, StoreError>> {
        self.table(("delete", Some(shard)), move |rows| {
            let is_fit = |row: &Lease| row.counter == expected_counter && row.is_finished();
            if !rows.get(shard).is_some_and(is_fit) {
                return Deleted::Refused;
            }
            rows.remove(shard);
            Deleted::Gone
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
        async move {
            let list = |kinesis: &mut Kinesis, now| Ok(kinesis.list_shards(request, now)?.shards);
            let shards = self.stream(("ListShards", None), list).await?;
            Ok((self.network.edit_list.lock().unwrap())(shards))
        }
        .boxed()
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
        self.stream(("GetShardIterator", Some(shard)), |kinesis, now| {
            let iterator = kinesis.get_shard_iterator(request, now)?;
            self.place.iterators.lock().unwrap().insert(iterator.clone(), shard.clone());
            Ok(ShardIterator(iterator))
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
        async move {
            let shard = self.shard_of(iterator);
            let read = |kinesis: &mut Kinesis, now| {
                let reply = kinesis.get_records(request, now)?;
                if let (Some(next), Some(shard)) = (&reply.next_shard_iterator, &shard) {
                    let mut iterators = self.place.iterators.lock().unwrap();
                    iterators.remove(&iterator.0);
                    iterators.insert(next.clone(), shard.clone());
                }
                Ok(RecordsPage {
                    records: reply.records.into_iter().map(raw_record).collect(),
                    next: reply.next_shard_iterator.map(ShardIterator),
                    behind: Duration::from_millis(reply.millis_behind_latest),
                    children: reply.child_shards.into_iter().map(child).collect(),
                })
            };
            self.stream(("GetRecords", shard.as_ref()), read).await
        }
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
