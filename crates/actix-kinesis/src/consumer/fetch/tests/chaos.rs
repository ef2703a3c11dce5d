//! Random records, places and faults: what comes is what lies behind the stored position, once and in order.

use kinesis_record::aggregation::Aggregate;
use proptest::prelude::*;

use super::stream::{child, record};
use super::*;

/// User records of each Kinesis record: none stands for a plain one.
type Contents = Vec<Option<usize>>;

fn fault() -> impl Strategy<Value = Option<StreamErrorKind>> {
    prop::sample::select(vec![
        Some(StreamErrorKind::Throttled),
        Some(StreamErrorKind::ExpiredIterator),
        Some(StreamErrorKind::NotFound),
        Some(StreamErrorKind::InvalidArgument),
        Some(StreamErrorKind::Unavailable),
        None,
    ])
}

fn faults(kinds: Vec<Option<StreamErrorKind>>) -> impl Iterator<Item = Fault> {
    kinds.into_iter().map(|kind| kind.map_or(Fault::Severed, Fault::Error))
}

/// A Kinesis record and the positions in it.
fn contents(sequence: u128, users: Option<usize>) -> (kinesis_lease::stream::RawRecord, Vec<Position>) {
    let Some(users) = users else { return (record(sequence, "x"), vec![at(sequence, 0)]) };
    let mut aggregate = Aggregate::new();
    (0..users).for_each(|_| aggregate.push("key", None, "data".into()));
    (record(sequence, aggregate.encode()), (0..users as i64).map(|sub| at(sequence, sub)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_fails_all_behind_the_stored_position_comes_once_and_in_order(
        before in prop::collection::vec(prop::option::of(1usize..15), 0..40),
        after in prop::collection::vec(prop::option::of(1usize..15), 0..20),
        start in prop::option::of((any::<prop::sample::Index>(), -1i64..15)),
        max_records in 1u32..8,
        names_children: bool,
        iterator_faults in prop::collection::vec(fault(), 0..6),
        records_faults in prop::collection::vec(fault(), 0..12),
        list_faults in prop::collection::vec(fault(), 0..4),
        blackout in 0u64..900,
    ) {
        // As often in a row a refusal would be believed.
        let is_refusal = |kind: &&Option<StreamErrorKind>| **kind == Some(StreamErrorKind::InvalidArgument);
        prop_assume!(iterator_faults.iter().filter(is_refusal).count() < 4);
        simulated(async {
            let records = |contents_of: &Contents, first: u128| -> (Vec<_>, Vec<_>) {
                (first..).zip(contents_of).map(|(sequence, users)| contents(sequence, *users)).unzip()
            };
            let (early, early_positions) = records(&before, 1);
            let (late, late_positions) = records(&after, 1001);
            let positions: Vec<Position> = [early_positions, late_positions].concat().concat();
            let checkpoint = match start {
                Some((index, sub_sequence)) if !before.is_empty() => {
                    stored(index.index(before.len()) as u128 + 1, sub_sequence)
                }
                _ => Checkpoint::TrimHorizon,
            };
            let is_new = |position: &&Position| checkpoint.position().is_none_or(|stored| *position > stored);
            let expected: Vec<Position> = positions.iter().filter(is_new).cloned().collect();

            let stream = Stream::new(early);
            stream.with(|state| {
                state.names_children = names_children;
                state.iterator_faults = faults(iterator_faults).collect();
                state.records_faults = faults(records_faults).collect();
                state.list_faults = faults(list_faults).collect();
            });
            let reading = Reading::start(&stream, Start { max_records, ..checkpoint.into() });
            sleep(2 * SECOND).await;
            reading.room.send_replace(0);
            sleep(Duration::from_secs(blackout)).await;
            stream.with(|state| state.records.extend(late));
            stream.close(2000);
            reading.room.send_replace(MIB as u64);
            sleep(300 * SECOND).await;

            assert!(reading.has_ended());
            assert_eq!(reading.seen().last(), Some(&Seen::End(vec![child()])));
            assert_eq!(reading.events(), expected);
            assert!(!reading.seen().contains(&Seen::Gap));
        });
    }
}
