//! Events that follow each other.

use super::*;

/// A tracker with a page of events of these keys, at the sequence numbers from 1 on.
fn tracker(retries: u32, percentage: f64, concurrency: Concurrency, keys: &[&str]) -> Tracker {
    let mut tracker = Tracker::new(retries, percentage, concurrency);
    tracker.add_page(page(1, keys));
    tracker
}

fn page(from: u128, keys: &[&str]) -> Vec<PageItem> {
    (from..).zip(keys).map(|(sequence, key)| event_of(Some(key), at(sequence, 0), 1)).collect()
}

fn sequences(deliveries: &[Delivery]) -> Vec<Position> {
    deliveries.iter().map(|delivery| delivery.event.position().clone()).collect()
}

const KEYS: Concurrency = Concurrency::Key(100);

#[test]
fn the_events_of_a_shard_follow_each_other_failures_included() {
    let mut tracker = tracker(1, 0.0, Concurrency::Shard, &["a", "b", "a"]);
    for sequence in 1..=3 {
        let [first] = &deliver_all(&mut tracker)[..] else { panic!("not one") };
        assert_eq!((first.event.position(), first.attempt), (&at(sequence, 0), 1));
        assert_eq!(failed(&mut tracker, first), Verdict::Again);
        let [again] = &deliver_all(&mut tracker)[..] else { panic!("not one") };
        assert_eq!((again.event.position(), again.attempt), (&at(sequence, 0), 2));
        assert_eq!(processed(&mut tracker, again), Verdict::Settled);
    }
    assert!(tracker.is_drained() && tracker.next_delivery().is_none());
}

#[test]
fn the_events_of_a_key_follow_each_other_and_other_keys_go_on() {
    let mut tracker = tracker(1, 0.0, KEYS, &["a", "a", "b", "a", "b", "c"]);
    let first = deliver_all(&mut tracker);
    assert_eq!(sequences(&first), [at(1, 0), at(3, 0), at(6, 0)]);
    processed(&mut tracker, &first[1]);
    processed(&mut tracker, &first[2]);
    let second = deliver_all(&mut tracker);
    assert_eq!(sequences(&second), [at(5, 0)]);
    processed(&mut tracker, &second[0]);
    assert!(tracker.next_delivery().is_none(), "only events of the first key are left");
    assert_eq!(tracker.done(), None, "the checkpoint waits for it");
    processed(&mut tracker, &first[0]);
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(2, 0)]);
    assert_eq!(tracker.done(), Some(&at(1, 0)));
}

#[test]
fn what_was_left_behind_by_later_events_can_be_caught_up_with() {
    let mut tracker = tracker(2, 0.0, KEYS, &["a", "a", "a", "b", "a", "b"]);
    assert!(tracker.next_left_behind().is_none(), "nothing has been delivered");
    let first = deliver_all(&mut tracker);
    assert_eq!(sequences(&first), [at(1, 0), at(4, 0)]);
    processed(&mut tracker, &first[1]);
    failed(&mut tracker, &first[0]);
    for sequence in 1..=3 {
        let left_behind = tracker.next_left_behind().unwrap();
        assert_eq!(left_behind.event.position(), &at(sequence, 0));
        assert!(tracker.next_left_behind().is_none());
        processed(&mut tracker, &left_behind);
    }
    assert!(tracker.next_left_behind().is_none());
    assert_eq!(tracker.done(), Some(&at(4, 0)));
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(5, 0), at(6, 0)]);
}

#[test]
fn the_newest_event_is_not_left_behind_when_it_fails() {
    for concurrency in [Concurrency::None, Concurrency::Shard, KEYS] {
        let mut tracker = tracker(2, 0.0, concurrency, &["a", "a"]);
        let first = tracker.next_delivery().unwrap();
        failed(&mut tracker, &first);
        assert!(tracker.next_left_behind().is_none(), "{concurrency:?}");
    }
}

#[test]
fn later_pages_queue_behind_earlier_ones() {
    let mut tracker = tracker(1, 0.0, KEYS, &["a", "b"]);
    let first = deliver_all(&mut tracker);
    processed(&mut tracker, &first[1]);
    tracker.add_page(page(3, &["a", "b", "b"]));
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(4, 0)]);
    processed(&mut tracker, &first[0]);
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(3, 0)]);
}

#[test]
fn events_without_a_partition_key_follow_each_other() {
    let mut tracker = Tracker::new(1, 0.0, KEYS);
    let keys = [None, Some("a"), None, Some("")];
    tracker.add_page((1..).zip(keys).map(|(sequence, key)| event_of(key, at(sequence, 0), 1)).collect());
    let deliveries = deliver_all(&mut tracker);
    assert_eq!(sequences(&deliveries), [at(1, 0), at(2, 0), at(4, 0)]);
    processed(&mut tracker, &deliveries[0]);
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(3, 0)]);
}

#[test]
fn an_event_that_has_failed_for_good_holds_its_key_up_until_it_is_given_up() {
    let mut tracker = tracker(0, 0.0, KEYS, &["a", "a", "b", "b"]);
    let deliveries = deliver_all(&mut tracker);
    assert_eq!(failed(&mut tracker, &deliveries[0]), Verdict::Exhausted);
    processed(&mut tracker, &deliveries[1]);
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(4, 0)]);
    assert_eq!(positions(&tracker.give_up_all()), [at(1, 0)]);
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(2, 0)]);
}

#[test]
fn an_event_within_the_tolerance_is_given_up_at_once_and_counts_for_its_page() {
    for concurrency in [Concurrency::Shard, KEYS] {
        let mut tracker = tracker(0, 25.0, concurrency, &["a"; 8]);
        for sequence in 1..=2 {
            let delivery = tracker.next_delivery().unwrap();
            failed(&mut tracker, &delivery);
            assert!(tracker.exceeded().is_none());
            assert_eq!(positions(&tracker.give_up_tolerated()), [at(sequence, 0)]);
        }
        let delivery = tracker.next_delivery().unwrap();
        failed(&mut tracker, &delivery);
        assert!(tracker.give_up_tolerated().is_empty());
        assert_eq!(positions(&tracker.exceeded().unwrap()), [at(3, 0)]);
        assert_eq!(tracker.done(), Some(&at(2, 0)));
    }
}

#[test]
fn success_of_an_earlier_delivery_lets_the_key_go_on_once() {
    let mut tracker = tracker(2, 0.0, KEYS, &["a", "a", "a"]);
    let first = tracker.next_delivery().unwrap();
    failed(&mut tracker, &first);
    let second = tracker.next_delivery().unwrap();
    assert_eq!(second.event.position(), &at(1, 0));
    assert_eq!(processed(&mut tracker, &first), Verdict::Settled);
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(2, 0)]);
    assert_eq!(failed(&mut tracker, &second), Verdict::Late);
    assert_eq!(processed(&mut tracker, &second), Verdict::Late);
    assert!(tracker.next_delivery().is_none());
}

#[test]
fn a_recall_brings_the_first_of_each_key_again_before_anything_new() {
    let mut tracker = tracker(0, 0.0, KEYS, &["a", "b", "a", "c"]);
    let deliveries: Vec<_> = (0..2).map(|_| tracker.next_delivery().unwrap()).collect();
    tracker.recall_all();
    let again = deliver_all(&mut tracker);
    assert_eq!(sequences(&again), [at(1, 0), at(2, 0), at(4, 0)]);
    assert_eq!(again[0].attempt, 2);
    processed(&mut tracker, &deliveries[0]);
    assert_eq!(sequences(&deliver_all(&mut tracker)), [at(3, 0)]);
}
