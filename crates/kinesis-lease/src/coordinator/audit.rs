//! Rows of finished shards: those that nobody needs any more are deleted, and those that cannot be are begun anew.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use kinesis_record::ShardId;

use super::{Coordinator, Effect};
use crate::journal::Input;
use crate::lease::{Lease, LeaseChange, LeaseWrite};
use crate::lineage::{self, ShardList};
use crate::store::{Deleted, StoreError, Written};

/// How many lists, a failover time apart, must show a finished shard to be open and without children before that is
/// believed. A list may be older than the shard's end.
const CONFIDENCE: u32 = 3;

/// The same, where the row names children.
const CONFIDENCE_BESIDE_CHILDREN: u32 = 12;

/// How many rows are deleted at once, so that renewals need not wait for them.
const DELETIONS_AT_ONCE: usize = 16;

/// Lists that show a finished shard to be open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contradiction {
    lists: u32,
    /// When the last of them came that counts.
    counted: Duration,
}

impl Coordinator {
    /// Looks through the finished rows after each list of shards.
    pub(super) fn audit(&mut self, now: Duration) {
        let Some(list) = self.list_to_take_by() else { return };
        let rows = &self.watch.rows;
        let finished: Vec<&Lease> = rows.values().filter(|row| row.is_finished()).collect();
        let children = lineage::children(rows, list);
        let (loads, none) = (self.loads(now), HashSet::new());
        let mut finished_since = BTreeMap::new();
        let mut impossible = BTreeMap::new();
        let (mut contradicted, mut refuted, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for row in finished {
            let shard = &row.shard;
            let since = self.finished_since.get(shard).copied().unwrap_or(now);
            finished_since.insert(shard.clone(), since);
            let children = children.get(shard).unwrap_or(&none);
            let has_listed_child = children.iter().any(|child| list.get(child).is_some());
            if list.get(shard).is_some_and(|listed| listed.is_open()) && !has_listed_child {
                let (contradiction, is_new) = self.contradict(now, shard);
                let confidence =
                    if row.children.is_empty() { CONFIDENCE } else { CONFIDENCE_BESIDE_CHILDREN };
                if contradiction.lists == confidence && is_new {
                    contradicted.push(shard.clone());
                }
                if contradiction.lists >= confidence {
                    refuted.push((shard.clone(), row.counter));
                }
                impossible.insert(shard.clone(), contradiction);
            } else if now >= since + self.settings.clean_up_after
                && loads.prefers_us(shard)
                && self.is_over(row, children, list)
            {
                over.push((shard.clone(), row.counter));
            }
        }
        if !impossible.is_empty() {
            self.listing.hasten(now + self.settings.failover);
        }
        self.impossible = impossible;
        self.finished_since = finished_since;
        self.effects.extend(contradicted.into_iter().map(Effect::Contradicted));
        for (shard, expected_counter) in refuted {
            if self.tidying.insert(shard.clone()) {
                let change = LeaseChange::BeginAnew(lineage::of_descendant(&self.settings.initial));
                self.effects.push_back(Effect::BeginAnew(LeaseWrite { shard, expected_counter, change }));
            }
        }
        for (shard, counter) in over {
            if self.tidying.len() < DELETIONS_AT_ONCE && self.tidying.insert(shard.clone()) {
                self.effects.push_back(Effect::Delete(shard, counter));
            }
        }
    }

    /// Counts another list that shows the shard open, and says whether it counted.
    fn contradict(&self, now: Duration, shard: &ShardId) -> (Contradiction, bool) {
        match self.impossible.get(shard) {
            None => (Contradiction { lists: 1, counted: now }, true),
            Some(so_far) if now < so_far.counted + self.settings.failover => (*so_far, false),
            Some(so_far) => (Contradiction { lists: so_far.lists + 1, counted: now }, true),
        }
    }

    /// Whether nobody needs the row of a finished shard any more, by the rules of the KCL: its parents' rows are gone,
    /// and all of its children have begun, so that no start ever reads it again.
    fn is_over(&self, row: &Lease, children: &HashSet<&ShardId>, list: &ShardList) -> bool {
        let rows = &self.watch.rows;
        let is_garbage = children.is_empty() && list.get(&row.shard).is_none();
        let is_continued = !children.is_empty()
            && children.iter().all(|child| rows.get(*child).is_some_and(lineage::has_begun));
        row.parents.iter().all(|parent| !self.watch.has_row(parent)) && (is_continued || is_garbage)
    }

    /// How the deletion of a row ended.
    pub fn deleted(&mut self, shard: &ShardId, outcome: Result<Deleted, StoreError>) {
        self.record(None, || Input::Deleted(shard.clone(), outcome.clone()));
        self.tidying.remove(shard);
        if outcome == Ok(Deleted::Gone) {
            self.watch.forget(shard);
        }
    }

    /// How a row was begun anew. If it was not, the next list leads to another try.
    pub fn begun_anew(&mut self, now: Duration, shard: &ShardId, outcome: Result<Written, StoreError>) {
        self.record(now, || Input::BegunAnew(shard.clone(), outcome.clone()));
        self.tidying.remove(shard);
        if let Ok(Written::Applied(Some(row)) | Written::Refused(Some(row))) = outcome {
            self.watch.see(now, *row);
        }
        self.take_if_available(now, shard);
        self.scan.hasten(now);
    }
}
