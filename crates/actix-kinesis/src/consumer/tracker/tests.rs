//! The rules one by one, and then all of them against a model that keeps everything and searches it anew each time.

mod lanes;
mod model;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kinesis_record::Position;

use super::*;
use crate::consumer::event::{Contents, FencingToken};

fn at(sequence: u128, sub_sequence: i64) -> Position {
    Position::new(sequence.into(), sub_sequence)
}

fn event_at(position: Position, payload: usize) -> PageItem {
    event_of(Some("key"), position, payload)
}

fn event_of(key: Option<&str>, position: Position, payload: usize) -> PageItem {
    PageItem::Event(ConsumerEvent::from_contents(Contents {
        shard: "shardId-000000000000".into(),
        position,
        partition_key: key.map(Arc::from),
        explicit_hash_key: None,
        payload: Bytes::from(vec![0; payload]),
        arrival: None,
        behind: Duration::ZERO,
        is_aggregated: false,
        fencing_token: FencingToken::default(),
    }))
}

fn events(sequences: std::ops::RangeInclusive<u128>) -> Vec<PageItem> {
    sequences.map(|sequence| event_at(at(sequence, 0), 1)).collect()
}

fn deliver_all(tracker: &mut Tracker) -> Vec<Delivery> {
    std::iter::from_fn(|| tracker.next_delivery()).collect()
}

fn processed(tracker: &mut Tracker, delivery: &Delivery) -> Verdict {
    tracker.answer(delivery.id, delivery.attempt, EventProcessed::Processed)
}

fn failed(tracker: &mut Tracker, delivery: &Delivery) -> Verdict {
    tracker.answer(delivery.id, delivery.attempt, EventProcessed::failed("no"))
}

fn positions(events: &[FailedEvent]) -> Vec<Position> {
    events.iter().map(|failed| failed.event.position().clone()).collect()
}

#[test]
fn answers_out_of_order_do_not_move_the_checkpoint_over_an_unanswered_event() {
    let mut tracker = Tracker::new(1, 0.0, Concurrency::None);
    tracker.add_page(events(1..=10));
    let deliveries = deliver_all(&mut tracker);
    for index in [1, 2, 10, 9, 4] {
        processed(&mut tracker, &deliveries[index - 1]);
    }
    assert_eq!(tracker.done(), Some(&at(2, 0)));
    processed(&mut tracker, &deliveries[2]);
    assert_eq!(tracker.done(), Some(&at(4, 0)));
}

#[test]
fn user_records_of_an_aggregate_are_ordered_as_numbers() {
    let mut tracker = Tracker::new(1, 0.0, Concurrency::None);
    tracker.add_page((0..13).map(|sub| event_at(at(7, sub), 1)).collect());
    let deliveries = deliver_all(&mut tracker);
    for sub in (0..13).rev().filter(|sub| *sub != 2) {
        processed(&mut tracker, &deliveries[sub]);
    }
    assert_eq!(tracker.done(), Some(&at(7, 1)));
    processed(&mut tracker, &deliveries[2]);
    assert_eq!(tracker.done(), Some(&at(7, 12)));
}

#[test]
fn a_second_an_unknown_and_a_late_answer_change_nothing() {
    let mut tracker = Tracker::new(1, 0.0, Concurrency::None);
    tracker.add_page(events(1..=3));
    let first = tracker.next_delivery().unwrap();
    assert_eq!(processed(&mut tracker, &first), Verdict::Settled);
    assert_eq!(processed(&mut tracker, &first), Verdict::Late);
    assert_eq!(failed(&mut tracker, &first), Verdict::Late);
    for unknown in [1, 2, 3, u64::MAX] {
        assert_eq!(tracker.answer(EventId(unknown), 1, EventProcessed::Processed), Verdict::Late);
        assert_eq!(tracker.fail(EventId(unknown), 0, FailureCause::NoAnswer), Verdict::Late);
    }
    assert_eq!(tracker.done(), Some(&at(1, 0)));
    assert_eq!((tracker.in_flight(), deliver_all(&mut tracker).len()), (0, 2));
}

#[test]
fn an_answer_that_is_none_changes_nothing() {
    let mut tracker = Tracker::new(1, 0.0, Concurrency::None);
    tracker.add_page(events(1..=1));
    let delivery = tracker.next_delivery().unwrap();
    assert_eq!(tracker.answer(delivery.id, delivery.attempt, EventProcessed::Later), Verdict::Late);
    assert!(tracker.is_in_flight(delivery.id, delivery.attempt));
    assert_eq!(tracker.done(), None);
}

#[test]
fn an_event_is_delivered_once_more_per_retry_and_then_exhausted() {
    for retries in 0..4 {
        let mut tracker = Tracker::new(retries, 0.0, Concurrency::None);
        tracker.add_page(events(1..=2));
        for attempt in 1..=retries + 1 {
            let delivery = tracker.next_delivery().unwrap();
            assert_eq!((delivery.event.position(), delivery.attempt), (&at(1, 0), attempt));
            let verdict = failed(&mut tracker, &delivery);
            assert_eq!(verdict, if attempt <= retries { Verdict::Again } else { Verdict::Exhausted });
        }
        assert_eq!(tracker.next_delivery().unwrap().event.position(), &at(2, 0));
        let exceeded = tracker.exceeded().unwrap();
        assert_eq!((positions(&exceeded), exceeded[0].attempts), (vec![at(1, 0)], retries + 1));
        assert_eq!(exceeded[0].cause, FailureCause::Reported("no".to_owned()));
    }
}

#[test]
fn that_an_earlier_delivery_failed_says_nothing_of_the_one_under_way() {
    let mut tracker = Tracker::new(1, 0.0, Concurrency::None);
    tracker.add_page(events(1..=1));
    let first = tracker.next_delivery().unwrap();
    tracker.fail(first.id, first.attempt, FailureCause::NoAnswer);
    let second = tracker.next_delivery().unwrap();
    assert_eq!(failed(&mut tracker, &first), Verdict::Late);
    assert!(!tracker.is_in_flight(first.id, first.attempt));
    assert!(tracker.is_in_flight(second.id, second.attempt));
}

#[test]
fn success_of_an_earlier_delivery_counts_wherever_the_event_is() {
    let mut tracker = Tracker::new(1, 0.0, Concurrency::None);
    tracker.add_page(events(1..=3));
    let deliveries = deliver_all(&mut tracker);
    deliveries.iter().for_each(|delivery| _ = failed(&mut tracker, delivery));

    // Due again.
    assert_eq!(processed(&mut tracker, &deliveries[0]), Verdict::Settled);
    // Under way again.
    let second = tracker.next_delivery().unwrap();
    assert_eq!(processed(&mut tracker, &deliveries[1]), Verdict::Settled);
    assert_eq!(failed(&mut tracker, &second), Verdict::Late);
    // Exhausted.
    let third = tracker.next_delivery().unwrap();
    assert_eq!(failed(&mut tracker, &third), Verdict::Exhausted);
    assert_eq!(processed(&mut tracker, &deliveries[2]), Verdict::Settled);

    assert!(!tracker.has_exhausted() && tracker.exceeded().is_none() && !tracker.has_again());
    assert!(tracker.is_drained());
    assert_eq!((tracker.in_flight(), tracker.bytes()), (0, 0));
}

#[test]
fn what_is_due_again_comes_first_and_the_oldest_of_it_before_the_others() {
    let mut tracker = Tracker::new(1, 0.0, Concurrency::None);
    tracker.add_page(events(1..=6));
    let deliveries: Vec<_> = (0..5).map(|_| tracker.next_delivery().unwrap()).collect();
    for index in [3, 1] {
        failed(&mut tracker, &deliveries[index]);
    }
    let order: Vec<_> = deliver_all(&mut tracker).iter().map(|next| next.event.position().clone()).collect();
    assert_eq!(order, [at(2, 0), at(4, 0), at(6, 0)]);
}

#[test]
fn a_recall_brings_everything_under_way_again_in_order_and_blames_nobody() {
    let mut tracker = Tracker::new(0, 0.0, Concurrency::None);
    tracker.add_page(events(1..=5));
    for _ in 0..3 {
        let deliveries = deliver_all(&mut tracker);
        processed(&mut tracker, &deliveries[1]);
        tracker.recall_all();
        assert_eq!(tracker.in_flight(), 0);
        assert!(tracker.has_again());
        assert_eq!(failed(&mut tracker, &deliveries[0]), Verdict::Late);
    }
    let deliveries = deliver_all(&mut tracker);
    let order: Vec<_> = deliveries.iter().map(|next| next.event.position().clone()).collect();
    assert_eq!(order, [at(1, 0), at(5, 0)]);
    assert_eq!(deliveries[0].attempt, 4);
    assert_eq!(failed(&mut tracker, &deliveries[0]), Verdict::Exhausted);
}

#[test]
fn the_tolerance_is_a_share_of_the_page_rounded_down() {
    for (percentage, size, tolerated) in [
        (0.25, 500, 1),
        (0.25, 400, 1),
        (0.25, 399, 0),
        (0.25, 100, 0),
        (0.0, 10_000, 0),
        (29.0, 100, 29),
        (0.57, 10_000, 57),
        (4.35, 2_000, 87),
        (99.999, 1_000, 999),
        (100.0, 7, 7),
    ] {
        assert_eq!(super::tolerated(percentage, size), tolerated, "{percentage} % of {size}");
    }
}

/// A page of `size` events, `exhausted` of which fail for good while the others are processed.
fn page_with(size: u128, percentage: f64, exhausted: usize) -> Tracker {
    let mut tracker = Tracker::new(0, percentage, Concurrency::None);
    tracker.add_page(events(1..=size));
    for (index, delivery) in deliver_all(&mut tracker).iter().enumerate() {
        if index < exhausted {
            failed(&mut tracker, delivery)
        } else {
            processed(&mut tracker, delivery)
        };
    }
    tracker
}

#[test]
fn failures_within_the_tolerance_are_given_up_and_the_checkpoint_passes_the_page() {
    let mut tracker = page_with(500, 0.25, 1);
    assert!(tracker.has_exhausted() && tracker.exceeded().is_none());
    assert_eq!(positions(&tracker.give_up_tolerated()), [at(1, 0)]);
    assert_eq!(tracker.done(), Some(&at(500, 0)));
    assert!(tracker.is_drained() && !tracker.has_exhausted());
}

#[test]
fn failures_above_the_tolerance_are_not_given_up() {
    for (size, percentage, exhausted) in [(500, 0.25, 2), (100, 0.25, 1), (100, 0.0, 1)] {
        let mut tracker = page_with(size, percentage, exhausted);
        assert!(tracker.give_up_tolerated().is_empty());
        assert_eq!(tracker.exceeded().unwrap().len(), exhausted);
        assert_eq!(tracker.done(), None);
    }
}

#[test]
fn a_full_tolerance_never_fails() {
    let mut tracker = page_with(100, 100.0, 100);
    assert!(tracker.exceeded().is_none());
    assert_eq!(tracker.give_up_tolerated().len(), 100);
    assert!(tracker.is_drained());
}

#[test]
fn the_tolerance_is_exceeded_at_once_and_kept_only_when_nothing_else_of_the_page_is_open() {
    let mut tracker = Tracker::new(0, 0.25, Concurrency::None);
    tracker.add_page(events(1..=500));
    let deliveries = deliver_all(&mut tracker);
    failed(&mut tracker, &deliveries[7]);
    assert!(tracker.exceeded().is_none() && tracker.give_up_tolerated().is_empty());
    failed(&mut tracker, &deliveries[3]);
    assert_eq!(positions(&tracker.exceeded().unwrap()), [at(4, 0), at(8, 0)]);
}

#[test]
fn the_tolerance_of_one_page_is_not_used_up_by_another() {
    let mut tracker = Tracker::new(0, 25.0, Concurrency::None);
    for page in 0..3 {
        tracker.add_page(events(page * 4 + 1..=page * 4 + 4));
    }
    let deliveries = deliver_all(&mut tracker);
    for index in [0, 4, 8, 9] {
        failed(&mut tracker, &deliveries[index]);
    }
    assert_eq!(positions(&tracker.exceeded().unwrap()), [at(9, 0), at(10, 0)]);
    for index in [5, 6, 7] {
        processed(&mut tracker, &deliveries[index]);
    }
    assert_eq!(positions(&tracker.give_up_tolerated()), [at(5, 0)]);
    assert_eq!(positions(&tracker.give_up_all()), [at(1, 0), at(9, 0), at(10, 0)]);
}

#[test]
fn what_holds_nothing_to_deliver_is_passed() {
    let mut tracker = Tracker::new(1, 0.0, Concurrency::None);
    tracker.add_page(vec![PageItem::Nothing(at(1, 0)), PageItem::Nothing(at(2, 0))]);
    assert_eq!(tracker.done(), Some(&at(2, 0)));
    assert!(tracker.is_drained());

    tracker.add_page(vec![PageItem::Nothing(at(3, 0)), event_at(at(3, 1), 1), PageItem::Nothing(at(3, 2))]);
    tracker.add_page(vec![PageItem::Nothing(at(4, 0))]);
    assert_eq!(tracker.done(), Some(&at(3, 0)));
    let deliveries = deliver_all(&mut tracker);
    assert_eq!(deliveries.len(), 1);
    processed(&mut tracker, &deliveries[0]);
    assert_eq!(tracker.done(), Some(&at(4, 0)));
    assert!(tracker.pages.is_empty());
}

#[test]
fn what_holds_nothing_to_deliver_counts_nothing_towards_the_tolerance() {
    let mut tracker = Tracker::new(0, 50.0, Concurrency::None);
    tracker.add_page(vec![event_at(at(1, 0), 1), PageItem::Nothing(at(1, 1))]);
    let delivery = tracker.next_delivery().unwrap();
    failed(&mut tracker, &delivery);
    assert_eq!(tracker.exceeded().unwrap().len(), 1);
}

#[test]
fn settled_events_behind_an_open_one_still_count_as_memory() {
    let mut tracker = Tracker::new(0, 0.0, Concurrency::None);
    tracker.add_page((1..=1000).map(|sequence| event_at(at(sequence, 0), 100)).collect());
    assert_eq!(tracker.bytes(), 1000 * (OVERHEAD_BYTES + 100));
    let deliveries = deliver_all(&mut tracker);
    deliveries[1..].iter().for_each(|delivery| _ = processed(&mut tracker, delivery));
    assert_eq!(tracker.bytes(), 1000 * OVERHEAD_BYTES + 100);
    processed(&mut tracker, &deliveries[0]);
    assert_eq!(tracker.bytes(), 0);
}

#[test]
fn an_entry_takes_no_more_than_is_accounted_for_it() {
    // A hash table has up to 16/7 places, of a byte more, for each of its entries, and a heap two.
    let lane = (size_of::<(Option<Arc<str>>, EventId)>() + 1) * 16 / 7 + 2 * size_of::<EventId>();
    let sizes = (size_of::<Entry>(), size_of::<Contents>(), lane);
    assert!(sizes.0 + sizes.1 + sizes.2 <= OVERHEAD_BYTES, "{sizes:?}");
}
