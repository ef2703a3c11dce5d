//! The hand-over of a lease that a KCL 3.x leader begins.

use super::harness::*;
use super::*;
use crate::lease::Lease;
use crate::testing::{at, open, owned};

#[test]
fn a_promised_lease_is_drained_renewed_and_handed_over() {
    let mut world = World::holding_a();
    world.table.promise("a", "next");
    world.pass(secs(30));
    assert_eq!(world.told, [Told::Drain("a".into())], "once");
    assert_eq!(world.writes.len(), 9, "renewals go on");
    let checkpoint = world.checkpoint("a", at(5));
    let hand_over = world.release("a");
    assert_eq!((&world.answers[&checkpoint], &world.answers[&hand_over]), (&Ok(()), &Ok(())));
    let row = world.row("a").clone();
    assert_eq!(row.owner, Some("next".into()));
    assert_eq!((row.checkpoint_owner, row.token, row.checkpoint), (None, None, at(5)));
    assert_eq!(world.coordinator.rows()["a"].owner, Some("next".into()));
    assert!(world.coordinator.is_empty_handed());
}

#[test]
fn a_promise_is_learned_from_a_refused_write_too() {
    let mut world = World::holding_a();
    world.fail_always(Call::Scan, Fault::Throttled);
    world.table.promise("a", "next");
    world.fail_next(Call::Write, &[Fault::SpuriousWithRow]);
    world.pass(secs(4));
    assert_eq!(world.told, [Told::Drain("a".into())]);
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn a_promise_known_with_the_lease_is_told_after_it() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), crate::testing::row("a", &[], at(1)));
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    world.start();
    world.table.promise("a", "next");
    world.pass(secs(1));
    assert_eq!(world.told, [Told::Gained("a".into()), Told::Drain("a".into())]);
}

#[test]
fn a_release_of_a_promised_lease_hands_it_over() {
    let mut world = World::holding_a();
    world.table.promise("a", "next");
    world.pass(secs(6));
    world.release("a");
    assert_eq!(
        (world.row("a").owner.clone(), world.row("a").checkpoint_owner.clone()),
        (Some("next".into()), None)
    );
}

#[test]
fn a_release_before_the_promise_was_seen_frees_the_lease() {
    let mut world = World::holding_a();
    world.coordinator.stop_taking(world.now);
    world.table.promise("a", "next");
    world.release("a");
    assert_eq!(world.row("a").reader(), None);
}

#[test]
fn a_hand_over_without_a_promise_is_a_release() {
    let mut world = World::holding_a();
    world.coordinator.stop_taking(world.now);
    world.release("a");
    assert_eq!(world.row("a").owner, None);
}

#[test]
fn a_lease_whose_hand_over_the_leader_forced_is_lost() {
    let mut world = World::holding_a();
    world.table.promise("a", "next");
    world.pass(secs(6));
    world.table.edit("a", |row| {
        row.checkpoint_owner = None;
        row.counter += 1;
    });
    world.pass(secs(4));
    assert_eq!(world.told[1], Told::Lost("a".into(), Loss::Taken { by: Some("next".into()) }));
}

#[test]
fn a_promised_lease_that_a_kcl_2_takes_is_lost_though_it_leaves_the_promise_in_the_row() {
    let mut world = World::holding_a();
    world.table.promise("a", "next");
    world.pass(secs(6));
    world.table.edit("a", |row| {
        row.owner = Some("thief".into());
        row.counter += 1;
    });
    world.pass(secs(4));
    assert!(matches!(world.told[1], Told::Lost(..)), "{:?}", world.told);
}

#[test]
fn a_lease_promised_to_us_or_to_nobody_is_not_started_while_another_worker_drains_it() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    for owner in [Some("me".into()), None] {
        let drained = Lease { owner, checkpoint_owner: Some("other".into()), ..owned("a", "me", 5) };
        world.table.rows.insert("a".into(), drained);
        for _ in 0..10 {
            world.table.renew("a");
            world.pass(secs(9));
        }
        assert!(world.writes.is_empty());
    }
}

#[test]
fn a_hand_over_whose_worker_died_is_taken_after_the_failover_time() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    let promised = Lease { checkpoint_owner: Some("dead".into()), ..owned("a", "other", 5) };
    world.table.rows.insert("a".into(), promised);
    world.pass(FAILOVER);
    assert!(world.writes.is_empty());
    world.pass(FAILOVER);
    assert_eq!(world.held(), ["a"]);
    assert_eq!(world.row("a").checkpoint_owner, None);
}

/// `me` drains `a` for `next`.
fn draining() -> World {
    let mut world = World::holding_a();
    world.table.promise("a", "next");
    world.pass(secs(6));
    assert_eq!(world.told, [Told::Drain("a".into())]);
    world.forget();
    world
}

#[test]
fn a_promised_lease_is_kept_through_lost_replies_and_changes_of_mind() {
    let changes: [fn(&mut Lease); 3] = [
        |_| {},
        |row| row.owner = Some("third".into()),
        |row| (row.owner, row.checkpoint_owner, row.counter) = (Some("me".into()), None, row.counter + 1),
    ];
    for change in changes {
        let mut world = draining();
        world.table.edit("a", change);
        world.hasten_scan();
        world.pass(Duration::ZERO);
        world.fail_next(Call::Write, &[Fault::LostReply]);
        world.pass(secs(12));
        assert_eq!(world.told, [], "{:?}", world.row("a"));
        assert_eq!(world.held(), ["a"]);
    }
}

#[test]
fn a_promised_lease_that_is_taken_is_lost_whatever_tells_of_it() {
    for silent in [Call::Scan, Call::Write] {
        let mut world = draining();
        world.fail_always(silent, Fault::Throttled);
        world.table.edit("a", |row| (row.owner, row.counter) = (Some("thief".into()), row.counter + 1));
        world.pass(secs(6));
        assert!(matches!(world.told[0], Told::Lost(_, Loss::Taken { .. })), "without {silent:?}");
    }
}

#[test]
fn a_promise_is_told_of_though_no_write_comes_through_after_it_was_seen() {
    let mut world = World::holding_a();
    world.fail_always(Call::Scan, Fault::Throttled);
    world.table.promise("a", "next");
    world.fail_next(Call::Write, &[Fault::SpuriousWithRow]);
    world.fail_always(Call::Write, Fault::Throttled);
    world.pass(secs(4));
    assert_eq!(world.told, [Told::Drain("a".into())]);
}

#[test]
fn a_promise_of_a_lease_that_nobody_was_told_of_is_told_to_nobody() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), crate::testing::row("a", &[], at(1)));
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    world.start();
    world.coordinator.shun(&"a".into());
    world.table.promise("a", "next");
    world.pass(secs(1));
    assert_eq!(world.told, []);
    assert_eq!(world.row("a").owner, Some("next".into()));
}

#[test]
fn a_lease_that_a_kcl_worker_drains_expires_as_before_it_was_promised() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), owned("a", "kcl-1", 5));
    world.pass(secs(6));
    world.table.promise("a", "kcl-2");
    world.table.renew("a");
    world.pass(secs(17));
    assert_eq!(world.held(), ["a"]);
}
