//! What is known of one shard.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use kinesis_record::{Checkpoint, Position};

/// A shard as the history has told of it so far.
#[derive(Debug, Default)]
pub(super) struct ShardHistory {
    pub(super) parents: Vec<String>,
    pub(super) children: Vec<String>,
    pub(super) records: BTreeMap<Position, RecordHistory>,
    pub(super) is_finished: bool,
    /// Its row as it is, if the table is watched.
    pub(super) row: Option<(Checkpoint, i64)>,
    /// What processes have told of their leases, by fencing token.
    pub(super) leases: BTreeMap<i64, Lease>,
    /// The checkpoint of the row that was deleted last.
    pub(super) deleted: Option<Checkpoint>,
    /// Each checkpoint that was stored, with the counter and the writer of its first write.
    pub(super) checkpoints: Vec<(Checkpoint, i64, String)>,
    /// The greatest fencing token, and the process that has it.
    pub(super) newest_token: Option<(i64, String)>,
    /// The greatest place that was delivered.
    pub(super) newest: Option<Position>,
    /// How often its lease was taken.
    pub(super) starts: usize,
    /// How far each process is.
    pub(super) readers: BTreeMap<String, Reader>,
}

/// A user record.
#[derive(Debug, Default)]
pub(super) struct RecordHistory {
    /// The line that tells that it was put, and when that was.
    pub(super) put: Option<(usize, u64)>,
    /// Its partition key, if it was delivered before it was told that it was put.
    pub(super) key: Option<String>,
    /// Whether the first start of the application wants what was put later only.
    pub(super) is_unwanted: bool,
    /// The last delivery: by whom.
    pub(super) delivered_by: Option<String>,
    /// The first delivery: its line, and when.
    pub(super) delivered_first: (usize, u64),
    /// Who was done with it, and when.
    pub(super) done: Vec<(String, u64)>,
}

impl RecordHistory {
    pub(super) fn is_done_by(&self, worker: &str) -> bool {
        self.done.iter().any(|(by, _)| worker.is_empty() || by.is_empty() || by == worker)
    }
}

/// A lease of the shard as its holder has told of it.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) holder: String,
    /// The checkpoint with which it was taken, if that was told.
    pub(super) start: Option<Checkpoint>,
    /// The greatest checkpoint that is known to be stored under it or before it.
    pub(super) stored: Checkpoint,
}

/// How far a process is with the shard since it took the lease.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Everything up to here is done with, and when it was so.
    done: VecDeque<(u64, Position)>,
    start: Option<Position>,
}

impl Reader {
    /// How far everything was done with at that moment.
    pub(super) fn done_at(&self, at_ms: u64) -> Option<&Position> {
        let before = self.done.partition_point(|(since, _)| *since <= at_ms);
        before.checked_sub(1).map(|index| &self.done[index].1)
    }

    /// Since when everything up to this place is done with.
    pub(super) fn done_since(&self, position: &Position) -> Option<u64> {
        let before = self.done.partition_point(|(_, done)| done < position);
        self.done.get(before).map(|(since, _)| *since)
    }
}

impl ShardHistory {
    /// The greatest checkpoint that is known to be stored.
    pub(super) fn stored(&self) -> Option<&Checkpoint> {
        let told = self.leases.values().map(|lease| &lease.stored).max();
        self.row.as_ref().map(|(checkpoint, _)| checkpoint).max(told)
    }

    pub(super) fn started(&mut self, worker: &str, checkpoint: &Checkpoint) {
        self.starts += 1;
        let reader = Reader { done: VecDeque::new(), start: checkpoint.position().cloned() };
        self.readers.insert(worker.to_owned(), reader);
    }

    pub(super) fn done(&mut self, worker: &str, position: &Position, at_ms: u64) {
        let record = self.records.entry(position.clone()).or_default();
        record.done.push((worker.to_owned(), at_ms));
        let reader = self.readers.entry(worker.to_owned()).or_default();
        let mut last = reader.done.back().map(|(_, last)| last).or(reader.start.as_ref()).cloned();
        loop {
            let behind = last.clone().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.records.range((behind, Bound::Unbounded)).next();
            let Some((next, record)) = next else { break };
            if !record.is_done_by(worker) && !record.is_unwanted {
                break;
            }
            reader.done.push_back((at_ms, next.clone()));
            last = Some(next.clone());
        }
    }

    /// What the process was done with behind an open event is forgotten: whoever reads the shard next begins before it.
    pub(super) fn forget(&mut self, worker: &str) {
        let Some(reader) = self.readers.get(worker) else { return };
        let last = reader.done.back().map(|(_, last)| last).or(reader.start.as_ref()).cloned();
        let behind =
            self.records.range_mut((last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        behind.for_each(|(_, record)| record.done.retain(|(by, _)| by != worker));
    }

    /// The checkpoint that was stored before the lease was acquired with this token, or by its owner since.
    pub(super) fn stored_under(&self, worker: &str, token: i64) -> Option<&Checkpoint> {
        let is_before = |(_, counter, by): &&(Checkpoint, i64, String)| *counter <= token || by == worker;
        self.checkpoints.iter().rev().find(is_before).map(|(checkpoint, ..)| checkpoint)
    }

    /// The records behind one checkpoint, up to the other.
    pub(super) fn between<'a>(
        &'a self,
        from: Option<&Checkpoint>,
        to: &'a Checkpoint,
    ) -> impl Iterator<Item = (&'a Position, &'a RecordHistory)> {
        let behind = from.and_then(Checkpoint::position).cloned();
        let behind = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.records.range((behind, Bound::Unbounded)).take_while(move |(position, _)| match to {
            Checkpoint::At(to) => *position <= to,
            Checkpoint::ShardEnd => true,
            _ => false,
        })
    }
}
