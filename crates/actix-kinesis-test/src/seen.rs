//! What consumers did, for assertions.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use actix_kinesis::consumer::{
    ConsumerEvent, ConsumerNotice, ConsumerShutdown, ConsumerWorkerFailure, DeliveryOutcome, FailedEvent,
};
use kinesis_record::{Position, ShardId};

use crate::record::Beginning;

/// One delivery of an event, noted just before it goes to the mailbox of the processor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Delivery {
    /// Which consumer made it, from 1 in the order in which the test started them.
    pub consumer: usize,
    /// The event: its shard, position, partition key and payload.
    pub event: ConsumerEvent,
    /// 1 at the first delivery by this shard's worker, one more with each further one.
    pub attempt: u32,
    /// How it ended; nothing as long as it is under way, and if its shard was lost or its consumer crashed before.
    pub outcome: Option<DeliveryOutcome>,
}

impl Delivery {
    /// The event's partition key; empty if it has none.
    pub fn key(&self) -> &str {
        self.event.partition_key().unwrap_or_default()
    }

    /// The event's payload as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.event.payload())
    }

    pub(crate) fn place(&self) -> (&ShardId, &Position) {
        (self.event.shard(), self.event.position())
    }
}

impl fmt::Display for Delivery {
    /// Names it for people, with the beginning of its payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((shard, position), payload) = (self.place(), Beginning(self.event.payload()));
        write!(
            f,
            "{shard} {position} key {:?} payload {payload}, attempt {} of consumer {}",
            self.key(),
            self.attempt,
            self.consumer
        )
    }
}

/// What consumers had done at one moment, each kind of thing in the order in which it happened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Seen {
    /// All deliveries, repeated ones included.
    pub deliveries: Vec<Delivery>,
    /// What processors were told of failures.
    pub failures: Vec<ConsumerWorkerFailure>,
    /// What processors were told of shards whose workers have stopped.
    pub shutdowns: Vec<ConsumerShutdown>,
    /// All notices.
    pub notices: Vec<ConsumerNotice>,
    /// The parents of each shard.
    pub(crate) parents: HashMap<ShardId, Vec<ShardId>>,
}

impl Seen {
    /// The first delivery of each event.
    pub fn first_deliveries(&self) -> Vec<&Delivery> {
        let mut known = HashSet::new();
        self.deliveries.iter().filter(|delivery| known.insert(delivery.place())).collect()
    }

    /// The payloads of all events, as text, each once in the order of the first deliveries.
    pub fn payloads(&self) -> Vec<Cow<'_, str>> {
        self.first_deliveries().into_iter().map(Delivery::text).collect()
    }

    /// The payloads of the events with this partition key, as text, each once in the order of the first deliveries.
    pub fn payloads_of(&self, key: &str) -> Vec<Cow<'_, str>> {
        let of_key = |delivery: &&Delivery| delivery.key() == key;
        self.first_deliveries().into_iter().filter(of_key).map(Delivery::text).collect()
    }

    /// The events that were given up.
    pub fn given_up(&self) -> Vec<&FailedEvent> {
        let events = self.notices.iter().flat_map(|notice| match notice {
            ConsumerNotice::EventsGivenUp { events, .. } => events.as_slice(),
            _ => &[],
        });
        events.collect()
    }

    /// Shard and position of the user records that were left out of aggregates, since their hash key belongs to
    /// another shard.
    pub fn left_out(&self) -> Vec<(&ShardId, &Position)> {
        let mut left_out = Vec::new();
        for notice in &self.notices {
            if let ConsumerNotice::RecordsLeftOut { shard, positions } = notice {
                left_out.extend(positions.iter().map(|position| (shard, position)));
            }
        }
        left_out
    }

    /// Asserts that the events of each shard were first delivered in the order of the stream, and none of a shard
    /// behind those of its children. So the events of each partition key came in order, across reshards too.
    ///
    /// # Panics
    /// When they did not, with the first pair that is out of order.
    #[track_caller]
    pub fn assert_in_order(&self) {
        let mut newest: HashMap<&ShardId, &Delivery> = HashMap::new();
        // The first delivery of a descendant, for each shard that has to be through by then.
        let mut descendants: HashMap<&ShardId, &Delivery> = HashMap::new();
        for delivery in self.first_deliveries() {
            let (shard, position) = delivery.place();
            if let Some(descendant) = descendants.get(shard) {
                panic!("out of order: {delivery} came behind {descendant}, of a child of its shard");
            }
            match newest.insert(shard, delivery) {
                Some(before) if before.event.position() > position => {
                    panic!("out of order: {delivery} came behind {before}")
                }
                Some(_) => {}
                None => self.ancestors(shard).for_each(|ancestor| {
                    descendants.entry(ancestor).or_insert(delivery);
                }),
            }
        }
    }

    /// The shards from whose closing a shard came, however long ago; some of them several times.
    fn ancestors(&self, shard: &ShardId) -> impl Iterator<Item = &ShardId> {
        let parents = |shard: &ShardId| self.parents.get(shard).into_iter().flatten();
        let mut open: Vec<&ShardId> = parents(shard).collect();
        std::iter::from_fn(move || {
            let next = open.pop()?;
            open.extend(parents(next));
            Some(next)
        })
    }

    /// Asserts that no event was delivered twice. That holds only while nothing fails: a restart, a crash, or an
    /// answer that is late repeats deliveries.
    ///
    /// # Panics
    /// When one was, with the event and how the deliveries ended.
    #[track_caller]
    pub fn assert_each_once(&self) {
        let mut known: HashMap<(&ShardId, &Position), &Delivery> = HashMap::new();
        for delivery in &self.deliveries {
            if let Some(first) = known.insert(delivery.place(), delivery) {
                let end = first.outcome.as_ref().map_or("is not answered".to_owned(), ToString::to_string);
                panic!("delivered twice: {delivery}; the delivery before it {end}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deliveries of events in shards, by their positions; of two shards, the second is a child of the first.
    fn seen(events: &[(&str, u128)]) -> Seen {
        let delivery = |&(shard, sequence): &(&str, u128)| Delivery {
            consumer: 1,
            event: ConsumerEvent::new(shard.into(), Position::new(sequence.into(), 0), "tea"),
            attempt: 1,
            outcome: None,
        };
        Seen {
            deliveries: events.iter().map(delivery).collect(),
            parents: [("child", "parent"), ("grandchild", "child")]
                .map(|(shard, parent)| (shard.into(), vec![parent.into()]))
                .into(),
            ..Seen::default()
        }
    }

    #[test]
    fn repeated_deliveries_and_other_shards_do_not_disturb_the_order() {
        seen(&[
            ("parent", 1),
            ("other", 1),
            ("parent", 3),
            ("parent", 1),
            ("child", 7),
            ("other", 2),
            ("parent", 3),
        ])
        .assert_in_order();
    }

    #[test]
    #[should_panic(
        expected = "out of order: parent 2/0 key \"\" payload \"tea\", attempt 1 of consumer 1 came behind parent 3/0"
    )]
    fn a_shard_out_of_order_is_told() {
        seen(&[("parent", 1), ("parent", 3), ("parent", 2)]).assert_in_order();
    }

    #[test]
    #[should_panic(expected = "of a child of its shard")]
    fn an_event_behind_those_of_a_grandchild_is_told() {
        seen(&[("parent", 1), ("grandchild", 3), ("parent", 2)]).assert_in_order();
    }

    #[test]
    #[should_panic(
        expected = "delivered twice: parent 1/0 key \"\" payload \"tea\", attempt 1 of consumer 1; the delivery before it is not answered"
    )]
    fn a_second_delivery_is_told() {
        seen(&[("parent", 1), ("child", 1), ("parent", 1)]).assert_each_once();
    }
}
