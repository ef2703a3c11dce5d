//! A record as the service keeps it.

use std::sync::Arc;

use bytes::Bytes;
use kinesis_record::SequenceNumber;

use super::encryption::EncryptionType;
use super::time::Timestamp;

/// A record in a shard. Cloning costs three reference counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its sequence number.
    pub sequence_number: SequenceNumber,
    /// When it came: never before the arrival of the record in front of it, even if the clock was set back.
    pub arrival: Timestamp,
    /// The partition key that it was put with. None only in streams that do without, see
    /// [`RecordDistribution`](super::RecordDistribution).
    pub partition_key: Option<Arc<str>>,
    /// The payload.
    pub data: Bytes,
    /// Whether the stream encrypted its records when it came.
    pub encryption: EncryptionType,
}

impl Record {
    /// Bytes that count against the limits of sizes: payload and partition key.
    pub fn size(&self) -> usize {
        self.data.len() + self.partition_key.as_ref().map_or(0, |key| key.len())
    }
}
