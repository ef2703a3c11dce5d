//! What a sequence number is made of.
//!
//! The service's numbers have 186 bits, written as 56 decimal digits. From the top:
//!
//! | bits | meaning |
//! |---|---|
//! | 2 | the version, 2 |
//! | 36 | the second of the shard's creation |
//! | 4 | the shard's number, low bits |
//! | 64 | the record's index in the shard, from 1 |
//! | 4 | 0 |
//! | 36 | the second of the record's arrival |
//! | 36 | the shard's number |
//! | 4 | 2 |
//!
//! The KCL reads the shard's number out of them. As a child's second of creation is above its parents', all
//! its numbers are above theirs.

use kinesis_record::SequenceNumber;

const VERSION: u64 = 2;
const TAIL: u128 = 2;
const BITS_36: u64 = (1 << 36) - 1;
const CHUNK: u128 = 10_000_000_000_000_000_000;

/// The parts of a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SequenceParts {
    /// The second of the shard's creation.
    pub(crate) epoch: u64,
    /// The shard's number.
    pub(crate) shard: u64,
    /// The record's index in the shard, from 1; 0 is the shard's starting number.
    pub(crate) index: u64,
    /// The second of the record's arrival.
    pub(crate) second: u64,
}

impl SequenceParts {
    /// The number as the service writes it.
    pub(crate) fn number(self) -> SequenceNumber {
        let shard = self.shard & BITS_36;
        let high = VERSION << 56 | (self.epoch & BITS_36) << 20 | (shard & 0xf) << 16 | self.index >> 48;
        let low = u128::from(self.index & 0xffff_ffff_ffff) << 80
            | u128::from(self.second & BITS_36) << 40
            | u128::from(shard) << 4
            | TAIL;
        let mut limbs = [high, (low >> 64) as u64, low as u64];
        // The version makes it 56 digits: three chunks of 19, of which the first begins with a zero.
        let mut digits = [b'0'; 57];
        for end in [57, 38, 19] {
            let mut chunk = take_chunk(&mut limbs);
            for digit in digits[..end].iter_mut().rev().take(19) {
                *digit += (chunk % 10) as u8;
                chunk /= 10;
            }
        }
        std::str::from_utf8(&digits[1..])
            .ok()
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| SequenceNumber::from(0))
    }

    /// The parts of `text`, unless it is nothing that [`SequenceParts::number`] could have written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > 56 {
            return None;
        }
        let mut limbs = [0; 3];
        for digit in text.bytes() {
            add_digit(&mut limbs, char::from(digit).to_digit(10)?);
        }
        let high = limbs[0];
        let low = u128::from(limbs[1]) << 64 | u128::from(limbs[2]);
        let parts = Self {
            epoch: high >> 20 & BITS_36,
            shard: (low >> 4) as u64 & BITS_36,
            index: high << 48 | (low >> 80) as u64,
            second: (low >> 40) as u64 & BITS_36,
        };
        (parts.number().as_str() == text).then_some(parts)
    }
}

/// Divides the number in `limbs` by 10^19 and gives the remainder.
fn take_chunk(limbs: &mut [u64; 3]) -> u64 {
    let mut remainder = 0;
    for limb in limbs {
        let current = remainder << 64 | u128::from(*limb);
        *limb = (current / CHUNK) as u64;
        remainder = current % CHUNK;
    }
    remainder as u64
}

/// Appends a decimal digit to the number in `limbs`.
fn add_digit(limbs: &mut [u64; 3], digit: u32) {
    let mut carry = u128::from(digit);
    for limb in limbs.iter_mut().rev() {
        let current = u128::from(*limb) * 10 + carry;
        *limb = current as u64;
        carry = current >> 64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts() -> impl Strategy<Value = SequenceParts> {
        (0..=BITS_36, 0..=BITS_36, any::<u64>(), 0..=BITS_36)
            .prop_map(|(epoch, shard, index, second)| SequenceParts { epoch, shard, index, second })
    }

    #[test]
    fn a_number_looks_like_the_services_own() {
        let parts = SequenceParts { epoch: 1_683_000_000, shard: 3, index: 17, second: 1_683_000_009 };
        let number = parts.number();
        assert_eq!(number.as_str().len(), 56);
        assert!(number.as_str().starts_with("4964"), "{number}");
    }

    #[test]
    fn what_no_shard_could_have_given_is_refused() {
        let nines = "9".repeat(56);
        for text in ["", "0", "5", "abc", "-1", "TRIM_HORIZON", &nines, &"4".repeat(57)] {
            assert_eq!(SequenceParts::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_survive_their_text(parts in parts()) {
            let number = parts.number();
            prop_assert_eq!(number.as_str().len(), 56);
            prop_assert_eq!(SequenceParts::parse(number.as_str()), Some(parts));
        }

        #[test]
        fn order_is_by_epoch_then_by_index(a in parts(), b in parts()) {
            let (low, high) = if a.epoch <= b.epoch { (a, b) } else { (b, a) };
            prop_assume!(low.epoch < high.epoch);
            prop_assert!(low.number() < high.number());
            let later = SequenceParts { index: a.index / 2 + 1, ..a };
            let earlier = SequenceParts { index: a.index / 2, second: BITS_36, ..a };
            prop_assert!(earlier.number() < later.number());
        }
    }
}
