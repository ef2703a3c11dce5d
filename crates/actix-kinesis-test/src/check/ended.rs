//! What must be so when a history is over.

use kinesis_record::Checkpoint;

use super::shard::{RecordHistory, ShardHistory};
use super::{Checker, Oracle, Violation};

impl Checker {
    pub(super) fn check_the_end(&mut self) {
        let shards = std::mem::take(&mut self.shards);
        for (name, shard) in &shards {
            self.check_invented(name, shard);
            // A start from `LATEST` wants nothing of a shard that was closed before it had a row.
            if shard.row.is_none() && shard.starts == 0 && self.from_latest {
                continue;
            }
            self.check_complete(name, shard);
            self.check_progress(name, shard);
        }
        self.shards = shards;
    }

    /// Who put a record may have written that down only after somebody had read it.
    fn check_invented(&mut self, name: &str, shard: &ShardHistory) {
        let is_uncertain =
            |key: &Option<String>| key.as_ref().is_some_and(|key| self.uncertain_keys.contains(key));
        let is_invented = |record: &RecordHistory| {
            record.put.is_none() && record.delivered_by.is_some() && !is_uncertain(&record.key)
        };
        let invented = shard.records.iter().find(|(_, record)| self.has_puts && is_invented(record));
        if let Some((position, record)) = invented {
            let (line, at_ms) = record.delivered_first;
            let text = format!("{name} {position} is delivered, and was never put");
            self.violations.push(Violation { oracle: Oracle::Complete, line, at_ms, text });
        }
    }

    fn check_complete(&mut self, name: &str, shard: &ShardHistory) {
        let wanted = shard.records.iter().filter(|(_, record)| !record.is_unwanted);
        let missing = wanted.filter(|(_, record)| record.delivered_by.is_none());
        let missing: Vec<_> = missing.filter_map(|(at, record)| Some((at, record.put?))).collect();
        if let Some(&(first, (line, at_ms))) = missing.first() {
            let records = missing.len();
            let text = format!("{records} records of {name} were never delivered, first {first}, put here");
            self.violations.push(Violation { oracle: Oracle::Complete, line, at_ms, text });
        }
    }

    fn check_progress(&mut self, name: &str, shard: &ShardHistory) {
        let (Some(bound), Some(calm_ms)) = (self.rules.progress, self.calm_ms) else { return };
        let bound = bound.as_millis() as u64;
        let due = |put_ms: u64| put_ms.max(calm_ms).saturating_add(bound);
        let wanted = shard.records.iter().filter(|(_, record)| !record.is_unwanted);
        let wanted = wanted.filter_map(|(at, record)| Some((at, record, record.put?.1)));
        let wanted = wanted.filter(|(_, _, put_ms)| due(*put_ms) <= self.at_ms);
        let is_late = |done: &[(String, u64)], put_ms: u64| done.iter().all(|(_, at)| *at > due(put_ms));
        let mut last = None;
        let mut late = None;
        for (position, record, put_ms) in wanted {
            last = Some(position);
            if late.is_none() && is_late(&record.done, put_ms) {
                late = Some((position.clone(), put_ms));
            }
        }
        if let Some((position, put_ms)) = late {
            let text = format!(
                "{name} {position}, put at {put_ms} ms, was not done with {bound} ms after faults had ended or it was put"
            );
            return self.violated(Oracle::Progress, text);
        }
        if let (Some(last), Some(stored)) = (last, shard.stored())
            && *stored < Checkpoint::At(last.clone())
        {
            let text = format!("{name} {last} was done with and never stored: the checkpoint is {stored}");
            return self.violated(Oracle::Progress, text);
        }
        let is_closed = !shard.children.is_empty();
        if is_closed
            && !shard.is_finished
            && shard.row.is_some()
            && calm_ms.saturating_add(bound) <= self.at_ms
        {
            let text =
                format!("{name} is closed and everything in it is done with, and it is not at SHARD_END");
            self.violated(Oracle::Progress, text);
        }
    }
}
