//! Sequence numbers: what Kinesis assigns to a record.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use crate::text::text_in_serde;

/// The sequence number of a Kinesis record: a decimal number, unique and rising within a shard.
///
/// A real one has 56 digits (some 186 bits), and emulators make them of any length, so that the number is kept as
/// the service's own text, leading zeros included, and compared as a number. Two texts of the same number are equal.
///
/// Cloning costs a reference count: all user records of an aggregated record share one text.
///
/// ```
/// use kinesis_record::SequenceNumber;
///
/// let nine: SequenceNumber = "9".parse()?;
/// let ten: SequenceNumber = "10".parse()?;
/// assert!(nine < ten);
/// assert_eq!("007".parse::<SequenceNumber>()?, "7".parse()?);
/// assert_eq!("007".parse::<SequenceNumber>()?.as_str(), "007");
/// # Ok::<(), kinesis_record::sequence::InvalidSequenceNumber>(())
/// ```
#[derive(Clone)]
pub struct SequenceNumber(Arc<str>);

text_in_serde!(SequenceNumber);

impl SequenceNumber {
    /// The text as it was parsed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn significant(&self) -> &str {
        self.0.trim_start_matches('0')
    }
}

/// A text that is no sequence number: anything but one or more ASCII digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no sequence number: it must be one or more of the digits 0 to 9")]
pub struct InvalidSequenceNumber(String);

impl FromStr for SequenceNumber {
    type Err = InvalidSequenceNumber;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidSequenceNumber(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

impl From<u128> for SequenceNumber {
    fn from(number: u128) -> Self {
        Self(number.to_string().into())
    }
}

impl Ord for SequenceNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (self.significant(), other.significant());
        left.len().cmp(&right.len()).then_with(|| left.cmp(right))
    }
}

impl PartialOrd for SequenceNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SequenceNumber {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SequenceNumber {}

impl Hash for SequenceNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.significant().hash(state);
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> SequenceNumber {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_of_different_length_compare_as_numbers() {
        let long = "49640000000000000000000000000000000000000000000000000002";
        assert!(number("9") < number("10"));
        assert!(number("99") < number(long));
        assert!(number(&long[..55]) < number(long));
        assert_eq!(number("000"), number("0"));
    }

    #[test]
    fn a_text_that_is_not_all_ascii_digits_is_refused() {
        for text in ["", "-1", "+1", " 1", "1e3", "TRIM_HORIZON", "\u{663}"] {
            assert!(text.parse::<SequenceNumber>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn order_is_that_of_numbers(a: u128, b: u128, zeros in 0usize..4) {
            let padded = number(&format!("{}{a}", "0".repeat(zeros)));
            prop_assert_eq!(padded.cmp(&SequenceNumber::from(b)), a.cmp(&b));
        }
    }
}
