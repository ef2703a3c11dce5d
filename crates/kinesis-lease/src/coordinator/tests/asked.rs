//! A worker that another one asks for a lease.

use super::ask::{LOST, ask, given_to, withdraw};
use super::balance::live;
use super::harness::*;
use super::*;
use crate::testing::at;

#[test]
fn an_asked_owner_drains_once_and_renews_meanwhile() {
    let mut world = World::holding_a();
    ask(&mut world, "a", "next");
    world.pass(secs(30));
    assert_eq!(world.told, [Told::Drain("a".into())]);
    assert_eq!(world.writes.len(), 9, "renewals");
    assert_eq!(world.row("a").asked_by, Some("next".into()), "which leave the request in place");
}

#[test]
fn a_request_is_learned_from_a_renewal_alone() {
    let mut world = World::holding_a();
    world.fail_always(Call::Scan, Fault::Throttled);
    ask(&mut world, "a", "next");
    world.pass(secs(4));
    assert_eq!(world.told, [Told::Drain("a".into())]);
}

#[test]
fn an_asked_owner_gives_the_lease_to_the_asker_at_its_last_checkpoint() {
    let mut world = World::holding_a();
    ask(&mut world, "a", "next");
    world.pass(secs(4));
    let counter = world.row("a").counter;
    let requests = [world.checkpoint("a", at(5)), world.release("a")];
    assert!(requests.iter().all(|request| world.answers[request] == Ok(())));
    assert!(given_to(&world, "a", "next"));
    let row = world.row("a");
    assert_eq!((row.checkpoint.clone(), row.counter, row.owner_switches), (at(5), counter + 2, 1));
    assert_eq!(world.coordinator.rows()["a"], *row);
    assert!(world.coordinator.is_empty_handed());
    live(&mut world, secs(30));
    assert_eq!(world.told, [Told::Drain("a".into())], "it is not taken back");
}

#[test]
fn what_was_asked_for_after_taking_was_stopped_is_given_too() {
    let mut world = World::holding_a();
    world.coordinator.stop_taking(world.now);
    ask(&mut world, "a", "next");
    world.pass(secs(4));
    world.release("a");
    assert!(given_to(&world, "a", "next"));
}

#[test]
fn a_lease_whose_asker_has_withdrawn_is_given_to_nobody() {
    for is_known in [false, true] {
        let mut world = World::holding_a();
        ask(&mut world, "a", "next");
        world.pass(secs(4));
        withdraw(&mut world, "a", "next");
        world.pass(if is_known { secs(6) } else { Duration::ZERO });
        world.coordinator.stop_taking(world.now);
        let release = world.release("a");
        world.pass(secs(1));
        assert_eq!(world.answers[&release], Ok(()));
        assert_eq!((&world.row("a").owner, &world.row("a").token), (&None, &None));
    }
}

#[test]
fn a_lease_that_another_worker_asks_for_after_the_first_has_withdrawn_is_given_to_it() {
    let mut world = World::holding_a();
    ask(&mut world, "a", "first");
    world.pass(secs(4));
    withdraw(&mut world, "a", "first");
    ask(&mut world, "a", "second");
    world.release("a");
    world.pass(secs(1));
    assert!(given_to(&world, "a", "second"));
}

#[test]
fn a_promise_of_a_kcl_leader_goes_before_a_request() {
    let mut world = World::holding_a();
    ask(&mut world, "a", "asker");
    world.table.promise("a", "next");
    world.pass(secs(4));
    assert_eq!(world.told, [Told::Drain("a".into())]);
    world.release("a");
    let row = world.row("a");
    assert_eq!((&row.owner, &row.checkpoint_owner), (&Some("next".into()), &None));
    assert_eq!((&row.token, &row.asked_by), (&None, &None));
}

#[test]
fn a_gift_whose_reply_was_lost_is_given_once() {
    for fault in LOST {
        let mut world = World::holding_a();
        ask(&mut world, "a", "next");
        world.pass(secs(4));
        world.fail_next(Call::Write, &[fault]);
        let counter = world.row("a").counter;
        let release = world.release("a");
        world.pass(Duration::from_millis(1));
        world.deliver_late();
        world.pass(secs(1));
        assert_eq!(world.answers[&release], Ok(()), "{fault:?}");
        assert!(given_to(&world, "a", "next") && world.row("a").counter == counter + 1, "{fault:?}");
        assert!(world.held().is_empty() && world.told == [Told::Drain("a".into())], "{fault:?}");
    }
}

#[test]
fn a_gift_whose_reply_was_lost_and_that_the_asker_has_begun_on_was_given() {
    let mut world = World::holding_a();
    ask(&mut world, "a", "next");
    world.pass(secs(4));
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    let release = world.release("a");
    world.table.edit("a", |row| (row.counter, row.token) = (row.counter + 1, Some("next/life-1".into())));
    world.pass(secs(1));
    assert_eq!(world.answers[&release], Ok(()));
}

#[test]
fn a_gift_that_the_table_refuses_can_be_tried_again() {
    let mut world = World::holding_a();
    ask(&mut world, "a", "next");
    world.pass(secs(4));
    world.fail_next(Call::Write, &[Fault::Throttled]);
    let release = world.release("a");
    assert!(matches!(world.answers[&release], Err(RequestError::Store(_))));
    world.release("a");
    world.pass(secs(1));
    assert!(given_to(&world, "a", "next"));
}

#[test]
fn a_shard_that_ends_after_it_was_asked_for_ends() {
    let mut world = World::holding_a();
    ask(&mut world, "a", "next");
    world.pass(secs(4));
    let end = world.end("a", vec![]);
    assert_eq!(world.answers[&end], Ok(()));
    assert!(world.row("a").is_finished());
}

#[test]
fn a_request_under_our_own_name_is_none() {
    let mut world = World::holding_a();
    ask(&mut world, "a", "me");
    world.pass(secs(12));
    assert!(world.told.is_empty());
    world.coordinator.stop_taking(world.now);
    world.release("a");
    assert_eq!(world.row("a").owner, None);
}
