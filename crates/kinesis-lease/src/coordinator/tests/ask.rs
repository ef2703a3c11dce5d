//! Asking another worker for a lease.

use super::balance::{asks, finished, live, peers, world_of};
use super::harness::*;
use super::*;
use crate::lease::{Lease, LeaseWrite};
use crate::store::Written;
use crate::testing::{at, open, row};

pub(super) const LOST: [Fault; 3] = [Fault::LostRequest, Fault::LostReply, Fault::Late];

/// Another worker writes to the row of `shard`.
pub(super) fn write(world: &mut World, shard: &str, change: LeaseChange) -> Written {
    let expected_counter = world.row(shard).counter;
    world.table.write(&LeaseWrite { shard: shard.into(), expected_counter, change })
}

pub(super) fn ask(world: &mut World, shard: &str, by: &str) {
    assert!(matches!(write(world, shard, LeaseChange::Ask { by: by.into() }), Written::Applied(_)));
}

pub(super) fn withdraw(world: &mut World, shard: &str, by: &str) {
    assert!(matches!(write(world, shard, LeaseChange::Withdraw { by: by.into() }), Written::Applied(_)));
}

/// The owner of `shard` gives it to us.
pub(super) fn give(world: &mut World, shard: &str) {
    let change = LeaseChange::Give { to: "me".into(), token: "me/given".into() };
    assert!(matches!(write(world, shard, change), Written::Applied(_)));
}

pub(super) fn given_to(world: &World, shard: &str, to: &str) -> bool {
    let row = world.row(shard);
    row.owner == Some(to.into()) && row.token == Some(format!("{to}/given")) && row.asked_by.is_none()
}

/// A world in which `other` was asked for `a`, and has not answered; `b` remains with it.
pub(super) fn asking() -> World {
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
pub(super) fn beside_another() -> World {
    let mut world = world_of([row("a", &[], at(3)), peers("b", "other")]);
    live(&mut world, secs(6));
    assert_eq!(world.held(), ["a"]);
    world.forget();
    world
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
    world.hasten_scan();
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
fn an_offered_lease_is_asked_for_once_while_nobody_knows_whether_it_was() {
    let mut world = world_of([Lease { is_offered: true, ..peers("a", "leaver") }, peers("c", "third")]);
    world.fail_next(Call::Write, &[Fault::LostRequest]);
    world.fail_always(Call::LookUp, Fault::Throttled);
    live(&mut world, secs(24));
    assert_eq!(asks(&world), ["a"]);
}
