//! Hash keys: how Kinesis maps a record to a shard.

use std::fmt;
use std::str::FromStr;

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use crate::text::text_in_serde;

/// The 128-bit number that decides to which shard a record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashKey(pub u128);

text_in_serde!(HashKey);

impl HashKey {
    /// The smallest hash key, 0.
    pub const MIN: Self = Self(0);
    /// The greatest hash key, 2^128 − 1.
    pub const MAX: Self = Self(u128::MAX);

    /// The hash key of a partition key: the MD5 of its UTF-8 bytes, read as a big-endian number.
    ///
    /// ```
    /// use kinesis_record::HashKey;
    /// assert_eq!(HashKey::of_partition_key("abcd").0, 0xE2FC714C4727EE9395F324CD2E7F331F);
    /// ```
    pub fn of_partition_key(partition_key: &str) -> Self {
        Self(u128::from_be_bytes(Md5::digest(partition_key.as_bytes()).into()))
    }
}

/// A text that is no hash key: the service takes `0` or a decimal number without leading zeros, below 2^128.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no hash key: it must be a decimal number from 0 to 2^128 - 1 without leading zeros")]
pub struct InvalidHashKey(String);

impl FromStr for HashKey {
    type Err = InvalidHashKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let canonical =
            text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        match text.parse() {
            Ok(number) if canonical => Ok(Self(number)),
            _ => Err(InvalidHashKey(text.to_owned())),
        }
    }
}

impl fmt::Display for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hash keys that belong to a shard, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HashRange {
    /// The first hash key.
    pub start: HashKey,
    /// The last hash key.
    pub end: HashKey,
}

impl HashRange {
    /// All hash keys.
    pub const ALL: Self = Self { start: HashKey::MIN, end: HashKey::MAX };

    /// Whether `key` belongs to the range.
    pub fn contains(&self, key: HashKey) -> bool {
        self.start <= key && key <= self.end
    }

    /// Whether the range ends just before `next` starts, as the halves of a split shard do.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        self.end.0.checked_add(1) == Some(next.start.0)
    }
}

impl fmt::Display for HashRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_services_own_form_of_a_hash_key_is_taken() {
        let greatest = u128::MAX.to_string();
        assert_eq!("0".parse(), Ok(HashKey::MIN));
        assert_eq!(greatest.parse(), Ok(HashKey::MAX));
        let too_great = "340282366920938463463374607431768211456";
        for text in ["-1", "+1", too_great, "00", "007", "", "1e3", " 5", "\u{663}", "undefined"] {
            assert!(text.parse::<HashKey>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn both_ends_belong_to_a_range() {
        let range = HashRange { start: HashKey(10), end: HashKey(20) };
        assert!(range.contains(HashKey(10)) && range.contains(HashKey(20)));
        assert!(!range.contains(HashKey(9)) && !range.contains(HashKey(21)));
        assert!(range.is_followed_by(&HashRange { start: HashKey(21), end: HashKey::MAX }));
        assert!(!HashRange::ALL.is_followed_by(&HashRange::ALL));
    }
}
