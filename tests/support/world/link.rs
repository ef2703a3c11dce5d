//! The services as a process calls them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::lease::{Lease, LeaseWrite, NewLease};
use kinesis_lease::store::{Created, Deleted, LeaseStore, Scan, StoreError, Written};
use kinesis_lease::stream::{
    ChildShard, RawRecord, RecordsPage, ShardIterator, StartAt, StreamApi, StreamError, StreamErrorKind,
};
use kinesis_local::model::{
    GetRecordsRequest, GetShardIteratorRequest, Kinesis, KinesisError, ListShardsRequest, StartingPosition,
    Timestamp,
};
use kinesis_record::{Shard, ShardId};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::network::{Call, Fault, Network, Twist};
use super::{Iterators, Place, Rows, STREAM};

/// How long a reply takes, and how long one that never comes is waited for.
const LATENCY: Duration = Duration::from_millis(5);
const TIME_OUT: Duration = Duration::from_secs(1);

/// The same for a call that hangs, under the default settings: a call to the stream has `request-timeout`, one to the
/// table a third of `failover-time`.
const LONGEST_READ: Duration = Duration::from_secs(30);
const LONGEST_WRITE: Duration = Duration::from_millis(3_333);

/// What a page without records says of how far it is behind.
const HOLLOW_BEHIND: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub(super) struct Link {
    place: Place,
    network: Network,
    /// The process.
    name: Arc<str>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Link {
    pub(super) fn new(place: Place, network: Network, name: &str) -> Self {
        Self { place, network, name: name.into() }
    }

    async fn call<T: Send + 'static>(
        &self,
        (name, shard): Name<'_>,
        apply: impl FnOnce(&Place, Twist) -> T + Send + 'static,
        longest: Duration,
    ) -> Result<T, Fault> {
        let call = Call { name, shard: shard.cloned(), at: Instant::now() };
        let fault = (self.network.rule.lock().unwrap())(name);
        self.network.calls.lock().unwrap().push(call);
        if let Fault::Slow { there, back, twist } = fault {
            let reply = self.outside(there, back, move |place| apply(place, twist));
            return match timeout(longest, reply).await {
                Ok(Ok(reply)) => Ok(reply),
                _ => Err(Fault::Hung),
            };
        }
        sleep(LATENCY).await;
        match fault {
            Fault::None => return Ok(apply(&self.place, Twist::Plain)),
            Fault::Throttled | Fault::Denied | Fault::Missing | Fault::Encryption | Fault::Invalid => {
                return Err(fault);
            }
            Fault::ReplyLost => drop(apply(&self.place, Twist::Plain)),
            Fault::RequestLost | Fault::Slow { .. } => {}
            Fault::Late(after) => {
                drop(self.outside(TIME_OUT + after, Duration::ZERO, |place| apply(place, Twist::Plain)));
            }
            Fault::Hung => {
                sleep(longest).await;
                return Err(fault);
            }
            Fault::Panic => panic!("a bug in a client"),
        }
        sleep(TIME_OUT).await;
        Err(fault)
    }

    /// Does something to the services after a while, whatever becomes of the process.
    fn outside<T: Send + 'static>(
        &self,
        there: Duration,
        back: Duration,
        apply: impl FnOnce(&Place) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (replied, reply) = oneshot::channel();
        let place = self.place.clone();
        let on_its_way = async move {
            sleep(there).await;
            let outcome = apply(&place);
            sleep(back).await;
            let _ = replied.send(outcome);
        };
        self.place.outside.send(on_its_way.boxed()).unwrap();
        reply
    }

    async fn table<T: Send + 'static>(
        &self,
        name: Name<'_>,
        apply: impl FnOnce(&Place, Twist) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        to_store_error(name.0, self.call(name, apply, LONGEST_WRITE).await)
    }

    /// Changes the row of a shard.
    async fn change<T: Send + 'static>(
        &self,
        name: &'static str,
        shard: &ShardId,
        change: impl FnOnce(&mut Rows) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (by, of_shard) = (Arc::clone(&self.name), shard.clone());
        self.table((name, Some(shard)), move |place, _| place.change(&by, &of_shard, change)).await
    }

    async fn stream<T>(
        &self,
        name: Name<'_>,
        apply: impl FnOnce(&Place, &mut Kinesis, Twist) -> Result<T, KinesisError> + Send + 'static,
    ) -> Result<T, StreamError>
    where
        T: Send + 'static,
    {
        let error = |kind, message: String| StreamError { kind, message };
        let apply = |place: &Place, twist| apply(place, &mut place.kinesis(), twist);
        let answer = self.call(name, apply, LONGEST_READ).await;
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
        self.place.iterators.lock().unwrap().shards.get(&iterator.0).cloned()
    }
}

impl Iterators {
    /// Takes note of an iterator that leads on from another one.
    fn follow(&mut self, from: &str, next: &str) {
        if let Some(shard) = self.shards.get(from).cloned() {
            self.shards.insert(next.to_owned(), shard);
        }
    }

    /// An iterator that always brings an empty page leads on to this one, which stands for what it stood for.
    fn lead_on(&mut self, from: &str) -> String {
        if let Some(next) = self.hollow.get(from) {
            return next.clone();
        }
        let next = format!("hollow-{}", self.hollow.len());
        self.hollow.insert(from.to_owned(), next.clone());
        let meant = self.meant.get(from).cloned().unwrap_or_else(|| from.to_owned());
        self.meant.insert(next.clone(), meant);
        self.follow(from, &next);
        next
    }
}

/// GetRecords.
fn read(
    place: &Place,
    kinesis: &mut Kinesis,
    iterator: &str,
    limit: u32,
    twist: Twist,
) -> Result<RecordsPage, KinesisError> {
    let mut iterators = place.iterators.lock().unwrap();
    if twist == Twist::Expired {
        iterators.expired.insert(iterator.to_owned());
    }
    if iterators.expired.contains(iterator) {
        return Err(KinesisError::ExpiredIterator("it has expired".to_owned()));
    }
    if twist == Twist::Empty || iterators.hollow.contains_key(iterator) {
        let next = Some(ShardIterator(iterators.lead_on(iterator)));
        return Ok(RecordsPage { records: Vec::new(), next, behind: HOLLOW_BEHIND, children: Vec::new() });
    }
    if let Some(shard) = iterators.shards.get(iterator).cloned() {
        let is_severed = iterators.severed.remove(&shard);
        if twist == Twist::Severed && !is_severed {
            iterators.severed.insert(shard);
            return Ok(RecordsPage {
                records: Vec::new(),
                next: None,
                behind: HOLLOW_BEHIND,
                children: Vec::new(),
            });
        }
    }
    let meant = iterators.meant.get(iterator).cloned().unwrap_or_else(|| iterator.to_owned());
    let request = GetRecordsRequest { shard_iterator: meant, stream: STREAM.into(), limit: Some(limit) };
    let reply = kinesis.get_records(request, place.now())?;
    if let Some(next) = &reply.next_shard_iterator {
        iterators.follow(iterator, next);
        iterators.shards.remove(iterator);
    }
    Ok(RecordsPage {
        records: reply.records.into_iter().map(raw_record).collect(),
        next: reply.next_shard_iterator.map(ShardIterator),
        behind: Duration::from_millis(reply.millis_behind_latest),
        children: reply.child_shards.into_iter().map(child).collect(),
    })
}

/// A part of a list, without an open shard at least.
fn part_of(mut shards: Vec<Shard>, seed: u64) -> Vec<Shard> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let open: Vec<_> = shards.iter().filter(|shard| shard.is_open()).map(|shard| shard.id.clone()).collect();
    let missing = chance.choice(open);
    shards.retain(|shard| Some(&shard.id) != missing.as_ref() && chance.bool());
    shards
}

/// The name of a call, and the shard that it is about.
type Name<'a> = (&'static str, Option<&'a ShardId>);

impl Link {
    /// What has become of a row that cannot be read is not told.
    async fn if_readable<T>(
        &self,
        shard: &ShardId,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let outcome = call.await?;
        if self.place.is_unreadable(shard) {
            return Err(StoreError::Unreadable("the row is no lease".to_owned()));
        }
        Ok(outcome)
    }
}

fn to_store_error<T>(name: &str, answer: Result<T, Fault>) -> Result<T, StoreError> {
    answer.map_err(|fault| match fault {
        Fault::Throttled => StoreError::Throttled(format!("{name}: throttled")),
        Fault::Missing => StoreError::TableMissing(format!("{name}: no such table")),
        Fault::Denied | Fault::Invalid => StoreError::Refused(format!("{name}: refused")),
        _ => StoreError::Unknown(format!("{name}: timed out")),
    })
}

impl LeaseStore for Link {
    fn name(&self) -> &str {
        "test-orders"
    }

    fn ensure(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.table(("ensure", None), |_, _| ()).boxed()
    }

    fn scan(&self) -> BoxFuture<'_, Result<Scan, StoreError>> {
        let scan = |place: &Place, twist: Twist| {
            let rows: Vec<Lease> = match twist {
                Twist::Stale(age) => place.rows_before(age),
                _ => place.rows().values().cloned().collect(),
            };
            let (unreadable, leases): (Vec<Lease>, _) =
                rows.into_iter().partition(|row| place.is_unreadable(&row.shard));
            Scan { leases, unreadable: unreadable.into_iter().map(|row| row.shard).collect() }
        };
        self.table(("scan", None), scan).boxed()
    }

    fn read<'a>(&'a self, shard: &'a ShardId) -> BoxFuture<'a, Result<Option<Lease>, StoreError>> {
        let of_shard = shard.clone();
        let read = self.table(("read", Some(shard)), move |place, _| place.rows().get(&of_shard).cloned());
        self.if_readable(shard, read).boxed()
    }

    fn create<'a>(&'a self, lease: &'a NewLease) -> BoxFuture<'a, Result<Created, StoreError>> {
        let new = lease.clone();
        self.change("create", &lease.shard, move |rows| {
            if rows.contains_key(&new.shard) {
                return Created::Existed;
            }
            rows.insert(new.shard.clone(), new.into());
            Created::New
        })
        .boxed()
    }

    fn write<'a>(&'a self, write: &'a LeaseWrite) -> BoxFuture<'a, Result<Written, StoreError>> {
        let change = write.clone();
        let written =
            self.change("write", &write.shard, move |rows| change.apply_to(rows.get_mut(&change.shard)));
        self.if_readable(&write.shard, written).boxed()
    }

    fn delete<'a>(
        &'a self,
        shard: &'a ShardId,
        expected_counter: i64,
    ) -> BoxFuture<'a, Result<Deleted, StoreError>> {
        let of_shard = shard.clone();
        self.change("delete", shard, move |rows| {
            let is_fit = |row: &Lease| row.counter == expected_counter && row.is_finished();
            if !rows.get(&of_shard).is_some_and(is_fit) {
                return Deleted::Refused;
            }
            rows.remove(&of_shard);
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
            let list = |place: &Place, kinesis: &mut Kinesis, twist| {
                let shards = kinesis.list_shards(request, place.now())?.shards;
                Ok(match twist {
                    Twist::Partial(seed) => part_of(shards, seed),
                    _ => shards,
                })
            };
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
        let of_shard = shard.clone();
        self.stream(("GetShardIterator", Some(shard)), move |place, kinesis, _| {
            let iterator = kinesis.get_shard_iterator(request, place.now())?;
            place.iterators.lock().unwrap().shards.insert(iterator.clone(), of_shard);
            Ok(ShardIterator(iterator))
        })
        .boxed()
    }

    fn get_records<'a>(
        &'a self,
        iterator: &'a ShardIterator,
        limit: u32,
    ) -> BoxFuture<'a, Result<RecordsPage, StreamError>> {
        async move {
            let (shard, from) = (self.shard_of(iterator), iterator.0.clone());
            let read =
                move |place: &Place, kinesis: &mut Kinesis, twist| read(place, kinesis, &from, limit, twist);
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
