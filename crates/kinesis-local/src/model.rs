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
//! | [`list_shards`] | ListShards with paging and filters |
//! | [`reshard`] | SplitShard, MergeShards, UpdateShardCount |
//! | [`operation`] | the operations by name |
//! | [`error`] | [`KinesisError`], by the service's names |

pub mod describe;
pub mod error;
pub mod iterator;
pub mod lifecycle;
pub mod list_shards;
mod opaque;
pub mod operation;
pub mod put;
pub mod read;
pub mod record;
pub mod reshard;
mod sequence;
pub mod service;
mod shard;
pub mod stream;
pub mod target;
pub mod time;

pub use describe::{
    DescribeStreamRequest, DescribeStreamResponse, ListStreamsRequest, ListStreamsResponse, StreamSummary,
};
pub use error::KinesisError;
pub use iterator::{GetShardIteratorRequest, StartingPosition};
pub use lifecycle::CreateStreamRequest;
pub use list_shards::{ListShardsRequest, ListShardsResponse, ShardFilter};
pub use operation::Operation;
pub use put::{PutRecordRequest, PutRecordResponse, PutRecordsEntry, PutRecordsRequest, PutRecordsResponse};
pub use read::{ChildShard, GetRecordsRequest, GetRecordsResponse};
pub use record::Record;
pub use reshard::{MergeShardsRequest, SplitShardRequest, UpdateShardCountRequest, UpdateShardCountResponse};
pub use service::{Kinesis, Settings, ShardEnd};
pub use stream::{RecordDistribution, StreamMode, StreamStatus};
pub use target::StreamTarget;
pub use time::Timestamp;
