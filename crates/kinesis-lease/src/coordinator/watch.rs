//! The lease table as this process has watched it.

use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_record::ShardId;

use crate::lease::Lease;
use crate::lineage::Rows;

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The rows as last seen or written by this process.
    pub(super) rows: Rows,
    /// Since when this process has seen the counter of a row unmoved.
    unmoved_since: BTreeMap<ShardId, Duration>,
}

impl Watch {
    /// Takes note of a row as somebody else may have left it.
    pub(super) fn see(&mut self, now: Duration, row: Lease) {
        let known = self.rows.get(&row.shard);
        let unmoved = known.is_some_and(|known| known.counter == row.counter && known.owner == row.owner);
        if !unmoved || !self.unmoved_since.contains_key(&row.shard) {
            self.unmoved_since.insert(row.shard.clone(), now);
        }
        self.rows.insert(row.shard.clone(), row);
    }

    /// Takes note of a row of a lease that this process holds, which is not watched for others' renewals.
    pub(super) fn know(&mut self, row: Lease) {
        self.unmoved_since.remove(&row.shard);
        self.rows.insert(row.shard.clone(), row);
    }

    pub(super) fn forget(&mut self, shard: &ShardId) {
        self.rows.remove(shard);
        self.unmoved_since.remove(shard);
    }

    /// Whether the row's counter has stood still before this process's eyes for longer than `failover`.
    pub(super) fn is_expired(&self, now: Duration, shard: &ShardId, failover: Duration) -> bool {
        self.unmoved_since.get(shard).is_some_and(|since| now.saturating_sub(*since) > failover)
    }
}
