//! A stream and a lease table in memory, under tokio's clock, and networks that fail on demand between them and a
//! consumer.

mod link;
mod network;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_kinesis::consumer::World;
use futures::future::BoxFuture;
use kinesis_lease::lease::{Lease, NewLease};
use kinesis_local::model::{
    CreateStreamRequest, Kinesis, KinesisError, ListShardsRequest, MergeShardsRequest, PutRecordRequest,
    PutRecordResponse, PutRecordsEntry, Settings, SplitShardRequest, Timestamp, UpdateShardCountRequest,
};
use kinesis_record::{Checkpoint, HashKey, SequenceNumber, Shard, ShardId};
use tokio::sync::mpsc;
use tokio::time::Instant;

use link::Link;
pub(crate) use network::{Call, Fault, Network, Twist};

pub(crate) const STREAM: &str = "orders";

/// The stream and the table, shared by all processes.
#[derive(Clone)]
pub(crate) struct Place {
    begin: Instant,
    begin_millis: u64,
    kinesis: Arc<Mutex<Kinesis>>,
    rows: Arc<Mutex<Rows>>,
    /// The shards whose rows cannot be read.
    unreadable: Arc<Mutex<BTreeSet<ShardId>>>,
    iterators: Arc<Mutex<Iterators>>,
    /// What goes on outside of all processes.
    outside: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    records: Arc<Mutex<Record>>,
}

type Rows = BTreeMap<ShardId, Lease>;

/// What is known of iterators.
#[derive(Default)]
struct Iterators {
    /// The shards that they are for.
    shards: BTreeMap<String, ShardId>,
    expired: BTreeSet<String>,
    /// The shards whose last page had no iterator to go on with.
    severed: BTreeSet<ShardId>,
    /// Those that bring an empty page, with the one that leads on from there.
    hollow: BTreeMap<String, String>,
    /// What those that lead on from an empty page stand for.
    meant: BTreeMap<String, String>,
}

type Watcher = dyn FnMut(&str, Option<&Lease>, Option<&Lease>) + Send;

/// What is kept of the changes of rows, on demand.
#[derive(Default)]
struct Record {
    watcher: Option<Box<Watcher>>,
    /// The table as it was, and until when.
    past: VecDeque<(Instant, Rows)>,
}

/// How old a scan may be.
const OLDEST: Duration = Duration::from_secs(3);

impl Place {
    pub(crate) fn new(shards: u32) -> Self {
        Self::with(shards, Settings::default())
    }

    pub(crate) fn with(shards: u32, settings: Settings) -> Self {
        Self::behind(shards, settings, Duration::ZERO)
    }

    /// A stream whose clock is so far behind that of the host.
    pub(crate) fn behind(shards: u32, settings: Settings, behind: Duration) -> Self {
        Self::beginning(shards, settings, SystemTime::now() - behind)
    }

    /// A stream whose clock shows this time now.
    pub(crate) fn beginning(shards: u32, settings: Settings, time: SystemTime) -> Self {
        let (outside, mut tasks) = mpsc::unbounded_channel();
        actix::spawn(async move {
            while let Some(task) = tasks.recv().await {
                actix::spawn(task);
            }
        });
        let place = Self {
            begin: Instant::now(),
            begin_millis: time.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64,
            kinesis: Arc::new(Mutex::new(Kinesis::new(settings))),
            rows: Arc::default(),
            unreadable: Arc::default(),
            iterators: Arc::default(),
            outside,
            records: Arc::default(),
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

    /// Changes a row as a worker with rules of its own does: if its counter is as expected, which is raised.
    pub(crate) fn change_as(
        &self,
        by: &str,
        shard: &ShardId,
        counter: i64,
        change: impl FnOnce(&mut Lease),
    ) -> bool {
        self.change(by, shard, |rows| {
            let Some(row) = rows.get_mut(shard).filter(|row| row.counter == counter) else { return false };
            row.counter += 1;
            change(row);
            true
        })
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
        self.put_bytes(key, payload.into().into_bytes()).unwrap().sequence_number
    }

    /// Puts a record. The stream refuses it while it is being resharded.
    pub(crate) fn put_bytes(&self, key: &str, data: Vec<u8>) -> Result<PutRecordResponse, KinesisError> {
        let request = PutRecordRequest {
            stream: STREAM.into(),
            record: PutRecordsEntry::new(key, data),
            sequence_number_for_ordering: None,
        };
        self.kinesis().put_record(request, self.now())
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
        self.connect_as("")
    }

    /// The same for a process of this name.
    pub(crate) fn connect_as(&self, name: &str) -> (World, Network) {
        let network = Network::default();
        let link = Link::new(self.clone(), network.clone(), name);
        (World { stream: Arc::new(link.clone()), leases: Arc::new(link) }, network)
    }

    /// From now on `watcher` sees each change of a row: the name of the process, the row before and after. Scans can be
    /// stale from now on.
    pub(crate) fn watch_rows(
        &self,
        watcher: impl FnMut(&str, Option<&Lease>, Option<&Lease>) + Send + 'static,
    ) {
        self.records.lock().unwrap().watcher = Some(Box::new(watcher));
    }

    /// Changes the row of a shard on behalf of a process.
    fn change<T>(&self, by: &str, shard: &ShardId, change: impl FnOnce(&mut Rows) -> T) -> T {
        let mut rows = self.rows();
        let mut record = self.records.lock().unwrap();
        if record.watcher.is_none() {
            return change(&mut rows);
        }
        let before = rows.clone();
        let outcome = change(&mut rows);
        if before.get(shard) != rows.get(shard) {
            if let Some(watcher) = &mut record.watcher {
                watcher(by, before.get(shard), rows.get(shard));
            }
            let now = Instant::now();
            while record.past.pop_front_if(|(until, _)| *until + OLDEST < now).is_some() {}
            record.past.push_back((now, before));
        }
        outcome
    }

    /// The table as it was so long ago, or is.
    fn rows_before(&self, age: Duration) -> Vec<Lease> {
        let now = Instant::now();
        let record = self.records.lock().unwrap();
        let old = record.past.iter().find(|(until, _)| *until + age.min(OLDEST) > now);
        let rows = |rows: &Rows| rows.values().cloned().collect();
        old.map_or_else(|| rows(&self.rows()), |(_, old)| rows(old))
    }
}
