//! The form in which events are kept: protobuf messages, so that fields can be added, each followed by a checksum
//! of its number and itself, so that neither changed bytes nor the row of another event pass for it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use kinesis_record::HashKey;
use prost::{DecodeError, Message};

use super::store::{Entry, Kept};
use crate::producer::ProducerEvent;

#[derive(Clone, PartialEq, Message)]
struct EventRow {
    #[prost(string, tag = "1")]
    message_id: String,
    #[prost(string, optional, tag = "2")]
    stream: Option<String>,
    #[prost(string, tag = "3")]
    partition_key: String,
    #[prost(bytes = "vec", optional, tag = "4")]
    explicit_hash_key: Option<Vec<u8>>,
    #[prost(bytes = "bytes", tag = "5")]
    payload: Bytes,
    #[prost(uint64, tag = "6")]
    accepted_millis: u64,
}

#[derive(Clone, PartialEq, Message)]
struct EntryRow {
    #[prost(string, optional, tag = "1")]
    stream: Option<String>,
    #[prost(bytes = "vec", tag = "2")]
    group: Vec<u8>,
    #[prost(uint64, tag = "3")]
    bytes: u64,
    #[prost(uint64, tag = "4")]
    accepted_millis: u64,
    #[prost(string, optional, tag = "5")]
    parked: Option<String>,
}

/// Why a row cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowError {
    #[error("its checksum is another")]
    Checksum,
    #[error(transparent)]
    Form(#[from] DecodeError),
    #[error("a hash key of {0} bytes")]
    HashKey(usize),
}

pub(super) fn encode_event(number: u64, kept: &Kept) -> Vec<u8> {
    let event = &kept.event;
    let row = EventRow {
        message_id: kept.message_id.as_str().to_owned(),
        stream: event.stream.as_deref().map(str::to_owned),
        partition_key: event.partition_key.to_string(),
        explicit_hash_key: event.explicit_hash_key.map(|key| key.0.to_be_bytes().to_vec()),
        payload: event.payload.clone(),
        accepted_millis: millis(kept.accepted),
    };
    sealed(number, &row)
}

pub(super) fn decode_event(number: u64, row: &[u8]) -> Result<Kept, RowError> {
    let row = EventRow::decode(unsealed(number, row)?)?;
    let event = ProducerEvent {
        stream: row.stream.map(Into::into),
        partition_key: row.partition_key.into(),
        explicit_hash_key: row.explicit_hash_key.as_deref().map(hash_key).transpose()?,
        payload: row.payload,
    };
    Ok(Kept { message_id: row.message_id.into(), event, accepted: instant(row.accepted_millis) })
}

pub(super) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let row = EntryRow {
        stream: entry.stream.as_deref().map(str::to_owned),
        group: entry.group.0.to_be_bytes().to_vec(),
        bytes: entry.bytes,
        accepted_millis: millis(entry.accepted),
        parked: entry.parked.as_deref().map(str::to_owned),
    };
    sealed(entry.number, &row)
}

pub(super) fn decode_entry(number: u64, row: &[u8]) -> Result<Entry, RowError> {
    let row = EntryRow::decode(unsealed(number, row)?)?;
    Ok(Entry {
        number,
        stream: row.stream.map(Into::into),
        group: hash_key(&row.group)?,
        bytes: row.bytes,
        accepted: instant(row.accepted_millis),
        parked: row.parked.map(Into::into),
    })
}

fn sealed(number: u64, row: &impl Message) -> Vec<u8> {
    let mut row = row.encode_to_vec();
    row.extend(checksum(number, &row));
    row
}

fn unsealed(number: u64, row: &[u8]) -> Result<&[u8], RowError> {
    match row.split_last_chunk() {
        Some((row, expected)) if *expected == checksum(number, row) => Ok(row),
        _ => Err(RowError::Checksum),
    }
}

fn checksum(number: u64, row: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_be_bytes());
    hasher.update(row);
    hasher.finalize().to_be_bytes()
}

fn hash_key(bytes: &[u8]) -> Result<HashKey, RowError> {
    let bytes = bytes.try_into().map_err(|_| RowError::HashKey(bytes.len()))?;
    Ok(HashKey(u128::from_be_bytes(bytes)))
}

fn millis(instant: SystemTime) -> u64 {
    let since = instant.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn instant(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(SystemTime::UNIX_EPOCH)
}
