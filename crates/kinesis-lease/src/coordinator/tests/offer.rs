//! Offers, and what an owner wants to be rid of.

use super::harness::*;
use super::*;
use crate::lease::Lease;
use crate::testing::{open, owned};

fn offer(world: &mut World, shard: &str) {
    let acquisition = world.acquisition(shard);
    world.coordinator.offer(world.now, &shard.into(), acquisition);
    world.drain();
}

fn keep(world: &mut World, shard: &str) {
    let acquisition = world.acquisition(shard);
    world.coordinator.keep(world.now, &shard.into(), acquisition);
    world.drain();
}

#[test]
fn an_offer_is_taken_back_once_and_the_lease_stays_held() {
    let mut world = World::holding_a();
    keep(&mut world, "a");
    assert_eq!(world.changes(), Vec::<&LeaseChange>::new(), "nothing is offered");
    offer(&mut world, "a");
    assert!(world.row("a").is_offered);
    keep(&mut world, "a");
    keep(&mut world, "a");
    assert_eq!(world.changes(), [&LeaseChange::Offer, &LeaseChange::Keep]);
    assert!(!world.row("a").is_offered);
    assert_eq!(world.valid_until["a"], world.now + secs(9), "it is a renewal");
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn the_last_word_on_an_offer_counts_whatever_is_still_being_written() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    offer(&mut world, "a");
    offer(&mut world, "a");
    keep(&mut world, "a");
    offer(&mut world, "a");
    keep(&mut world, "a");
    world.answer_withheld();
    assert!(!world.row("a").is_offered);

    offer(&mut world, "a");
    world.fail_next(Call::Write, &[Fault::Withheld]);
    keep(&mut world, "a");
    offer(&mut world, "a");
    world.answer_withheld();
    assert!(world.row("a").is_offered);

    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    offer(&mut world, "a");
    keep(&mut world, "a");
    offer(&mut world, "a");
    world.answer_withheld();
    assert!(world.row("a").is_offered);
}

#[test]
fn an_offer_is_taken_back_through_trouble_with_the_table() {
    for fault in [Fault::LostReply, Fault::LostRequest, Fault::Throttled, Fault::Spurious] {
        let mut world = World::holding_a();
        offer(&mut world, "a");
        world.fail_next(Call::Write, &[fault]);
        keep(&mut world, "a");
        world.pass(secs(2));
        assert!(!world.row("a").is_offered, "{fault:?}");
        assert_eq!(world.held(), ["a"], "{fault:?}");
    }
}

#[test]
fn whoever_has_asked_before_the_offer_was_taken_back_is_to_have_the_lease() {
    let mut world = World::holding_a();
    offer(&mut world, "a");
    world.table.edit("a", |row| row.asked_by = Some("other".into()));
    keep(&mut world, "a");
    assert_eq!(world.told, [Told::Drain("a".into())]);
    world.release("a");
    assert_eq!(world.row("a").owner, Some("other".into()));
}

#[test]
fn a_shard_that_is_not_shunned_any_more_is_taken_at_once() {
    let mut world = World::holding_a();
    world.coordinator.shun(&"a".into());
    world.release("a");
    world.pass(secs(30));
    assert_eq!(world.held(), Vec::<&str>::new());
    world.coordinator.unshun(world.now, &"a".into());
    world.drain();
    assert_eq!(world.held(), ["a"]);
}

/// Leases of other workers of this library, as (shard, owner); `me` holds `a` and `d`.
fn beside(others: &[(&str, &str)]) -> World {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = ["a", "d"]
        .iter()
        .chain(others.iter().map(|(shard, _)| shard))
        .map(|shard| open(shard, &[]))
        .collect();
    for shard in ["a", "d"] {
        world.table.rows.insert(shard.into(), Lease { owner: None, ..owned(shard, "me", 1) });
    }
    for (shard, owner) in others {
        let token = Some(format!("{owner}/1-1"));
        world.table.rows.insert((*shard).into(), Lease { token, ..owned(shard, owner, 1) });
    }
    world.start();
    world.forget();
    assert_eq!(world.held(), ["a", "d"]);
    world
}

/// Time goes by in which the other workers renew.
fn pass_renewed(world: &mut World, seconds: u64) {
    for _ in 0..seconds {
        world.pass(secs(1));
        for row in world.table.rows.values_mut().filter(|row| row.owner != Some("me".into())) {
            row.counter += 1;
        }
    }
}

#[test]
fn an_offered_lease_is_asked_for_beyond_the_share_if_nobody_else_has_fewer() {
    let mut world = beside(&[("b", "other"), ("c", "other"), ("e", "third"), ("f", "third"), ("g", "third")]);
    pass_renewed(&mut world, 20);
    assert_eq!(world.row("b").asked_by, None, "the shares are even");
    world.table.edit("b", |row| row.is_offered = true);
    pass_renewed(&mut world, 6);
    assert_eq!(world.row("b").asked_by, Some("me".into()));
}

#[test]
fn an_offered_lease_is_left_to_whoever_has_fewer_and_asked_for_if_that_one_does_not() {
    let mut world = beside(&[("b", "other"), ("c", "other"), ("e", "third")]);
    pass_renewed(&mut world, 20);
    world.table.edit("b", |row| row.is_offered = true);
    pass_renewed(&mut world, 6);
    assert_eq!(world.row("b").asked_by, None);
    pass_renewed(&mut world, 16);
    assert_eq!(world.row("b").asked_by, Some("me".into()));
}

#[test]
fn an_offer_that_was_taken_back_meanwhile_counts_from_when_it_was_made_again() {
    let mut world = beside(&[("b", "other"), ("c", "other"), ("e", "third")]);
    pass_renewed(&mut world, 20);
    for is_offered in [true, false, true] {
        world.table.edit("b", |row| row.is_offered = is_offered);
        pass_renewed(&mut world, 7);
    }
    assert_eq!(world.row("b").asked_by, None);
    pass_renewed(&mut world, 10);
    assert_eq!(world.row("b").asked_by, Some("me".into()));
}

#[test]
fn of_workers_with_as_many_leases_one_asks_for_an_offered_one() {
    let is_asked_for = |shard: &str| {
        let mut world = beside(&[(shard, "other"), ("c", "other"), ("e", "third"), ("f", "third")]);
        pass_renewed(&mut world, 20);
        world.table.edit(shard, |row| row.is_offered = true);
        pass_renewed(&mut world, 6);
        world.row(shard).asked_by.is_some()
    };
    let asked = (10..30).filter(|shard| is_asked_for(&shard.to_string())).count();
    assert!(0 < asked && asked < 20, "{asked}");
}
