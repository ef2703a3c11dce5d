//! A stream in a local AWS, to put records to and to consume.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix_kinesis::SharedCredentialsProvider;
use actix_kinesis::config::{BackoffConf, ConsumerConf};
use actix_kinesis::consumer::{ConsumerBuilder, EventProcessors, KinesisConsumer};
use aws_credential_types::Credentials;
use bytes::Bytes;
use kinesis_aws::{AwsSettings, Clients};
use kinesis_local::faults::Faults;
use kinesis_local::model::{self, KinesisError, PutRecordRequest, PutRecordsEntry};
use kinesis_local::{Builder, LocalAws};
use kinesis_record::aggregation::Aggregate;
use kinesis_record::{HashKey, HashRange, Shard, ShardId};

use crate::background::Background;
use crate::consumer::TestConsumer;
use crate::log::Log;
use crate::record::Record;

const REGION: &str = "us-east-1";
const APPLICATION: &str = "test";
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream in a local AWS, which is in the test's own process and gone at its end.
///
/// Cloning gives another handle of the same stream. The local AWS ends with the last handle and the last consumer.
#[derive(Clone)]
pub struct TestStream {
    pub(crate) world: Arc<World>,
    pub(crate) name: String,
    pub(crate) patience: Duration,
}

/// What all streams and consumers of a test share.
pub(crate) struct World {
    // Before the threads that it runs on.
    pub(crate) aws: LocalAws,
    pub(crate) background: Background,
    /// For a look into the lease tables.
    pub(crate) clients: Clients,
    pub(crate) log: Arc<Log>,
}

impl TestStream {
    /// A stream with so many shards, in a local AWS of its own.
    ///
    /// # Panics
    /// When the name or the number is none that Kinesis takes, or this machine has no free port.
    pub async fn start(name: &str, shards: u32) -> Self {
        Self::start_in(LocalAws::builder(), name, shards).await
    }

    /// A stream in a local AWS about which more is said: its clock, limits, or faults from the start. What is put and
    /// resharded here is not kept in a directory.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_in(aws: Builder, name: &str, shards: u32) -> Self {
        let background = Background::start();
        let aws = background.run(aws.stream(name, shards).start()).await;
        let aws = aws.unwrap_or_else(|error| {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            panic!("no local AWS: {error}{}", source.unwrap_or_default())
        });
        let settings = AwsSettings {
            region: Some(REGION.to_owned()),
            credentials: Some(credentials()),
            kinesis_endpoint: Some(aws.kinesis_url()),
            dynamodb_endpoint: Some(aws.dynamodb_url_past_faults()),
            ..AwsSettings::default()
        };
        let clients = background.run(async move { Clients::connect(&settings).await }).await;
        let clients = clients.unwrap_or_else(|error| panic!("no clients of a local AWS: {error}"));
        let world = World { aws, background, clients, log: Arc::default() };
        Self { world: Arc::new(world), name: name.to_owned(), patience: PATIENCE }
    }

    /// One more stream in the same local AWS.
    ///
    /// # Panics
    /// When the name or the number is none that Kinesis takes, or there is such a stream.
    #[track_caller]
    pub fn another(&self, name: &str, shards: u32) -> Self {
        let created = self.world.aws.create_stream(name, shards);
        created.unwrap_or_else(|error| panic!("stream {name:?} is not created: {error}"));
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// With another patience: how long the consumers that are started from this handle wait for anything. By
    /// default 30 seconds, which is only ever needed by a test that fails.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The stream's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The local AWS, for everything that is not here: other clients' endpoints, counts of calls, the model itself.
    pub fn aws(&self) -> &LocalAws {
        &self.world.aws
    }

    /// The faults of the local AWS. What the kit does itself is never struck.
    pub fn faults(&self) -> Faults {
        self.world.aws.faults()
    }

    /// Settings of a consumer of this stream under which everything that takes time takes little: leases expire after
    /// 3 s, the list of shards is read every second and a shard every 200 ms, checkpoints are stored every 100 ms, a
    /// shard is started again after 400 ms at most, a stop takes 8 s at most. The application's name is `test`.
    pub fn conf(&self) -> ConsumerConf {
        let mut conf = self.redirect(ConsumerConf::new(APPLICATION, &self.name));
        conf.lease.failover_time = Duration::from_secs(3);
        conf.lease.shard_sync_interval = Duration::from_secs(1);
        conf.polling.idle_time = Duration::from_millis(200);
        conf.checkpointer.interval = Duration::from_millis(100);
        conf.worker.restart_backoff =
            BackoffConf { min: Duration::from_millis(100), max: Duration::from_millis(400) };
        conf.worker.shutdown_timeout = Duration::from_secs(8);
        conf
    }

    /// The application's own settings, for a consumer of this stream instead of that in AWS.
    pub fn redirect(&self, mut conf: ConsumerConf) -> ConsumerConf {
        conf.stream_name.clone_from(&self.name);
        conf.aws.region = Some(REGION.to_owned());
        conf.aws.kinesis_endpoint = Some(self.world.aws.kinesis_url());
        conf.aws.dynamodb_endpoint = Some(self.world.aws.dynamodb_url());
        conf.aws.endpoint_url = None;
        conf.aws.profile = None;
        conf.aws.role_arn = None;
        conf
    }

    /// Starts a consumer with the settings of [`conf`](Self::conf).
    ///
    /// Like each consumer of a test it has an actix system of its own. That is where the factory of
    /// [`EventProcessors::per_shard`] is called, so that it may start actors in a test without an actix system, a
    /// `#[tokio::test]`, too. An address is that of an actor where the test has started it: an `#[actix::test]`. In a
    /// `#[tokio::test]` that start itself panics, before it comes to the kit, with tokio's "`spawn_local` called from
    /// outside of a `task::LocalSet`".
    ///
    /// # Panics
    /// When there is no thread for it.
    pub async fn consume(&self, processors: impl Into<EventProcessors>) -> TestConsumer {
        self.consume_with(KinesisConsumer::builder(self.conf(), processors)).await
    }

    /// Starts a consumer about which more is said. Its settings are those of [`conf`](Self::conf), adjusted, or the
    /// application's own by [`redirect`](Self::redirect). Credentials and observer are the kit's.
    ///
    /// # Panics
    /// When the settings are impossible, or name another stream.
    pub async fn consume_with(&self, builder: ConsumerBuilder) -> TestConsumer {
        TestConsumer::start(self.clone(), builder.credentials(credentials())).await
    }

    /// Puts a record where its partition key belongs, and tells where that is.
    ///
    /// # Panics
    /// When Kinesis refuses it: the key must have 1 to 256 characters, and at most 1 MiB with the payload.
    #[track_caller]
    pub fn put(&self, key: &str, payload: impl Into<Bytes>) -> Record {
        self.put_one(PutRecordsEntry::new(key, payload))
    }

    /// Puts a record with an explicit hash key.
    ///
    /// # Panics
    /// As [`put`](Self::put).
    #[track_caller]
    pub fn put_hashed(&self, key: &str, hash_key: HashKey, payload: impl Into<Bytes>) -> Record {
        let explicit_hash_key = Some(hash_key.to_string());
        self.put_one(PutRecordsEntry { explicit_hash_key, ..PutRecordsEntry::new(key, payload) })
    }

    /// Puts a record to an open shard, whatever its partition key. [`keys_of`](Self::keys_of) has keys that belong
    /// there.
    ///
    /// # Panics
    /// When there is no such shard or it is closed, and as [`put`](Self::put).
    #[track_caller]
    pub fn put_to(&self, shard: impl AsRef<str>, key: &str, payload: impl Into<Bytes>) -> Record {
        let shard = self.open_shard(shard.as_ref());
        self.put_hashed(key, shard.hash_range.start, payload)
    }

    /// Puts an aggregate to an open shard, as one record, and tells of the user records in it. Those whose hash keys
    /// belong to another shard are misplaced, so that consumers leave them out.
    ///
    /// # Panics
    /// As [`put_to`](Self::put_to).
    #[track_caller]
    pub fn put_aggregate(&self, shard: impl AsRef<str>, aggregate: Aggregate) -> Vec<Record> {
        let shard = self.open_shard(shard.as_ref());
        let explicit_hash_key = Some(shard.hash_range.start.to_string());
        self.put_entry(PutRecordsEntry { explicit_hash_key, ..PutRecordsEntry::new("a", aggregate.encode()) })
    }

    /// Partition keys that belong to a shard, without end.
    ///
    /// # Panics
    /// When there is no such shard.
    #[track_caller]
    pub fn keys_of(&self, shard: impl AsRef<str>) -> impl Iterator<Item = String> {
        fn is_in(range: HashRange) -> impl Fn(&String) -> bool {
            move |key| range.contains(HashKey::of_partition_key(key))
        }
        let range = self.shard(shard.as_ref()).hash_range;
        (0_u64..).map(|index| format!("key-{index}")).filter(is_in(range))
    }

    /// All user records that the stream retains, shard by shard in order, whoever put them.
    ///
    /// # Panics
    /// When the stream was deleted.
    #[track_caller]
    pub fn records(&self) -> Vec<Record> {
        let shards = self.shards();
        let records = self.done("are not read", self.world.aws.records(&self.name));
        let range_of =
            |id: &ShardId| shards.iter().find(|shard| shard.id == *id).map(|shard| shard.hash_range);
        let unpacked = records.iter().flat_map(|(shard, record)| {
            let range = range_of(shard).unwrap_or(HashRange::ALL);
            Record::unpack(shard, range, record)
        });
        unpacked.collect()
    }

    /// All shards that the stream retains, open and closed, by their ids.
    ///
    /// # Panics
    /// When the stream was deleted.
    #[track_caller]
    pub fn shards(&self) -> Vec<Shard> {
        self.done("has no shards", self.world.aws.shards(&self.name))
    }

    /// The ids of the open shards, in their order.
    ///
    /// # Panics
    /// When the stream was deleted.
    #[track_caller]
    pub fn open_shards(&self) -> Vec<ShardId> {
        self.shards().into_iter().filter(Shard::is_open).map(|shard| shard.id).collect()
    }

    /// Splits an open shard in the middle, and gives its children.
    ///
    /// # Panics
    /// When there is no such shard or it is closed.
    #[track_caller]
    pub fn split(&self, shard: impl AsRef<str>) -> [ShardId; 2] {
        let shard = self.open_shard(shard.as_ref());
        self.done("is not split", self.world.aws.split(&self.name, shard.id.as_str()))
    }

    /// Merges two open shards, the second of which follows the first in hash keys, and gives their child.
    ///
    /// # Panics
    /// When there are no such shards, one is closed, or they are not neighbours.
    #[track_caller]
    pub fn merge(&self, first: impl AsRef<str>, second: impl AsRef<str>) -> ShardId {
        let (first, second) = (self.open_shard(first.as_ref()), self.open_shard(second.as_ref()));
        self.done("is not merged", self.world.aws.merge(&self.name, first.id.as_str(), second.id.as_str()))
    }

    #[track_caller]
    fn put_one(&self, entry: PutRecordsEntry) -> Record {
        let (key, payload) = (entry.partition_key.clone().unwrap_or_default(), entry.data.clone());
        let mut records = self.put_entry(entry);
        match records.pop() {
            Some(record) if records.is_empty() && record.key == key && record.payload == payload => record,
            _ => panic!("the payload is an aggregate: put it with put_aggregate"),
        }
    }

    #[track_caller]
    fn put_entry(&self, entry: PutRecordsEntry) -> Vec<Record> {
        let put = self.world.aws.with_model(|model, now| {
            let record = entry.clone();
            let request = PutRecordRequest {
                stream: self.name.as_str().into(),
                record,
                sequence_number_for_ordering: None,
            };
            model.put_record(request, now).map(|put| (put, now))
        });
        let (put, arrival) = self.done("takes no record", put);
        let range = self.shard(put.shard_id.as_str()).hash_range;
        let record = model::Record {
            sequence_number: put.sequence_number,
            arrival,
            partition_key: entry.partition_key.map(Into::into),
            data: entry.data,
            encryption: put.encryption,
        };
        Record::unpack(&put.shard_id, range, &record)
    }

    #[track_caller]
    fn open_shard(&self, id: &str) -> Shard {
        let shard = self.shard(id);
        assert!(
            shard.is_open(),
            "shard {id} of {:?} is closed; open are {:?}",
            self.name,
            self.open_shards()
        );
        shard
    }

    #[track_caller]
    fn shard(&self, id: &str) -> Shard {
        let found = self.shards().into_iter().find(|shard| shard.id.as_str() == id);
        found.unwrap_or_else(|| {
            panic!("stream {:?} has no shard {id:?}; open are {:?}", self.name, self.open_shards())
        })
    }

    #[track_caller]
    fn done<T>(&self, trouble: &str, result: Result<T, KinesisError>) -> T {
        result.unwrap_or_else(|error| panic!("stream {:?} {trouble}: {error}", self.name))
    }
}

impl fmt::Debug for TestStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStream")
            .field("name", &self.name)
            .field("aws", &self.world.aws)
            .finish_non_exhaustive()
    }
}

/// Such as no service takes, and a local one does not look at.
fn credentials() -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"))
}
