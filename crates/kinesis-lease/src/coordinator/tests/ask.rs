//! Asking for a lease, being asked for one, and leaving.

use super::balance::{asks, finished, live, peers, world_of};
use super::harness::*;
use super::*;
use crate::lease::{Lease, LeaseWrite};
use crate::store::Written;
use crate::testing::{at, open, owned, row};

const LOST: [Fault; 3] = [Fault::LostRequest, Fault::LostReply, Fault::Late];

/// Another worker writes to the row of `shard`.
fn write(world: &mut World, shard: &str, change: LeaseChange) -> Written {
    let expected_counter = world.row(shard).counter;
    world.table.write(&LeaseWrite { shard: shard.into(), expected_counter, change })
}

fn ask(world: &mut World, shard: &str, by: &str) {
    assert!(matches!(write(world, shard, LeaseChange::Ask { by: by.into() }), Written::Applied(_)));
}

fn withdraw(world: &mut World, shard: &str, by: &str) {
    assert!(matches!(write(world, shard, LeaseChange::Withdraw { by: by.into() }), Written::Applied(_)));
}

/// The owner of `shard` gives it to us.
fn give(world: &mut World, shard: &str) {
    let change = LeaseChange::Give { to: "me".into(), token: "me/given".into() };
    assert!(matches!(write(world, shard, change), Written::Applied(_)));
}

fn given_to(world: &World, shard: &str, to: &str) -> bool {
    let row = world.row(shard);
    row.owner == Some(to.into()) && row.token == Some(format!("{to}/given")) && row.asked_by.is_none()
}

/// A world in which `other` was asked for `a`, and has not answered; `b` remains with it.
fn asking() -> World {
    let mut world = world_of([peers("a", "other"), peers("b", "other")]);
    world.coordinator.shun(&"b".into());
    while asks(&world).is_empty() {
        live(&mut world, Duration::from_millis(100));
    }
    assert_eq!(asks(&world), ["a"]);
    world.forget();
    world
}

/// A world in which `me` holds `a`, and `other`, a worker of this library, holds `b`.
fn beside_another() -> World {
    let mut world = world_of([row("a", &[], at(3)), peers("b", "other")]);
    live(&mut world, secs(6));
    assert_eq!(world.held(), ["a"]);
    world.forget();
    world
}

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

#[test]
fn an_asker_looks_at_the_row_often_and_begins_when_it_is_given() {
    let mut world = asking();
    live(&mut world, secs(5));
    assert!((8..=11).contains(&world.count(Call::LookUp)), "{}", world.count(Call::LookUp));
    assert!(world.told.is_empty() && world.writes.is_empty());
    world.table.edit("a", |row| row.checkpoint = at(9));
    give(&mut world, "a");
    world.pass(Duration::from_millis(501));
    assert_eq!(world.gained(), ["a"]);
    let row = world.row("a");
    assert_eq!((row.owner_switches, row.checkpoint.clone()), (1, at(9)));
    assert_ne!(row.token, Some("me/given".into()));
    world.pass(secs(30));
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn an_asker_gives_up_after_the_deadline_and_takes_its_request_back() {
    let mut world = asking();
    live(&mut world, secs(39));
    assert!(world.writes.is_empty());
    live(&mut world, secs(2));
    assert_eq!(world.changes()[0], &LeaseChange::Withdraw { by: "me".into() });
    assert!(world.told.is_empty());
}

#[test]
fn a_request_is_taken_back_when_taking_is_stopped() {
    let mut world = asking();
    world.coordinator.stop_taking(world.now);
    assert!(!world.coordinator.is_empty_handed());
    world.pass(Duration::ZERO);
    assert_eq!(world.row("a").asked_by, None);
    assert!(world.coordinator.is_empty_handed() && world.told.is_empty());
}

#[test]
fn a_request_is_taken_back_through_every_fault() {
    let faults = [Fault::Throttled, Fault::Denied, Fault::Spurious, Fault::SpuriousWithRow];
    for fault in faults.into_iter().chain(LOST) {
        let mut world = asking();
        world.fail_next(Call::Write, &[fault]);
        world.coordinator.stop_taking(world.now);
        world.pass(Duration::from_millis(1));
        world.deliver_late();
        world.pass(secs(2));
        assert_eq!(world.row("a").asked_by, None, "{fault:?}");
        assert!(world.coordinator.is_empty_handed(), "{fault:?}");
    }
}

#[test]
fn a_request_that_is_under_way_when_taking_is_stopped_is_taken_back() {
    for fault in [Fault::Withheld, Fault::LostReply] {
        let mut world = world_of([peers("a", "other"), peers("b", "other")]);
        world.coordinator.shun(&"b".into());
        world.fail_next(Call::Write, &[fault]);
        world.fail_next(Call::LookUp, &[Fault::Throttled]);
        while asks(&world).is_empty() {
            live(&mut world, Duration::from_millis(100));
        }
        world.coordinator.stop_taking(world.now);
        world.answer_withheld();
        world.pass(secs(2));
        assert_eq!(world.row("a").asked_by, None, "{fault:?}");
        assert!(world.coordinator.is_empty_handed(), "{fault:?}");
    }
}

#[test]
fn a_lease_that_is_given_while_taking_is_stopped_is_given_back() {
    for fault in [None, Some(Fault::Throttled), Some(Fault::LostRequest)] {
        let mut world = asking();
        give(&mut world, "a");
        world.fail_next(Call::Write, &fault.map_or(vec![], |fault| vec![Fault::SpuriousWithRow, fault]));
        world.coordinator.stop_taking(world.now);
        world.pass(secs(2));
        assert_eq!((&world.row("a").owner, &world.row("a").token), (&None, &None), "{fault:?}");
        assert!(world.coordinator.is_empty_handed() && world.told.is_empty(), "{fault:?}");
    }
}

#[test]
fn a_lease_that_is_given_after_its_shard_was_shunned_is_given_back() {
    let mut world = asking();
    world.coordinator.shun(&"a".into());
    give(&mut world, "a");
    world.pass(secs(1));
    assert_eq!(world.row("a").owner, None);
    assert!(world.told.is_empty());
}

#[test]
fn a_lease_whose_owner_dies_after_it_was_asked_for_it_is_taken_over() {
    let mut world = asking();
    world.pass(FAILOVER - Duration::from_millis(200));
    assert!(world.writes.is_empty(), "not before");
    world.pass(secs(6));
    assert_eq!(world.held()[0], "a");
    assert_eq!(world.row("a").asked_by, None);
}

#[test]
fn a_request_whose_reply_was_lost_stands_in_the_end() {
    for fault in LOST.into_iter().chain([Fault::Spurious, Fault::SpuriousWithRow]) {
        let mut world = world_of([peers("a", "other"), peers("b", "other")]);
        world.coordinator.shun(&"b".into());
        world.fail_next(Call::Write, &[fault]);
        while asks(&world).is_empty() {
            live(&mut world, Duration::from_millis(100));
        }
        world.deliver_late();
        world.pass(secs(1));
        assert_eq!(world.row("a").asked_by, Some("me".into()), "{fault:?}");
        give(&mut world, "a");
        world.pass(secs(1));
        assert_eq!(world.gained(), ["a"], "{fault:?}");
    }
}

#[test]
fn a_request_that_the_table_refuses_is_made_again_after_the_next_scan() {
    let mut world = world_of([peers("a", "other"), peers("b", "other")]);
    world.fail_next(Call::Write, &[Fault::Throttled]);
    live(&mut world, secs(6));
    assert!(world.coordinator.is_empty_handed());
    live(&mut world, secs(6));
    assert_eq!(asks(&world).len(), 2);
    assert!(!world.coordinator.is_empty_handed());
}

#[test]
fn a_lease_that_was_given_is_taken_through_every_fault() {
    let faults = [Fault::Throttled, Fault::Denied, Fault::Spurious];
    for fault in faults.into_iter().chain(LOST) {
        let mut world = asking();
        give(&mut world, "a");
        world.fail_next(Call::Write, &[fault]);
        world.pass(Duration::from_millis(501));
        world.deliver_late();
        world.pass(secs(1));
        assert_eq!(world.gained(), ["a"], "{fault:?}");
    }
}

#[test]
fn a_row_that_cannot_be_read_is_looked_at_again() {
    let mut world = asking();
    world.fail_next(Call::LookUp, &[Fault::Throttled, Fault::Denied]);
    give(&mut world, "a");
    world.pass(secs(1));
    assert!(world.told.is_empty());
    world.pass(secs(1));
    assert_eq!(world.gained(), ["a"]);
}

#[test]
fn an_asker_forgets_a_lease_whose_row_is_deleted() {
    let mut world = asking();
    world.table.rows.remove("a");
    world.pass(secs(1));
    assert!(world.coordinator.is_empty_handed() || world.held() == ["a"]);
    assert!(!world.told.iter().any(|told| matches!(told, Told::Lost(..))));
}

#[test]
fn an_asker_forgets_a_lease_whose_shard_has_ended() {
    let mut world = asking();
    world.table.edit("a", |row| *row = finished(row.clone()));
    live(&mut world, secs(1));
    assert!(world.coordinator.is_empty_handed());
    assert!(world.writes.is_empty() && world.told.is_empty());
}

#[test]
fn a_lease_that_another_worker_has_asked_for_first_is_left_to_it() {
    let mut world = world_of([peers("a", "other"), peers("b", "other")]);
    let seen: Vec<Lease> = world.table.rows.values().cloned().collect();
    world.stale_scans.extend([seen.clone(), seen]);
    for shard in ["a", "b"] {
        ask(&mut world, shard, "first");
    }
    world.pass(secs(6));
    assert_eq!(world.writes.len(), 1, "we came too late");
    live(&mut world, secs(6));
    assert_eq!(world.writes.len(), 1);
    assert!(world.coordinator.is_empty_handed());
    assert_eq!(world.row("a").asked_by, Some("first".into()));
}

#[test]
fn a_lease_that_another_worker_has_taken_meanwhile_is_left_to_it() {
    for token in ["other/life-1", "third/life-1"] {
        let mut world = asking();
        world.table.steal("a", "third");
        world.table.edit("a", |row| row.token = Some(token.into()));
        live(&mut world, secs(2));
        assert!(world.coordinator.is_empty_handed(), "{token}");
        assert!(world.writes.is_empty());
    }
}

#[test]
fn a_lease_that_its_owner_has_released_is_taken() {
    let mut world = asking();
    write(&mut world, "a", LeaseChange::Release);
    world.pass(Duration::from_millis(501));
    assert_eq!(world.gained(), ["a"]);
}

#[test]
fn a_request_that_somebody_has_removed_is_not_waited_for() {
    let mut world = asking();
    world.table.edit("a", |row| row.asked_by = None);
    live(&mut world, secs(1));
    assert!(world.coordinator.is_empty_handed());
}

#[test]
fn a_lease_that_was_promised_to_another_worker_after_we_asked_is_not_waited_for() {
    let mut world = asking();
    world.table.promise("a", "next");
    live(&mut world, secs(1));
    assert!(world.coordinator.is_empty_handed() && world.writes.is_empty());
}

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
fn offered_leases_are_asked_for_up_to_the_share_at_once() {
    let offered = ["1", "2", "3", "4", "5"].map(|shard| Lease { is_offered: true, ..peers(shard, "leaver") });
    let theirs = ["6", "7"].map(|shard| peers(shard, "third"));
    let mut rows = [offered.as_slice(), &theirs].concat();
    let mut world = world_of(rows.clone());
    world.coordinator.settings.max_steals = Some(0);
    live(&mut world, secs(9));
    assert_eq!(asks(&world).len(), 4, "of seven for two");
    for row in &mut rows[..2] {
        row.asked_by = Some("third".into());
    }
    let mut world = world_of(rows.clone());
    live(&mut world, secs(9));
    assert_eq!(asks(&world).len(), 3, "what others have asked for is theirs");
    assert!(!asks(&world).contains(&"1") && !asks(&world).contains(&"2"));
    let mut world = world_of(rows);
    world.coordinator.settings.max_leases = 1;
    live(&mut world, secs(30));
    assert_eq!(asks(&world).len(), 1);
}

#[test]
fn offered_leases_are_asked_for_while_nothing_else_moves() {
    let offered = ["1", "2"].map(|shard| Lease { is_offered: true, ..peers(shard, "leaver") });
    let mut world = world_of(offered.into_iter().chain([row("free", &[], at(1)), peers("6", "third")]));
    world.fail_next(Call::Write, &[Fault::Withheld]);
    live(&mut world, secs(6));
    assert_eq!(asks(&world).len(), 1, "of four for two, with the one that is being taken");
}

#[test]
fn an_offered_lease_whose_shard_is_shunned_is_not_asked_for() {
    let mut world = world_of([Lease { is_offered: true, ..peers("a", "leaver") }]);
    world.coordinator.shun(&"a".into());
    live(&mut world, secs(12));
    assert!(world.writes.is_empty());
}

#[test]
fn two_workers_that_join_and_one_that_leaves_do_not_wait_for_each_other() {
    let mut world = World::holding_a();
    world.stream.push(open("b", &[]));
    world.table.rows.insert("b".into(), peers("b", "other"));
    live(&mut world, secs(6));
    ask(&mut world, "a", "next");
    world.pass(Duration::ZERO);
    assert!(world.coordinator.leave(world.now).is_some());
    live(&mut world, secs(1));
    assert_eq!(world.told, [Told::Drain("a".into())]);
    assert_eq!(world.row("a").asked_by, Some("next".into()), "an offer leaves the request in place");
}

#[test]
fn a_lease_that_is_given_before_its_request_could_be_taken_back_is_given_back() {
    let mut world = world_of([peers("a", "other"), peers("b", "other")]);
    world.coordinator.shun(&"b".into());
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    while asks(&world).is_empty() {
        live(&mut world, Duration::from_millis(100));
    }
    world.coordinator.stop_taking(world.now);
    give(&mut world, "a");
    world.pass(secs(3));
    assert_eq!(world.row("a").owner, None);
    assert!(world.coordinator.is_empty_handed() && world.told.is_empty());
}

#[test]
fn a_request_that_was_seen_in_the_row_is_not_made_again_after_somebody_has_removed_it() {
    let mut world = world_of([peers("a", "other"), peers("b", "other")]);
    world.coordinator.shun(&"b".into());
    world.fail_next(Call::Write, &[Fault::LostReply]);
    while asks(&world).is_empty() {
        live(&mut world, Duration::from_millis(100));
    }
    world.table.edit("a", |row| row.asked_by = None);
    live(&mut world, Duration::from_millis(600));
    assert_eq!(asks(&world).len(), 1);
    assert!(world.coordinator.is_empty_handed());
}

#[test]
fn a_request_is_taken_back_at_the_counter_that_the_row_has_come_to() {
    let mut world = asking();
    live(&mut world, secs(6));
    world.pass(Duration::from_millis(600));
    world.coordinator.stop_taking(world.now);
    world.pass(secs(1));
    assert_eq!(world.changes(), [&LeaseChange::Withdraw { by: "me".into() }]);
    assert!(world.coordinator.is_empty_handed());
}

#[test]
fn the_row_of_a_lease_that_was_asked_for_is_known_as_it_is() {
    let mut world = asking();
    assert_eq!(world.coordinator.rows()["a"], *world.row("a"));
    world.fail_always(Call::LookUp, Fault::Throttled);
    world.table.renew("a");
    world.coordinator.scan.hasten(world.now);
    world.pass(Duration::ZERO);
    assert_eq!(world.coordinator.rows()["a"], *world.row("a"));
}

#[test]
fn the_more_leases_are_asked_for_the_less_often_each_is_looked_at() {
    for (asked, twentieths) in [(1, 1), (15, 1), (16, 2), (40, 3), (200, 10)] {
        let mut world = world_of((1_000..1_500).map(|shard| peers(&shard.to_string(), "other")));
        world.coordinator.settings.max_steals = Some(asked);
        while asks(&world).is_empty() {
            live(&mut world, Duration::from_millis(100));
        }
        assert_eq!(asks(&world).len(), asked);
        assert_eq!(world.coordinator.look_pause(), FAILOVER / 20 * twentieths, "{asked}");
    }
}

#[test]
fn a_request_that_cannot_be_taken_back_is_not_tried_too_often() {
    let mut world = asking();
    world.fail_always(Call::Write, Fault::SpuriousWithRow);
    world.coordinator.stop_taking(world.now);
    world.pass(secs(2));
    assert!((3..=6).contains(&world.writes.len()), "{}", world.writes.len());
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

#[test]
fn an_offered_lease_is_asked_for_once_while_nobody_knows_whether_it_was() {
    let mut world = world_of([Lease { is_offered: true, ..peers("a", "leaver") }, peers("c", "third")]);
    world.fail_next(Call::Write, &[Fault::LostRequest]);
    world.fail_always(Call::LookUp, Fault::Throttled);
    live(&mut world, secs(24));
    assert_eq!(asks(&world), ["a"]);
}
