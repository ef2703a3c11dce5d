//! What the tests of this crate share: shards, rows, and a lease table in memory.

use std::collections::BTreeMap;

use kinesis_record::{Checkpoint, HashRange, Position, SequenceNumber, Shard, ShardId};

use crate::lease::{Lease, LeaseWrite, NewLease, WorkerId};
use crate::lineage::ShardList;
use crate::store::{Created, Deleted, Written};
use crate::stream::ChildShard;

/// A shard of this name; a parent's name must be smaller than a child's, as it is in Kinesis.
pub(crate) fn open(id: &str, parents: &[&str]) -> Shard {
    let number: u128 = id.bytes().fold(0, |number, byte| number * 256 + u128::from(byte));
    Shard {
        id: id.into(),
        hash_range: HashRange::ALL,
        parents: parents.iter().map(|parent| (*parent).into()).collect(),
        starting_sequence: number.into(),
        ending_sequence: None,
    }
}

pub(crate) fn closed(id: &str, parents: &[&str]) -> Shard {
    let shard = open(id, parents);
    Shard { ending_sequence: Some(shard.starting_sequence.clone()), ..shard }
}

pub(crate) fn child(id: &str, parents: &[&str]) -> ChildShard {
    (&open(id, parents)).into()
}

pub(crate) fn at(sequence: u128) -> Checkpoint {
    Checkpoint::At(Position::new(SequenceNumber::from(sequence), 0))
}

pub(crate) fn complete_list(shards: impl IntoIterator<Item = Shard>) -> ShardList {
    ShardList::complete(shards).unwrap()
}

/// A row that nobody owns.
pub(crate) fn row(shard: &str, parents: &[&str], checkpoint: Checkpoint) -> Lease {
    NewLease::new(child(shard, parents), checkpoint).into()
}

/// A row that `owner` reads.
pub(crate) fn owned(shard: &str, owner: &str, counter: i64) -> Lease {
    Lease { owner: Some(owner.into()), counter, ..row(shard, &[], at(7)) }
}

/// A lease table in memory, with the conditions of the real one.
#[derive(Debug, Default, Clone)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<ShardId, Lease>,
}

impl Table {
    pub(crate) fn create(&mut self, new: &NewLease) -> Created {
        if self.rows.contains_key(&new.shard) {
            return Created::Existed;
        }
        self.rows.insert(new.shard.clone(), new.clone().into());
        Created::New
    }

    pub(crate) fn write(&mut self, write: &LeaseWrite) -> Written {
        write.apply_to(self.rows.get_mut(&write.shard))
    }

    pub(crate) fn delete(&mut self, shard: &ShardId, expected_counter: i64) -> Deleted {
        let is_fit = |row: &mut Lease| row.counter == expected_counter && row.is_finished();
        if !self.rows.get_mut(shard).is_some_and(is_fit) {
            return Deleted::Refused;
        }
        self.rows.remove(shard);
        Deleted::Gone
    }

    pub(crate) fn edit(&mut self, shard: &str, change: impl FnOnce(&mut Lease)) {
        change(self.rows.get_mut(shard).unwrap());
    }

    /// Another worker's renewal.
    pub(crate) fn renew(&mut self, shard: &str) {
        self.edit(shard, |row| row.counter += 1);
    }

    /// A KCL worker takes the lease.
    pub(crate) fn steal(&mut self, shard: &str, thief: &str) {
        self.edit(shard, |row| {
            row.counter += 1;
            row.owner = Some(thief.into());
            row.checkpoint_owner = None;
        });
    }

    /// A KCL 3.x leader promises the lease to another worker.
    pub(crate) fn promise(&mut self, shard: &str, next: &str) {
        self.edit(shard, |row| row.checkpoint_owner = row.owner.replace(WorkerId::new(next)));
    }
}
