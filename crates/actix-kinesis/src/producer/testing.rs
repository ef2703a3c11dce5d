//! What the tests of the producer share.

use kinesis_lease::{StreamError, StreamErrorKind};
use kinesis_record::{HashKey, HashRange, Shard, ShardId};

/// The shard `shardId-<number>` with this range of hash keys.
pub(crate) fn shard(number: u32, start: u128, end: u128) -> Shard {
    Shard {
        id: ShardId::from(format!("shardId-{number}")),
        hash_range: HashRange { start: HashKey(start), end: HashKey(end) },
        parents: Vec::new(),
        starting_sequence: 0.into(),
        ending_sequence: None,
    }
}

pub(crate) fn stream_error() -> StreamError {
    StreamError { kind: StreamErrorKind::Unavailable, message: "not now".to_owned() }
}
