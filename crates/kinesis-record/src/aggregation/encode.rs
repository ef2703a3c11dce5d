//! From user records to the data of a Kinesis record.

use std::collections::HashMap;
use std::sync::Arc;

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
    partition_keys: Vec<Arc<str>>,
    partition_key_indices: HashMap<Arc<str>, u64>,
    explicit_hash_keys: Vec<String>,
    explicit_hash_key_indices: HashMap<HashKey, u64>,
    records: Vec<wire::Record>,
    message_len: usize,
}

impl Aggregate {
    /// An aggregate without user records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a user record. The payload is not copied before the aggregate is encoded.
    pub fn push(&mut self, partition_key: &str, explicit_hash_key: Option<HashKey>, data: Bytes) {
        let (partition_key, explicit_hash_key) =
            (self.partition_key_index(partition_key), explicit_hash_key.map(|key| self.hash_key_index(key)));
        let record = wire::Record {
            partition_key_index: Some(partition_key),
            explicit_hash_key_index: explicit_hash_key,
            data: Some(data),
        };
        self.message_len += field_len(record.encoded_len());
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
        wire::ENVELOPE + self.message_len
    }

    /// What [`encoded_len`](Self::encoded_len) would be behind a push of these keys and `data_len` bytes of payload.
    pub fn encoded_len_with(
        &self,
        partition_key: &str,
        explicit_hash_key: Option<HashKey>,
        data_len: usize,
    ) -> usize {
        let (index, mut added) = match self.partition_key_indices.get(partition_key) {
            Some(index) => (*index, 0),
            None => (self.partition_keys.len() as u64, field_len(partition_key.len())),
        };
        let mut record_len = index_len(index) + field_len(data_len);
        if let Some(key) = explicit_hash_key {
            let index = match self.explicit_hash_key_indices.get(&key) {
                Some(index) => *index,
                None => {
                    added += field_len(key.to_string().len());
                    self.explicit_hash_keys.len() as u64
                }
            };
            record_len += index_len(index);
        }
        self.encoded_len() + added + field_len(record_len)
    }

    /// The data of the Kinesis record.
    ///
    /// An aggregate without user records is not worth sending: a reader takes it for a record that is not aggregated.
    pub fn encode(&self) -> Bytes {
        wire::seal(self.message_len, &self.partition_keys, &self.explicit_hash_keys, &self.records)
    }

    fn partition_key_index(&mut self, key: &str) -> u64 {
        if let Some(index) = self.partition_key_indices.get(key) {
            return *index;
        }
        let (index, key) = (self.partition_keys.len() as u64, Arc::<str>::from(key));
        self.message_len += field_len(key.len());
        self.partition_keys.push(Arc::clone(&key));
        self.partition_key_indices.insert(key, index);
        index
    }

    fn hash_key_index(&mut self, key: HashKey) -> u64 {
        if let Some(index) = self.explicit_hash_key_indices.get(&key) {
            return *index;
        }
        let (index, text) = (self.explicit_hash_keys.len() as u64, key.to_string());
        self.message_len += field_len(text.len());
        self.explicit_hash_keys.push(text);
        self.explicit_hash_key_indices.insert(key, index);
        index
    }
}

/// The encoded length of a field that holds `len` bytes: a tag of one byte, as all field numbers here are below 16,
/// the length and the bytes.
fn field_len(len: usize) -> usize {
    1 + length_delimiter_len(len) + len
}

/// The encoded length of a field that holds an index.
fn index_len(index: u64) -> usize {
    1 + prost::encoding::encoded_len_varint(index)
}
