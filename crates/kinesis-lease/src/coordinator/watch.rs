//! The lease table as this process has watched it.

use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_record::{Checkpoint, HashRange, Position, ShardId};

use crate::lease::{Lease, NewLease};
use crate::lineage::{self, Rows, ShardList};

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The rows as last seen or written by this process.
    pub(super) rows: Rows,
    /// What this process has seen of the rows whose leases it does not hold.
    seen: BTreeMap<ShardId, Seen>,
    /// Rows that were deleted, or cannot be read any more, as they were.
    deleted: Rows,
    /// Since when rows cannot be read.
    unreadable: BTreeMap<ShardId, Duration>,
}

/// How a row has changed before this process's eyes.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Since when its counter stands still.
    unmoved_since: Duration,
    /// Since when its reader is the same; nothing if it has been since the row was first seen.
    reader_since: Option<Duration>,
    /// Whether its counter has moved since its reader was a new one.
    is_renewed: bool,
    /// Since when its owner offers it.
    offered_since: Option<Duration>,
}

impl Watch {
    /// Takes note of a row as somebody else may have left it.
    pub(super) fn see(&mut self, now: Duration, row: Lease) {
        let known = self.rows.get(&row.shard);
        let has_moved = known.is_none_or(|known| known.counter != row.counter || known.owner != row.owner);
        let has_new_reader = known.is_some_and(|known| known.reader() != row.reader());
        let former = self.seen.get(&row.shard).copied();
        let offered_since = row.is_offered.then(|| former.and_then(|seen| seen.offered_since).unwrap_or(now));
        let seen = match former {
            Some(seen) if !has_moved => Seen { offered_since, ..seen },
            former => Seen {
                unmoved_since: now,
                reader_since: if has_new_reader {
                    Some(now)
                } else {
                    former.and_then(|former| former.reader_since)
                },
                is_renewed: !has_new_reader,
                offered_since,
            },
        };
        self.seen.insert(row.shard.clone(), seen);
        self.deleted.remove(&row.shard);
        self.rows.insert(row.shard.clone(), row);
    }

    /// Takes note of a row of a lease that this process holds, which is not watched for others' renewals.
    pub(super) fn know(&mut self, row: Lease) {
        self.seen.remove(&row.shard);
        self.deleted.remove(&row.shard);
        self.rows.insert(row.shard.clone(), row);
    }

    /// Takes note of a row that this process has created.
    pub(super) fn created(&mut self, new: NewLease) {
        self.deleted.remove(&new.shard);
        self.rows.entry(new.shard.clone()).or_insert_with(|| new.into());
    }

    /// The row is not in the table any more.
    pub(super) fn forget(&mut self, shard: &ShardId) {
        self.seen.remove(shard);
        self.deleted.extend(self.rows.remove_entry(shard));
    }

    /// The rows that are to be created: those that were deleted, as they were, and those that never were.
    ///
    /// A finished row that was deleted stays so, unless a child that has not begun would wait for it: that is how
    /// finished shards are cleaned up. It may have been finished since it was last seen.
    ///
    /// A row that cannot be read is none of them, nor is one that is `coming`.
    pub(super) fn missing<'a>(
        &mut self,
        list: &ShardList,
        initial: &Checkpoint,
        coming: impl ExactSizeIterator<Item = &'a NewLease>,
    ) -> Vec<NewLease> {
        self.deleted.retain(|shard, _| list.get(shard).is_some());
        if self.deleted.is_empty() && self.unreadable.is_empty() && coming.len() == 0 {
            return lineage::missing_leases(&self.rows, list, initial);
        }
        let mut all = self.deleted.clone();
        all.extend(self.rows.clone());
        for (shard, row) in self.deleted.iter_mut().filter(|(_, row)| !row.is_finished()) {
            if lineage::is_passed(shard, &all, list) {
                row.checkpoint = Checkpoint::ShardEnd;
            }
        }
        all.extend(self.deleted.iter().map(|(shard, row)| (shard.clone(), row.clone())));
        for shard in self.unreadable.keys() {
            all.entry(shard.clone()).or_insert_with(|| unreadable_row(shard));
        }
        for new in coming {
            all.entry(new.shard.clone()).or_insert_with(|| new.clone().into());
        }
        let never = lineage::missing_leases(&all, list, initial);
        let is_wanted = |row: &&Lease| !row.is_finished() || lineage::is_awaited(&row.shard, &all);
        let deleted = self.deleted.values().filter(is_wanted);
        let deleted = deleted.filter(|row| !self.unreadable.contains_key(&row.shard));
        let again = deleted.filter_map(|row| Some(row.recreated(list.get(&row.shard)?.hash_range)));
        again.chain(never).collect()
    }

    /// Takes note of the rows that a scan could not read. Returns those that it could not read before, and now does not
    /// fail to.
    pub(super) fn cannot_read(&mut self, now: Duration, shards: Vec<ShardId>) -> Vec<ShardId> {
        let since = |shard: ShardId| {
            let since = self.unreadable.get(&shard).copied().unwrap_or(now);
            (shard, since)
        };
        let unreadable = shards.into_iter().map(since).collect();
        let mut former = std::mem::replace(&mut self.unreadable, unreadable);
        former.retain(|shard, _| !self.unreadable.contains_key(shard));
        former.into_keys().collect()
    }

    /// Takes note of a row that cannot be read any more. What was known of it holds no longer.
    pub(super) fn lose_sight_of(&mut self, now: Duration, shard: &ShardId) {
        self.forget(shard);
        self.unreadable.entry(shard.clone()).or_insert(now);
    }

    /// Whether the shard has a row, be it one that cannot be read.
    pub(super) fn has_row(&self, shard: &ShardId) -> bool {
        self.rows.contains_key(shard) || self.unreadable.contains_key(shard)
    }

    /// Since when rows cannot be read.
    pub(super) fn unreadable(&self) -> &BTreeMap<ShardId, Duration> {
        &self.unreadable
    }

    /// Whether the row's counter has stood still before this process's eyes for longer than `failover`.
    pub(super) fn is_expired(&self, now: Duration, shard: &ShardId, failover: Duration) -> bool {
        self.seen.get(shard).is_some_and(|seen| now > self.expires_at(shard, seen, failover))
    }

    /// When the lease expires if its counter stands still until then.
    pub(super) fn expiry(&self, shard: &ShardId, failover: Duration) -> Option<Duration> {
        let seen = self.seen.get(shard)?;
        Some(self.expires_at(shard, seen, failover) + Duration::from_millis(1))
    }

    /// A KCL 3.x worker finds out after up to `failover` that a lease was assigned to it, and renews it a third of that
    /// later.
    fn expires_at(&self, shard: &ShardId, seen: &Seen, failover: Duration) -> Duration {
        let is_assigned = !seen.is_renewed
            && self.rows.get(shard).is_some_and(|row| row.reader().is_some() && !row.is_of_peer());
        seen.unmoved_since + if is_assigned { failover * 5 / 2 } else { failover }
    }

    /// Whether the lease has been offered for as long as `time`.
    pub(super) fn is_offered_for(&self, now: Duration, shard: &ShardId, time: Duration) -> bool {
        let since = self.seen.get(shard).and_then(|seen| seen.offered_since);
        since.is_some_and(|since| now >= since + time)
    }

    /// Whether the lease has not changed its reader for as long as `failover`.
    pub(super) fn is_settled(&self, now: Duration, shard: &ShardId, failover: Duration) -> bool {
        self.seen.get(shard).is_some_and(|seen| seen.reader_since.is_none_or(|since| now >= since + failover))
    }
}

/// What stands for a row that cannot be read, where lineage is concerned: one that has begun, so that nothing is made for
/// its sake, and has got beyond `LATEST`, so that no relative skips a record.
fn unreadable_row(shard: &ShardId) -> Lease {
    let begun = Checkpoint::At(Position::new(0.into(), 0));
    let row = NewLease {
        shard: shard.clone(),
        checkpoint: begun,
        parents: Vec::new(),
        hash_range: HashRange::ALL,
        latest_since: None,
    };
    row.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, closed, complete_list, open, row};

    fn missing(rows: Vec<Lease>, deleted: &[&str]) -> Vec<(String, Checkpoint)> {
        let list = complete_list([closed("p", &[]), open("c", &["p"]), open("other", &[])]);
        let mut watch = Watch::default();
        for row in rows {
            watch.see(Duration::ZERO, row);
        }
        for shard in deleted {
            watch.forget(&(*shard).into());
        }
        let missing = watch.missing(&list, &Checkpoint::Latest, [].iter());
        missing.into_iter().map(|new| (new.shard.to_string(), new.checkpoint)).collect()
    }

    #[test]
    fn a_deleted_row_is_missing_at_the_checkpoint_that_it_had() {
        let rows = vec![row("other", &[], at(7)), row("p", &[], Checkpoint::Latest)];
        let missing = missing(rows, &["other", "p"]);
        assert!(missing.contains(&("other".to_owned(), at(7))), "{missing:?}");
        assert!(missing.contains(&("p".to_owned(), Checkpoint::Latest)), "{missing:?}");
        assert!(missing.contains(&("c".to_owned(), Checkpoint::TrimHorizon)), "{missing:?}");
    }

    #[test]
    fn a_finished_row_that_was_cleaned_up_stays_so_while_no_child_waits_for_it() {
        let other = || row("other", &[], at(7));
        let finished = || row("p", &[], Checkpoint::ShardEnd);
        let begun = vec![other(), finished(), row("c", &["p"], at(9))];
        assert_eq!(missing(begun, &["p"]), []);
        let waiting = vec![other(), finished(), row("c", &["p"], Checkpoint::TrimHorizon)];
        assert_eq!(missing(waiting, &["p"]), [("p".to_owned(), Checkpoint::ShardEnd)]);
    }
}
