//! How a producer is doing.

use kinesis_record::ShardId;

/// How a producer is doing.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ProducerStatus {
    /// Events that were taken and whose outcome is not known yet.
    pub outstanding: u64,
    /// Their payloads and partition keys, in bytes.
    pub outstanding_bytes: u64,
    /// Events that wait for room.
    pub waiting: usize,
    /// Whether a limit was reached, and not enough is through since: new events have to wait.
    pub throttled: bool,
    /// Events that are stored.
    pub sent: u64,
    /// Events that were given back with an error, after they were taken.
    pub failed: u64,
    /// The streams that were sent to.
    pub streams: Vec<ProducedStream>,
}

/// How a producer is doing with a stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProducedStream {
    /// The stream, as it was named.
    pub stream: String,
    /// Events for it whose outcome is not known yet.
    pub outstanding: u64,
    /// PutRecords calls that are under way.
    pub calls_under_way: usize,
    /// PutRecords calls that were made.
    pub calls: u64,
    /// Attempts of events that failed, one for each event and call.
    pub failed_attempts: u64,
    /// Whether its shards have been listed. Without a list, for want of the permission `kinesis:ListShards` for
    /// instance, events go without aggregation, as fast as the shards take that show in replies.
    pub listed: bool,
    /// Its open shards, if they have been listed.
    pub shards: Vec<ProducedShard>,
    /// The newest failure of a call.
    pub last_error: Option<String>,
}

/// How a producer is doing with a shard.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProducedShard {
    /// The shard.
    pub shard: ShardId,
    /// Kinesis records that are ready, or wait for the rate limit.
    pub queued: usize,
    /// What the producer allows itself, in parts of what a shard takes: 1 is 1,000 records and 1 MiB in a second.
    pub rate: f64,
    /// Kinesis records that the shard refused since its throughput was exceeded.
    pub refused: u64,
}
