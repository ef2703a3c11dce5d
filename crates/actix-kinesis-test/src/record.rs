//! What a stream holds, as a consumer should deliver it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kinesis_local::model;
use kinesis_record::aggregation::{Deaggregated, deaggregate};
use kinesis_record::{HashRange, Position, ShardId};

/// A user record in the stream: a Kinesis record, or one of those in an aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The shard.
    pub shard: ShardId,
    /// Its place there; an event has the same.
    pub position: Position,
    /// The partition key.
    pub key: String,
    /// The data.
    pub payload: Bytes,
    /// When it arrived at the stream, by the service's clock. A stream that was deleted and made again may have the
    /// same positions.
    pub(crate) arrival: SystemTime,
    /// Whether it is in an aggregate in a shard where its hash key does not belong. Then a consumer leaves it out,
    /// and nothing here waits for it.
    pub is_misplaced: bool,
}

impl Record {
    /// The user records in a Kinesis record of a shard.
    pub(crate) fn unpack(shard: &ShardId, range: HashRange, record: &model::Record) -> Vec<Self> {
        let at = |sub_sequence| Position::new(record.sequence_number.clone(), sub_sequence);
        let arrival = UNIX_EPOCH + Duration::from_millis(record.arrival.as_millis());
        match deaggregate(&record.data, None) {
            Deaggregated::Aggregated { records, .. } => records
                .into_iter()
                .map(|user| Self {
                    shard: shard.clone(),
                    position: at(user.sub_sequence),
                    arrival,
                    key: user.partition_key.to_string(),
                    is_misplaced: user.hash_key().is_some_and(|key| !range.contains(key)),
                    payload: user.data,
                })
                .collect(),
            Deaggregated::Plain | Deaggregated::Broken(_) => vec![Self {
                shard: shard.clone(),
                position: at(0),
                arrival,
                key: record.partition_key.as_deref().unwrap_or_default().to_owned(),
                payload: record.data.clone(),
                is_misplaced: false,
            }],
        }
    }
}

impl fmt::Display for Record {
    /// Names it for people: shard, position, key, and how the payload begins.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, position, key, payload, .. } = self;
        write!(f, "{shard} {position} key {key:?} payload {}", Beginning(payload))
    }
}

/// The beginning of a payload, as text.
pub(crate) struct Beginning<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Beginning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        let text = String::from_utf8_lossy(self.0);
        match text.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{:?}.. ({} bytes)", &text[..end], self.0.len()),
            None => write!(f, "{text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_payload_is_shown_by_its_beginning() {
        assert_eq!(Beginning(b"short").to_string(), "\"short\"");
        assert_eq!(
            Beginning("\u{e9}".repeat(50).as_bytes()).to_string(),
            format!("\"{}\".. (100 bytes)", "\u{e9}".repeat(40))
        );
        assert_eq!(Beginning(&[0xff]).to_string(), "\"\u{fffd}\"");
    }
}
