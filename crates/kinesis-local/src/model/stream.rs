//! One stream: its shards, which of them takes which hash key, and its state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kinesis_record::{HashKey, HashRange, ShardId};

use super::consumer::ConsumerState;
use super::encryption::EncryptionType;
use super::error::KinesisError;
use super::resource::Labels;
use super::service::not_found;
use super::shard::{ShardState, shard_id, shard_number};
use super::time::Timestamp;

/// In which state a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamStatus {
    /// It has no shards yet and takes no calls.
    Creating,
    /// It works, and can be changed.
    Active,
    /// It works, and cannot be changed until it is active again.
    Updating,
    /// It is about to go and takes no calls.
    Deleting,
}

impl StreamStatus {
    /// The service's name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Active => "ACTIVE",
            Self::Updating => "UPDATING",
            Self::Deleting => "DELETING",
        }
    }
}

/// Who decides how many shards a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamMode {
    /// Its owner.
    #[default]
    Provisioned,
    /// The service. Here such a stream keeps the number of shards that it was created with, unless told
    /// otherwise.
    OnDemand,
}

impl StreamMode {
    /// The service's name of the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioned => "PROVISIONED",
            Self::OnDemand => "ON_DEMAND",
        }
    }
}

/// What decides to which shard a record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordDistribution {
    /// The record's partition key or explicit hash key.
    #[default]
    UserPartitionKey,
    /// The service, whatever keys the record has; it may have none. For streams of mode
    /// [`StreamMode::OnDemand`]. Here the open shards take turns.
    Auto,
}

impl RecordDistribution {
    /// The service's name of the strategy.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserPartitionKey => "USER_PARTITION_KEY",
            Self::Auto => "AUTO",
        }
    }
}

/// A stream with its shards, open and closed.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) arn: String,
    pub(crate) account: String,
    pub(crate) created: Timestamp,
    /// The second of creation that the sequence numbers of the first shards tell. It is above those of all streams
    /// that had the name before, even if the clock's is not, and so tells this stream from them.
    pub(crate) epoch: u64,
    pub(crate) mode: StreamMode,
    pub(crate) distribution: RecordDistribution,
    pub(crate) retention_hours: u32,
    pub(crate) max_record_kib: u32,
    /// The key that records are encrypted with.
    pub(crate) key_id: Option<String>,
    /// The metrics of enhanced monitoring.
    pub(crate) metrics: BTreeSet<&'static str>,
    pub(crate) labels: Labels,
    pub(crate) shards: BTreeMap<u64, ShardState>,
    pub(crate) consumers: BTreeMap<String, ConsumerState>,
    /// The greatest serial number of a consumer that is gone.
    pub(crate) last_consumer_serial: Option<u64>,
    /// The open shards by the first hash key of their ranges, which cover all hash keys.
    open: BTreeMap<HashKey, u64>,
    next_shard: u64,
    /// Records that went to a shard whose turn it was.
    turns: usize,
    /// When the shard was closed that was closed first.
    first_closing: Option<Timestamp>,
    /// Until when the stream is in a state that it passes through by itself.
    transition: Option<(StreamStatus, Timestamp)>,
}

impl Stream {
    /// A stream without shards whose epoch is `least` at least.
    pub(crate) fn new(
        name: &str,
        arn: String,
        account: &str,
        mode: StreamMode,
        least: u64,
        now: Timestamp,
    ) -> Self {
        Self {
            name: name.to_owned(),
            arn,
            account: account.to_owned(),
            created: now,
            epoch: least.max(now.as_secs()),
            mode,
            distribution: RecordDistribution::default(),
            retention_hours: 24,
            max_record_kib: 1024,
            key_id: None,
            metrics: BTreeSet::new(),
            labels: Labels::default(),
            shards: BTreeMap::new(),
            consumers: BTreeMap::new(),
            last_consumer_serial: None,
            open: BTreeMap::new(),
            next_shard: 0,
            turns: 0,
            first_closing: None,
            transition: None,
        }
    }

    pub(crate) fn status(&self, now: Timestamp) -> StreamStatus {
        match self.transition {
            Some((status, until)) if now < until => status,
            _ => StreamStatus::Active,
        }
    }

    /// Enters a state for `span`. None at all is over even for a clock that is set back.
    pub(crate) fn begin(&mut self, status: StreamStatus, now: Timestamp, span: Duration) {
        let until = if span.is_zero() { Timestamp::default() } else { now.after(span) };
        self.transition = Some((status, until));
    }

    /// Whether its deletion is through.
    pub(crate) fn is_gone(&self, now: Timestamp) -> bool {
        matches!(self.transition, Some((StreamStatus::Deleting, until)) if now >= until)
    }

    /// Refuses a change unless the stream is active.
    pub(crate) fn check_active(&self, now: Timestamp) -> Result<(), KinesisError> {
        match self.status(now) {
            StreamStatus::Active => Ok(()),
            other => Err(self.not_active(other)),
        }
    }

    /// Refuses a call while the stream is being created or deleted.
    pub(crate) fn check_exists(&self, now: Timestamp) -> Result<(), KinesisError> {
        match self.status(now) {
            StreamStatus::Active | StreamStatus::Updating => Ok(()),
            other => Err(self.not_active(other)),
        }
    }

    /// Refuses reads and writes while the stream is being created or deleted: then it is as good as none.
    pub(crate) fn check_live(&self, now: Timestamp) -> Result<(), KinesisError> {
        match self.status(now) {
            StreamStatus::Active | StreamStatus::Updating => Ok(()),
            StreamStatus::Creating | StreamStatus::Deleting => Err(not_found(&self.name, &self.account)),
        }
    }

    fn not_active(&self, status: StreamStatus) -> KinesisError {
        KinesisError::ResourceInUse(format!(
            "Stream {} under account {} not ACTIVE, instead in state {}",
            self.name,
            self.account,
            status.as_str()
        ))
    }

    /// Refuses a call that is about another stream of the same name, by its time of creation. Clients may
    /// give it in whole seconds.
    pub(crate) fn check_created(&self, created: Option<Timestamp>) -> Result<(), KinesisError> {
        if created.is_none_or(|created| created.as_secs() == self.created.as_secs()) {
            return Ok(());
        }
        Err(KinesisError::ResourceNotFound(format!(
            "Stream {} under account {} not found with this creation timestamp.",
            self.name, self.account
        )))
    }

    /// Refuses a token for another stream of the same name, by its epoch.
    pub(crate) fn check_token(&self, epoch: Option<u64>) -> Result<(), KinesisError> {
        if epoch.is_none_or(|epoch| epoch == self.epoch) {
            return Ok(());
        }
        Err(KinesisError::InvalidArgument("The NextToken belongs to a stream that was deleted.".to_owned()))
    }

    /// Refuses what only a stream of mode [`StreamMode::Provisioned`] does.
    pub(crate) fn check_provisioned(&self) -> Result<(), KinesisError> {
        match self.mode {
            StreamMode::Provisioned => Ok(()),
            StreamMode::OnDemand => Err(KinesisError::Validation(format!(
                "Request is invalid. Stream {} under account {} is in On-Demand mode.",
                self.name, self.account
            ))),
        }
    }

    pub(crate) fn encryption(&self) -> EncryptionType {
        if self.key_id.is_some() { EncryptionType::Kms } else { EncryptionType::None }
    }

    /// What came before has outlived the retention.
    pub(crate) fn horizon(&self, now: Timestamp) -> Timestamp {
        now.before(Duration::from_secs(u64::from(self.retention_hours) * 3_600))
    }

    /// Forgets the closed shards that the retention has outlived. Their children still name them.
    pub(crate) fn trim(&mut self, now: Timestamp) {
        let horizon = self.horizon(now);
        if self.first_closing.is_some_and(|closing| closing < horizon) {
            let closing = |shard: &ShardState| shard.closed.as_ref().map(|closed| closed.at);
            self.shards.retain(|_, shard| closing(shard).is_none_or(|at| at >= horizon));
            self.first_closing = self.shards.values().filter_map(closing).min();
        }
    }

    /// The highest epoch of its shards. That of an open shard, as children are above their parents: a retention
    /// that is over does not lower it.
    pub(crate) fn highest_epoch(&self) -> u64 {
        self.open_shards().map(|shard| shard.epoch).max().unwrap_or(self.epoch)
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// The open shards in the order of their hash keys.
    pub(crate) fn open_shards(&self) -> impl Iterator<Item = &ShardState> {
        self.open.values().filter_map(|number| self.shards.get(number))
    }

    /// Adds an open shard and gives its number.
    pub(crate) fn add_shard(&mut self, range: HashRange, parents: &[u64], now: Timestamp) -> u64 {
        let number = self.next_shard;
        self.next_shard += 1;
        let parents: Vec<&ShardState> = parents.iter().filter_map(|parent| self.shards.get(parent)).collect();
        let shard = ShardState::new(number, range, &parents, self.epoch, now);
        self.open.insert(range.start, number);
        self.shards.insert(number, shard);
        number
    }

    /// Closes `parents`, which are open and together cover the hash keys of `ranges`, and opens a shard for
    /// each of these. Gives their numbers.
    pub(crate) fn replace(&mut self, parents: &[u64], ranges: &[HashRange], now: Timestamp) -> Vec<u64> {
        for parent in parents {
            if let Some(shard) = self.shards.get(parent) {
                self.open.remove(&shard.range.start);
            }
        }
        self.first_closing = self.first_closing.or(Some(now));
        let children: Vec<u64> = ranges.iter().map(|range| self.add_shard(*range, parents, now)).collect();
        for parent in parents {
            if let Some(shard) = self.shards.get_mut(parent) {
                shard.close(now, children.clone());
            }
        }
        children
    }

    /// The open shard that takes records with `key`.
    pub(crate) fn route(&mut self, key: HashKey) -> Option<&mut ShardState> {
        let (_, number) = self.open.range(..=key).next_back()?;
        self.shards.get_mut(number)
    }

    /// The open shard whose turn it is.
    pub(crate) fn take_turn(&mut self) -> Option<&mut ShardState> {
        let number = self.open.values().nth(self.turns % self.open.len().max(1))?;
        self.turns += 1;
        self.shards.get_mut(number)
    }

    /// The shard with this id, open or closed.
    pub(crate) fn shard(&self, id: &ShardId) -> Result<&ShardState, KinesisError> {
        let known = shard_number(id.as_str()).and_then(|number| self.shards.get(&number));
        known.ok_or_else(|| {
            KinesisError::ResourceNotFound(format!(
                "Shard {id} in stream {} under account {} does not exist",
                self.name, self.account
            ))
        })
    }

    /// The shard with this id, without the records that the retention has outlived.
    pub(crate) fn trimmed_shard(
        &mut self,
        id: &ShardId,
        now: Timestamp,
    ) -> Result<&mut ShardState, KinesisError> {
        let horizon = self.horizon(now);
        let number = self.shard(id)?.number;
        let gone = || KinesisError::InternalFailure(format!("Shard {id} is gone."));
        let shard = self.shards.get_mut(&number).ok_or_else(gone)?;
        shard.trim(horizon);
        Ok(shard)
    }

    /// A shard has no throughput left for a call.
    pub(crate) fn rate_exceeded(&self, shard: u64) -> KinesisError {
        KinesisError::ProvisionedThroughputExceeded(format!(
            "Rate exceeded for shard {} in stream {} under account {}.",
            shard_id(shard),
            self.name,
            self.account
        ))
    }

    /// The consumer of this name.
    pub(crate) fn consumer(&self, name: &str) -> Result<&ConsumerState, KinesisError> {
        self.consumers.get(name).ok_or_else(|| self.no_consumer(name))
    }

    /// As [`Stream::consumer`], to be changed.
    pub(crate) fn consumer_mut(&mut self, name: &str) -> Result<&mut ConsumerState, KinesisError> {
        let not_found = self.no_consumer(name);
        self.consumers.get_mut(name).ok_or(not_found)
    }

    fn no_consumer(&self, name: &str) -> KinesisError {
        KinesisError::ResourceNotFound(format!(
            "Consumer {name} under stream {} not found for account {}.",
            self.name, self.account
        ))
    }

    /// Forgets the consumers whose deletion is through.
    pub(crate) fn forget_consumers(&mut self, now: Timestamp) {
        let gone = self.consumers.values().filter(|consumer| consumer.is_gone(now));
        let last = gone.map(|consumer| consumer.serial).max();
        if last.is_some() {
            self.last_consumer_serial = self.last_consumer_serial.max(last);
            self.consumers.retain(|_, consumer| !consumer.is_gone(now));
        }
    }
}
