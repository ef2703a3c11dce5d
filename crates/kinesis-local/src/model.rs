//! Kinesis Data Streams as a state machine: no I/O, no clock, no chance. [`Kinesis`] is told the time with
//! each call and answers at once, so that the same service stands behind a socket and in a simulation under
//! test time.
//!
//! | module | holds |
//! |---|---|
//! | [`service`] | [`Kinesis`] and its [`Settings`] |
//! | [`lifecycle`] | CreateStream, DeleteStream, retention, the greatest record |
//! | [`describe`] | DescribeStream, DescribeStreamSummary, ListStreams |
//! | [`put`] | PutRecord, PutRecords |
//! | [`iterator`] | GetShardIterator |
//! | [`read`] | GetRecords |
//! | [`consumers`] | RegisterStreamConsumer and its kin, for a [`consumer`] |
//! | [`subscribe`] | SubscribeToShard, event by event, for a [`subscription`] |
//! | [`list_shards`] | ListShards with paging and filters |
//! | [`reshard`] | SplitShard, MergeShards, UpdateShardCount |
//! | [`account`] | DescribeLimits, UpdateStreamMode |
//! | [`tags`] | tags of streams and consumers |
//! | [`encryption`], [`monitoring`], [`policy`] | flags that are kept without effect |
//! | [`limits`] | what is refused for coming too fast |
//! | `log` | the records of a shard in memory |
//! | `room` | the memory that records take, and what goes when it is full |
//! | [`operation`] | the operations by name |
//! | [`error`] | [`KinesisError`], by the service's names |

pub mod account;
pub mod consumer;
pub mod consumers;
pub mod describe;
pub mod encryption;
pub mod error;
pub mod iterator;
pub mod lifecycle;
pub mod limits;
pub mod list_shards;
mod log;
pub mod monitoring;
mod opaque;
pub mod operation;
pub mod policy;
pub mod put;
pub mod read;
pub mod record;
pub mod reshard;
mod resource;
mod room;
mod sequence;
pub mod service;
mod shard;
pub mod stream;
pub mod subscribe;
pub mod subscription;
pub mod tags;
pub mod target;
pub mod time;

pub use account::DescribeLimitsResponse;
pub use consumer::{ConsumerDescription, ConsumerStatus, ConsumerTarget};
pub use consumers::{ListStreamConsumersRequest, ListStreamConsumersResponse, RegisterStreamConsumerRequest};
pub use describe::{
    DescribeStreamRequest, DescribeStreamResponse, ListStreamsRequest, ListStreamsResponse, StreamSummary,
};
pub use encryption::EncryptionType;
pub use error::KinesisError;
pub use iterator::{GetShardIteratorRequest, StartingPosition};
pub use lifecycle::CreateStreamRequest;
pub use list_shards::{ListShardsRequest, ListShardsResponse, ShardFilter};
pub use monitoring::EnhancedMonitoringResponse;
pub use operation::Operation;
pub use put::{PutRecordRequest, PutRecordResponse, PutRecordsEntry, PutRecordsRequest, PutRecordsResponse};
pub use read::{ChildShard, GetRecordsRequest, GetRecordsResponse};
pub use record::Record;
pub use reshard::{MergeShardsRequest, SplitShardRequest, UpdateShardCountRequest, UpdateShardCountResponse};
pub use service::{Kinesis, Settings, ShardEnd};
pub use stream::{RecordDistribution, StreamMode, StreamStatus};
pub use subscribe::{NextEvent, SubscribeToShardEvent, SubscribeToShardRequest, SubscriptionEnd};
pub use subscription::SubscriptionId;
pub use tags::{ListTagsForStreamRequest, ListTagsForStreamResponse};
pub use target::StreamTarget;
pub use time::Timestamp;
