//! When a shard is at its end, and when it only looks like it.

use super::stream::child;
use super::*;

fn ended_after(mut seen: Vec<Seen>) -> Vec<Seen> {
    seen.push(Seen::End(vec![child()]));
    seen
}

#[test]
fn records_of_the_final_reply_come_before_the_end_and_nothing_is_asked_for_after_it() {
    simulated(async {
        let stream = Stream::of(1..=10);
        stream.close(10);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        assert_eq!(reading.seen_within(MS).await, ended_after(events(1..=10)));
        assert!(reading.has_ended());
        let calls = stream.calls().len();
        sleep(600 * SECOND).await;
        assert_eq!(stream.calls().len(), calls);
    });
}

#[test]
fn a_shard_that_is_closed_while_it_is_read_ends_behind_its_last_record() {
    simulated(async {
        let stream = Stream::of(1..=3);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(10 * SECOND).await;
        stream.put([4]);
        stream.close(4);
        assert_eq!(reading.seen_within(2 * IDLE).await, ended_after(events(1..=4)));
    });
}

#[test]
fn children_that_the_final_reply_does_not_name_are_taken_from_the_list() {
    simulated(async {
        let stream = Stream::of(1..=3);
        stream.close(3);
        stream.with(|state| state.names_children = false);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        assert_eq!(reading.seen_within(SECOND).await, ended_after(events(1..=3)));
    });
}

#[test]
fn a_closed_shard_ends_only_when_its_children_are_known() {
    simulated(async {
        let stream = Stream::of(1..=3);
        stream.close(3);
        let children = std::cell::Cell::new(None);
        stream.with(|state| {
            state.names_children = false;
            children.set(state.shards.pop());
        });
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(60 * SECOND).await;
        assert!(!reading.has_ended());
        stream.with(|state| state.shards.extend(children.take()));
        assert_eq!(reading.seen_within(11 * SECOND).await, ended_after(events(1..=3)));
    });
}

#[test]
fn a_severed_reply_is_no_end_of_an_open_shard() {
    for records in [0, 5] {
        simulated(async move {
            let stream = Stream::of(1..=records);
            stream.with(|state| state.records_faults.push_back(Fault::Severed));
            let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
            sleep(SECOND).await;
            stream.put([6]);
            let expected = (1..=records).chain([6]);
            assert_eq!(reading.seen_within(2 * IDLE).await, events(expected));
            assert!(!reading.has_ended());
        });
    }
}

#[test]
fn a_shard_of_which_every_reply_is_severed_is_read_all_the_same() {
    simulated(async {
        let stream = Stream::of(1..=30);
        stream.with(|state| state.records_faults.extend((0..1000).map(|_| Fault::Severed)));
        let reading = Reading::start(&stream, Start { max_records: 10, ..Checkpoint::TrimHorizon.into() });
        assert_eq!(reading.seen_within(60 * SECOND).await, events(1..=30));
        stream.close(30);
        assert_eq!(reading.seen_within(11 * SECOND).await, ended_after(events(1..=30)));
    });
}

#[test]
fn one_severed_reply_is_no_end_of_a_closed_shard_of_which_records_are_left() {
    simulated(async {
        let stream = Stream::of(1..=30);
        stream.close(30);
        stream.with(|state| {
            state.names_children = false;
            state.records_faults = [Fault::SeveredAndEmpty, Fault::Severed].into();
        });
        let reading = Reading::start(&stream, Start { max_records: 10, ..Checkpoint::TrimHorizon.into() });
        assert_eq!(reading.seen_within(60 * SECOND).await, ended_after(events(1..=30)));
    });
}

#[test]
fn severed_replies_are_no_end_while_the_list_shows_children_of_an_open_shard() {
    simulated(async {
        let stream = Stream::of([]);
        stream.close(9);
        stream.with(|state| {
            state.shards[0].ending_sequence = None;
            state.records_faults.extend((0..10).map(|_| Fault::Severed));
        });
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        assert_eq!(reading.seen_within(60 * SECOND).await, []);
        assert!(!reading.has_ended());
    });
}

#[test]
fn severed_replies_without_end_are_no_hot_loop() {
    simulated(async {
        let stream = Stream::of([]);
        stream.with(|state| state.records_faults.extend((0..10_000).map(|_| Fault::Severed)));
        let _reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(600 * SECOND).await;
        assert!(stream.calls().len() < 400, "{}", stream.calls().len());
    });
}

#[test]
fn a_gap_is_told_when_a_severed_reply_shows_it() {
    simulated(async {
        let stream = Stream::of([5, 6]);
        stream.with(|state| state.records_faults.push_back(Fault::Severed));
        let reading = Reading::start(&stream, stored(3, 0));
        let seen = reading.seen_within(2 * IDLE).await;
        assert_eq!(seen[0], Seen::Gap);
        assert_eq!(seen[1..], events([5, 6]));
    });
}

#[test]
fn a_shard_that_is_not_in_a_complete_list_has_ended_with_a_gap() {
    simulated(async {
        let stream = Stream::of(1..=3);
        stream.close(9);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(MS).await;
        drop(reading);

        stream.with(|state| _ = state.shards.remove(0));
        let reading = Reading::start(&stream, stored(2, 0));
        assert_eq!(reading.seen_within(SECOND).await, ended_after(vec![Seen::Gap]));
        assert!(reading.has_ended());
    });
}

#[test]
fn a_shard_that_vanishes_while_it_is_read_has_ended_with_a_gap() {
    simulated(async {
        let stream = Stream::of(1..=3);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(10 * SECOND).await;
        stream.close(9);
        stream.with(|state| _ = state.shards.remove(0));
        let seen = reading.seen_within(3 * IDLE).await;
        assert_eq!(seen[..3], events(1..=3));
        assert_eq!(seen[3..], ended_after(vec![Seen::Gap]));
    });
}

#[test]
fn a_shard_that_is_not_found_but_listed_has_not_ended() {
    simulated(async {
        let stream = Stream::of(1..=3);
        stream.with(|state| {
            state.iterator_faults = Fault::times(StreamErrorKind::NotFound, 20).into();
            state.records_faults = Fault::times(StreamErrorKind::NotFound, 20).into();
        });
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        assert_eq!(reading.seen_within(600 * SECOND).await, events(1..=3));
    });
}

#[test]
fn a_shard_has_not_ended_when_the_stream_is_gone() {
    for is_list_empty in [true, false] {
        simulated(async move {
            let stream = Stream::of(1..=3);
            let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
            sleep(SECOND / 2).await;
            stream.with(|state| {
                state.shards.clear();
                if !is_list_empty {
                    state.list_faults = Fault::times(StreamErrorKind::NotFound, 1000).into();
                }
            });
            let before = stream.calls().len();
            assert_eq!(reading.seen_within(600 * SECOND).await, events(1..=3));
            assert!(!reading.has_ended());
            assert!(stream.calls().len() - before < 500);
        });
    }
}

#[test]
fn a_severed_reply_and_an_empty_list_are_no_end() {
    simulated(async {
        let stream = Stream::of([]);
        let reading = Reading::start(&stream, Checkpoint::TrimHorizon);
        sleep(SECOND / 2).await;
        stream.with(|state| {
            state.records_faults.extend((0..1000).map(|_| Fault::Severed));
            state.shards.clear();
        });
        assert_eq!(reading.seen_within(60 * SECOND).await, []);
        assert!(!reading.has_ended());
        assert!(stream.calls().iter().any(|(_, call)| *call == Call::List));
    });
}

#[test]
fn a_refused_position_at_the_end_of_a_closed_shard_is_its_end() {
    simulated(async {
        let stream = Stream::of(1..=3);
        stream.close(9);
        stream.with(|state| {
            state.refuses_unknown_places = true;
            state.iterator_faults = Fault::times(StreamErrorKind::Throttled, 2).into();
        });
        let reading = Reading::start(&stream, stored(9, 0));
        assert_eq!(reading.seen_within(2 * SECOND).await, ended_after(vec![]));
        assert!(reading.has_ended());
    });
}

#[test]
fn a_refused_position_at_the_end_waits_for_the_children_too() {
    simulated(async {
        let stream = Stream::of(1..=3);
        stream.close(9);
        let children = std::cell::Cell::new(None);
        stream.with(|state| {
            state.refuses_unknown_places = true;
            children.set(state.shards.pop());
        });
        let reading = Reading::start(&stream, stored(9, 0));
        assert_eq!(reading.seen_within(60 * SECOND).await, []);
        stream.with(|state| state.shards.extend(children.take()));
        assert_eq!(reading.seen_within(11 * SECOND).await, ended_after(vec![]));
    });
}

#[test]
fn an_end_without_the_stored_record_is_a_gap_unless_nothing_can_be_behind_it() {
    for (ending_sequence, gap) in [(9, vec![Seen::Gap]), (3, vec![])] {
        simulated(async move {
            let stream = Stream::of(1..=3);
            stream.close(ending_sequence);
            stream.with(|state| state.expired = 3);
            let reading = Reading::start(&stream, stored(3, 0));
            assert_eq!(reading.seen_within(SECOND).await, ended_after(gap));
        });
    }
}

#[test]
fn a_shard_of_which_all_is_processed_ends_without_a_word() {
    simulated(async {
        let stream = Stream::of(1..=3);
        stream.close(9);
        let reading = Reading::start(&stream, stored(3, 0));
        assert_eq!(reading.seen_within(SECOND).await, ended_after(vec![]));
    });
}
