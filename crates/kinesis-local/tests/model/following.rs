use std::time::Duration;

use kinesis_local::model::StartingPosition::{AfterSequenceNumber, TrimHorizon};
use kinesis_local::model::{NextEvent, Settings, ShardEnd, SubscriptionEnd, SubscriptionId};
use proptest::prelude::*;

use crate::radar::Radar;
use crate::{SHARD_0, SHARD_1};

#[derive(Debug, Clone)]
enum Step {
    Put(u16),
    Pass(u64),
    Ask,
    Resubscribe(bool),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u16>().prop_map(Step::Put),
        4 => (0..70_000u64).prop_map(Step::Pass),
        6 => Just(Step::Ask),
        1 => any::<bool>().prop_map(Step::Resubscribe),
        1 => Just(Step::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_happens_a_reader_that_goes_on_from_the_last_number_gets_every_record_once_and_in_order(
        steps in prop::collection::vec(step(), 0..60),
        after_last in any::<bool>(),
    ) {
        let shard_end = if after_last { ShardEnd::AfterLastRecord } else { ShardEnd::WithLastRecord };
        let mut radar = Radar::new(Settings { shard_end, ..Default::default() }, 1);
        let (mut written, mut read) = (Vec::new(), Vec::new());
        let mut position = TrimHorizon;
        let mut id = None;
        let mut closed = false;
        let mut ended = false;
        // At the end the reader is given the time to read everything.
        let rest = [Step::Close].into_iter().chain(
            std::iter::repeat_n([Step::Pass(5_000), Step::Ask, Step::Ask], 3).flatten(),
        );
        for step in steps.into_iter().chain(rest) {
            match step {
                Step::Put(value) if !closed => {
                    written.push(radar.bench.put(&value.to_string()).sequence_number);
                }
                Step::Put(_) => {}
                Step::Pass(millis) => radar.bench.pass(millis),
                Step::Resubscribe(cancel) => {
                    if let Some(id) = id.take_if(|_| cancel) {
                        radar.bench.model.cancel_subscription(id);
                    }
                    if let Ok(next) = radar.subscribe(SHARD_0, position.clone()) {
                        id = Some(next);
                    }
                }
                Step::Close if !closed => {
                    radar.bench.split(SHARD_0, 1_000).unwrap();
                    closed = true;
                }
                Step::Close => {}
                Step::Ask if ended => {}
                Step::Ask => match id {
                    None => id = radar.subscribe(SHARD_0, position.clone()).ok(),
                    Some(current) => match radar.next(current) {
                        NextEvent::Event(event) => {
                            read.extend(event.records.into_iter().map(|record| record.sequence_number));
                            match event.continuation_sequence_number {
                                Some(number) => position = AfterSequenceNumber(number.to_string()),
                                None => {
                                    prop_assert_eq!(event.child_shards.len(), 2);
                                    ended = true;
                                }
                            }
                        }
                        NextEvent::NotBefore(instant) => {
                            prop_assert!(instant > radar.bench.now);
                            prop_assert!(instant.millis_since(radar.bench.now) <= 5_000);
                        }
                        NextEvent::Ended(end) => {
                            prop_assert_eq!(end, SubscriptionEnd::Expired);
                            id = None;
                        }
                    },
                },
            }
        }
        prop_assert!(ended);
        prop_assert_eq!(read, written);
    }
}

#[derive(Debug, Clone)]
enum Change {
    Put(u16),
    Pass(u64),
    Ask(usize),
    Split(usize),
    Merge(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => any::<u16>().prop_map(Change::Put),
        3 => (0..8_000u64).prop_map(Change::Pass),
        6 => any::<usize>().prop_map(Change::Ask),
        1 => any::<usize>().prop_map(Change::Split),
        1 => any::<usize>().prop_map(Change::Merge),
    ]
}

/// Reads a whole stream by subscriptions, each child after all of its parents.
struct Follower {
    running: Vec<(String, SubscriptionId)>,
    ended: Vec<String>,
    read: Vec<(String, String)>,
}

impl Follower {
    /// Asks a subscription once. Gives whether it had an event.
    fn ask(&mut self, radar: &mut Radar, index: usize) -> bool {
        let (shard, id) = self.running[index].clone();
        match radar.next(id) {
            NextEvent::NotBefore(_) => return false,
            NextEvent::Ended(SubscriptionEnd::Expired) => panic!("too late"),
            NextEvent::Ended(end) => panic!("{end:?}"),
            NextEvent::Event(event) => {
                let numbers = event.records.into_iter().map(|record| record.sequence_number.to_string());
                self.read.extend(numbers.map(|number| (shard.clone(), number)));
                if event.continuation_sequence_number.is_none() {
                    self.running.remove(index);
                    self.ended.push(shard);
                    for child in event.child_shards {
                        let parents = child.parent_shards.iter();
                        if parents.map(|parent| parent.to_string()).all(|parent| self.ended.contains(&parent))
                        {
                            let child = child.shard_id.to_string();
                            let id = radar.subscribe(&child, TrimHorizon).unwrap();
                            self.running.push((child, id));
                        }
                    }
                }
            }
        }
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn who_follows_the_children_gets_every_record_once_through_splits_and_merges(
        changes in prop::collection::vec(change(), 0..60),
    ) {
        let lifetime = Duration::from_secs(3_600);
        let mut radar = Radar::new(Settings { subscription_lifetime: lifetime, ..Default::default() }, 2);
        let start = |radar: &mut Radar, shard: &str| {
            (shard.to_owned(), radar.subscribe(shard, TrimHorizon).unwrap())
        };
        let running = vec![start(&mut radar, SHARD_0), start(&mut radar, SHARD_1)];
        let mut follower = Follower { running, ended: Vec::new(), read: Vec::new() };
        let mut written = Vec::new();
        for change in changes {
            let shards = radar.bench.shards();
            let mut open: Vec<_> = shards.iter().filter(|shard| shard.is_open()).collect();
            open.sort_by_key(|shard| shard.hash_range.start);
            match change {
                Change::Put(value) => {
                    let put = radar.bench.put(&value.to_string());
                    written.push((put.shard_id.to_string(), put.sequence_number.to_string()));
                    // Whoever reads that shard is woken.
                    let reader = follower.running.iter().find(|(shard, _)| *shard == *put.shard_id.as_str());
                    let woken = radar.bench.model.take_woken();
                    prop_assert!(reader.is_none_or(|(_, id)| woken.contains(id)));
                }
                Change::Pass(millis) => radar.bench.pass(millis),
                Change::Ask(index) => {
                    let index = index % follower.running.len();
                    follower.ask(&mut radar, index);
                }
                Change::Split(index) => {
                    let shard = open[index % open.len()];
                    let (first, last) = (shard.hash_range.start.0, shard.hash_range.end.0);
                    radar.bench.split(shard.id.as_str(), first + (last - first) / 2).unwrap();
                }
                Change::Merge(index) if open.len() > 1 => {
                    let index = index % (open.len() - 1);
                    radar.bench.merge(open[index].id.as_str(), open[index + 1].id.as_str()).unwrap();
                }
                Change::Merge(_) => {}
            }
        }
        let mut index = 0;
        while index < follower.running.len() {
            index = if follower.ask(&mut radar, index) { 0 } else { index + 1 };
        }
        follower.read.sort();
        written.sort();
        prop_assert_eq!(follower.read, written);
    }
}
