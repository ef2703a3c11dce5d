//! The settings of a producer, typed, with their defaults.

use std::time::Duration;

use super::aws::AwsConf;
use super::checks::Checks;
use super::consumer::BackoffConf;
use super::error::ConfigError;

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// The settings of one producer.
///
/// [`KinesisConfig::producer`](super::KinesisConfig::producer) gives it from a file, [`new`](Self::new) without one:
///
/// ```
/// use actix_kinesis::config::{Ordering, ProducerConf};
///
/// let mut conf = ProducerConf::new("orders");
/// conf.ordering = Ordering::PartitionKey;
/// conf.aggregation.enabled = false;
/// conf.validate()?;
/// # Ok::<(), actix_kinesis::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProducerConf {
    /// `stream-name`: the stream of events that name none. 1 to 128 of the characters `a-z A-Z 0-9 _ . -`, as Kinesis
    /// has it.
    pub stream_name: String,
    /// `aws`: services and credentials, key by key over `kinesis.aws`.
    pub aws: AwsConf,
    /// `ordering`: whether events of a partition key stay in order. Default none, as in the KPL.
    pub ordering: Ordering,
    /// `record-ttl`: an event that is not stored after this time is given back. 100 ms to 100 years; default 30 s.
    /// KPL: `RecordTtl`.
    pub record_ttl: Duration,
    /// `record-max-buffered-time`: how long an event may wait for others to go with it. 0 to 1 day; default 100 ms.
    /// Should be less than `record_ttl`. At a limit of what is under way, what is buffered still waits so long: throughput
    /// is then at most the limit by this time. KPL: `RecordMaxBufferedTime`.
    pub record_max_buffered_time: Duration,
    /// `max-record-size`: the most that an event may be, payload and partition key. Bytes, 64 to 10 MiB; default 1 MiB,
    /// which is also what a stream takes that was not told otherwise. KPL: `MaxUserRecordSize`.
    pub max_record_size: u64,
    /// `max-outstanding-requests`: events that are under way at once. 1 to 10000000; default 50000.
    /// reactive-kinesis: `akka.max-outstanding-requests`, there without a default.
    pub max_outstanding_requests: u64,
    /// `max-outstanding-bytes`: their payloads and partition keys. Bytes, 1 MiB to 1 TiB; default 64 MiB. Calls under way
    /// hold copies of what they send besides, packed and encoded.
    pub max_outstanding_bytes: u64,
    /// `max-in-flight-calls`: PutRecords calls under way to a stream at once. 1 to 256; default 24.
    /// KPL: `MaxConnections`.
    pub max_in_flight_calls: usize,
    /// `request-timeout`: how long a call may take. 100 ms to 10 min; default 6 s. An event whose call takes longer is
    /// sent again and may be stored twice. KPL: `RequestTimeout`.
    pub request_timeout: Duration,
    /// `rate-limit`: how much of a shard's throughput the producer allows itself. Percent, 1 to 1000000; default 150.
    /// Where a shard refuses records it is less, by itself. KPL: `RateLimit`.
    pub rate_limit: u64,
    /// `fail-if-throttled`: whether an event that a shard refuses for want of throughput is given back at once. Default
    /// false. KPL: `FailIfThrottled`.
    pub fail_if_throttled: bool,
    /// `retry-backoff`: the pause before an event is sent again. Default 100 ms to 5 s.
    pub retry_backoff: BackoffConf,
    /// `aggregation`: packing events into one Kinesis record.
    pub aggregation: AggregationConf,
    /// `collection`: packing Kinesis records into one call.
    pub collection: CollectionConf,
    /// `outbox`: keeping events on the disk until they are sent.
    pub outbox: OutboxConf,
}

/// What stays in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// `none`: nothing. The fastest.
    #[default]
    None,
    /// `partition-key`: events of a partition key are stored in the order in which they were sent. A key has one Kinesis
    /// record under way at most, so that a key has little throughput by itself; aggregation gives it more.
    ///
    /// The promise is about the first copies of events that were sent successfully. An event whose call got no reply is
    /// sent again, and nobody knows when the former call arrives: of A and B, the stream may hold `A A B`, or `A B A` if
    /// it is late. An event that was given back with `may_be_stored` may be found behind those that followed it. And a
    /// key whose events have several explicit hash keys is in order within each shard.
    PartitionKey,
}

/// Packing events into one Kinesis record: the section `aggregation`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AggregationConf {
    /// `enabled`: whether it is done. Readers must know the format, as the KCL and this library do. Default true.
    /// KPL: `AggregationEnabled`.
    pub enabled: bool,
    /// `max-count`: the most events in a record. 1 or more; default 4294967295. KPL: `AggregationMaxCount`.
    pub max_count: u64,
    /// `max-size`: the most bytes in a record. 64 to 10 MiB; default 50 KiB. KPL: `AggregationMaxSize`.
    pub max_size: u64,
}

/// Packing Kinesis records into one call: the section `collection`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionConf {
    /// `max-count`: the most Kinesis records in a call. 1 to 500; default 500. KPL: `CollectionMaxCount`.
    pub max_count: usize,
    /// `max-size`: the most bytes in a call, a larger record being sent alone. 51 KiB to 10 MiB; default 5 MiB.
    /// KPL: `CollectionMaxSize`.
    pub max_size: u64,
}

/// Keeping events on the disk until they are sent: the section `outbox`. With a path, the producer has to be started as
/// an `Outbox`, which the feature `outbox` brings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxConf {
    /// `path`: the directory, made if it is not there, for this outbox alone. Default none: no outbox.
    pub path: Option<String>,
    /// `max-bytes`: the most that is kept: payloads, partition keys, streams, message ids, and 128 bytes for each event.
    /// Bytes, 1 MiB to 1 TiB; default 1 GiB.
    pub max_bytes: u64,
    /// `max-events`: the most events that are kept. 1 to 100000000; default 1000000.
    pub max_events: u64,
}

impl Default for OutboxConf {
    fn default() -> Self {
        Self { path: None, max_bytes: 1_024 * MIB, max_events: 1_000_000 }
    }
}

impl Default for AggregationConf {
    fn default() -> Self {
        Self { enabled: true, max_count: u64::from(u32::MAX), max_size: 51_200 }
    }
}

impl Default for CollectionConf {
    fn default() -> Self {
        Self { max_count: 500, max_size: 5 * MIB }
    }
}

impl ProducerConf {
    /// The default settings for sending to `stream_name`.
    pub fn new(stream_name: impl Into<String>) -> Self {
        Self {
            stream_name: stream_name.into(),
            aws: AwsConf::default(),
            ordering: Ordering::default(),
            record_ttl: 30 * SECOND,
            record_max_buffered_time: Duration::from_millis(100),
            max_record_size: MIB,
            max_outstanding_requests: 50_000,
            max_outstanding_bytes: 64 * MIB,
            max_in_flight_calls: 24,
            request_timeout: 6 * SECOND,
            rate_limit: 150,
            fail_if_throttled: false,
            retry_backoff: BackoffConf { min: Duration::from_millis(100), max: 5 * SECOND },
            aggregation: AggregationConf::default(),
            collection: CollectionConf::default(),
            outbox: OutboxConf::default(),
        }
    }

    /// Checks every setting against its range.
    ///
    /// # Errors
    /// Names each setting that is out of range, by its key in a file relative to the producer's section, with what
    /// is allowed: [`ConfigError::Value`], or [`ConfigError::Several`] of them.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::of(Checks::of_producer(self))
    }

    /// What is allowed and yet unwise in these settings, one sentence each. The loader logs them, and so does the start of
    /// a producer.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.record_ttl <= self.request_timeout {
            warnings.push(format!(
                "record-ttl is {:?} and request-timeout {:?}: an event whose call gets no reply is not tried again",
                self.record_ttl, self.request_timeout,
            ));
        }
        if self.record_ttl <= self.record_max_buffered_time {
            warnings.push(format!(
                "record-ttl is {:?} and record-max-buffered-time {:?}: events are given back before \
                 they are sent, unless a flush or their number sends them",
                self.record_ttl, self.record_max_buffered_time,
            ));
        }
        warnings
    }
}
