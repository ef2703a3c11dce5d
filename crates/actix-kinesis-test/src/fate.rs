//! What became of the records of a stream.

use std::collections::HashMap;
use std::fmt;
use std::time::SystemTime;

use actix_kinesis::consumer::{ConsumerEvent, DeliveryOutcome, FailureCause};
use kinesis_record::{Position, ShardId};

use crate::record::Record;
use crate::seen::Seen;

/// What became of a record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    deliveries: usize,
    /// How the last delivery ended.
    last: Option<DeliveryOutcome>,
    is_processed: bool,
    is_skipped: bool,
    given_up: Option<FailureCause>,
}

impl Fate {
    pub(crate) fn is_delivered(&self) -> bool {
        self.deliveries > 0
    }

    pub(crate) fn is_processed(&self) -> bool {
        self.is_processed
    }

    /// Whether the checkpoint may pass it, so that nothing more need come of it.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_processed || self.is_skipped || self.given_up.is_some()
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.deliveries {
            0 => return f.write_str("never delivered"),
            1 => f.write_str("delivered once, ")?,
            times => write!(f, "delivered {times} times, at last ")?,
        }
        match (&self.given_up, &self.last) {
            (Some(cause), _) => write!(f, "given up: {cause}"),
            (None, Some(outcome)) => write!(f, "{outcome}"),
            (None, None) => f.write_str("not answered"),
        }
    }
}

/// What is one record and no other, not even one of a stream that had the same name before.
type Identity<'a> = (&'a ShardId, &'a Position, Option<SystemTime>);

fn identity(event: &ConsumerEvent) -> Identity<'_> {
    (event.shard(), event.position(), event.arrival())
}

/// The fates of all events that were seen.
#[derive(Debug, Default)]
pub(crate) struct Fates<'a>(HashMap<Identity<'a>, Fate>);

impl<'a> Fates<'a> {
    pub(crate) fn of(seen: &'a Seen) -> Self {
        let mut fates: HashMap<_, Fate> = HashMap::new();
        for delivery in &seen.deliveries {
            let fate = fates.entry(identity(&delivery.event)).or_default();
            fate.deliveries += 1;
            fate.last.clone_from(&delivery.outcome);
            fate.is_processed |= delivery.outcome == Some(DeliveryOutcome::Processed);
            fate.is_skipped |= delivery.outcome == Some(DeliveryOutcome::Skipped);
        }
        for failed in seen.given_up() {
            let fate = fates.entry(identity(&failed.event)).or_default();
            fate.given_up = Some(failed.cause.clone());
        }
        Self(fates)
    }

    pub(crate) fn of_record(&self, record: &Record) -> Fate {
        let identity = (&record.shard, &record.position, Some(record.arrival));
        self.0.get(&identity).cloned().unwrap_or_default()
    }
}
