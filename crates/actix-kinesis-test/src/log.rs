//! What the consumers of a local AWS were observed to do.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use actix_kinesis::consumer::{
    ConsumerNotice, ConsumerShutdown, ConsumerWorkerFailure, DeliveryOutcome, Observation,
};
use kinesis_record::{Position, ShardId};

use crate::seen::{Delivery, Seen};

#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    /// The lease table of each consumer; empty before it is known.
    tables: Vec<String>,
    deliveries: Vec<Delivery>,
    /// Each with the consumer that it is of.
    failures: Vec<(usize, ConsumerWorkerFailure)>,
    shutdowns: Vec<(usize, ConsumerShutdown)>,
    notices: Vec<(usize, ConsumerNotice)>,
    /// Where in `deliveries` the newest one is of each consumer, event and attempt. A worker that is started again
    /// counts attempts from 1.
    newest: HashMap<(usize, ShardId, Position, u32), usize>,
}

impl Log {
    /// The number of one more consumer, from 1.
    pub(crate) fn next_consumer(&self) -> usize {
        let mut noted = self.noted();
        noted.tables.push(String::new());
        noted.tables.len()
    }

    pub(crate) fn set_table(&self, consumer: usize, table: &str) {
        table.clone_into(&mut self.noted().tables[consumer - 1]);
    }

    pub(crate) fn note(&self, consumer: usize, observation: Observation) {
        let mut noted = self.noted();
        match observation {
            Observation::Delivered { event, attempt } => {
                let place = (consumer, event.shard().clone(), event.position().clone(), attempt);
                let index = noted.deliveries.len();
                noted.newest.insert(place, index);
                noted.deliveries.push(Delivery { consumer, event, attempt, outcome: None });
            }
            Observation::Concluded { shard, position, attempt, outcome } => {
                let index = noted.newest.get(&(consumer, shard, position, attempt)).copied();
                if let Some(delivery) = index.and_then(|index| noted.deliveries.get_mut(index)) {
                    // A success counts even behind a time-out, a failure behind one says nothing new.
                    let is_failure = matches!(outcome, DeliveryOutcome::Failed(_));
                    if !is_failure || delivery.outcome.is_none() {
                        delivery.outcome = Some(outcome);
                    }
                }
            }
            Observation::ToldOfFailure(failure) => noted.failures.push((consumer, failure)),
            Observation::ToldOfShutdown(shutdown) => noted.shutdowns.push((consumer, shutdown)),
            Observation::Noticed(notice) => noted.notices.push((consumer, notice)),
            _ => {}
        }
    }

    /// What one consumer did.
    pub(crate) fn seen_of(&self, consumer: usize) -> Seen {
        self.noted().seen(|of| of == consumer)
    }

    /// What all consumers with this lease table did.
    pub(crate) fn seen_with(&self, table: &str) -> Seen {
        let noted = self.noted();
        noted.seen(|of| noted.tables[of - 1] == table)
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noted {
    fn seen(&self, is_wanted: impl Fn(usize) -> bool) -> Seen {
        fn of<T: Clone>(all: &[(usize, T)], is_wanted: impl Fn(usize) -> bool) -> Vec<T> {
            all.iter().filter(|(of, _)| is_wanted(*of)).map(|(_, noted)| noted.clone()).collect()
        }
        let deliveries = self.deliveries.iter().filter(|delivery| is_wanted(delivery.consumer));
        Seen {
            deliveries: deliveries.cloned().collect(),
            failures: of(&self.failures, &is_wanted),
            shutdowns: of(&self.shutdowns, &is_wanted),
            notices: of(&self.notices, &is_wanted),
            ..Seen::default()
        }
    }
}
