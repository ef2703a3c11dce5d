//! Any schedule of sends, replies, failures and reshards.

use kinesis_lease::StreamErrorKind;
use proptest::prelude::*;

use super::bench::{Bench, MS, SECOND, events};
use crate::config::{BackoffConf, Ordering, ProducerConf};
use crate::producer::event::ProducerEvent;
use crate::producer::outcome::SendReason;

#[derive(Debug, Clone)]
enum Step {
    Send { key: u8, len: usize, explicit: Option<u8> },
    Pass { millis: u64 },
    Answer { call: usize, refused: u64, throttled: bool },
    Fail { call: usize, kind: u8, is_applied: bool },
    List { fails: bool },
    Split { shard: usize },
    CreateAgain { shards: u32 },
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send =
        (0u8..6, prop_oneof![8 => 0usize..40, 1 => 300usize..900], prop::option::weighted(0.1, any::<u8>()));
    let step = prop_oneof![
        12 => send.prop_map(|(key, len, explicit)| Step::Send { key, len, explicit }),
        6 => prop_oneof![8 => 1u64..60, 1 => 500u64..3_000].prop_map(|millis| Step::Pass { millis }),
        6 => (0usize..4, prop_oneof![2 => Just(0), 3 => any::<u64>()], any::<bool>())
            .prop_map(|(call, refused, throttled)| Step::Answer { call, refused, throttled }),
        2 => (0usize..4, 0u8..5, any::<bool>())
            .prop_map(|(call, kind, is_applied)| Step::Fail { call, kind, is_applied }),
        3 => prop::bool::weighted(0.2).prop_map(|fails| Step::List { fails }),
        1 => (0usize..8).prop_map(|shard| Step::Split { shard }),
        1 => (1u32..5).prop_map(|shards| Step::CreateAgain { shards }),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..120)
}

fn confs() -> impl Strategy<Value = ProducerConf> {
    (any::<bool>(), prop::bool::weighted(0.7), 1u64..8, 1usize..6, 0u64..120).prop_map(
        |(is_ordered, is_aggregated, count, calls, buffered)| {
            let mut conf = super::bench::conf();
            conf.ordering = if is_ordered { Ordering::PartitionKey } else { Ordering::None };
            conf.aggregation.enabled = is_aggregated;
            conf.aggregation.max_count = count;
            conf.aggregation.max_size = 400;
            conf.collection.max_count = 4;
            conf.max_in_flight_calls = calls;
            conf.record_max_buffered_time = MS * buffered as u32;
            conf.record_ttl = 4 * SECOND;
            conf.retry_backoff = BackoffConf { min: 20 * MS, max: 400 * MS };
            conf
        },
    )
}

fn take(bench: &mut Bench, step: &Step) {
    match step {
        Step::Send { key, len, explicit } => {
            let key = format!("key-{key}");
            let explicit = explicit.map(|byte| kinesis_record::HashKey(u128::from(byte) << 120));
            let event =
                |payload| ProducerEvent { explicit_hash_key: explicit, ..ProducerEvent::new(key, payload) };
            bench.send_event(event, *len);
            bench.poll();
        }
        Step::Pass { millis } => bench.pass(MS * *millis as u32),
        Step::Answer { call, refused, throttled } if !bench.waiting.is_empty() => {
            let code = if *throttled { "ProvisionedThroughputExceededException" } else { "InternalFailure" };
            let call = call % bench.waiting.len();
            bench.answer(call, |index, _| (refused >> (index % 64) & 1 == 1).then_some(code));
        }
        Step::Fail { call, kind, is_applied } if !bench.waiting.is_empty() => {
            let call = call % bench.waiting.len();
            match kind {
                0 => bench.fail(call, StreamErrorKind::Throttled, false),
                1 => bench.fail(call, StreamErrorKind::Denied, false),
                2 => bench.fail(call, StreamErrorKind::InvalidArgument, false),
                3 if !is_applied => bench.fail(call, StreamErrorKind::NotFound, false),
                _ => bench.fail(call, StreamErrorKind::Unavailable, *is_applied),
            }
        }
        Step::List { fails } if bench.is_listing => {
            if *fails {
                bench.fail_list();
            } else {
                bench.list();
            }
        }
        Step::Split { shard } => bench.split(*shard),
        Step::CreateAgain { shards } => bench.create_again(*shards),
        Step::Flush => drop(bench.flush()),
        _ => {}
    }
}

fn check(conf: ProducerConf, steps: &[Step]) {
    let is_ordered = conf.ordering == Ordering::PartitionKey;
    let calls = conf.max_in_flight_calls;
    let mut bench = Bench::blank(conf, 2);
    for step in steps {
        take(&mut bench, step);
        assert!(bench.waiting.len() <= calls);
        let live = bench.keys.len() - bench.outcomes.len();
        assert_eq!(bench.pipeline.outstanding(), live as u64, "records are lost");
        if is_ordered {
            let mut under_way: Vec<_> = bench.waiting.iter().flat_map(|call| &call.records).collect();
            let mut seen = std::collections::BTreeSet::new();
            for record in under_way.drain(..) {
                let keys: std::collections::BTreeSet<_> =
                    events(record).iter().map(|(event, _)| bench.keys[*event].clone()).collect();
                for key in keys {
                    assert!(seen.insert(key), "two Kinesis records of a key are under way");
                }
            }
        }
    }
    bench.run(20 * SECOND);
    let sends = bench.keys.len();
    assert_eq!(bench.outcomes.len(), sends, "an event has no outcome");
    assert_eq!(bench.pipeline.outstanding(), 0);
    assert!(bench.pipeline.order.as_ref().is_none_or(|order| order.is_empty()));
    assert_eq!(bench.pipeline.wake_at().filter(|at| *at <= bench.now), None, "it never sleeps");

    for (index, outcome) in &bench.outcomes {
        let copies: Vec<_> =
            bench.stored.iter().filter(|it| it.events.iter().any(|(event, _)| event == index)).collect();
        let attempts = match outcome {
            Ok(result) => {
                let at: usize = result.sequence.as_str().parse().unwrap();
                let stored = &bench.stored[at];
                let sub = result.sub_sequence.map_or(0, |sub| sub as usize);
                assert_eq!((stored.events[sub].0, &stored.shard), (*index, &result.shard));
                assert_eq!(result.sub_sequence.is_some(), stored.events.len() > 1);
                assert!(
                    !stored.is_dropped() || stored.is_mistaken,
                    "{index} is stored where a reader drops it"
                );
                &result.attempts[..]
            }
            Err(error) => {
                assert!(matches!(error.reason, SendReason::Expired(_) | SendReason::Refused(_)), "{error:?}");
                assert!(error.event.payload.starts_with(format!("{index};").as_bytes()));
                assert!(copies.is_empty() || error.may_be_stored(), "{error:?}");
                &error.attempts[..]
            }
        };
        let uncertain = attempts
            .iter()
            .filter(|attempt| attempt.error.as_ref().is_some_and(|error| error.may_be_stored))
            .count();
        assert!(copies.len() <= uncertain + usize::from(outcome.is_ok()), "{index} is stored too often");
    }
    if is_ordered {
        for (key, read) in bench.read() {
            let mut first = Vec::new();
            read.into_iter().for_each(|event| {
                if !first.contains(&event) {
                    first.push(event)
                }
            });
            assert!(first.is_sorted(), "{key}: {first:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn each_event_has_one_outcome_and_keys_stay_in_order(conf in confs(), steps in steps()) {
        check(conf, &steps);
    }
}
