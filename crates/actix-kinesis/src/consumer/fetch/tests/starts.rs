//! Where reading starts and goes on, and what is told of gaps.

use std::time::SystemTime;

use super::stream::record;
use super::*;

fn at_timestamp(instant: SystemTime) -> Start {
    Start { initial_timestamp: Some(instant), ..Checkpoint::AtTimestamp.into() }
}

#[test]
fn each_checkpoint_starts_where_it_says() {
    for (checkpoint, place, seen) in [
        (Checkpoint::TrimHorizon, StartAt::TrimHorizon, vec![1, 2, 3, 4]),
        (Checkpoint::AtTimestamp, StartAt::TrimHorizon, vec![1, 2, 3, 4]),
        (Checkpoint::Latest, StartAt::Latest, vec![4]),
        (stored(2, 0), StartAt::At(2.into()), vec![3, 4]),
        (stored(2, -1), StartAt::At(2.into()), vec![2, 3, 4]),
    ] {
        simulated(async move {
            let stream = Stream::of([1, 2, 3]);
            let reading = Reading::start(&stream, checkpoint);
            sleep(MS).await;
            stream.put([4]);
            assert_eq!(reading.seen_within(2 * IDLE).await, events(seen));
            assert_eq!(stream.opened(), [place]);
        });
    }
}

#[test]
fn an_expired_iterator_is_replaced_behind_the_last_record_fetched() {
    simulated(async {
        let stream = Stream::of([1, 2, 3]);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(SECOND / 2).await;
        // While there is no room the iterator grows old.
        reading.room.send_replace(0);
        sleep(400 * SECOND).await;
        stream.put([4]);
        reading.room.send_replace(MIB as u64);
        assert_eq!(reading.seen_within(SECOND).await, events(1..=4));
        assert_eq!(stream.opened(), [StartAt::TrimHorizon, StartAt::After(3.into())]);
    });
}

#[test]
fn latest_without_a_record_goes_on_from_before_the_instant_it_meant() {
    simulated(async {
        let stream = Stream::of([1]);
        let opened = SystemTime::now();
        let reading = Reading::start(&stream, Checkpoint::Latest);
        sleep(SECOND / 2).await;
        reading.room.send_replace(0);
        sleep(400 * SECOND).await;
        let late = kinesis_lease::stream::RawRecord { arrival: Some(opened + SECOND), ..record(2, "x") };
        stream.with(|state| state.records.push(late));
        reading.room.send_replace(MIB as u64);
        assert_eq!(reading.seen_within(SECOND).await, events([2]));
        let [StartAt::Latest, StartAt::Timestamp(instant)] = stream.opened()[..] else {
            panic!("{:?}", stream.opened())
        };
        let margin = opened.duration_since(instant).unwrap_or_default();
        assert!((59 * SECOND..61 * SECOND).contains(&margin), "{margin:?}");
    });
}

#[test]
fn an_instant_in_the_past_is_asked_for_as_it_is() {
    simulated(async {
        let instant = SystemTime::now() - 3600 * SECOND;
        let stream = Stream::of([]);
        let _reading = Reading::start(&stream, at_timestamp(instant));
        sleep(SECOND).await;
        assert_eq!(stream.opened(), [StartAt::Timestamp(instant)]);
    });
}

#[test]
fn an_instant_in_the_future_is_waited_for_and_nothing_before_it_is_delivered() {
    simulated(async {
        let now = SystemTime::now();
        let instant = now + 3600 * SECOND;
        let arriving = |sequence, arrival| kinesis_lease::stream::RawRecord {
            arrival: Some(arrival),
            ..record(sequence, "x")
        };
        let stream =
            Stream::new([arriving(1, now), arriving(2, instant - SECOND), arriving(3, instant + SECOND)]);
        let reading = Reading::start(&stream, at_timestamp(instant));
        sleep(3598 * SECOND).await;
        assert!(stream.calls().is_empty());
        assert_eq!(reading.seen_within(4 * SECOND).await, events([3]));
        assert!(stream.opened().iter().all(|place| *place == StartAt::Timestamp(instant)));
    });
}

#[test]
fn an_instant_that_the_service_has_not_reached_is_asked_for_again() {
    simulated(async {
        let instant = SystemTime::now();
        let stream = Stream::of([]);
        stream.with(|state| state.clock -= 30 * SECOND);
        let reading = Reading::start(&stream, at_timestamp(instant));
        assert_eq!(reading.seen_within(60 * SECOND).await, []);
        let opened = stream.opened();
        assert!((4..20).contains(&opened.len()), "{opened:?}");
        assert!(opened.iter().all(|place| *place == StartAt::Timestamp(instant)));
        assert!(!stream.calls().iter().any(|(_, call)| *call == Call::List));
        assert!(!stream.reads().is_empty());
    });
}

#[test]
fn an_expired_stored_record_is_told_as_one_gap() {
    simulated(async {
        let stream = Stream::of(1..=9);
        stream.with(|state| state.expired = 5);
        let reading = Reading::start(&stream, stored(3, 0));
        sleep(SECOND).await;
        stream.put([10]);
        let seen = reading.seen_within(2 * IDLE).await;
        assert_eq!(seen[0], Seen::Gap);
        assert_eq!(seen[1..], events(6..=10));
    });
}

#[test]
fn a_refused_position_is_told_as_one_gap_and_reading_goes_on_at_the_oldest_record() {
    simulated(async {
        let stream = Stream::of(1..=9);
        stream.with(|state| {
            state.expired = 5;
            state.refuses_unknown_places = true;
        });
        let reading = Reading::start(&stream, stored(3, 7));
        let seen = reading.seen_within(10 * SECOND).await;
        assert_eq!(seen[0], Seen::Gap);
        assert_eq!(seen[1..], events(6..=9));
        let opened = stream.opened();
        assert_eq!(opened.first(), Some(&StartAt::At(3.into())));
        assert_eq!(opened.last(), Some(&StartAt::TrimHorizon));
    });
}

#[test]
fn a_position_of_which_all_has_expired_is_a_gap_as_soon_as_a_record_shows_it() {
    simulated(async {
        let stream = Stream::of(1..=9);
        stream.with(|state| {
            state.expired = 9;
            state.refuses_unknown_places = true;
        });
        let reading = Reading::start(&stream, stored(3, 7));
        assert_eq!(reading.seen_within(600 * SECOND).await, []);
        stream.put([10]);
        let seen = reading.seen_within(2 * IDLE).await;
        assert_eq!(seen, [vec![Seen::Gap], events([10])].concat());
    });
}

/// Whatever comes later, nothing is taken for processed by a position that the stream does not know.
#[test]
fn a_refused_position_that_has_not_expired_ends_the_reading_without_a_record() {
    for position in [4, 9, 10, u128::MAX] {
        for is_closed in [false, true] {
            simulated(async move {
                let stream = Stream::of([1, 2, 3, 5, 6]);
                stream.with(|state| state.refuses_unknown_places = true);
                if is_closed {
                    stream.close(9);
                }
                let reading = Reading::start(&stream, stored(position, 0));
                let seen = reading.seen_within(10 * SECOND).await;
                // The very end of a closed shard is known from the list.
                if is_closed && position == 9 {
                    assert!(matches!(seen[..], [Seen::End(_)]), "{seen:?}");
                } else {
                    assert_eq!(seen, [Seen::Misplaced], "{position} {is_closed}");
                }
                assert!(reading.has_ended());
                let calls = stream.calls().len();
                sleep(600 * SECOND).await;
                assert_eq!(stream.calls().len(), calls);
            });
        }
    }
}

#[test]
fn a_position_ahead_of_an_empty_shard_is_found_out_by_its_first_record() {
    simulated(async {
        let stream = Stream::of([]);
        stream.with(|state| state.refuses_unknown_places = true);
        let reading = Reading::start(&stream, stored(9, 0));
        assert_eq!(reading.seen_within(600 * SECOND).await, []);
        stream.put([5, 10]);
        assert_eq!(reading.seen_within(2 * IDLE).await, [Seen::Misplaced]);
    });
}

#[test]
fn a_position_that_is_refused_without_need_is_asked_for_again() {
    simulated(async {
        let stream = Stream::of(1..=9);
        stream.with(|state| state.iterator_faults = Fault::times(StreamErrorKind::InvalidArgument, 3).into());
        let reading = Reading::start(&stream, stored(3, 0));
        assert_eq!(reading.seen_within(10 * SECOND).await, events(4..=9));
    });
}

#[test]
fn a_place_that_is_refused_in_the_middle_brings_nothing_that_was_fetched_again() {
    simulated(async {
        let stream = Stream::of(1..=9);
        let reading = Reading::start(&stream, stored(3, 0));
        sleep(SECOND / 2).await;
        stream.with(|state| {
            state.records_faults = Fault::times(StreamErrorKind::ExpiredIterator, 1).into();
            state.iterator_faults = Fault::times(StreamErrorKind::InvalidArgument, 1).into();
        });
        stream.put([10]);
        assert_eq!(reading.seen_within(3 * IDLE).await, events(4..=10));
    });
}

#[test]
fn a_refused_iterator_is_replaced_without_a_gap() {
    simulated(async {
        let stream = Stream::of(1..=3);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(SECOND / 2).await;
        stream.with(|state| state.records_faults = Fault::times(StreamErrorKind::InvalidArgument, 1).into());
        stream.put([4]);
        assert_eq!(reading.seen_within(3 * IDLE).await, events(1..=4));
        assert_eq!(stream.opened()[1], StartAt::After(3.into()));
    });
}
