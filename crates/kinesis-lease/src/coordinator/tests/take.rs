//! Which leases are taken, and when.

use super::harness::*;
use super::*;
use crate::lease::Lease;
use crate::testing::{Table, at, closed, open, owned, row};

fn world_of(rows: impl IntoIterator<Item = Lease>) -> World {
    let mut world = World::new(Checkpoint::TrimHorizon);
    let rows: BTreeMap<ShardId, Lease> = rows.into_iter().map(|row| (row.shard.clone(), row)).collect();
    world.stream = rows.keys().map(|shard| open(shard.as_str(), &[])).collect();
    world.table = Table { rows };
    world
}

#[test]
fn an_unowned_lease_is_taken_at_once() {
    let mut world = world_of([row("a", &[], at(3))]);
    world.start();
    assert_eq!(world.held(), ["a"]);
    assert_eq!((world.row("a").counter, &world.row("a").checkpoint), (1, &at(3)));
    assert_eq!(world.row("a").owner, Some("me".into()));
}

#[test]
fn a_lease_is_taken_once_its_counter_stood_still_for_the_failover_time() {
    let mut world = world_of([owned("a", "other", 41)]);
    world.pass(FAILOVER);
    assert!(world.held().is_empty());
    world.pass(FAILOVER);
    assert_eq!(world.held(), ["a"]);
    assert!(world.writes.iter().all(|(at, _)| *at > FAILOVER));
    let row = world.row("a");
    assert_eq!((row.counter > 41, row.owner_switches, row.checkpoint.clone()), (true, 1, at(7)));
}

#[test]
fn a_lease_that_is_renewed_is_left_alone() {
    let mut world = world_of([owned("a", "other", 41)]);
    for _ in 0..20 {
        world.table.renew("a");
        world.pass(secs(9));
    }
    assert!(world.writes.is_empty());
}

#[test]
fn time_is_counted_from_when_this_process_saw_the_counter() {
    let mut world = world_of([owned("a", "other", 41)]);
    world.freeze(secs(1_000));
    world.pass(FAILOVER);
    assert!(world.writes.is_empty());
}

#[test]
fn a_renewal_since_the_last_scan_keeps_the_lease() {
    let mut world = world_of([owned("a", "other", 41)]);
    world.start();
    let stale = vec![world.row("a").clone()];
    world.stale_scans.extend([stale.clone(), stale.clone(), stale]);
    world.table.renew("a");
    world.pass(secs(16));
    assert_eq!(world.writes.len(), 1, "it looked expired");
    assert!(world.told.is_empty());
    assert_eq!(world.row("a").owner, Some("other".into()));
    world.pass(secs(4));
    assert!(world.told.is_empty(), "the refusal told the counter, which is watched from then on");
}

#[test]
fn a_finished_shard_is_never_taken() {
    let finished = Lease { checkpoint: Checkpoint::ShardEnd, ..owned("b", "other", 1) };
    let mut world = world_of([row("a", &[], Checkpoint::ShardEnd), finished]);
    world.stream = vec![closed("a", &[]), closed("b", &[]), open("c", &["a", "b"])];
    world.pass(secs(100));
    assert_eq!(world.held(), ["c"]);
}

#[test]
fn an_own_lease_of_a_former_life_waits_for_the_failover_time() {
    let mut world = world_of([Lease { token: Some("me/former-1".into()), ..owned("a", "me", 4) }]);
    world.pass(FAILOVER);
    assert!(world.writes.is_empty(), "it may be another process under the same worker id");
    world.pass(FAILOVER);
    assert_eq!(world.held(), ["a"]);
    assert_eq!(world.row("a").owner_switches, 0);
}

#[test]
fn two_processes_under_one_worker_id_have_one_reader() {
    let mut world = World::holding_a();
    world.table.edit("a", |row| {
        row.counter += 1;
        row.token = Some("another process".into());
    });
    world.pass(secs(6));
    assert_eq!(world.told, [Told::Lost("a".into(), Loss::Taken { by: Some("me".into()) })]);
    for _ in 0..10 {
        world.table.renew("a");
        world.pass(secs(5));
    }
    assert!(world.held().is_empty());
}

#[test]
fn no_more_leases_are_taken_than_allowed() {
    let mut world = world_of(["a", "b", "c", "d"].map(|shard| row(shard, &[], at(1))));
    world.coordinator.settings.max_leases = 2;
    world.pass(secs(100));
    assert_eq!((world.held().len(), world.coordinator.held()), (2, 2));
    let held = world.held()[0].to_owned();
    world.end(&held, vec![]);
    assert_eq!(world.held().len(), 2, "another one instead of the finished one");
}

#[test]
fn the_limit_holds_for_new_rows_too() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.coordinator.settings.max_leases = 2;
    world.stream = ["a", "b", "c", "d"].map(|shard| open(shard, &[])).into();
    world.start();
    assert_eq!((world.held().len(), world.table.rows.len()), (2, 4));
}

#[test]
fn a_shunned_shard_is_not_taken() {
    let mut world = world_of([row("a", &[], at(1)), row("b", &[], at(1))]);
    world.coordinator.shun(&"a".into());
    world.pass(secs(100));
    assert_eq!(world.held(), ["b"]);
    assert_eq!(world.row("a").counter, 0);
}

#[test]
fn a_child_waits_until_each_of_its_parents_is_finished() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![closed("a", &[]), closed("b", &[]), open("c", &["a", "b"])];
    world.start();
    assert_eq!(world.held(), ["a", "b"]);
    world.end("a", vec![]);
    world.pass(secs(100));
    assert_eq!(world.held(), ["b"]);
    world.end("b", vec![]);
    assert_eq!(world.held(), ["c"]);
}

#[test]
fn a_throttled_take_is_tried_again_after_the_next_scan() {
    for fault in [Fault::Throttled, Fault::Denied] {
        let mut world = world_of([row("a", &[], at(1))]);
        world.fail_next(Call::Write, &[fault]);
        world.start();
        assert!(world.held().is_empty());
        world.pass(secs(6));
        assert_eq!(world.held(), ["a"]);
    }
}

#[test]
fn a_lease_whose_taking_was_confirmed_too_late_is_not_started_on() {
    let mut world = world_of([row("a", &[], at(1))]);
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.start();
    world.freeze(secs(9));
    world.answer_withheld();
    assert!(world.told.is_empty(), "others may take it at any moment");
    world.pass(secs(1));
    assert_eq!(world.gained(), ["a"], "but it is still ours to take anew");
}

#[test]
fn a_lease_that_comes_after_taking_was_stopped_is_given_back() {
    for shun in [false, true] {
        let mut world = world_of([row("a", &[], at(1))]);
        world.fail_next(Call::Write, &[Fault::Withheld, Fault::Throttled, Fault::LostRequest]);
        world.start();
        if shun {
            world.coordinator.shun(&"a".into());
        } else {
            world.coordinator.stop_taking(world.now);
        }
        assert!(!world.coordinator.is_empty_handed());
        world.answer_withheld();
        world.pass(secs(5));
        assert!(world.coordinator.is_empty_handed());
        assert_eq!((world.row("a").owner.clone(), world.row("a").counter), (None, 2));
        assert!(world.told.is_empty());
    }
}

#[test]
fn after_taking_was_stopped_nothing_is_scanned_listed_created_or_taken() {
    let mut world = World::holding_a();
    world.coordinator.stop_taking(world.now);
    world.stream.push(open("b", &[]));
    world.table.rows.insert("c".into(), row("c", &[], at(1)));
    world.pass(secs(100));
    assert_eq!((world.count(Call::Scan), world.count(Call::List)), (0, 0));
    assert_eq!(world.held(), ["a"], "what is held is renewed");
    world.release("a");
    world.pass(secs(100));
    assert!(world.held().is_empty());
    assert_eq!(world.row("a").owner, None);
    assert_eq!(world.coordinator.next_wakeup(), None);
}

#[test]
fn answers_that_come_after_taking_was_stopped_change_nothing() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.coordinator.tick(world.now);
    world.coordinator.stop_taking(world.now);
    world.coordinator.scanned(world.now, Ok(vec![row("a", &[], at(1))]));
    let _ = world.coordinator.listed(world.now, Ok(vec![open("a", &[])]));
    world.coordinator.created(
        world.now,
        NewLease::new(crate::testing::child("a", &[]), at(1)),
        Ok(crate::store::Created::New),
    );
    world.pass(secs(100));
    assert!(world.told.is_empty() && world.writes.is_empty());
}
