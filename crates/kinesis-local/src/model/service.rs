//! The service as a whole: settings and streams.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::KinesisError;
use super::limits::Rates;
use super::room::Room;
use super::stream::Stream;
use super::subscription::Subscriptions;
use super::target::StreamTarget;
use super::time::Timestamp;

/// How a reader learns of a shard's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShardEnd {
    /// The reply with the last record also carries the end: no next iterator, and the child shards.
    #[default]
    WithLastRecord,
    /// The reply with the last record has a next iterator, whose reply is empty and carries the end.
    AfterLastRecord,
}

/// What may differ between one service and another.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The region in ARNs. `us-east-1` by default.
    pub region: String,
    /// The account in ARNs and messages. Twelve zeros by default.
    pub account: String,
    /// How long a stream is CREATING, UPDATING or DELETING, and a consumer CREATING or DELETING. Zero by
    /// default: a change is through at once. What a change does to shards is seen at once in any case.
    pub transition: Duration,
    /// How long a shard iterator is good. Five minutes by default, as in the service.
    pub iterator_lifetime: Duration,
    /// How a reader learns of a shard's end. With the last record by default.
    pub shard_end: ShardEnd,
    /// How long a subscription to a shard runs. Five minutes by default, as in the service.
    pub subscription_lifetime: Duration,
    /// Whether the service's [limits](super::limits) hold: of writes and reads per shard, of subscriptions,
    /// of calls per second, of streams and shards per account. Off by default.
    pub limits: bool,
    /// Open shards that the provisioned streams of the account may have, which holds under limits. 20,000 by
    /// default.
    pub shard_limit: u32,
    /// Bytes of memory that the stored records of all streams may take together, 1 GiB by default: their payloads
    /// and partition keys and some 130 bytes for each record. When a put would exceed it, the oldest records of the
    /// biggest shards go at once, some 1.5 % of all, as if their retention were over; small shards lose nothing to
    /// big ones. [`Kinesis::evicted_records`] counts them. The newest put always stays, whatever its size. `usize::MAX` is
    /// no bound.
    pub max_stored_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            account: "000000000000".to_owned(),
            transition: Duration::ZERO,
            iterator_lifetime: Duration::from_secs(300),
            shard_end: ShardEnd::default(),
            subscription_lifetime: Duration::from_secs(300),
            limits: false,
            shard_limit: 20_000,
            max_stored_bytes: 1 << 30,
        }
    }
}

/// Kinesis Data Streams of one account in one region.
///
/// It does no I/O and has no clock: every call is told the time. The same calls at the same times give the
/// same answers. Time should not run backwards; arrival times of records do not, whatever the clock does.
#[derive(Debug, Default)]
pub struct Kinesis {
    pub(crate) settings: Settings,
    pub(crate) streams: BTreeMap<String, Stream>,
    /// Above the epochs of all streams that were deleted.
    pub(crate) least_epoch: u64,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) rates: Rates,
    pub(crate) room: Room,
}

impl Kinesis {
    /// A service without streams.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The stream in whatever state.
    pub(crate) fn any_stream(
        &mut self,
        target: &StreamTarget,
        now: Timestamp,
    ) -> Result<&mut Stream, KinesisError> {
        let name = target.stream_name()?;
        self.stream_named(name, now)
    }

    /// The stream, if it serves reads and writes: a stream that is still being created or already being
    /// deleted is as good as none.
    pub(crate) fn live_stream(
        &mut self,
        target: &StreamTarget,
        now: Timestamp,
    ) -> Result<&mut Stream, KinesisError> {
        let stream = self.any_stream(target, now)?;
        stream.check_live(now)?;
        Ok(stream)
    }

    pub(crate) fn stream_named(&mut self, name: &str, now: Timestamp) -> Result<&mut Stream, KinesisError> {
        self.forget_if_gone(name, now);
        let stream = self.streams.get_mut(name).ok_or_else(|| not_found(name, &self.settings.account))?;
        stream.trim(now);
        stream.forget_consumers(now);
        Ok(stream)
    }

    pub(crate) fn forget_if_gone(&mut self, name: &str, now: Timestamp) {
        if self.streams.get(name).is_some_and(|stream| stream.is_gone(now)) {
            self.streams.remove(name);
        }
    }
}

pub(crate) fn not_found(name: &str, account: &str) -> KinesisError {
    KinesisError::ResourceNotFound(format!("Stream {name} under account {account} not found."))
}
