//! Both services behind ports of this machine.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use kinesis_record::{HashKey, Shard, ShardId};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::model::{
    CreateStreamRequest, Kinesis, KinesisError, ListShardsRequest, MergeShardsRequest, Operation,
    PutRecordRequest, PutRecordResponse, PutRecordsEntry, Settings, SplitShardRequest, Timestamp,
};
use crate::server::{self, Shared};

/// How long [`LocalAws::stop`] waits for clients that are in the middle of a request.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Why the services did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another process listens there.
    #[error(
        "port {port} for {service} is taken: stop what listens there, or choose another port (0 for any)"
    )]
    PortTaken {
        /// The service, `Kinesis` or `DynamoDB`.
        service: &'static str,
        /// The port.
        port: u16,
    },
    /// The system does not let us listen.
    #[error("cannot listen on port {port} of 127.0.0.1 for {service}")]
    Listen {
        /// The service, `Kinesis` or `DynamoDB`.
        service: &'static str,
        /// The port.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// DynamoDB's store does not open.
    #[error("cannot open DynamoDB's store in memory: {0}")]
    Store(String),
    /// A stream of the builder cannot be created.
    #[error("cannot create the stream {name:?}")]
    Stream {
        /// Its name.
        name: String,
        /// Why not.
        source: KinesisError,
    },
}

/// What to start. Made by [`LocalAws::builder`].
pub struct Builder {
    kinesis_port: u16,
    dynamodb_port: u16,
    streams: Vec<(String, u32)>,
    settings: Settings,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("kinesis_port", &self.kinesis_port)
            .field("dynamodb_port", &self.dynamodb_port)
            .field("streams", &self.streams)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The port of Kinesis on 127.0.0.1. By default 0: any that is free.
    pub fn kinesis_port(mut self, port: u16) -> Self {
        self.kinesis_port = port;
        self
    }

    /// The port of DynamoDB on 127.0.0.1. By default 0: any that is free.
    pub fn dynamodb_port(mut self, port: u16) -> Self {
        self.dynamodb_port = port;
        self
    }

    /// A stream that is there from the start, with so many shards.
    pub fn stream(mut self, name: &str, shards: u32) -> Self {
        self.streams.push((name.to_owned(), shards));
        self
    }

    /// How Kinesis shall behave.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// What Kinesis takes for the time. By default the system's clock.
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Starts both services as tasks of the current tokio runtime, of whatever kind. They listen when this
    /// returns.
    ///
    /// # Errors
    /// When a port is taken or a stream cannot be created.
    pub async fn start(self) -> Result<LocalAws, StartError> {
        let mut model = Kinesis::new(self.settings);
        let now = Timestamp::from((self.clock)());
        for (name, shards) in self.streams {
            let request = create_request(&name, shards);
            model.create_stream(request, now).map_err(|source| StartError::Stream { name, source })?;
        }
        let shared = Arc::new(Shared::new(model, self.clock));
        let (kinesis, kinesis_address) = listen("Kinesis", self.kinesis_port).await?;
        let (dynamodb, dynamodb_address) = listen("DynamoDB", self.dynamodb_port).await?;
        let store = dynoxide::Database::memory().map_err(|error| StartError::Store(error.to_string()))?;

        let (stop, stopped) = watch::channel(());
        let kinesis = server::serve(kinesis, shared.clone(), until_dropped(stopped.clone()));
        let kinesis = tokio::spawn(async move {
            if let Err(error) = kinesis.await {
                tracing::error!(%error, "the Kinesis server ended");
            }
        });
        let dynamodb = dynoxide::server::serve_with_shutdown(dynamodb, store, until_dropped(stopped));
        let dynamodb = tokio::spawn(async move {
            if let Err(error) = dynamodb.await {
                tracing::error!(%error, "the DynamoDB server ended");
            }
        });
        Ok(LocalAws { shared, kinesis_address, dynamodb_address, stop, tasks: [kinesis, dynamodb] })
    }
}

async fn listen(service: &'static str, port: u16) -> Result<(TcpListener, SocketAddr), StartError> {
    let error = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::PortTaken { service, port },
        _ => StartError::Listen { service, port, source },
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    Ok((listener, address))
}

async fn until_dropped(mut stopped: watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}

/// Kinesis and DynamoDB on loopback, each empty at the start and gone at the end.
///
/// Dropping it stops both: the calls that are running are answered, then the tasks end. [`LocalAws::stop`]
/// also waits for that.
#[derive(Debug)]
pub struct LocalAws {
    shared: Arc<Shared>,
    kinesis_address: SocketAddr,
    dynamodb_address: SocketAddr,
    stop: watch::Sender<()>,
    tasks: [JoinHandle<()>; 2],
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
        Builder {
            kinesis_port: 0,
            dynamodb_port: 0,
            streams: Vec::new(),
            settings: Settings::default(),
            clock: Box::new(SystemTime::now),
        }
    }

    /// The endpoint of Kinesis, such as `http://127.0.0.1:4567`.
    pub fn kinesis_url(&self) -> String {
        format!("http://{}", self.kinesis_address)
    }

    /// The endpoint of DynamoDB, such as `http://127.0.0.1:8000`.
    pub fn dynamodb_url(&self) -> String {
        format!("http://{}", self.dynamodb_address)
    }

    /// Runs `work` on the model with the present time. Do not call other methods of this type inside.
    pub fn with_model<R>(&self, work: impl FnOnce(&mut Kinesis, Timestamp) -> R) -> R {
        let now = self.shared.now();
        work(&mut self.shared.model(), now)
    }

    /// How often an operation of Kinesis was called over the wire, such as `GetRecords`. Refused calls count
    /// too. 0 for an operation that is not served.
    pub fn calls(&self, operation: &str) -> u64 {
        Operation::named(operation).map_or(0, |operation| self.shared.calls.of(operation))
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// As [`Kinesis::create_stream`].
    pub fn create_stream(&self, name: &str, shards: u32) -> Result<(), KinesisError> {
        self.with_model(|model, now| model.create_stream(create_request(name, shards), now))
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
        let request = PutRecordRequest { stream: stream.into(), record, sequence_number_for_ordering: None };
        self.with_model(|model, now| model.put_record(request, now))
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
        self.with_model(|model, now| model.split_shard(request, now))
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
        self.with_model(|model, now| model.merge_shards(request, now))
    }

    /// Stops both services and waits until their ports are free: for the calls that are running, but not
    /// longer than five seconds for clients that do not finish theirs.
    pub async fn stop(self) {
        let Self { stop, tasks, .. } = self;
        drop(stop);
        let deadline = tokio::time::Instant::now() + STOP_PATIENCE;
        for mut task in tasks {
            if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

fn create_request(name: &str, shards: u32) -> CreateStreamRequest {
    CreateStreamRequest { stream_name: name.to_owned(), shard_count: Some(shards), ..Default::default() }
}
