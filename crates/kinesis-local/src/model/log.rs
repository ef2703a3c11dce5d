//! The records of a shard in memory. The bytes of neighbours lie together in blocks, so that a record costs no
//! allocation of its own: records come and go by the million, and in the same order.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::encryption::EncryptionType;
use super::time::Timestamp;

/// The least and the greatest block.
const BLOCKS: (usize, usize) = (1 << 10, 64 << 10);
/// A new block is at most this part of what is there, so that little is lost in blocks that are not full, or of which
/// only the last records are left.
const BLOCK_PART: usize = 16;
/// Places for records that may be kept for nothing.
const SPARE: usize = 64;
/// What a record takes beside its bytes: its place, with as much again for places that are not taken, and its part of
/// what is lost in blocks.
const OVERHEAD: usize = 2 * size_of::<Stored>() + 32;

/// A record as it is kept.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) arrival: Timestamp,
    pub(crate) encryption: EncryptionType,
    /// How many of the bytes are the partition key, if there is one. The rest is the payload.
    key: Option<u16>,
    bytes: Bytes,
}

impl Stored {
    /// Bytes of payload and partition key.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn partition_key(&self) -> Option<Arc<str>> {
        let key = self.bytes.get(..usize::from(self.key?))?;
        std::str::from_utf8(key).ok().map(Arc::from)
    }

    pub(crate) fn data(&self) -> Bytes {
        self.bytes.slice(usize::from(self.key.unwrap_or(0))..)
    }
}

/// Bytes of memory that a record takes with so many bytes of payload and partition key.
pub(crate) const fn footprint(size: usize) -> usize {
    size + OVERHEAD
}

/// Records in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Log {
    records: VecDeque<Stored>,
    /// What is free of the last block.
    block: BytesMut,
    /// Bytes of memory that the records take.
    footprint: usize,
}

impl Log {
    pub(crate) fn records(&self) -> &VecDeque<Stored> {
        &self.records
    }

    pub(crate) fn footprint(&self) -> usize {
        self.footprint
    }

    pub(crate) fn push(
        &mut self,
        partition_key: Option<&str>,
        data: &[u8],
        encryption: EncryptionType,
        arrival: Timestamp,
    ) {
        let text = partition_key.unwrap_or_default();
        // A key has 256 characters at most, hence 1 KiB.
        let key = partition_key.and_then(|key| u16::try_from(key.len()).ok());
        let size = text.len() + data.len();
        if self.block.capacity() < size {
            let (least, greatest) = BLOCKS;
            let block = (self.footprint / BLOCK_PART).clamp(least, greatest);
            self.block = BytesMut::with_capacity(block.max(size));
        }
        self.block.extend_from_slice(text.as_bytes());
        self.block.extend_from_slice(data);
        let bytes = self.block.split().freeze();
        self.footprint += footprint(size);
        self.records.push_back(Stored { arrival, encryption, key, bytes });
    }

    /// Forgets the oldest record as long as `goes` says so of what all take and of it. Gives how many went.
    pub(crate) fn forget_while(&mut self, goes: impl Fn(usize, &Stored) -> bool) -> u64 {
        let mut gone = 0;
        while let Some(oldest) = self.records.front().filter(|oldest| goes(self.footprint, oldest)) {
            self.footprint -= footprint(oldest.size());
            self.records.pop_front();
            gone += 1;
        }
        // As many free places as there are records are not given back: they would soon be needed again.
        if self.records.capacity() > 4 * self.records.len() + SPARE {
            self.records.shrink_to(2 * self.records.len());
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in_whatever_their_size() {
        let mut log = Log::default();
        let sizes = [0, 1, 1_000, 100_000, 3, 70_000, 0, 2_000];
        for size in sizes.repeat(50) {
            log.push(Some("key \u{6771}"), &vec![7; size], EncryptionType::None, Timestamp::default());
            log.push(None, &vec![8; size], EncryptionType::None, Timestamp::default());
        }
        assert_eq!(log.records().len(), 800);
        for (pair, size) in log.records().as_slices().0.chunks(2).zip(sizes.repeat(50)) {
            assert_eq!(pair[0].partition_key().as_deref(), Some("key \u{6771}"));
            assert_eq!((pair[0].data(), pair[1].data()), (vec![7; size].into(), vec![8; size].into()));
            assert_eq!(pair[1].partition_key(), None);
        }
    }

    #[test]
    fn what_is_forgotten_takes_nothing_any_more() {
        let mut log = Log::default();
        for _ in 0..10_000 {
            log.push(Some("k"), &[7; 100], EncryptionType::None, Timestamp::default());
        }
        assert_eq!(log.footprint(), 10_000 * footprint(101));
        assert_eq!(log.forget_while(|left, _| left > 10 * footprint(101)), 9_990);
        assert_eq!((log.records().len(), log.footprint()), (10, 10 * footprint(101)));
        assert!(log.records().capacity() < 200);
        assert_eq!(log.forget_while(|_, _| true), 10);
        assert_eq!(log.footprint(), 0);
    }
}
