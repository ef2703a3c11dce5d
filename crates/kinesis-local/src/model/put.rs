//! PutRecord and PutRecords.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use kinesis_record::{HashKey, SequenceNumber, ShardId};

use super::encryption::EncryptionType;
use super::error::KinesisError;
use super::sequence::SequenceParts;
use super::service::Kinesis;
use super::shard::shard_number;
use super::stream::{RecordDistribution, Stream};
use super::target::StreamTarget;
use super::time::Timestamp;

/// Records in one PutRecords call.
pub const MAX_PUT_RECORDS: usize = 500;
/// Bytes of payload and partition keys in one PutRecords call: 10 MiB.
pub const MAX_PUT_BYTES: usize = 10 << 20;

/// A record to put.
#[derive(Debug, Clone, Default)]
pub struct PutRecordsEntry {
    /// The payload; may be empty.
    pub data: Bytes,
    /// 1 to 256 characters, of which the MD5 decides the shard. Only a stream of
    /// [`RecordDistribution::Auto`] takes a record without.
    pub partition_key: Option<String>,
    /// The hash key that decides the shard instead, a decimal number below 2^128.
    pub explicit_hash_key: Option<String>,
}

impl PutRecordsEntry {
    /// A record with a partition key.
    pub fn new(partition_key: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), partition_key: Some(partition_key.into()), explicit_hash_key: None }
    }

    fn size(&self) -> usize {
        self.data.len() + self.partition_key.as_ref().map_or(0, String::len)
    }
}

/// A call of PutRecord.
#[derive(Debug, Clone, Default)]
pub struct PutRecordRequest {
    /// The stream.
    pub stream: StreamTarget,
    /// The record.
    pub record: PutRecordsEntry,
    /// A sequence number that the record's own shall be above, which it always is.
    pub sequence_number_for_ordering: Option<String>,
}

/// A call of PutRecords.
#[derive(Debug, Clone, Default)]
pub struct PutRecordsRequest {
    /// The stream.
    pub stream: StreamTarget,
    /// 1 to [`MAX_PUT_RECORDS`] records.
    pub records: Vec<PutRecordsEntry>,
}

/// Where a record went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutRecordResponse {
    /// The shard.
    pub shard_id: ShardId,
    /// The record's number in it.
    pub sequence_number: SequenceNumber,
    /// Whether the stream encrypts its records.
    pub encryption: EncryptionType,
}

/// The answer to PutRecords.
#[derive(Debug, Clone)]
pub struct PutRecordsResponse {
    /// For each record, in the order of the request, where it went or why it did not.
    pub records: Vec<Result<PutRecordResponse, KinesisError>>,
    /// Whether the stream encrypts its records.
    pub encryption: EncryptionType,
}

impl PutRecordsResponse {
    /// How many records were not taken.
    pub fn failed_record_count(&self) -> usize {
        self.records.iter().filter(|record| record.is_err()).count()
    }
}

impl Kinesis {
    /// Puts a record.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ValidationException` or `InvalidArgumentException`
    /// for a record that breaks a rule, `ProvisionedThroughputExceededException` under limits.
    pub fn put_record(
        &mut self,
        request: PutRecordRequest,
        now: Timestamp,
    ) -> Result<PutRecordResponse, KinesisError> {
        let limits = self.settings.limits;
        let stream = self.live_stream(&request.stream, now)?;
        let key = check_entry(stream, &request.record, format_args!(""))?;
        if let Some(number) = &request.sequence_number_for_ordering
            && SequenceParts::parse(number).is_none()
        {
            return Err(KinesisError::InvalidArgument(
                "SequenceNumberForOrdering is not a sequence number of this service.".to_owned(),
            ));
        }
        self.make_room(std::iter::once(request.record.size()), now);
        let stream = self.live_stream(&request.stream, now)?;
        let place = put(stream, request.record, key, limits, now)?;
        let name = stream.name.clone();
        self.wake(&name, [&place]);
        Ok(place)
    }

    /// Puts records, each into the shard of its hash key, in the order of the request. A shard without
    /// throughput left, under limits, keeps out its records alone.
    ///
    /// # Errors
    /// As [`Kinesis::put_record`] for any of the records that breaks a rule; then no record is put.
    pub fn put_records(
        &mut self,
        request: PutRecordsRequest,
        now: Timestamp,
    ) -> Result<PutRecordsResponse, KinesisError> {
        self.put_records_except(request, &BTreeMap::new(), now)
    }

    /// As [`Kinesis::put_records`], but the records at some places of the request, from 0, fail as told:
    /// `ProvisionedThroughputExceededException` and `InternalFailure`, with the message `Internal Service
    /// Failure`, are what the service has for a single record.
    ///
    /// # Errors
    /// As [`Kinesis::put_records`].
    pub fn put_records_except(
        &mut self,
        request: PutRecordsRequest,
        failures: &BTreeMap<usize, KinesisError>,
        now: Timestamp,
    ) -> Result<PutRecordsResponse, KinesisError> {
        let limits = self.settings.limits;
        let records = request.records;
        if records.is_empty() || records.len() > MAX_PUT_RECORDS {
            let rule = format!("Member must have length between 1 and {MAX_PUT_RECORDS}");
            return Err(KinesisError::constraint(
                format_args!("[{} records]", records.len()),
                "records",
                &rule,
            ));
        }
        let stream = self.live_stream(&request.stream, now)?;
        let mut keys = Vec::with_capacity(records.len());
        let mut size = 0;
        for (index, record) in records.iter().enumerate() {
            keys.push(check_entry(stream, record, format_args!("records.{}.member.", index + 1))?);
            size += record.size();
        }
        if size > MAX_PUT_BYTES {
            return Err(KinesisError::InvalidArgument(format!(
                "The records of a request may have {MAX_PUT_BYTES} bytes together, these have {size}."
            )));
        }
        self.make_room(records.iter().map(PutRecordsEntry::size), now);
        let stream = self.live_stream(&request.stream, now)?;
        let put_one = |(index, (record, key))| match failures.get(&index) {
            Some(error) => Err(error.clone()),
            None => put(stream, record, key, limits, now),
        };
        let records: Vec<_> = records.into_iter().zip(keys).enumerate().map(put_one).collect();
        let (name, encryption) = (stream.name.clone(), stream.encryption());
        self.wake(&name, records.iter().flatten());
        Ok(PutRecordsResponse { records, encryption })
    }

    /// Wakes the subscriptions to the shards that records went to.
    fn wake<'a>(&mut self, stream: &str, places: impl IntoIterator<Item = &'a PutRecordResponse>) {
        if self.subscriptions.is_empty() {
            return;
        }
        let shards = places.into_iter().filter_map(|place| shard_number(place.shard_id.as_str()));
        for shard in shards.collect::<BTreeSet<u64>>() {
            self.subscriptions.wake_shard(stream, shard);
        }
    }
}

/// Checks a record and gives the hash key that it goes by, none if it is any shard's turn. Messages tell
/// lengths, never contents.
fn check_entry(
    stream: &Stream,
    entry: &PutRecordsEntry,
    path: fmt::Arguments<'_>,
) -> Result<Option<HashKey>, KinesisError> {
    let characters = entry.partition_key.as_ref().map(|key| key.chars().count());
    if let Some(characters @ (0 | 257..)) = characters {
        return Err(KinesisError::constraint(
            format_args!("[{characters} characters]"),
            &format!("{path}partitionKey"),
            "Member must have length between 1 and 256",
        ));
    }
    let size = entry.size();
    let limit = stream.max_record_kib as usize * 1024;
    if entry.data.len() > limit {
        return Err(KinesisError::constraint(
            format_args!("[{} bytes]", entry.data.len()),
            &format!("{path}data"),
            &format!("Member must have length less than or equal to {limit}"),
        ));
    }
    if size > limit {
        return Err(KinesisError::InvalidArgument(format!(
            "A record of stream {} may have {limit} bytes with its partition key, this has {size}.",
            stream.name
        )));
    }
    if stream.distribution == RecordDistribution::Auto {
        return Ok(None);
    }
    match (&entry.partition_key, &entry.explicit_hash_key) {
        (None, _) => Err(KinesisError::missing(&format!("{path}partitionKey"))),
        (Some(key), None) => Ok(Some(HashKey::of_partition_key(key))),
        (Some(_), Some(text)) => parse_hash_key(text, format_args!("{path}explicitHashKey")).map(Some),
    }
}

/// Reads a hash key of a request: a text of the wrong form and a number that is too great are different
/// errors.
pub(crate) fn parse_hash_key(text: &str, member: impl fmt::Display) -> Result<HashKey, KinesisError> {
    text.parse().map_err(|_| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        if digits && (1..=39).contains(&text.len()) && (text == "0" || !text.starts_with('0')) {
            KinesisError::InvalidArgument(format!(
                "Invalid {member}: it must be in the range [0, 2^128-1], it was {text}"
            ))
        } else {
            let rule = "Member must satisfy regular expression pattern: 0|([1-9]\\d{0,38})";
            KinesisError::constraint(text, &member.to_string(), rule)
        }
    })
}

fn put(
    stream: &mut Stream,
    entry: PutRecordsEntry,
    key: Option<HashKey>,
    limits: bool,
    now: Timestamp,
) -> Result<PutRecordResponse, KinesisError> {
    let (horizon, encryption) = (stream.horizon(now), stream.encryption());
    let max_record = stream.max_record_kib as usize * 1024;
    let shard = match key {
        Some(key) => stream.route(key),
        None => stream.take_turn(),
    };
    let shard = shard
        .ok_or_else(|| KinesisError::InternalFailure("No open shard takes this hash key.".to_owned()))?;
    if limits && !shard.writes.admit(entry.size(), max_record, now) {
        let number = shard.number;
        return Err(stream.rate_exceeded(number));
    }
    shard.trim(horizon);
    let sequence_number = shard.append(entry.partition_key.as_deref(), &entry.data, encryption, now);
    Ok(PutRecordResponse { shard_id: shard.id.clone(), sequence_number, encryption })
}
