//! What passes is tried again, and ends nothing.

use super::*;
use StreamErrorKind::{
    Denied, Encryption, ExpiredIterator, InvalidArgument, NotFound, Throttled, Unavailable,
};

const ALL: [StreamErrorKind; 7] =
    [Throttled, ExpiredIterator, NotFound, InvalidArgument, Encryption, Denied, Unavailable];

#[test]
fn no_failure_of_a_call_skips_a_record_or_ends_the_shard() {
    for kind in ALL {
        simulated(async move {
            let stream = Stream::of(1..=3);
            stream.with(|state| {
                state.iterator_faults = Fault::times(kind, 5).into();
                state.records_faults = Fault::times(kind, 5).into();
            });
            let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
            let seen = reading.seen_within(120 * SECOND).await;
            assert_eq!(seen, events(1..=3), "{kind:?}");
            assert!(!reading.has_ended());
        });
    }
}

#[test]
fn pauses_between_attempts_grow_and_are_bounded() {
    for kind in ALL {
        simulated(async move {
            let stream = Stream::of([1]);
            stream.with(|state| state.iterator_faults = Fault::times(kind, 1000).into());
            let _reading = Reading::start(&stream, Checkpoint::TrimHorizon);
            sleep(300 * SECOND).await;
            let attempts: Vec<Duration> = stream
                .calls()
                .into_iter()
                .filter_map(|(when, call)| matches!(call, Call::Iterator(_)).then_some(when))
                .collect();
            let pauses: Vec<Duration> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(pauses[0] <= 2 * 205 * MS, "{kind:?}: {pauses:?}");
            assert!(pauses[8..].iter().all(|pause| (5 * SECOND..=11 * SECOND).contains(pause)), "{pauses:?}");
            assert!(pauses[8..].windows(2).all(|pair| pair[0] != pair[1]), "{pauses:?}");
        });
    }
}

#[test]
fn a_list_that_fails_is_asked_for_again() {
    for kind in ALL {
        simulated(async move {
            let stream = Stream::of(1..=3);
            stream.close(3);
            stream.with(|state| {
                state.names_children = false;
                state.list_faults = Fault::times(kind, 5).into();
            });
            let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
            let mut expected = events(1..=3);
            expected.push(Seen::End(vec![stream::child()]));
            assert_eq!(reading.seen_within(120 * SECOND).await, expected, "{kind:?}");
        });
    }
}

#[test]
fn failures_in_the_middle_of_a_shard_go_on_at_the_same_place() {
    simulated(async {
        let stream = Stream::of(1..=100);
        let start = Start { max_records: 10, ..Checkpoint::TrimHorizon.into() };
        let reading = Reading::start(&stream, start);
        for kind in ALL {
            sleep(300 * MS).await;
            stream.with(|state| state.records_faults = Fault::times(kind, 2).into());
        }
        assert_eq!(reading.seen_within(60 * SECOND).await, events(1..=100));
    });
}
