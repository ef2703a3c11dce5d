//! Values of Amazon Kinesis Data Streams, and the KPL aggregation format. No I/O and no async: everything here
//! is a plain value or a plain function. Values have a form in serde, with numbers that JSON cannot hold as the service's
//! own text.
//!
//! | module | holds |
//! |---|---|
//! | [`sequence`] | [`SequenceNumber`]: the service's decimal text, compared as a number of any length |
//! | [`position`] | [`Position`] of a user record, and [`Checkpoint`]: a position or one of the KCL's sentinels |
//! | [`hash`] | [`HashKey`] of a partition key and [`HashRange`] of a shard |
//! | [`shard`] | [`ShardId`] and [`Shard`], a stream's shard with its parents |
//! | [`aggregation`] | the KPL format that packs many user records into one Kinesis record |

pub mod aggregation;
pub mod hash;
pub mod position;
pub mod sequence;
pub mod shard;
mod text;

pub use hash::{HashKey, HashRange};
pub use position::{Checkpoint, Position};
pub use sequence::SequenceNumber;
pub use shard::{Shard, ShardId};
