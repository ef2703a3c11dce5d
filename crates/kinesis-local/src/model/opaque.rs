//! Shard iterators and paging tokens: texts whose inside is nobody's business.
//!
//! The state travels in the text itself, so that the service need not remember what it has handed out. A
//! checksum tells a text that was made here from any other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How many milliseconds a paging token is good: five minutes.
pub(crate) const TOKEN_LIFETIME: u64 = 300_000;

/// What a sealed text is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seal {
    ShardIterator = 1,
    ListShards = 2,
    ListStreams = 3,
    ListStreamConsumers = 4,
}

/// A sealed text with `numbers` and `name` inside.
pub(crate) fn seal(kind: Seal, numbers: &[u64], name: &str) -> String {
    let mut bytes = vec![kind as u8];
    bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    bytes.extend(name.as_bytes());
    bytes.extend(checksum(&bytes).to_be_bytes());
    STANDARD.encode(bytes)
}

/// What [`seal`] put into `text`, unless `text` does not come from there.
pub(crate) fn open<const N: usize>(kind: Seal, text: &str) -> Option<([u64; N], String)> {
    let bytes = STANDARD.decode(text).ok()?;
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    if u64::from_be_bytes(*sum) != checksum(content) {
        return None;
    }
    let (first, mut rest) = content.split_first()?;
    if *first != kind as u8 {
        return None;
    }
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (head, tail) = rest.split_first_chunk::<8>()?;
        *number = u64::from_be_bytes(*head);
        rest = tail;
    }
    Some((numbers, String::from_utf8(rest.to_vec()).ok()?))
}

/// FNV-1a: against mistakes, not against malice.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_comes_out_again() {
        let text = seal(Seal::ShardIterator, &[1, u64::MAX], "flights");
        assert_eq!(open(Seal::ShardIterator, &text), Some(([1, u64::MAX], "flights".to_owned())));
    }

    #[test]
    fn a_text_of_another_kind_or_from_elsewhere_does_not_open() {
        let token = seal(Seal::ListShards, &[1], "flights");
        assert_eq!(open::<1>(Seal::ShardIterator, &token), None);
        assert_eq!(open::<1>(Seal::ListShards, &token[4..]), None);
        for text in ["", "garbage", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(open::<1>(Seal::ShardIterator, text), None, "{text:?}");
        }
    }
}
