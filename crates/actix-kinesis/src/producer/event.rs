//! What is sent.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use kinesis_record::HashKey;

/// The characters that a partition key may have at most.
const MAX_PARTITION_KEY: usize = 256;

/// An event to send. Cloning costs a few reference counts.
#[derive(Clone, PartialEq, Eq)]
pub struct ProducerEvent {
    /// The stream, by its name or ARN, if it is another than that of the configuration.
    pub stream: Option<Arc<str>>,
    /// The partition key: 1 to 256 characters of any script. Its MD5 decides the shard.
    pub partition_key: Arc<str>,
    /// The hash key that decides the shard in place of the partition key's.
    pub explicit_hash_key: Option<HashKey>,
    /// The payload. It may be empty, and is limited together with the partition key by `max-record-size`. One that is an
    /// aggregate of the KPL by itself is taken apart by readers if it is stored alone: the format has no escape.
    pub payload: Bytes,
}

impl ProducerEvent {
    /// An event for the stream of the configuration.
    pub fn new(partition_key: impl Into<Arc<str>>, payload: impl Into<Bytes>) -> Self {
        Self {
            stream: None,
            partition_key: partition_key.into(),
            explicit_hash_key: None,
            payload: payload.into(),
        }
    }

    /// The same for another stream, by its name or ARN.
    #[must_use]
    pub fn with_stream(self, stream: impl Into<Arc<str>>) -> Self {
        Self { stream: Some(stream.into()), ..self }
    }

    /// The same with a hash key that decides the shard.
    #[must_use]
    pub fn with_explicit_hash_key(self, key: HashKey) -> Self {
        Self { explicit_hash_key: Some(key), ..self }
    }

    /// What the service counts of it: payload and partition key, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.payload.len() + self.partition_key.len()
    }

    /// Checks what the service would refuse.
    pub(crate) fn check(&self, max_record_size: u64) -> Result<(), InvalidEvent> {
        let characters = self.partition_key.chars().count();
        if !(1..=MAX_PARTITION_KEY).contains(&characters) {
            return Err(InvalidEvent::PartitionKey { characters });
        }
        if self.size() as u64 > max_record_size {
            return Err(InvalidEvent::TooLarge { bytes: self.size(), max: max_record_size });
        }
        match &self.stream {
            Some(stream) if !is_stream(stream) => Err(InvalidEvent::Stream { name: stream.to_string() }),
            _ => Ok(()),
        }
    }
}

/// Neither key nor payload is shown: both may be private. Nor is the key's hash, from which a key that can be guessed is
/// found.
impl fmt::Debug for ProducerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerEvent")
            .field("stream", &self.stream)
            .field("partition_key_bytes", &self.partition_key.len())
            .field("explicit_hash_key", &self.explicit_hash_key)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

/// Why an event can never be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEvent {
    /// The partition key is empty or too long.
    #[error("the partition key has {characters} characters, and 1 to 256 are allowed")]
    PartitionKey {
        /// How many it has.
        characters: usize,
    },
    /// Payload and partition key are too long.
    #[error(
        "payload and partition key have {bytes} bytes, and max-record-size allows {max}; where the stream's own limit \
         is higher, raise it"
    )]
    TooLarge {
        /// How many there are.
        bytes: usize,
        /// How many are allowed.
        max: u64,
    },
    /// It is larger than all that an outbox may keep.
    #[error(
        "the event counts {bytes} bytes, and outbox.max-bytes allows {max} for all that is kept: raise it"
    )]
    TooLargeToKeep {
        /// What is counted of it.
        bytes: u64,
        /// How much is allowed.
        max: u64,
    },
    /// The stream's name is none.
    #[error("{name:?} is no stream: it must be an ARN or 1 to 128 of the characters a-z A-Z 0-9 _ . -")]
    Stream {
        /// The name.
        name: String,
    },
}

fn is_stream(stream: &str) -> bool {
    let is_name = |name: &str| {
        (1..=128).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    match stream.strip_prefix("arn:") {
        Some(arn) => arn.split_once(":stream/").is_some_and(|(_, name)| is_name(name)),
        None => is_name(stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::producer::outcome::{SendError, SendReason};
    use crate::producer::record::Record;

    const MAX: u64 = 1 << 20;

    fn event(partition_key: &str, payload: usize) -> ProducerEvent {
        ProducerEvent::new(partition_key, vec![0; payload])
    }

    #[test]
    fn keys_are_counted_in_characters_of_any_script() {
        assert_eq!(event(&"\u{10348}".repeat(256), 1).check(MAX), Ok(()));
        for (key, characters) in [(String::new(), 0), ("\u{663}".repeat(257), 257)] {
            assert_eq!(event(&key, 1).check(MAX), Err(InvalidEvent::PartitionKey { characters }));
        }
    }

    #[test]
    fn payload_and_key_are_limited_together_and_an_empty_payload_is_one() {
        assert_eq!(event("k", 0).check(MAX), Ok(()));
        assert_eq!(event("k", (1 << 20) - 1).check(MAX), Ok(()));
        let refused = event("k", 1 << 20).check(MAX);
        assert_eq!(refused, Err(InvalidEvent::TooLarge { bytes: (1 << 20) + 1, max: MAX }));
    }

    #[test]
    fn a_stream_is_a_name_or_an_arn() {
        for stream in ["orders", "a.b_c-9", "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"] {
            assert_eq!(event("k", 1).with_stream(stream).check(MAX), Ok(()), "{stream}");
        }
        for stream in ["", "a b", "a/b", "arn:aws:kinesis", &"x".repeat(129)] {
            assert!(event("k", 1).with_stream(stream).check(MAX).is_err(), "{stream}");
        }
    }

    #[test]
    fn neither_key_nor_payload_is_shown() {
        let event = ProducerEvent::new("customer", "secret");
        let hash = HashKey::of_partition_key("customer");
        let (shown, failed) = (format!("{event:?}"), SendError::new(event.clone(), SendReason::Full));
        let (record, _) = Record::new(event, tokio::time::Instant::now());
        for shown in [shown, format!("{failed:?}"), format!("{record:?}")] {
            assert!(shown.contains("payload_bytes: 6"), "{shown}");
            for private in ["customer", "secret", &hash.0.to_string(), &format!("{hash:?}")] {
                assert!(!shown.contains(private), "{shown}");
            }
        }
    }
}
