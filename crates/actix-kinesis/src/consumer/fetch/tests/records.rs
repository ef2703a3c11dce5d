//! From records to events: aggregates, positions within them, and strays.

use bytes::Bytes;
use kinesis_lease::stream::RawRecord;
use kinesis_record::HashKey;
use kinesis_record::aggregation::Aggregate;

use super::stream::record;
use super::*;

/// An aggregate of user records with these hash keys.
fn aggregate(sequence: u128, hash_keys: impl IntoIterator<Item = u128>) -> RawRecord {
    let mut aggregate = Aggregate::new();
    for hash_key in hash_keys {
        aggregate.push("key", Some(HashKey(hash_key)), Bytes::from_static(b"data"));
    }
    record(sequence, aggregate.encode())
}

/// The bytes of an aggregate whose only user record names a key that is not there.
fn broken(sequence: u128) -> RawRecord {
    let magic = 0xF389_9AC2_u32.to_be_bytes();
    // Field 3, a record of: partition key index 5, empty data.
    let body = [0x1A, 4, 0x08, 5, 0x1A, 0];
    let md5_of_body = 0xb80a008f638f69f73a626d69ec1f31d0_u128.to_be_bytes();
    record(sequence, [&magic[..], &body, &md5_of_body].concat())
}

fn subs(sequence: u128, subs: impl IntoIterator<Item = i64>) -> Vec<Seen> {
    subs.into_iter().map(|sub| Seen::Event(at(sequence, sub))).collect()
}

/// Whatever was stored, exactly what lies behind it comes, in order.
#[test]
fn reading_starts_behind_the_stored_user_record() {
    let stream = || {
        Stream::new([
            record(1, "x"),
            aggregate(2, 0..13),
            record(3, "x"),
            aggregate(4, 0..2),
            aggregate(5, 0..1),
        ])
    };
    let all: Vec<Seen> = [subs(1, [0]), subs(2, 0..13), subs(3, [0]), subs(4, 0..2), subs(5, [0])].concat();
    let places = [
        (1, -1, 0),
        (1, 0, 1),
        (2, -1, 1),
        (2, 0, 2),
        (2, 1, 3),
        (2, 9, 11),
        (2, 10, 12),
        (2, 12, 14),
        (2, 99, 14),
        (3, 0, 15),
        (4, 0, 16),
        (4, 1, 17),
        (5, 0, 18),
    ];
    for (sequence, sub_sequence, processed) in places {
        simulated(async {
            let reading = Reading::start(&stream(), stored(sequence, sub_sequence));
            let seen = reading.seen_within(SECOND).await;
            assert_eq!(seen, all[processed..], "{sequence}/{sub_sequence}");
        });
    }
}

#[test]
fn user_records_of_another_shard_are_left_out_alone_and_told_once_a_page() {
    simulated(async {
        let stream = Stream::new([aggregate(1, [90, 1, 91, 2, 92]), aggregate(2, [93]), record(3, "x")]);
        let range = Some(HashRange { start: HashKey(0), end: HashKey(9) });
        let reading = Reading::start(&stream, Start { range, ..Checkpoint::TrimHorizon.into() });
        let seen = reading.seen_within(SECOND).await;
        let left_out = vec![at(1, 0), at(1, 2), at(1, 4), at(2, 0)];
        assert_eq!(seen.iter().filter(|seen| **seen == Seen::LeftOut(left_out.clone())).count(), 1);
        let items: Vec<Seen> = seen.into_iter().filter(|seen| !matches!(seen, Seen::LeftOut(_))).collect();
        assert_eq!(
            items,
            [
                Seen::Nothing(at(1, 0)),
                Seen::Event(at(1, 1)),
                Seen::Nothing(at(1, 2)),
                Seen::Event(at(1, 3)),
                Seen::Nothing(at(1, 4)),
                Seen::Nothing(at(2, 0)),
                Seen::Event(at(3, 0)),
            ]
        );
        assert_eq!(reading.gauges.left_out.get(), 4);
    });
}

#[test]
fn strays_that_are_passed_already_are_not_told_again() {
    simulated(async {
        let stream = Stream::new([aggregate(1, [90, 1, 91])]);
        let range = Some(HashRange { start: HashKey(0), end: HashKey(9) });
        let reading = Reading::start(&stream, Start { range, ..stored(1, 1).into() });
        let seen = reading.seen_within(SECOND).await;
        assert!(seen.contains(&Seen::LeftOut(vec![at(1, 2)])));
        assert!(seen.contains(&Seen::Nothing(at(1, 2))));
        assert_eq!(seen.len(), 2);
    });
}

#[test]
fn a_broken_aggregate_is_delivered_whole_and_told() {
    simulated(async {
        let stream = Stream::new([broken(1), record(2, "x")]);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        let seen = reading.seen_within(SECOND).await;
        assert!(seen.contains(&Seen::Broken(at(1, 0))));
        assert_eq!(reading.events(), [at(1, 0), at(2, 0)]);
        assert_eq!(reading.gauges.broken_aggregates.get(), 1);
    });
}

#[test]
fn a_broken_aggregate_that_is_processed_is_not_told_again() {
    simulated(async {
        let reading = Reading::start(&Stream::new([broken(1)]), stored(1, 0));
        assert_eq!(reading.seen_within(SECOND).await, []);
        assert_eq!(reading.gauges.broken_aggregates.get(), 0);
    });
}

#[test]
fn what_only_looks_like_an_aggregate_is_a_plain_record() {
    simulated(async {
        let mut data = aggregate(1, 0..3).data.to_vec();
        data[7] ^= 1;
        let reading = Reading::start(&Stream::new([record(1, data)]), Checkpoint::TrimHorizon);
        assert_eq!(reading.seen_within(SECOND).await, events([1]));
    });
}
