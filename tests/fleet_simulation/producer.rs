//! Puts numbered records into the stream.

use std::time::Duration;

use actix_kinesis_test::Aggregate;
use actix_kinesis_test::check::Event;
use kinesis_record::{HashKey, SequenceNumber, Shard};
use tokio::time::sleep;

use crate::schedule::within;
use crate::trace::Trace;
use crate::world::Place;

/// The keys, of which each keeps its order.
const KEYS: usize = 12;
/// An aggregate has more user records than there are digits.
const MOST_IN_AGGREGATE: usize = 14;

pub(crate) struct Producer {
    pub(crate) place: Place,
    pub(crate) trace: Trace,
    pub(crate) chance: fastrand::Rng,
}

impl Producer {
    pub(crate) async fn run(mut self) {
        loop {
            let at_once = if self.chance.u32(0..20) == 0 { self.chance.usize(5..40) } else { 1 };
            for _ in 0..at_once {
                self.put();
            }
            sleep(Duration::from_millis(50) + within(&mut self.chance, Duration::from_millis(900))).await;
        }
    }

    /// Puts more at once than a process may hold.
    pub(crate) async fn flood(mut self) {
        for _ in 0..30 {
            for _ in 0..20 {
                let key = self.key();
                self.put_record(&key, vec![b'x'; 12_000], std::slice::from_ref(&key));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn key(&mut self) -> String {
        format!("key-{}", self.chance.usize(0..KEYS))
    }

    fn data(&mut self) -> Vec<u8> {
        let length = if self.chance.u32(0..10) == 0 { 40_000 } else { 40 };
        vec![b'x'; self.chance.usize(1..length)]
    }

    fn put(&mut self) {
        let key = self.key();
        if self.chance.u32(0..3) > 0 {
            let data = self.data();
            return self.put_record(&key, data, std::slice::from_ref(&key));
        }
        let mut keys = vec![key.clone()];
        let shards = self.place.open_shards();
        let home = shards.iter().find(|shard| is_home(shard, &key)).cloned();
        for _ in 0..self.chance.usize(1..MOST_IN_AGGREGATE) {
            let other = self.key();
            if home.as_ref().is_some_and(|home| is_home(home, &other)) {
                keys.push(other);
            }
        }
        let mut aggregate = Aggregate::new();
        for key in &keys {
            aggregate.push(key, None, self.data().into());
        }
        self.put_record(&key, aggregate.encode().to_vec(), &keys);
    }

    fn put_record(&mut self, key: &str, data: Vec<u8>, keys: &[String]) {
        let put = match self.place.put_bytes(key, data) {
            Ok(put) => put,
            Err(refusal) => return self.trace.remark("", format!("PutRecord: {refusal}")),
        };
        let (shard, seq): (String, SequenceNumber) = (put.shard_id.to_string(), put.sequence_number);
        for (sub, pk) in (0..).zip(keys) {
            let (shard, seq, pk) = (shard.clone(), seq.clone(), pk.clone());
            self.trace.tell("", Event::Put { shard, seq, sub, pk, attempts: 1 });
        }
    }
}

fn is_home(shard: &Shard, key: &str) -> bool {
    shard.hash_range.contains(HashKey::of_partition_key(key))
}
