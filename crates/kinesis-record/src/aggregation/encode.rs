//! From user records to the data of a Kinesis record.

use std::collections::HashMap;

use bytes::Bytes;
use prost::{Message, length_delimiter_len};

use super::wire;
use crate::hash::HashKey;

/// An aggregate in the making.
///
/// Encodes as the KPL does: a key stands once in its table, at the place where it was first used, and a record has
/// an explicit hash key only if it was given one. The user records are in the order in which they were pushed.
#[derive(Debug, Clone, Default)]
pub struct Aggregate {
    partition_keys: KeyTable,
    explicit_hash_keys: KeyTable,
    records: Vec<wire::Record>,
    records_len: usize,
}

impl Aggregate {
    /// An aggregate without user records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a user record. The payload is not copied before the aggregate is encoded.
    pub fn push(&mut self, partition_key: &str, explicit_hash_key: Option<HashKey>, data: Bytes) {
        let record = wire::Record {
            partition_key_index: Some(self.partition_keys.index(partition_key)),
            explicit_hash_key_index: explicit_hash_key
                .map(|key| self.explicit_hash_keys.index(&key.to_string())),
            data: Some(data),
        };
        self.records_len += field_len(record.encoded_len());
        self.records.push(record);
    }

    /// How many user records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no user records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The exact length of what [`encode`](Self::encode) gives, in bytes, kept up to date by every push.
    ///
    /// The service limits this together with the length of the Kinesis record's own partition key.
    pub fn encoded_len(&self) -> usize {
        wire::ENVELOPE
            + self.partition_keys.encoded_len
            + self.explicit_hash_keys.encoded_len
            + self.records_len
    }

    /// The data of the Kinesis record.
    ///
    /// An aggregate without user records is not worth sending: a reader takes it for a record that is not aggregated.
    pub fn encode(self) -> Bytes {
        wire::seal(&wire::AggregatedRecord {
            partition_key_table: self.partition_keys.keys,
            explicit_hash_key_table: self.explicit_hash_keys.keys,
            records: self.records,
        })
    }
}

/// A table of distinct keys in the order in which they were first used.
#[derive(Debug, Clone, Default)]
struct KeyTable {
    keys: Vec<String>,
    indices: HashMap<String, u64>,
    encoded_len: usize,
}

impl KeyTable {
    fn index(&mut self, key: &str) -> u64 {
        if let Some(index) = self.indices.get(key) {
            return *index;
        }
        let index = self.keys.len() as u64;
        self.encoded_len += field_len(key.len());
        self.keys.push(key.to_owned());
        self.indices.insert(key.to_owned(), index);
        index
    }
}

/// The encoded length of a field that holds `len` bytes: a tag of one byte, as all field numbers here are below 16,
/// the length and the bytes.
fn field_len(len: usize) -> usize {
    1 + length_delimiter_len(len) + len
}
