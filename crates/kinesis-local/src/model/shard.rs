//! One shard: its records and how it came to be.

use std::cmp::Ordering;

use kinesis_record::{HashRange, SequenceNumber, Shard, ShardId};

use super::encryption::EncryptionType;
use super::limits::{ReadLimit, WriteLimit};
use super::log::Log;
use super::record::Record;
use super::sequence::SequenceParts;
use super::time::Timestamp;

/// The index in the ending number of a closed shard, above that of any record.
const LAST_INDEX: u64 = i64::MAX as u64;

/// A shard with its records. Records have indices from 1, without gaps.
#[derive(Debug)]
pub(crate) struct ShardState {
    pub(crate) number: u64,
    pub(crate) id: ShardId,
    pub(crate) range: HashRange,
    pub(crate) parents: Vec<ShardId>,
    pub(crate) children: Vec<u64>,
    /// The second of creation that the sequence numbers tell: above the parents' and not below the stream's, even if
    /// the clock's is not.
    pub(crate) epoch: u64,
    pub(crate) created: Timestamp,
    pub(crate) closed: Option<Closed>,
    pub(crate) writes: WriteLimit,
    pub(crate) reads: ReadLimit,
    log: Log,
    /// The index of the first record that is still there.
    first_index: u64,
}

/// The end of a shard.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) at: Timestamp,
    pub(crate) ending: SequenceNumber,
}

impl ShardState {
    /// A shard without records whose epoch is `least` at least.
    pub(crate) fn new(number: u64, range: HashRange, parents: &[&Self], least: u64, now: Timestamp) -> Self {
        let above_parents = parents.iter().map(|parent| parent.epoch + 1).max().unwrap_or(least);
        Self {
            number,
            id: shard_id(number),
            range,
            parents: parents.iter().map(|parent| parent.id.clone()).collect(),
            children: Vec::new(),
            epoch: above_parents.max(now.as_secs()),
            created: now,
            closed: None,
            writes: WriteLimit::default(),
            reads: ReadLimit::default(),
            log: Log::default(),
            first_index: 1,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// The index that the next record gets.
    pub(crate) fn next_index(&self) -> u64 {
        self.first_index + self.log.records().len() as u64
    }

    fn number_at(&self, index: u64, at: Timestamp) -> SequenceNumber {
        SequenceParts { epoch: self.epoch, shard: self.number, index, second: at.as_secs() }.number()
    }

    /// Below every record's number.
    pub(crate) fn starting_number(&self) -> SequenceNumber {
        self.number_at(0, self.created)
    }

    /// Appends a record and gives its number.
    pub(crate) fn append(
        &mut self,
        partition_key: Option<&str>,
        data: &[u8],
        encryption: EncryptionType,
        now: Timestamp,
    ) -> SequenceNumber {
        let arrival = self.log.records().back().map_or(now, |last| last.arrival.max(now));
        let sequence_number = self.number_at(self.next_index(), arrival);
        self.log.push(partition_key, data, encryption, arrival);
        sequence_number
    }

    pub(crate) fn close(&mut self, now: Timestamp, children: Vec<u64>) {
        self.closed = Some(Closed { at: now, ending: self.number_at(LAST_INDEX, now) });
        self.children = children;
    }

    /// All records that are still there.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.page(self.first_index, usize::MAX, usize::MAX).0
    }

    /// Forgets the records that came before `horizon`.
    pub(crate) fn trim(&mut self, horizon: Timestamp) {
        self.first_index += self.log.forget_while(|_, oldest| oldest.arrival < horizon);
    }

    /// Forgets the oldest records until the others take at most `footprint` bytes of memory. Gives how many went.
    pub(crate) fn shrink(&mut self, footprint: usize) -> u64 {
        let gone = self.log.forget_while(|left, _| left > footprint);
        self.first_index += gone;
        gone
    }

    /// Bytes of memory that the records take.
    pub(crate) fn footprint(&self) -> usize {
        self.log.footprint()
    }

    /// The records from `index` on that are still there: at most `limit` of them and `bytes` bytes, but at
    /// least one if there is any. With them the index behind the last.
    pub(crate) fn page(&self, index: u64, limit: usize, bytes: usize) -> (Vec<Record>, u64) {
        let start = index.clamp(self.first_index, self.next_index());
        let skipped = (start - self.first_index) as usize;
        let mut size = 0;
        let fit = self.log.records().range(skipped..).take(limit).take_while(|record| {
            let first = size == 0;
            size += record.size().max(1);
            first || size <= bytes
        });
        let records: Vec<Record> = fit
            .zip(start..)
            .map(|(record, index)| Record {
                sequence_number: self.number_at(index, record.arrival),
                arrival: record.arrival,
                partition_key: record.partition_key(),
                data: record.data(),
                encryption: record.encryption,
            })
            .collect();
        let next = start + records.len() as u64;
        (records, next)
    }

    /// The index of the first record that came at `instant` or later, else the index behind the newest
    /// record.
    pub(crate) fn index_at(&self, instant: Timestamp) -> u64 {
        self.first_index + self.log.records().partition_point(|record| record.arrival < instant) as u64
    }

    /// The index of the first record whose number is not below one of this shard's, and whether it is that very
    /// number; else the index behind the newest record.
    pub(crate) fn index_of(&self, number: SequenceParts) -> (u64, bool) {
        let place = number.index.checked_sub(self.first_index).and_then(|place| usize::try_from(place).ok());
        match place.map(|place| self.log.records().get(place)) {
            None => (self.first_index, false),
            Some(None) => (self.next_index(), false),
            Some(Some(record)) => match record.arrival.as_secs().cmp(&number.second) {
                Ordering::Less => (number.index + 1, false),
                order => (number.index, order.is_eq()),
            },
        }
    }

    /// A number behind the record in front of `index` and before the one at it, for a reader that has come so
    /// far by `now`.
    pub(crate) fn number_before(&self, index: u64, now: Timestamp) -> SequenceNumber {
        let last = self.log.records().back().map_or(now, |last| last.arrival.max(now));
        self.number_at(index.saturating_sub(1), last)
    }

    /// As the stream describes it.
    pub(crate) fn describe(&self) -> Shard {
        Shard {
            id: self.id.clone(),
            hash_range: self.range,
            parents: self.parents.clone(),
            starting_sequence: self.starting_number(),
            ending_sequence: self.closed.as_ref().map(|closed| closed.ending.clone()),
        }
    }
}

/// The id of the shard with this number.
pub(crate) fn shard_id(number: u64) -> ShardId {
    ShardId::from(format!("shardId-{number:012}"))
}

/// The number in a shard's id, unless no shard can have this id.
pub(crate) fn shard_number(id: &str) -> Option<u64> {
    let number = id.strip_prefix("shardId-")?.parse().ok()?;
    (shard_id(number).as_str() == id).then_some(number)
}
