use std::time::Duration;

use super::*;

fn entry(number: u64, stream: Option<&str>, key: u128, bytes: u64) -> Entry {
    let accepted = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
    Entry { number, stream: stream.map(Into::into), group: HashKey(key), bytes, accepted, parked: None }
}

fn backlog(events: u64) -> Backlog {
    Backlog::new(Load { events, bytes: 1 << 20 })
}

/// Takes all that may go now.
fn take(backlog: &mut Backlog) -> Vec<u64> {
    std::iter::from_fn(|| backlog.next()).collect()
}

#[test]
fn the_oldest_event_goes_first_whatever_its_key() {
    let mut backlog = backlog(1_000);
    for number in 1..=30 {
        backlog.add(&entry(number, None, u128::from(number * 7 % 3), 10));
    }
    assert_eq!(take(&mut backlog), (1..=30).collect::<Vec<_>>());
    assert_eq!((backlog.len(), backlog.under_way()), (30, 30));
}

#[test]
fn a_key_takes_a_sixteenth_of_the_room_and_goes_on_in_order_when_some_is_settled() {
    let mut backlog = backlog(64);
    for number in 1..=20 {
        backlog.add(&entry(number, None, 1, 10));
    }
    backlog.add(&entry(21, None, 2, 10));
    assert_eq!(take(&mut backlog), [1, 2, 3, 4, 21]);
    assert_eq!(backlog.settled(2), Some(10));
    assert_eq!(take(&mut backlog), [5]);
    assert_eq!(backlog.settled(1), Some(10));
    assert_eq!(take(&mut backlog), [6]);
}

#[test]
fn a_stream_leaves_half_of_the_room_to_others_and_each_of_these_half_of_the_rest() {
    let mut backlog = backlog(64);
    let streams = ["a", "b", "c"];
    for number in 0..300 {
        let stream = streams[number as usize / 100];
        backlog.add(&entry(number, Some(stream), u128::from(number), 10));
    }
    let first = take(&mut backlog);
    let of = |stream: u64| first.iter().filter(|number| **number / 100 == stream).count();
    assert!(first.len() < 64 && (0..3).all(|stream| of(stream) >= 10), "{first:?}");
    // One that comes later finds room, although nothing is settled.
    backlog.add(&entry(300, Some("d"), 1, 10));
    assert_eq!(take(&mut backlog), [300]);
}

#[test]
fn bytes_are_bounded_as_events_are_and_a_large_event_goes_alone() {
    let mut backlog = Backlog::new(Load { events: 1_000, bytes: 1_600 });
    for number in 1..=20 {
        backlog.add(&entry(number, None, u128::from(number), 100));
    }
    assert_eq!(take(&mut backlog), (1..=8).collect::<Vec<_>>());
    let mut backlog = Backlog::new(Load { events: 1, bytes: 100 });
    backlog.add(&entry(1, None, 1, 5_000));
    backlog.add(&entry(2, None, 1, 5_000));
    assert_eq!(take(&mut backlog), [1]);
    backlog.settled(1);
    assert_eq!(take(&mut backlog), [2]);
}

#[test]
fn nothing_is_remembered_of_keys_and_streams_that_are_through() {
    let mut backlog = backlog(64);
    for number in 1..=40 {
        backlog.add(&entry(number, Some("a"), u128::from(number % 7), 10));
    }
    while !backlog.is_empty() {
        for number in take(&mut backlog) {
            assert_eq!(backlog.settled(number), Some(10));
        }
    }
    assert!(backlog.streams.is_empty() && backlog.under_way.is_empty());
    assert_eq!((backlog.settled(1), backlog.used), (None, Load::default()));
}

#[test]
fn the_first_in_line_is_known_whether_it_waits_or_is_under_way() {
    let at = |number: u64| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(number));
    let mut backlog = backlog(64);
    assert_eq!(backlog.oldest(), None);
    backlog.add(&entry(1, None, 1, 10));
    backlog.add(&entry(2, None, 2, 10));
    assert_eq!(backlog.oldest(), at(1));
    backlog.next();
    assert_eq!(backlog.oldest(), at(1));
    backlog.settled(1);
    assert_eq!(backlog.oldest(), at(2));
}
