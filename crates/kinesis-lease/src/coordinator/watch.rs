//! The lease table as this process has watched it.

use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_record::{Checkpoint, ShardId};

use crate::lease::{Lease, NewLease};
use crate::lineage::{self, Rows, ShardList};

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The rows as last seen or written by this process.
    pub(super) rows: Rows,
    /// Since when this process has seen the counter of a row unmoved.
    unmoved_since: BTreeMap<ShardId, Duration>,
    /// Rows that were deleted, as they were.
    deleted: Rows,
}

impl Watch {
    /// Takes note of a row as somebody else may have left it.
    pub(super) fn see(&mut self, now: Duration, row: Lease) {
        let known = self.rows.get(&row.shard);
        let unmoved = known.is_some_and(|known| known.counter == row.counter && known.owner == row.owner);
        if !unmoved || !self.unmoved_since.contains_key(&row.shard) {
            self.unmoved_since.insert(row.shard.clone(), now);
        }
        self.deleted.remove(&row.shard);
        self.rows.insert(row.shard.clone(), row);
    }

    /// Takes note of a row of a lease that this process holds, which is not watched for others' renewals.
    pub(super) fn know(&mut self, row: Lease) {
        self.unmoved_since.remove(&row.shard);
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
        self.unmoved_since.remove(shard);
        self.deleted.extend(self.rows.remove_entry(shard));
    }

    /// The rows that are to be created: those that were deleted, as they were, and those that never were.
    ///
    /// A finished row that was deleted stays so, unless a child that has not begun would wait for it: that is how the
    /// KCL cleans up.
    pub(super) fn missing(&mut self, list: &ShardList, initial: &Checkpoint) -> Vec<NewLease> {
        self.deleted.retain(|shard, _| list.get(shard).is_some());
        if self.deleted.is_empty() {
            return lineage::missing_leases(&self.rows, list, initial);
        }
        let mut all = self.deleted.clone();
        all.extend(self.rows.clone());
        let never = lineage::missing_leases(&all, list, initial);
        let is_wanted = |row: &&Lease| !row.is_finished() || lineage::is_awaited(&row.shard, &all);
        let deleted = self.deleted.values().filter(is_wanted);
        let again = deleted.filter_map(|row| Some(row.recreated(list.get(&row.shard)?.hash_range)));
        again.chain(never).collect()
    }

    /// Whether the row's counter has stood still before this process's eyes for longer than `failover`.
    pub(super) fn is_expired(&self, now: Duration, shard: &ShardId, failover: Duration) -> bool {
        self.unmoved_since.get(shard).is_some_and(|since| now.saturating_sub(*since) > failover)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, closed, open, row};

    fn missing(rows: Vec<Lease>, deleted: &[&str]) -> Vec<(String, Checkpoint)> {
        let list = ShardList::new([closed("p", &[]), open("c", &["p"]), open("other", &[])]);
        let mut watch = Watch::default();
        for row in rows {
            watch.see(Duration::ZERO, row);
        }
        for shard in deleted {
            watch.forget(&(*shard).into());
        }
        let missing = watch.missing(&list, &Checkpoint::Latest);
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
