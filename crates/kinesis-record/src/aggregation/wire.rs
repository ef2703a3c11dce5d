//! What stands on the wire: the envelope and the protobuf (proto2) messages in it.

use bytes::Bytes;
use md5::{Digest, Md5};
use prost::Message;
use prost::encoding::{self, WireType};

/// The first bytes of every aggregate.
const MAGIC: [u8; 4] = [0xF3, 0x89, 0x9A, 0xC2];

/// The length of the MD5 at the end.
const DIGEST: usize = 16;

/// The bytes around the message.
pub(super) const ENVELOPE: usize = MAGIC.len() + DIGEST;

/// The message's table of keys, then the records that point into them.
///
/// The order of the fields is the order in which every known producer writes them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AggregatedRecord {
    #[prost(string, repeated, tag = "1")]
    pub(super) partition_key_table: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) explicit_hash_key_table: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub(super) records: Vec<Record>,
}

/// One user record.
///
/// The partition key's index and the data are required by the format. They are optional here because prost reads
/// an absent required field as its default, which would make up a record that nobody wrote, and because an optional
/// field is written even when it is 0 or empty, as the format's readers demand. The tags (field 4) are left out: no
/// known producer writes them and every reader skips them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    #[prost(uint64, optional, tag = "1")]
    pub(super) partition_key_index: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) explicit_hash_key_index: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(super) data: Option<Bytes>,
}

/// The message in an aggregate, if `data` is one. The records' data are slices of `data`.
pub(super) fn open(data: &Bytes) -> Option<AggregatedRecord> {
    if data.len() <= ENVELOPE || !data.starts_with(&MAGIC) {
        return None;
    }
    let body = data.slice(MAGIC.len()..data.len() - DIGEST);
    if Md5::digest(&body)[..] != data[data.len() - DIGEST..] {
        return None;
    }
    AggregatedRecord::decode(body).ok()
}

/// The aggregate with a message of these tables and records, which is `len` bytes long.
///
/// Equal to encoding an [`AggregatedRecord`], without owning the keys and without a second copy of the message.
pub(super) fn seal(
    len: usize,
    partition_keys: &[impl AsRef<str>],
    explicit_hash_keys: &[impl AsRef<str>],
    records: &[Record],
) -> Bytes {
    let mut sealed = Vec::with_capacity(ENVELOPE + len);
    sealed.extend_from_slice(&MAGIC);
    partition_keys.iter().for_each(|key| put_text(&mut sealed, 1, key.as_ref()));
    explicit_hash_keys.iter().for_each(|key| put_text(&mut sealed, 2, key.as_ref()));
    records.iter().for_each(|record| encoding::message::encode(3, record, &mut sealed));
    let digest = Md5::digest(&sealed[MAGIC.len()..]);
    sealed.extend_from_slice(&digest);
    sealed.into()
}

fn put_text(buffer: &mut Vec<u8>, field: u32, text: &str) {
    encoding::encode_key(field, WireType::LengthDelimited, buffer);
    encoding::encode_varint(text.len() as u64, buffer);
    buffer.extend_from_slice(text.as_bytes());
}
