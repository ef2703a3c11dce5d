//! Creating the rows that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kinesis_record::ShardId;

use super::schedule::Schedule;
use super::{Coordinator, Effect};
use crate::journal::Input;
use crate::lease::NewLease;
use crate::store::{Created, StoreError};

/// New rows are taken when so many have been created.
const TAKEN_TOGETHER: usize = 32;

#[derive(Debug)]
pub(super) struct Creation {
    /// Rows to create once their parents' are.
    planned: Vec<NewLease>,
    under_way: BTreeMap<ShardId, NewLease>,
    /// Rows that a scan under way may be too old to show.
    since_scan: BTreeSet<ShardId>,
    unseen: Unseen,
    /// When the next row is asked for, if creations fail.
    retry: Schedule,
}

/// Whether the table may have rows that this process has not seen, since a creation found one there or failed. Which rows
/// are missing cannot be told then: without a row of its own, a relative of a leased shard looks like a stranger.
#[derive(Debug, PartialEq, Eq)]
enum Unseen {
    Nothing,
    Rows,
    /// A scan is under way that will show them.
    UntilScanned,
}

impl Default for Creation {
    fn default() -> Self {
        Self {
            planned: Vec::new(),
            under_way: BTreeMap::new(),
            since_scan: BTreeSet::new(),
            unseen: Unseen::Nothing,
            retry: Schedule::after_another(),
        }
    }
}

impl Creation {
    /// Asks for a row, unless that is done already. While creations fail, one row at a time is asked for, after a pause
    /// that grows.
    pub(super) fn ask(&mut self, now: Duration, new: &NewLease) -> Option<Effect> {
        let may_ask = self.retry.due.is_none_or(|due| due <= now && self.under_way.is_empty());
        let is_asked = may_ask && !self.is_under_way(&new.shard);
        is_asked.then(|| {
            self.under_way.insert(new.shard.clone(), new.clone());
            Effect::Create(new.clone())
        })
    }

    pub(super) fn is_under_way(&self, shard: &ShardId) -> bool {
        self.under_way.contains_key(shard)
    }

    /// When a row that was not asked for is, at the earliest.
    pub(super) fn retry_at(&self) -> Option<Duration> {
        self.retry.due
    }

    /// Whether a creation that succeeds is the one that was to show it after failures.
    fn recovers(&mut self, now: Duration) -> bool {
        let is_first = self.under_way.is_empty() && self.retry.due.is_some_and(|due| due <= now);
        if is_first {
            self.retry = Schedule::after_another();
        }
        is_first
    }

    /// Those that fail together count as one failure.
    fn failed(&mut self, now: Duration, interval: Duration, random: &mut fastrand::Rng) {
        if self.retry.due.is_none_or(|due| due <= now) {
            self.retry.failed(now, interval, random);
        }
    }

    /// Takes the planned rows whose parents have theirs, so that a crash in between never leaves a child that looks
    /// as if its parent had been finished and cleaned up.
    fn ready(&mut self) -> Vec<NewLease> {
        let planned: BTreeSet<ShardId> = self.planned.iter().map(|new| new.shard.clone()).collect();
        let is_coming = |parent: &ShardId| planned.contains(parent) || self.under_way.contains_key(parent);
        self.planned.extract_if(.., |new| !new.parents.iter().any(is_coming)).collect()
    }

    fn is_awaited(&self, shard: &ShardId) -> bool {
        self.planned.iter().any(|new| new.parents.contains(shard))
    }

    pub(super) fn drop_plan(&mut self) {
        self.planned.clear();
    }

    pub(super) fn scan_begins(&mut self) {
        self.since_scan.clear();
        if self.unseen == Unseen::Rows {
            self.unseen = Unseen::UntilScanned;
        }
    }

    /// Takes note of a whole scan. True if it shows for the first time which rows are missing.
    pub(super) fn scanned(&mut self) -> bool {
        let shows_unseen = self.unseen == Unseen::UntilScanned;
        if shows_unseen {
            self.unseen = Unseen::Nothing;
        }
        shows_unseen
    }

    pub(super) fn is_newer_than_scan(&self, shard: &ShardId) -> bool {
        self.since_scan.contains(shard)
    }
}

impl Coordinator {
    /// How the creation of a row ended.
    pub fn created(&mut self, now: Duration, new: NewLease, outcome: Result<Created, StoreError>) {
        self.record(now, || Input::Created(new.clone(), outcome.clone()));
        let shard = new.shard.clone();
        self.creation.under_way.remove(&shard);
        let exists = outcome.is_ok();
        match outcome {
            Ok(created) => {
                self.creation.since_scan.insert(shard.clone());
                match created {
                    Created::New => self.watch.created(new),
                    Created::Existed => {
                        self.creation.unseen = Unseen::Rows;
                        self.scan.hasten(now);
                    }
                }
                if self.creation.recovers(now) {
                    self.listing.hasten(now);
                    let waiting = self.grips.values_mut().filter(|grip| grip.create_at.is_some());
                    waiting.for_each(|grip| grip.create_at = Some(now));
                }
                if self.creation.is_awaited(&shard) {
                    self.create_ready(now);
                }
                // Looking for leases to take costs a look at all rows.
                if self.creation.under_way.len().is_multiple_of(TAKEN_TOGETHER) {
                    self.take_available(now);
                }
            }
            Err(_) => {
                self.creation.drop_plan();
                self.creation.unseen = Unseen::Rows;
                self.creation.failed(now, self.settings.failover, &mut self.random);
                let retry_at = self.create_again_at(now);
                self.listing.hasten(retry_at);
                self.scan.hasten(retry_at);
            }
        }
        self.child_created(now, &shard, exists);
    }

    /// When a row is asked for again that could not be created.
    pub(super) fn create_again_at(&self, now: Duration) -> Duration {
        (now + self.settings.failover / 10).max(self.creation.retry_at().unwrap_or_default())
    }

    /// Goes on with the shards that wait to end until the row of `child` exists.
    fn child_created(&mut self, now: Duration, child: &ShardId, exists: bool) {
        let create_at = self.create_again_at(now);
        let mut parents = Vec::new();
        for (parent, grip) in self.grips.iter_mut().filter(|(_, grip)| grip.awaits(child)) {
            if exists {
                grip.children.retain(|awaited| awaited.shard != *child);
            } else {
                grip.create_at = Some(create_at);
            }
            parents.push(parent.clone());
        }
        for parent in parents {
            self.advance(now, &parent);
        }
    }

    /// Creates the rows that are missing, once both the table and the stream are known.
    pub(super) fn plan_rows(&mut self, now: Duration) {
        let knows_table = self.has_scanned && self.creation.unseen == Unseen::Nothing;
        if let Some(list) = self.list.as_ref().filter(|_| knows_table) {
            let coming = self.creation.under_way.values();
            let mut missing = self.watch.missing(list, &self.settings.initial, coming);
            missing.retain(|new| !self.creation.is_under_way(&new.shard));
            self.creation.planned = missing;
            self.create_ready(now);
        }
    }

    fn create_ready(&mut self, now: Duration) {
        for new in self.creation.ready() {
            self.effects.extend(self.creation.ask(now, &new));
        }
    }
}
