//! Records that go as one Kinesis record.

use std::sync::Arc;
use std::time::Duration;

use kinesis_lease::put::PutRecord;
use kinesis_record::aggregation::Aggregate;
use tokio::time::Instant;

use super::record::Record;
use super::shard_map::Target;
use crate::config::ProducerConf;

/// The partition key of every aggregate, as the KPL has it. The explicit hash key decides the shard.
const AGGREGATE_KEY: &str = "a";

/// The part of `record-max-buffered-time` that is spent on filling an aggregate. The rest is for filling a call.
const FILLING: f64 = 0.8;

/// What bounds an aggregate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    enabled: bool,
    max_count: u64,
    max_len: usize,
    buffered: Duration,
}

impl Limits {
    pub(crate) fn of(conf: &ProducerConf) -> Self {
        let aggregation = &conf.aggregation;
        // The service counts the partition key as well.
        let max_len =
            aggregation.max_size.min(conf.max_record_size.saturating_sub(AGGREGATE_KEY.len() as u64));
        Self {
            enabled: aggregation.enabled,
            max_count: aggregation.max_count,
            max_len: usize::try_from(max_len).unwrap_or(usize::MAX),
            buffered: conf.record_max_buffered_time,
        }
    }

    /// When a record must be in a call at the latest.
    pub(crate) fn due(&self, record: &Record) -> Instant {
        record.arrived + self.buffered
    }

    /// Whether the record may be packed with others.
    pub(crate) fn allow(&self, record: &Record) -> bool {
        self.enabled && self.max_count > 1 && !record.alone && Gathering::new(*self).fits(record)
    }
}

/// An aggregate that is still open.
#[derive(Debug)]
pub(crate) struct Gathering {
    limits: Limits,
    records: Vec<Record>,
    aggregate: Aggregate,
}

impl Gathering {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, records: Vec::new(), aggregate: Aggregate::new() }
    }

    /// Whether the aggregate stays within its limits with this record. Sizes are exact.
    pub(crate) fn fits(&self, record: &Record) -> bool {
        let Some(event) = record.event() else { return false };
        let len = self.aggregate.encoded_len_with(
            &event.partition_key,
            event.explicit_hash_key,
            event.payload.len(),
        );
        (self.records.len() as u64) < self.limits.max_count && len <= self.limits.max_len
    }

    pub(crate) fn push(&mut self, record: Record) {
        push(&mut self.aggregate, &record);
        self.records.push(record);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.records.len() as u64 >= self.limits.max_count
            || self.aggregate.encoded_len() >= self.limits.max_len
    }

    /// When it must be closed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.records.first().map(|first| first.arrived + self.limits.buffered.mul_f64(FILLING))
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Takes out what is over.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Record> {
        let expired = take_expired(&mut self.records, now);
        if !expired.is_empty() {
            self.aggregate = aggregate(&self.records);
        }
        expired
    }

    /// Closes it. `None` if it is empty.
    pub(crate) fn close(&mut self, shard: Option<Target>) -> Option<Batch> {
        let gathered = std::mem::replace(self, Self::new(self.limits));
        let due = self.limits.due(gathered.records.first()?);
        Some(Batch::new(gathered.records, Some(gathered.aggregate), shard, due))
    }
}

/// A Kinesis record to be: one record as it is, or an aggregate of several.
#[derive(Debug)]
pub(crate) struct Batch {
    records: Vec<Record>,
    /// Of several records, if they are those that it was made of.
    aggregate: Option<Aggregate>,
    size: usize,
    /// The least of those of its records.
    epoch: u64,
    /// The shard that it is meant for.
    pub(crate) shard: Option<Target>,
    /// When it must be in a call at the latest.
    pub(crate) due: Instant,
    /// How many calls have failed.
    pub(crate) failures: u32,
}

impl Batch {
    fn new(records: Vec<Record>, aggregate: Option<Aggregate>, shard: Option<Target>, due: Instant) -> Self {
        let mut batch = Self { records, aggregate, size: 0, epoch: 0, shard, due, failures: 0 };
        batch.measure();
        batch
    }

    /// A record by itself.
    pub(crate) fn single(record: Record, shard: Option<Target>, due: Instant) -> Self {
        Self::new(vec![record], None, shard, due)
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(crate) fn records_mut(&mut self) -> &mut [Record] {
        &mut self.records
    }

    pub(crate) fn into_records(self) -> Vec<Record> {
        self.records
    }

    /// Whether it goes as an aggregate. A KPL never packs a record alone, and nor does this.
    pub(crate) fn is_aggregate(&self) -> bool {
        self.records.len() > 1
    }

    /// What the service counts: data and partition key, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether it holds a record of an epoch before this one.
    pub(crate) fn is_before(&self, epoch: u64) -> bool {
        self.epoch < epoch
    }

    /// When the first of its records is over.
    pub(crate) fn expires(&self) -> Option<Instant> {
        self.records.iter().map(|record| record.expires).min()
    }

    /// Takes out what is over.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Record> {
        let expired = take_expired(&mut self.records, now);
        if !expired.is_empty() {
            self.aggregate = None;
            self.measure();
        }
        expired
    }

    /// What is put. `None` if it is empty.
    pub(crate) fn to_put(&self) -> Option<PutRecord> {
        let first = self.records.first()?;
        let event = first.event()?;
        if !self.is_aggregate() {
            // The KPL always sends a hash key. Where it is that of the partition key, the service knows it by itself.
            return Some(PutRecord {
                partition_key: Arc::clone(&event.partition_key),
                explicit_hash_key: event.explicit_hash_key,
                data: event.payload.clone(),
            });
        }
        let data = match &self.aggregate {
            Some(aggregate) => aggregate.encode(),
            None => aggregate(&self.records).encode(),
        };
        Some(PutRecord { partition_key: AGGREGATE_KEY.into(), explicit_hash_key: Some(first.hash_key), data })
    }

    fn measure(&mut self) {
        self.epoch = self.records.iter().map(|record| record.epoch).min().unwrap_or(0);
        if self.is_aggregate() {
            let aggregate = self.aggregate.get_or_insert_with(|| aggregate(&self.records));
            self.size = aggregate.encoded_len() + AGGREGATE_KEY.len();
        } else {
            self.aggregate = None;
            self.size = self.records.first().and_then(Record::event).map_or(0, |event| event.size());
        }
    }
}

fn push(aggregate: &mut Aggregate, record: &Record) {
    if let Some(event) = record.event() {
        aggregate.push(&event.partition_key, event.explicit_hash_key, event.payload.clone());
    }
}

fn aggregate(records: &[Record]) -> Aggregate {
    let mut aggregate = Aggregate::new();
    records.iter().for_each(|record| push(&mut aggregate, record));
    aggregate
}

/// Splits off the records whose time is over.
pub(crate) fn take_expired(records: &mut Vec<Record>, now: Instant) -> Vec<Record> {
    if records.iter().all(|record| now < record.expires) {
        return Vec::new();
    }
    let (expired, kept) = std::mem::take(records).into_iter().partition(|record| record.expires <= now);
    *records = kept;
    expired
}

#[cfg(test)]
mod tests;
