//! What the lease table says.

use kinesis_record::Checkpoint;

use super::{Checker, Oracle};

impl Checker {
    /// A write of `worker` has left the row like this.
    pub(super) fn stored(&mut self, worker: &str, shard: &str, checkpoint: &Checkpoint, counter: i64) {
        let history = self.shard(shard);
        let before = history.row.replace((checkpoint.clone(), counter));
        // A row that was deleted is made again as it was.
        let former = before.as_ref().map(|(former, _)| former).or(history.deleted.as_ref()).cloned();
        let former = former.as_ref();
        if former.is_none() && *checkpoint == Checkpoint::Latest {
            self.is_read_from_now_on(worker, shard);
        }
        if let Some((former, counter_before)) = &before {
            if *checkpoint < *former {
                self.violated(
                    Oracle::Checkpoint,
                    format!("the checkpoint of {shard} went back from {former} to {checkpoint} ({worker})"),
                );
            }
            // To ask another process for the lease leaves the counter as it is.
            let is_raised = counter_before.checked_add(1) == Some(counter);
            if !is_raised && (counter != *counter_before || checkpoint != former) {
                self.violated(
                    Oracle::Checkpoint,
                    format!("the counter of {shard} went from {counter_before} to {counter} ({worker})"),
                );
            }
        }
        if former.is_none_or(|former| former < checkpoint) {
            self.moved(worker, shard, former, checkpoint, counter);
        }
    }

    /// The checkpoint of a shard has moved on.
    fn moved(
        &mut self,
        worker: &str,
        shard: &str,
        former: Option<&Checkpoint>,
        checkpoint: &Checkpoint,
        counter: i64,
    ) {
        self.shard(shard).checkpoints.push((checkpoint.clone(), counter, worker.to_owned()));
        self.passed(worker, shard, former, checkpoint);
        if *checkpoint == Checkpoint::ShardEnd {
            self.ended(shard);
            self.check_rows_of_children(shard);
        }
    }

    /// The checkpoint passes what lies between the two.
    pub(super) fn passed(
        &mut self,
        worker: &str,
        shard: &str,
        former: Option<&Checkpoint>,
        checkpoint: &Checkpoint,
    ) {
        let history = self.shard(shard);
        if former == Some(&Checkpoint::Latest) && history.starts <= 1 {
            // The first reader begins at the newest record of the moment, a little later than the row was made.
            let passed =
                history.records.iter_mut().filter(|(at, _)| Checkpoint::At((*at).clone()) <= *checkpoint);
            passed.for_each(|(_, record)| record.is_unwanted |= record.delivered_by.is_none());
        }
        let is_open =
            |record: &super::shard::RecordHistory| !record.is_unwanted && !record.is_done_by(worker);
        let first = history.between(former, checkpoint).find(|(_, record)| is_open(record));
        let first = first.map(|(position, _)| position.clone());
        if let Some(first) = first {
            self.violated(
                Oracle::Checkpoint,
                format!("{worker} stores {checkpoint} for {shard}, and is not done with {first}"),
            );
        }
    }

    pub(super) fn ended(&mut self, shard: &str) {
        let has_shards = self.has_shards;
        let history = self.shard(shard);
        history.is_finished = true;
        if history.children.is_empty() && has_shards {
            self.violated(Oracle::Checkpoint, format!("{shard} is at SHARD_END, and is open"));
        }
    }

    fn check_rows_of_children(&mut self, shard: &str) {
        let children = self.shard(shard).children.clone();
        let has_no_row = |child: &&String| self.shards.get(*child).is_none_or(|child| child.row.is_none());
        if let Some(child) = children.iter().find(has_no_row) {
            self.violated(
                Oracle::Checkpoint,
                format!("{shard} is at SHARD_END before its child {child} has a row"),
            );
        }
    }

    /// A process, or somebody who is none, has deleted the row. The next one counts from 0 again.
    pub(super) fn deleted(&mut self, worker: &str, shard: &str) {
        let history = self.shard(shard);
        history.newest_token = None;
        history.leases.clear();
        history.deleted = history.row.take().map(|(checkpoint, _)| checkpoint).or(history.deleted.take());
        if !worker.is_empty() && !history.is_finished {
            self.violated(
                Oracle::Checkpoint,
                format!("{worker} deletes the row of {shard}, which is not at SHARD_END"),
            );
        }
    }

    /// A row at `LATEST` was made: what was put before into the shard and its ancestors is not wanted. Behind a shard that
    /// is being read everything is.
    pub(super) fn is_read_from_now_on(&mut self, worker: &str, shard: &str) {
        self.from_latest = true;
        let is_read = |parent: &&String| {
            let parent = self.shards.get(*parent).and_then(|parent| parent.row.as_ref());
            parent.is_some_and(|(checkpoint, _)| *checkpoint > Checkpoint::Latest)
        };
        let parents = self.shards.get(shard).map(|shard| shard.parents.clone()).unwrap_or_default();
        if let Some(parent) = parents.iter().find(is_read) {
            return self.violated(
                Oracle::Checkpoint,
                format!("{worker} makes the row of {shard} at LATEST, and its parent {parent} is being read"),
            );
        }
        let mut next = vec![shard.to_owned()];
        while let Some(shard) = next.pop() {
            let history = self.shard(&shard);
            history.records.values_mut().for_each(|record| record.is_unwanted = true);
            next.extend(history.parents.iter().cloned());
        }
    }
}
