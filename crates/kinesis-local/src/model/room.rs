//! The memory that stored records take, and what goes when it is full.

use super::log::footprint;
use super::service::Kinesis;
use super::shard::ShardState;
use super::time::Timestamp;

/// When room has to be made, so much of all that there may be is kept free: one part in so many. A look at all
/// shards is then rare.
const FREE_PART: usize = 64;

/// How far the stored records are from their bound.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes that may be stored at least before room has to be made.
    left: usize,
    /// Records that went before their time.
    evicted: u64,
}

impl Kinesis {
    /// How many records went before their retention was over, to keep
    /// [`Settings::max_stored_bytes`](super::Settings::max_stored_bytes).
    pub fn evicted_records(&self) -> u64 {
        self.room.evicted
    }

    /// Makes room for records whose payloads and partition keys have these sizes.
    pub(crate) fn make_room(&mut self, sizes: impl Iterator<Item = usize>, now: Timestamp) {
        let needed = sizes.map(footprint).sum();
        if let Some(left) = self.room.left.checked_sub(needed) {
            self.room.left = left;
            return;
        }
        let bound = self.settings.max_stored_bytes;
        let used = self.evict(bound.saturating_sub(needed.max(bound / FREE_PART)), now);
        self.room.left = bound.saturating_sub(used).saturating_sub(needed);
    }

    /// Forgets records until the others take at most `bytes`, and gives what they take: first what the retention
    /// has outlived, then the oldest records of the biggest shards, so that these come to be of one size.
    fn evict(&mut self, bytes: usize, now: Timestamp) -> usize {
        self.streams.retain(|_, stream| !stream.is_gone(now));
        for stream in self.streams.values_mut() {
            stream.trim(now);
            let horizon = stream.horizon(now);
            stream.shards.values_mut().for_each(|shard| shard.trim(horizon));
        }
        let Some(level) = level(self.shards_mut().map(|shard| shard.footprint()).collect(), bytes) else {
            return self.shards_mut().map(|shard| shard.footprint()).sum();
        };
        let (mut used, mut evicted) = (0, 0);
        for shard in self.shards_mut() {
            evicted += shard.shrink(level);
            used += shard.footprint();
        }
        self.room.evicted += evicted;
        used
    }

    fn shards_mut(&mut self) -> impl Iterator<Item = &mut ShardState> {
        self.streams.values_mut().flat_map(|stream| stream.shards.values_mut())
    }
}

/// The greatest size that none may exceed so that all together do not exceed `bytes`; none if they do not as they
/// are.
fn level(mut sizes: Vec<usize>, bytes: usize) -> Option<usize> {
    sizes.sort_unstable();
    let mut left = bytes;
    for (index, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - index);
        if *size > share {
            return Some(share);
        }
        left -= size;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_biggest_give_and_the_small_keep_what_they_have() {
        assert_eq!(level(vec![], 0), None);
        assert_eq!(level(vec![1, 2, 3], 6), None);
        assert_eq!(level(vec![10, 1, 7], 12), Some(5));
        assert_eq!(level(vec![10, 10, 10], 0), Some(0));
        assert_eq!(level(vec![4, 0], 3), Some(3));
    }
}
