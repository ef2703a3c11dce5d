//! Both services behind ports of this machine.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kinesis_record::{HashKey, Shard, ShardId};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::builder::{Addresses, Builder, StartError};
use crate::faults::{Faults, Selector};
use crate::model::{
    CreateStreamRequest, Kinesis, KinesisError, ListShardsRequest, MergeShardsRequest, Operation,
    PutRecordRequest, PutRecordResponse, PutRecordsEntry, Record, SplitShardRequest, Timestamp,
};
use crate::server::Shared;

/// How long [`LocalAws::stop`] waits for clients that are in the middle of a request.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Kinesis and DynamoDB on loopback. Unless they are kept [in a directory](Builder::data), each is empty at the
/// start and gone at the end.
///
/// Dropping it stops both: the calls that are running are answered, then the tasks end. [`LocalAws::stop`]
/// also waits for that.
#[derive(Debug)]
pub struct LocalAws {
    pub(crate) shared: Arc<Shared>,
    pub(crate) addresses: Addresses,
    pub(crate) stop: watch::Sender<()>,
    pub(crate) tasks: [JoinHandle<()>; 2],
}

impl LocalAws {
    /// Starts both services on free ports, without streams.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// What to start, to be told in detail.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The endpoint of Kinesis, such as `http://127.0.0.1:4567`.
    pub fn kinesis_url(&self) -> String {
        format!("http://{}", reachable(self.addresses.kinesis))
    }

    /// The endpoint of DynamoDB, such as `http://127.0.0.1:8000`.
    pub fn dynamodb_url(&self) -> String {
        format!("http://{}", reachable(self.addresses.dynamodb))
    }

    /// An endpoint of DynamoDB that faults do not strike and where calls are not counted, for a test's own look at
    /// what is in the tables.
    pub fn dynamodb_url_past_faults(&self) -> String {
        format!("http://{}", self.addresses.dynoxide)
    }

    /// The endpoint of both services under TLS, such as `https://localhost:4568`, if
    /// [one was asked for](Builder::tls_port).
    pub fn tls_url(&self) -> Option<String> {
        self.addresses.tls.as_ref().map(|(address, _)| format!("https://localhost:{}", address.port()))
    }

    /// The certificate of the endpoint under TLS, which its clients have to trust, as PEM.
    pub fn certificate(&self) -> Option<&str> {
        self.addresses.tls.as_ref().map(|(_, pem)| pem.as_str())
    }

    /// The faults of both services.
    pub fn faults(&self) -> Faults {
        Faults::new(self.shared.clone())
    }

    /// Runs `work` on the model with the present time. Do not call other methods of this type inside.
    ///
    /// What it changes is not kept in [a directory](Builder::data), where the calls after it are. The next start
    /// does them without it: it may give shards and records other numbers, or fail with
    /// [`StartError::Past`], for instance when a record was put into a stream that was created here. With a directory,
    /// only look in here, and make changes with the methods of this type or over the wire.
    pub fn with_model<R>(&self, work: impl FnOnce(&mut Kinesis, Timestamp) -> R) -> R {
        let now = self.shared.now();
        work(&mut self.shared.model(), now)
    }

    /// How often an operation was called over the wire, such as `GetRecords` or `UpdateItem`. Refused calls
    /// count too. 0 for an operation that is not served.
    pub fn calls(&self, operation: &str) -> u64 {
        self.calls_of(&Selector::on(operation))
    }

    /// How often such calls came over the wire. Keys are not counted by: a selector with one gives 0.
    pub fn calls_of(&self, selector: &Selector) -> u64 {
        self.shared.calls.of(selector)
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// As [`Kinesis::create_stream`].
    pub fn create_stream(&self, name: &str, shards: u32) -> Result<(), KinesisError> {
        create_stream(&self.shared, name, shards)
    }

    /// All shards that the stream retains, open and closed, by their ids.
    ///
    /// # Errors
    /// As [`Kinesis::list_shards`].
    pub fn shards(&self, stream: &str) -> Result<Vec<Shard>, KinesisError> {
        self.with_model(|model, now| {
            let mut request = ListShardsRequest { stream: stream.into(), ..Default::default() };
            let mut shards = Vec::new();
            loop {
                let response = model.list_shards(request, now)?;
                shards.extend(response.shards);
                match response.next_token {
                    Some(_) => {
                        request = ListShardsRequest { next_token: response.next_token, ..Default::default() }
                    }
                    None => return Ok(shards),
                }
            }
        })
    }

    /// All records that the stream retains, shard by shard in the order of their sequence numbers. No limit holds
    /// for this look, and it does not count as a read.
    ///
    /// # Errors
    /// As [`Kinesis::records`].
    pub fn records(&self, stream: &str) -> Result<Vec<(ShardId, Record)>, KinesisError> {
        self.with_model(|model, now| model.records(&stream.into(), now))
    }

    /// Puts a record.
    ///
    /// # Errors
    /// As [`Kinesis::put_record`].
    pub fn put(
        &self,
        stream: &str,
        partition_key: &str,
        data: impl Into<Bytes>,
    ) -> Result<PutRecordResponse, KinesisError> {
        let record = PutRecordsEntry::new(partition_key, data);
        let data = record.data.clone();
        let kept =
            || json!({ "StreamName": stream, "PartitionKey": partition_key, "Data": STANDARD.encode(data) });
        let request = PutRecordRequest { stream: stream.into(), record, sequence_number_for_ordering: None };
        self.shared.change(Operation::PutRecord, kept, |model, now| model.put_record(request, now))
    }

    /// Splits a shard in the middle and gives its children.
    ///
    /// # Errors
    /// As [`Kinesis::split_shard`].
    pub fn split(&self, stream: &str, shard: &str) -> Result<[ShardId; 2], KinesisError> {
        let known = self.shards(stream)?.into_iter().find(|known| known.id.as_str() == shard);
        let middle = known.map_or(0, |known| {
            let (start, end) = (known.hash_range.start.0, known.hash_range.end.0);
            start + (end - start) / 2 + 1
        });
        self.split_at(stream, shard, HashKey(middle))
    }

    /// Splits a shard so that its second child starts at `key`, and gives its children.
    ///
    /// # Errors
    /// As [`Kinesis::split_shard`].
    pub fn split_at(&self, stream: &str, shard: &str, key: HashKey) -> Result<[ShardId; 2], KinesisError> {
        let request = SplitShardRequest {
            stream: stream.into(),
            shard_to_split: shard.into(),
            new_starting_hash_key: key.to_string(),
        };
        let key = request.new_starting_hash_key.clone();
        let kept = || json!({ "StreamName": stream, "ShardToSplit": shard, "NewStartingHashKey": key });
        self.shared.change(Operation::SplitShard, kept, |model, now| model.split_shard(request, now))
    }

    /// Merges two shards and gives their child. The second must follow the first in hash keys.
    ///
    /// # Errors
    /// As [`Kinesis::merge_shards`].
    pub fn merge(&self, stream: &str, first: &str, second: &str) -> Result<ShardId, KinesisError> {
        let request = MergeShardsRequest {
            stream: stream.into(),
            shard_to_merge: first.into(),
            adjacent_shard_to_merge: second.into(),
        };
        let kept = || json!({ "StreamName": stream, "ShardToMerge": first, "AdjacentShardToMerge": second });
        self.shared.change(Operation::MergeShards, kept, |model, now| model.merge_shards(request, now))
    }

    /// Stops both services and waits until their ports are free: for the calls that are running, but not
    /// longer than five seconds for clients that do not finish theirs.
    pub async fn stop(self) {
        let Self { shared, stop, tasks, .. } = self;
        drop(stop);
        let deadline = tokio::time::Instant::now() + STOP_PATIENCE;
        for mut task in tasks {
            if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
            }
        }
        shared.close();
    }
}

pub(crate) fn create_stream(shared: &Shared, name: &str, shards: u32) -> Result<(), KinesisError> {
    let request =
        CreateStreamRequest { stream_name: name.to_owned(), shard_count: Some(shards), ..Default::default() };
    let kept = || json!({ "StreamName": name, "ShardCount": shards });
    shared.change(Operation::CreateStream, kept, |model, now| model.create_stream(request, now))
}

/// Where a client on this machine finds what listens at `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
