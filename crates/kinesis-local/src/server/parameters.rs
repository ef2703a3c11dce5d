//! What a request says, in JSON or CBOR.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::cbor::MAX_DEPTH;
use super::rules;
use crate::faults::Names;
use crate::model::{
    ConsumerTarget, KinesisError, PutRecordsEntry, RecordDistribution, StreamMode, StreamTarget, Timestamp,
};

/// The members of all requests, which mean the same wherever they occur. Others are passed over: newer
/// clients send members that this service does not know.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Parameters {
    pub(crate) stream_name: Option<String>,
    #[serde(rename = "StreamARN")]
    pub(crate) stream_arn: Option<String>,
    pub(crate) shard_count: Option<i64>,
    pub(crate) target_shard_count: Option<i64>,
    pub(crate) scaling_type: Option<String>,
    pub(crate) record_distribution_strategy: Option<String>,
    pub(crate) stream_mode_details: Option<StreamModeDetails>,
    #[serde(rename = "MaxRecordSizeInKiB")]
    pub(crate) max_record_size_in_kib: Option<i64>,
    pub(crate) retention_period_hours: Option<i64>,
    pub(crate) exclusive_start_stream_name: Option<String>,
    pub(crate) exclusive_start_shard_id: Option<String>,
    pub(crate) limit: Option<i64>,
    pub(crate) max_results: Option<i64>,
    pub(crate) next_token: Option<String>,
    pub(crate) shard_filter: Option<ShardFilterParameter>,
    pub(crate) shard_id: Option<String>,
    pub(crate) shard_iterator_type: Option<String>,
    pub(crate) starting_sequence_number: Option<String>,
    pub(crate) timestamp: Option<Instant>,
    pub(crate) shard_iterator: Option<String>,
    pub(crate) shard_to_split: Option<String>,
    pub(crate) new_starting_hash_key: Option<String>,
    pub(crate) shard_to_merge: Option<String>,
    pub(crate) adjacent_shard_to_merge: Option<String>,
    pub(crate) data: Option<Blob>,
    pub(crate) partition_key: Option<String>,
    pub(crate) explicit_hash_key: Option<String>,
    pub(crate) sequence_number_for_ordering: Option<String>,
    pub(crate) records: Option<Vec<RecordParameter>>,
    pub(crate) enforce_consumer_deletion: Option<bool>,
    pub(crate) stream_creation_timestamp: Option<Instant>,
    pub(crate) consumer_name: Option<String>,
    #[serde(rename = "ConsumerARN")]
    pub(crate) consumer_arn: Option<String>,
    pub(crate) starting_position: Option<StartingPositionParameter>,
    pub(crate) tags: Option<BTreeMap<String, String>>,
    pub(crate) tag_keys: Option<Vec<String>>,
    pub(crate) exclusive_start_tag_key: Option<String>,
    #[serde(rename = "ResourceARN")]
    pub(crate) resource_arn: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) encryption_type: Option<String>,
    pub(crate) key_id: Option<String>,
    pub(crate) shard_level_metrics: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StreamModeDetails {
    stream_mode: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ShardFilterParameter {
    pub(crate) r#type: Option<String>,
    pub(crate) shard_id: Option<String>,
    pub(crate) timestamp: Option<Instant>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StartingPositionParameter {
    pub(crate) r#type: Option<String>,
    pub(crate) sequence_number: Option<String>,
    pub(crate) timestamp: Option<Instant>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct RecordParameter {
    data: Option<Blob>,
    partition_key: Option<String>,
    explicit_hash_key: Option<String>,
}

/// Bytes: base64 text in JSON, a byte string in CBOR.
#[derive(Debug)]
pub(crate) struct Blob(Bytes);

/// An instant, cut to milliseconds, the finest there is: rounded up, the present would be in the future. Seconds with a
/// fraction in JSON; integer milliseconds in CBOR, under a tag or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl Parameters {
    /// Reads a request.
    ///
    /// # Errors
    /// `SerializationException` for what is no JSON object, or has a member of the wrong type;
    /// `ValidationException` for a text that breaks the rules of its form.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, KinesisError> {
        // Serde would also take an array for a struct.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(KinesisError::Serialization("The request is not a JSON object.".to_owned()));
        }
        let parameters = serde_json::from_slice(body).map_err(|error| {
            // The text of the error may show a piece of the request, hence of a payload.
            KinesisError::Serialization(format!(
                "The request is not the JSON that the operation takes: line {}, column {}.",
                error.line(),
                error.column()
            ))
        })?;
        rules::check(&parameters)?;
        Ok(parameters)
    }

    /// Reads a request in CBOR.
    ///
    /// # Errors
    /// `SerializationException` for what is no CBOR map, or has a member of the wrong type.
    pub(crate) fn parse_cbor(mut body: &[u8]) -> Result<Self, KinesisError> {
        match ciborium::de::from_reader_with_recursion_limit(&mut body, MAX_DEPTH) {
            Ok(parameters) if body.is_empty() => {
                rules::check(&parameters)?;
                Ok(parameters)
            }
            // The text of an error may show a piece of the request, hence of a payload.
            _ => Err(KinesisError::Serialization(
                "The request is not the CBOR that the operation takes.".to_owned(),
            )),
        }
    }

    /// What the request names.
    pub(crate) fn names(&self) -> Names<'_> {
        fn borrowed(text: &Option<String>) -> Option<Cow<'_, str>> {
            text.as_deref().map(Cow::Borrowed)
        }
        Names {
            stream_name: borrowed(&self.stream_name),
            stream_arn: borrowed(&self.stream_arn),
            consumer_arn: borrowed(&self.consumer_arn),
            resource_arn: borrowed(&self.resource_arn),
            shard_id: borrowed(&self.shard_id),
            shard_to_split: borrowed(&self.shard_to_split),
            shard_to_merge: borrowed(&self.shard_to_merge),
            adjacent_shard_to_merge: borrowed(&self.adjacent_shard_to_merge),
            shard_iterator: borrowed(&self.shard_iterator),
        }
    }

    pub(crate) fn target(&mut self) -> StreamTarget {
        StreamTarget { name: self.stream_name.take(), arn: self.stream_arn.take() }
    }

    /// The stream of an operation that wants its ARN.
    ///
    /// # Errors
    /// `ValidationException` without one.
    pub(crate) fn target_by_arn(&mut self) -> Result<StreamTarget, KinesisError> {
        let target = self.target();
        match target.arn {
            Some(_) => Ok(target),
            None => Err(KinesisError::missing("streamARN")),
        }
    }

    pub(crate) fn consumer(&mut self) -> ConsumerTarget {
        ConsumerTarget {
            arn: self.consumer_arn.take(),
            name: self.consumer_name.take(),
            stream_arn: self.stream_arn.take(),
        }
    }

    pub(crate) fn mode(&self) -> Result<Option<StreamMode>, KinesisError> {
        let Some(details) = &self.stream_mode_details else { return Ok(None) };
        match details.stream_mode.as_deref() {
            None => Err(KinesisError::missing("streamModeDetails.streamMode")),
            Some("PROVISIONED") => Ok(Some(StreamMode::Provisioned)),
            Some("ON_DEMAND") => Ok(Some(StreamMode::OnDemand)),
            Some(other) => Err(not_in_enum(other, "streamModeDetails.streamMode", "PROVISIONED, ON_DEMAND")),
        }
    }

    pub(crate) fn distribution(&self) -> Result<Option<RecordDistribution>, KinesisError> {
        match self.record_distribution_strategy.as_deref() {
            None => Ok(None),
            Some("USER_PARTITION_KEY") => Ok(Some(RecordDistribution::UserPartitionKey)),
            Some("AUTO") => Ok(Some(RecordDistribution::Auto)),
            Some(other) => Err(not_in_enum(other, "recordDistributionStrategy", "AUTO, USER_PARTITION_KEY")),
        }
    }

    /// The one record of PutRecord.
    pub(crate) fn record(&mut self) -> Result<PutRecordsEntry, KinesisError> {
        let record = RecordParameter {
            data: self.data.take(),
            partition_key: self.partition_key.take(),
            explicit_hash_key: self.explicit_hash_key.take(),
        };
        record.entry(format_args!(""))
    }

    /// The records of PutRecords.
    pub(crate) fn entries(&mut self) -> Result<Vec<PutRecordsEntry>, KinesisError> {
        let records = required(self.records.take(), "records")?;
        let numbered = records.into_iter().zip(1..);
        numbered.map(|(record, number)| record.entry(format_args!("records.{number}.member."))).collect()
    }
}

impl RecordParameter {
    fn entry(self, path: fmt::Arguments<'_>) -> Result<PutRecordsEntry, KinesisError> {
        Ok(PutRecordsEntry {
            data: self.data.ok_or_else(|| KinesisError::missing(&format!("{path}data")))?.0,
            partition_key: self.partition_key,
            explicit_hash_key: self.explicit_hash_key,
        })
    }
}

/// The value of a member that an operation needs.
pub(crate) fn required<T>(value: Option<T>, member: &str) -> Result<T, KinesisError> {
    value.ok_or_else(|| KinesisError::missing(member))
}

/// A count; the model checks its range above 0.
pub(crate) fn count(value: Option<i64>, member: &str) -> Result<Option<u32>, KinesisError> {
    let convert = |value: i64| {
        u32::try_from(value).map_err(|_| {
            let rule = if value < 0 {
                "Member must have value greater than or equal to 1"
            } else {
                "Member must have value less than or equal to 2147483647"
            };
            KinesisError::constraint(value, member, rule)
        })
    };
    value.map(convert).transpose()
}

pub(crate) fn not_in_enum(value: &str, member: &str, values: &str) -> KinesisError {
    KinesisError::constraint(value, member, &format!("Member must satisfy enum value set: [{values}]"))
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Payload;
        impl Visitor<'_> for Payload {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a payload")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Blob, E> {
                STANDARD.decode(text).map(|bytes| Blob(bytes.into())).map_err(E::custom)
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Blob, E> {
                Ok(Blob(bytes.into()))
            }
        }
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_str(Payload),
            false => deserializer.deserialize_byte_buf(Payload),
        }
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let millis = match deserializer.is_human_readable() {
            true => whole_millis(f64::deserialize(deserializer)?),
            false => u64::deserialize(deserializer)?,
        };
        Ok(Self(Timestamp::from_millis(millis)))
    }
}

/// The last millisecond that is not after this many seconds. Few milliseconds are a float in seconds: what is the
/// nearest to one means it.
fn whole_millis(seconds: f64) -> u64 {
    let nearest = (seconds * 1_000.0).round();
    // A cast of a float saturates, and takes NaN for 0.
    if nearest / 1_000.0 > seconds { (nearest - 1.0) as u64 } else { nearest as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_instant_between_two_milliseconds_is_the_earlier() {
        for (seconds, millis) in [
            (1_700_000_000.122_9, 1_700_000_000_122),
            (1_700_000_000.999_999, 1_700_000_000_999),
            (0.000_9, 0),
            (-1.0, 0),
            (f64::NAN, 0),
            (f64::INFINITY, u64::MAX),
        ] {
            assert_eq!(whole_millis(seconds), millis, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn a_whole_millisecond_stays_itself(millis in 0_u64..4_102_444_800_000) {
            let text = Timestamp::from_millis(millis).to_string();
            prop_assert_eq!(whole_millis(text.parse().unwrap()), millis);
        }
    }
}
