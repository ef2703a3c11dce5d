//! From the data of a Kinesis record to the user records in it.

use std::sync::Arc;

use bytes::Bytes;

use super::wire;
use crate::hash::{HashKey, HashRange};

/// One of the records that a producer packed into an aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRecord {
    /// The record's index in its aggregate, from 0, whether or not others of the aggregate are left out.
    pub sub_sequence: i64,
    /// The producer's partition key, shared by all records of the aggregate that have it.
    pub partition_key: Arc<str>,
    /// The producer's explicit hash key, if it gave one, as it stands in the aggregate. Old producers wrote other
    /// things than numbers here, such as `undefined`.
    pub explicit_hash_key: Option<Arc<str>>,
    /// The payload: a slice of the aggregate, which stays in memory for as long as any payload of it does.
    pub data: Bytes,
}

impl UserRecord {
    /// The hash key by which the record was meant to find its shard: the explicit one if it has one, else that of
    /// its partition key. `None` when the explicit one is no hash key.
    pub fn hash_key(&self) -> Option<HashKey> {
        match &self.explicit_hash_key {
            Some(text) => text.parse().ok(),
            None => Some(HashKey::of_partition_key(&self.partition_key)),
        }
    }
}

/// A user record that belongs to another shard than the one that its aggregate came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange {
    /// The record's index in its aggregate, from 0.
    pub sub_sequence: i64,
    /// The record's hash key, outside the shard's range.
    pub hash_key: HashKey,
}

/// What the data of a Kinesis record turned out to be.
///
/// For [`Plain`](Self::Plain) and [`Broken`](Self::Broken) the Kinesis record itself is the one to deliver, with
/// sub-sequence number 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deaggregated {
    /// No aggregate: the magic number is missing, the data is too short to hold a message, its MD5 does not match,
    /// or the message cannot be read, lacks a required field or has a key that is not UTF-8.
    Plain,
    /// An aggregate. One of zero records has nothing to deliver.
    Aggregated {
        /// The user records, in the order of their sub-sequence numbers.
        records: Vec<UserRecord>,
        /// The user records that are left out because their hash key is outside the range, for the caller to count
        /// and to log. Never those whose hash key is [`None`](UserRecord::hash_key).
        out_of_range: Vec<OutOfRange>,
    },
    /// An aggregate with a user record that names no key. The KCL delivers the ones before it and drops the rest.
    Broken(AggregationError),
}

/// A readable aggregate in which a user record points past the end of a table of keys: its producer is faulty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AggregationError {
    /// No partition key has this index.
    #[error(
        "user record {sub_sequence} of the aggregate names partition key {index}, but the aggregate has {keys}: \
         its producer writes broken aggregates"
    )]
    PartitionKeyIndex {
        /// The record's index in its aggregate, from 0.
        sub_sequence: i64,
        /// The index that it names.
        index: u64,
        /// How many partition keys the aggregate has.
        keys: usize,
    },
    /// No explicit hash key has this index.
    #[error(
        "user record {sub_sequence} of the aggregate names explicit hash key {index}, but the aggregate has {keys}: \
         its producer writes broken aggregates"
    )]
    ExplicitHashKeyIndex {
        /// The record's index in its aggregate, from 0.
        sub_sequence: i64,
        /// The index that it names.
        index: u64,
        /// How many explicit hash keys the aggregate has.
        keys: usize,
    },
}

/// Takes the data of a Kinesis record apart.
///
/// `range` is the hash range of the shard that the record was read from; without one, nothing is left out. A producer
/// aggregates for the shard that it expects. When that shard is split or merged before the aggregate arrives, some
/// user records land in a shard that is not theirs, which the KPL sees from the service's answer and makes good by
/// sending them again. Leaving out the strays alone keeps the others, which are not sent again; the KCL drops the
/// whole aggregate.
///
/// Works in memory proportional to the length of `data`, whatever `data` holds.
pub fn deaggregate(data: &Bytes, range: Option<HashRange>) -> Deaggregated {
    let Some(message) = wire::open(data) else { return Deaggregated::Plain };
    let Some(entries) = message.records.into_iter().map(Entry::new).collect::<Option<Vec<_>>>() else {
        return Deaggregated::Plain;
    };
    let keys = Keys {
        partition: message.partition_key_table.into_iter().map(Arc::from).collect(),
        explicit_hash: message.explicit_hash_key_table.into_iter().map(Arc::from).collect(),
    };
    match (0..).zip(entries).map(|(index, entry)| keys.resolve(index, entry)).collect() {
        Ok(records) => within(range, records),
        Err(error) => Deaggregated::Broken(error),
    }
}

/// A record on the wire with its required fields.
struct Entry {
    partition_key: u64,
    explicit_hash_key: Option<u64>,
    data: Bytes,
}

impl Entry {
    fn new(record: wire::Record) -> Option<Self> {
        Some(Self {
            partition_key: record.partition_key_index?,
            explicit_hash_key: record.explicit_hash_key_index,
            data: record.data?,
        })
    }
}

/// The tables of an aggregate.
struct Keys {
    partition: Vec<Arc<str>>,
    explicit_hash: Vec<Arc<str>>,
}

impl Keys {
    fn resolve(&self, sub_sequence: i64, entry: Entry) -> Result<UserRecord, AggregationError> {
        let index = entry.partition_key;
        let partition_key = get(&self.partition, index).ok_or_else(|| {
            let keys = self.partition.len();
            AggregationError::PartitionKeyIndex { sub_sequence, index, keys }
        })?;
        let explicit_hash_key = |index| {
            get(&self.explicit_hash, index).ok_or_else(|| {
                let keys = self.explicit_hash.len();
                AggregationError::ExplicitHashKeyIndex { sub_sequence, index, keys }
            })
        };
        let explicit_hash_key = entry.explicit_hash_key.map(explicit_hash_key).transpose()?;
        Ok(UserRecord { sub_sequence, partition_key, explicit_hash_key, data: entry.data })
    }
}

fn get(table: &[Arc<str>], index: u64) -> Option<Arc<str>> {
    table.get(usize::try_from(index).ok()?).cloned()
}

fn within(range: Option<HashRange>, mut records: Vec<UserRecord>) -> Deaggregated {
    let mut out_of_range = Vec::new();
    if let Some(range) = range {
        records.retain(|record| match record.hash_key() {
            Some(hash_key) if !range.contains(hash_key) => {
                out_of_range.push(OutOfRange { sub_sequence: record.sub_sequence, hash_key });
                false
            }
            _ => true,
        });
    }
    Deaggregated::Aggregated { records, out_of_range }
}
