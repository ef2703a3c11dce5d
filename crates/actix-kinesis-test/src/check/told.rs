//! What processes tell of their leases. A write to a lease succeeds only before the next process takes it, so that tokens
//! say what came before what, whenever it is told.

use kinesis_record::Checkpoint;

use super::shard::Lease;
use super::{Checker, Oracle};

impl Checker {
    /// `worker` has taken the lease.
    pub(super) fn taken(&mut self, worker: &str, shard: &str, checkpoint: &Checkpoint, token: Option<i64>) {
        let history = self.shard(shard);
        // Without rows this tells where the application starts.
        if *checkpoint == Checkpoint::Latest && history.starts == 0 && history.row.is_none() {
            self.is_read_from_now_on(worker, shard);
        }
        if let Some(token) = token {
            let leases = &self.shard(shard).leases;
            let former = leases.range(..token).map(|(_, lease)| lease).max_by_key(|lease| &lease.stored);
            let passed = former.filter(|former| former.stored > *checkpoint);
            let went_back = passed.map(|former| {
                let Lease { holder, stored, .. } = former;
                format!("{worker} begins {shard} at {checkpoint}, and {stored} was stored by {holder} before")
            });
            let other = leases.get(&token).filter(|lease| lease.holder != worker);
            let is_shared = other.map(|Lease { holder, .. }| {
                format!("{worker} takes {shard} with token {token}, which is that of {holder}")
            });
            went_back.into_iter().for_each(|text| self.violated(Oracle::Checkpoint, text));
            is_shared.into_iter().for_each(|text| self.violated(Oracle::Owner, text));
            let lease = self.lease(worker, shard, checkpoint, token);
            lease.start = Some(checkpoint.clone());
            let history = self.shard(shard);
            if history.row.is_none() {
                history.checkpoints.push((checkpoint.clone(), token, worker.to_owned()));
            }
        }
        self.shard(shard).started(worker, checkpoint);
    }

    /// `worker` has learned that its checkpoint is stored.
    pub(super) fn told_stored(&mut self, worker: &str, shard: &str, checkpoint: &Checkpoint, token: i64) {
        let history = self.shard(shard);
        let former = history.leases.range(..=token).map(|(_, lease)| &lease.stored).max().cloned();
        let later = history.leases.range(token..).skip_while(|(other, _)| **other == token);
        // Who ends a shard that another one has ended since is told that it is ended.
        let is_ended = *checkpoint == Checkpoint::ShardEnd
            && later.clone().any(|(_, lease)| lease.stored == Checkpoint::ShardEnd);
        let later = later.filter_map(|(_, lease)| Some((lease.holder.clone(), lease.start.clone()?)));
        let overtaken = later.into_iter().find(|(_, start)| start < checkpoint && !is_ended);
        let row = history.row.as_ref().map(|(row, _)| row.clone());
        if let Some(former) = former.as_ref().filter(|former| checkpoint < *former) {
            self.violated(
                Oracle::Checkpoint,
                format!("{worker} stores {checkpoint} for {shard}, where {former} was stored before"),
            );
        }
        if let Some((holder, start)) = overtaken {
            self.violated(
                Oracle::Checkpoint,
                format!("{worker} stores {checkpoint} for {shard}, where {holder} had begun at {start}"),
            );
        }
        if let Some(row) = row.as_ref().filter(|row| *row < checkpoint) {
            self.violated(
                Oracle::Checkpoint,
                format!("{worker} takes {checkpoint} of {shard} for stored, and the row is at {row}"),
            );
        }
        self.lease(worker, shard, checkpoint, token);
        if row.is_none() && former.as_ref().is_none_or(|former| former < checkpoint) {
            let stored = (checkpoint.clone(), token, worker.to_owned());
            self.shard(shard).checkpoints.push(stored);
            self.passed(worker, shard, former.as_ref(), checkpoint);
            if *checkpoint == Checkpoint::ShardEnd {
                self.ended(shard);
            }
        }
    }

    /// The lease with this token, under which at least this checkpoint is stored.
    fn lease(&mut self, worker: &str, shard: &str, stored: &Checkpoint, token: i64) -> &mut Lease {
        let (holder, stored) = (worker.to_owned(), stored.clone());
        let new = || Lease { holder, start: None, stored: stored.clone() };
        let lease = self.shard(shard).leases.entry(token).or_insert_with(new);
        if lease.stored < stored {
            lease.stored = stored;
        }
        lease
    }
}
