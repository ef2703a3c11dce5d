//! Rows of finished shards: those that nobody needs any more are deleted, and those that cannot be are made anew.

use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_record::ShardId;

use super::{Coordinator, Effect};
use crate::lease::{Lease, NewLease};
use crate::lineage::{self, ShardList};
use crate::store::{Deleted, StoreError};

/// How many lists in a row must show a finished shard to be open, before that is believed. One may be older than the
/// shard's end.
const CONFIDENCE: u32 = 3;

impl Coordinator {
    /// Looks through the finished rows after each list of shards.
    pub(super) fn audit(&mut self, now: Duration) {
        let Some(list) = self.list_to_take_by() else { return };
        let finished = || self.watch.rows.values().filter(|row| row.is_finished());
        let is_impossible = |row: &&Lease| {
            let is_open = list.get(&row.shard).is_some_and(|shard| shard.is_open());
            is_open && list.children(&row.shard).next().is_none()
        };
        let since = |row: &Lease| self.finished_since.get(&row.shard).copied().unwrap_or(now);
        let finished_since: BTreeMap<ShardId, Duration> =
            finished().map(|row| (row.shard.clone(), since(row))).collect();
        let is_old = |row: &Lease| now >= finished_since[&row.shard] + self.settings.clean_up_after;
        let times = |row: &Lease| self.impossible.get(&row.shard).map_or(1, |times| times + 1);
        let impossible: BTreeMap<ShardId, u32> =
            finished().filter(is_impossible).map(|row| (row.shard.clone(), times(row))).collect();
        let loads = self.loads(now);
        let is_over = |row: &&Lease| is_old(row) && loads.prefers_us(&row.shard) && self.is_over(row, list);
        let is_refuted = |row: &&Lease| impossible.get(&row.shard).is_some_and(|times| *times >= CONFIDENCE);
        let deleted = finished().filter(|row| is_refuted(row) || (!is_impossible(row) && is_over(row)));
        let deleted: Vec<_> = deleted.map(|row| (row.shard.clone(), row.counter)).collect();
        if !impossible.is_empty() {
            self.listing.hasten(now + self.settings.failover);
        }
        self.impossible = impossible;
        self.finished_since = finished_since;
        for (shard, counter) in deleted {
            if self.deleting.insert(shard.clone()) {
                self.effects.push_back(Effect::Delete(shard, counter));
            }
        }
    }

    /// Whether nobody needs the row of a finished shard any more, by the rules of the KCL: its parents' rows are gone,
    /// and all of its children have begun, so that no start ever reads it again.
    fn is_over(&self, row: &Lease, list: &ShardList) -> bool {
        let rows = &self.watch.rows;
        let mut children: Vec<&ShardId> = list.children(&row.shard).map(|shard| &shard.id).collect();
        children.extend(
            rows.values().filter(|child| child.parents.contains(&row.shard)).map(|child| &child.shard),
        );
        children.extend(row.children.iter().filter(|child| list.get(child).is_some()));
        let is_garbage = children.is_empty() && list.get(&row.shard).is_none();
        let is_continued = !children.is_empty()
            && children.iter().all(|child| rows.get(*child).is_some_and(lineage::has_begun));
        row.parents.iter().all(|parent| !rows.contains_key(parent)) && (is_continued || is_garbage)
    }

    /// How the deletion of a row ended.
    pub fn deleted(&mut self, now: Duration, shard: &ShardId, outcome: Result<Deleted, StoreError>) {
        self.deleting.remove(shard);
        if outcome != Ok(Deleted::Gone) {
            return;
        }
        if self.impossible.remove(shard).is_none() {
            return self.watch.forget(shard);
        }
        self.watch.rows.remove(shard);
        let listed = self.list.as_ref().and_then(|list| list.get(shard));
        if let Some(listed) = listed {
            let new = NewLease::new(listed.into(), lineage::of_descendant(&self.settings.initial));
            self.effects.extend(self.creation.ask(&new));
            self.effects.push_back(Effect::BegunAnew(shard.clone()));
        }
        self.listing.hasten(now);
    }
}
