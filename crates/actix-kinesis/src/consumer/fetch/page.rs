//! From a page of Kinesis records to events.

use std::sync::Arc;
use std::time::Duration;

use kinesis_lease::stream::{RawRecord, RecordsPage};
use kinesis_record::aggregation::{Deaggregated, deaggregate};
use kinesis_record::{HashRange, Position, ShardId};

use crate::consumer::event::{ConsumerEvent, Contents, FencingToken};
use crate::consumer::tracker::PageItem;

/// Takes aggregated records apart and leaves out what has been processed before.
#[derive(Debug)]
pub(crate) struct Unpacker {
    shard: ShardId,
    range: Option<HashRange>,
    fencing_token: FencingToken,
    /// What lies at or before it has been processed or fetched. The first record read again is the one that holds it.
    passed: Option<Position>,
}

/// What a page held.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    pub(super) items: Vec<PageItem>,
    /// User records that belong to another shard.
    pub(super) left_out: Vec<Position>,
    /// Aggregated records that are delivered whole, with what is wrong with them.
    pub(super) broken: Vec<(ConsumerEvent, String)>,
}

impl Unpacker {
    pub(crate) fn new(
        shard: ShardId,
        range: Option<HashRange>,
        fencing_token: FencingToken,
        processed: Option<Position>,
    ) -> Self {
        Self { shard, range, fencing_token, passed: processed }
    }

    pub(super) fn unpack(&self, page: RecordsPage) -> Unpacked {
        let mut unpacked = Unpacked { items: Vec::with_capacity(page.records.len()), ..Unpacked::default() };
        let behind = page.behind;
        for record in page.records {
            if self.passed.as_ref().is_some_and(|passed| record.sequence < passed.sequence) {
                continue;
            }
            self.unpack_record(record, behind, &mut unpacked);
        }
        unpacked
    }

    fn unpack_record(&self, record: RawRecord, behind: Duration, unpacked: &mut Unpacked) {
        let at = |sub_sequence| Position::new(record.sequence.clone(), sub_sequence);
        let event = |sub_sequence, partition_key, explicit_hash_key, payload, is_aggregated| {
            ConsumerEvent::from_contents(Contents {
                shard: self.shard.clone(),
                position: at(sub_sequence),
                partition_key,
                explicit_hash_key,
                payload,
                arrival: record.arrival,
                behind,
                is_aggregated,
                fencing_token: self.fencing_token,
            })
        };
        let whole = || {
            let partition_key = record.partition_key.as_deref().map(Arc::from);
            event(0, partition_key, None, record.data.clone(), false)
        };
        match deaggregate(&record.data, self.range) {
            Deaggregated::Plain => self.add(PageItem::Event(whole()), unpacked),
            Deaggregated::Broken(error) if !self.is_passed(&at(0)) => {
                let event = whole();
                unpacked.broken.push((event.clone(), error.to_string()));
                unpacked.items.push(PageItem::Event(event));
            }
            Deaggregated::Broken(_) => {}
            Deaggregated::Aggregated { records, out_of_range } => {
                if records.is_empty() && out_of_range.is_empty() {
                    self.add(PageItem::Nothing(at(0)), unpacked);
                }
                let mut left_out = out_of_range.iter().map(|user| user.sub_sequence).peekable();
                for user in records {
                    while let Some(sub_sequence) = left_out.next_if(|left_out| *left_out < user.sub_sequence)
                    {
                        self.leave_out(at(sub_sequence), unpacked);
                    }
                    let item = event(
                        user.sub_sequence,
                        Some(user.partition_key),
                        user.explicit_hash_key,
                        user.data,
                        true,
                    );
                    self.add(PageItem::Event(item), unpacked);
                }
                for sub_sequence in left_out {
                    self.leave_out(at(sub_sequence), unpacked);
                }
            }
        }
    }

    fn leave_out(&self, position: Position, unpacked: &mut Unpacked) {
        if !self.is_passed(&position) {
            unpacked.left_out.push(position.clone());
            unpacked.items.push(PageItem::Nothing(position));
        }
    }

    fn add(&self, item: PageItem, unpacked: &mut Unpacked) {
        if !self.is_passed(item.position()) {
            unpacked.items.push(item);
        }
    }

    fn is_passed(&self, position: &Position) -> bool {
        self.passed.as_ref().is_some_and(|passed| position <= passed)
    }
}
