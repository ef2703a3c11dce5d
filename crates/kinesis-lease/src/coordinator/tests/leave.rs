//! A worker that leaves, and offers what it holds.

use super::ask::{LOST, ask, beside_another, given_to};
use super::balance::{asks, finished, live, peers, world_of};
use super::harness::*;
use super::*;
use crate::lease::Lease;
use crate::testing::{at, owned, row};

#[test]
fn a_worker_that_leaves_offers_what_it_holds_and_looks_for_askers_often() {
    let mut world = beside_another();
    let until = world.coordinator.leave(world.now);
    assert_eq!(until, Some(world.now + secs(6)));
    world.pass(Duration::ZERO);
    assert_eq!(world.changes(), [&LeaseChange::Offer]);
    assert!(world.row("a").is_offered);
    world.table.rows.insert("c".into(), row("c", &[], at(1)));
    live(&mut world, secs(5));
    assert!((8..=12).contains(&world.count(Call::Scan)), "{}", world.count(Call::Scan));
    assert_eq!(world.held(), ["a"]);
    assert_eq!((world.row("c").counter, world.count(Call::List)), (0, 0), "nothing is taken any more");
    ask(&mut world, "a", "other");
    live(&mut world, Duration::from_millis(600));
    assert_eq!(world.told, [Told::Drain("a".into())]);
    world.release("a");
    assert!(given_to(&world, "a", "other") && !world.row("a").is_offered);
    world.coordinator.stop_taking(world.now);
    assert!(world.coordinator.is_empty_handed());
    assert_eq!(world.coordinator.next_wakeup(), None);
}

#[test]
fn an_offer_that_nobody_wants_is_released() {
    let mut world = beside_another();
    world.coordinator.leave(world.now);
    live(&mut world, secs(6));
    world.coordinator.stop_taking(world.now);
    world.release("a");
    let row = world.row("a");
    assert_eq!((&row.owner, row.is_offered, &row.token), (&None, false, &None));
}

#[test]
fn an_offer_is_made_once_through_every_fault() {
    for fault in LOST.into_iter().chain([Fault::Throttled, Fault::Spurious]) {
        let mut world = beside_another();
        world.fail_next(Call::Write, &[fault]);
        world.coordinator.leave(world.now);
        world.pass(Duration::from_millis(1));
        world.deliver_late();
        live(&mut world, secs(2));
        assert!(world.row("a").is_offered, "{fault:?}");
        let acquisition = world.acquisition("a");
        world.forget();
        world.coordinator.offer(world.now, &"a".into(), acquisition);
        world.pass(Duration::ZERO);
        assert!(world.writes.is_empty() && world.told.is_empty(), "{fault:?}");
    }
}

#[test]
fn an_offer_of_what_is_not_held_is_none() {
    let mut world = beside_another();
    let former = world.acquisition("a");
    world.release("a");
    world.pass(Duration::ZERO);
    world.forget();
    world.coordinator.offer(world.now, &"a".into(), former);
    world.coordinator.offer(world.now, &"b".into(), former);
    world.pass(Duration::ZERO);
    assert!(!world.changes().contains(&&LeaseChange::Offer));
}

#[test]
fn what_a_worker_that_leaves_has_asked_for_is_taken_back() {
    let mut world =
        world_of([row("free", &[], at(1)), peers("a", "other"), peers("b", "other"), peers("c", "other")]);
    while asks(&world).is_empty() {
        live(&mut world, Duration::from_millis(100));
    }
    let asked = asks(&world)[0].to_owned();
    assert!(world.coordinator.leave(world.now).is_some());
    world.pass(Duration::ZERO);
    assert_eq!(world.row(&asked).asked_by, None);
    assert_eq!(world.held(), ["free"]);
}

#[test]
fn nothing_is_offered_where_nobody_can_ask() {
    let offered = Lease { is_offered: true, ..peers("b", "other") };
    let ours = Lease { token: Some("me/former-1".into()), ..peers("b", "me") };
    let promised = Lease { checkpoint_owner: Some("other".into()), ..peers("b", "next") };
    for other in [owned("b", "kcl", 1), finished(peers("b", "other")), offered, ours, promised] {
        let mut world = world_of([row("a", &[], at(3)), other.clone()]);
        world.pass(secs(6));
        assert_eq!(world.coordinator.leave(world.now), None, "{other:?}");
        assert!(!world.row("a").is_offered);
    }
}

#[test]
fn nothing_is_offered_to_a_worker_whose_leases_have_expired() {
    let mut world = beside_another();
    world.fail_always(Call::Scan, Fault::Throttled);
    world.pass(FAILOVER + secs(1));
    assert_eq!(world.coordinator.leave(world.now), None);
}

#[test]
fn a_worker_without_leases_leaves_at_once() {
    let mut world = world_of([peers("b", "other")]);
    live(&mut world, secs(6));
    assert_eq!(world.coordinator.leave(world.now), None);
}

#[test]
fn a_worker_leaves_once() {
    let mut world = beside_another();
    assert!(world.coordinator.leave(world.now).is_some());
    assert_eq!(world.coordinator.leave(world.now), None);
    let mut world = beside_another();
    world.coordinator.stop_taking(world.now);
    assert_eq!(world.coordinator.leave(world.now), None);
}

#[test]
fn an_offer_of_a_former_acquisition_is_none() {
    let mut world = World::holding_a();
    let former = world.acquisition("a");
    world.release("a");
    world.pass(secs(6));
    assert_eq!(world.held(), ["a"]);
    world.coordinator.offer(world.now, &"a".into(), former);
    world.drain();
    assert!(!world.row("a").is_offered);
}
