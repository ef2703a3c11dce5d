//! What is said about an outbox before it opens, and its opening.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::Recipient;
use aws_credential_types::provider::SharedCredentialsProvider;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::Outbox;
use super::backlog::{Backlog, Load};
use super::disk::Disk;
use super::error::OutboxOpenError;
use super::file::FileStore;
use super::keeper::{Board, Keeper};
use super::outcome::OutboxOutcome;
use super::room::Room;
use super::store::{OutboxStore, StoreError};
use crate::config::{Ordering, ProducerConf};
use crate::producer::{KinesisProducer, ProducerBuilder, ProducerError, PutApi};

/// As long as a `record-ttl` can be: nothing expires in an outbox.
const FOR_EVER: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);

/// Opens a store, on a thread for blocking work.
type Source = Box<dyn FnOnce() -> Result<Box<dyn OutboxStore>, StoreError> + Send>;

/// What is said about an outbox before it opens.
#[derive(Debug)]
#[must_use = "an outbox opens with `open`"]
pub struct OutboxBuilder {
    producer: ProducerBuilder,
    store: Option<Box<dyn OutboxStore>>,
    outcomes: Option<Recipient<OutboxOutcome>>,
}

impl OutboxBuilder {
    pub(super) fn new(conf: ProducerConf) -> Self {
        Self { producer: KinesisProducer::builder(conf), store: None, outcomes: None }
    }

    /// Takes AWS credentials from here instead of the SDK's default chain.
    pub fn credentials(mut self, provider: SharedCredentialsProvider) -> Self {
        self.producer = self.producer.credentials(provider);
        self
    }

    /// Writes to other streams than those of AWS, simulated ones for instance.
    pub fn api(mut self, api: Arc<dyn PutApi>) -> Self {
        self.producer = self.producer.api(api);
        self
    }

    /// Makes all that is left to chance (jitter) follow from a number.
    pub fn seed(mut self, seed: u64) -> Self {
        self.producer = self.producer.seed(seed);
        self
    }

    /// Keeps events there instead of in `outbox.path`.
    pub fn store(mut self, store: impl OutboxStore) -> Self {
        self.store = Some(Box::new(store));
        self
    }

    /// Who is told what became of each accepted event, of those of former processes too.
    pub fn outcomes(mut self, recipient: Recipient<OutboxOutcome>) -> Self {
        self.outcomes = Some(recipient);
        self
    }

    /// Opens the outbox; see [`Outbox::open`].
    ///
    /// # Errors
    /// When the directory is in use, damaged or cannot be written to, or its producer cannot be started.
    pub async fn open(self) -> Result<Outbox, OutboxOpenError> {
        let Self { mut producer, store, outcomes } = self;
        producer.conf.validate().map_err(ProducerError::from)?;
        let runtime = Handle::try_current().map_err(|_| ProducerError::NoRuntime)?;
        let random = producer.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let path = producer.conf.outbox.path.take().map(PathBuf::from);
        let from: Source = match (store, path) {
            (Some(store), _) => Box::new(|| Ok(store)),
            (None, Some(path)) => Box::new(move || Ok(Box::new(FileStore::open(&path)?))),
            (None, None) => return Err(OutboxOpenError::NoPath),
        };
        producer.conf.ordering = Ordering::PartitionKey;
        producer.conf.record_ttl = FOR_EVER;
        producer.conf.fail_if_throttled = false;
        let producer = producer.start().await?;
        let opened = runtime.spawn_blocking(move || {
            let mut store = from()?;
            let contents = store.contents()?;
            Ok::<_, StoreError>((store, contents))
        });
        let opened = opened.await.map_err(|error| OutboxOpenError::Panicked(error.to_string()))?;
        let (store, contents) = opened?;

        let conf = Arc::clone(&producer.conf);
        let under_way = Load { events: conf.max_outstanding_requests, bytes: conf.max_outstanding_bytes };
        let kept = Load { events: conf.outbox.max_events, bytes: conf.outbox.max_bytes };
        let room = Room::new(kept, under_way);
        let board = Board::new(Mutex::default());
        let (disk, backlog) = (Disk::new(store, random), Backlog::new(under_way));
        let keeper =
            Keeper::new(producer, Arc::clone(&room), Arc::clone(&board), outcomes, disk, backlog, contents);
        let (commands, received) = mpsc::unbounded_channel();
        runtime.spawn(keeper.run(received));
        Ok(Outbox { commands, room, board, conf })
    }
}
