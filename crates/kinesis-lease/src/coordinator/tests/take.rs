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
    world.coordinator.scanned(world.now, Ok(vec![row("a", &[], at(1))].into()));
    let _ = world.coordinator.listed(world.now, Ok(vec![open("a", &[])]));
    world.coordinator.created(
        world.now,
        NewLease::new(crate::testing::child("a", &[]), at(1)),
        Ok(crate::store::Created::New),
    );
    world.coordinator.reported(world.now, Ok(crate::store::Reported::Unwanted));
    assert_eq!(world.coordinator.next_wakeup(), None);
    world.pass(secs(100));
    assert!(world.told.is_empty() && world.writes.is_empty());
}

/// `me` holds more than its share: `m1`, `m2`, `m3` and `m4`, beside the worker `other` with one lease.
fn beyond_our_share() -> World {
    let ours = ["m1", "m2", "m3", "m4"].map(|shard| Lease { token: None, ..owned(shard, "me", 5) });
    let theirs = Lease { token: Some("other/life-1".into()), ..owned("other", "other", 5) };
    let mut world = world_of(ours.into_iter().chain([theirs]));
    world.start();
    assert_eq!(world.held(), ["m1", "m2", "m3", "m4"]);
    world.forget();
    world
}

#[test]
fn each_lease_is_left_to_the_others_for_a_third_of_the_failover_time_of_its_own() {
    let mut world = beyond_our_share();
    for (shard, time) in [("x", 2_000), ("y", 1_400)] {
        world.stream.push(open(shard, &[]));
        world.table.rows.insert(shard.into(), row(shard, &[], at(1)));
        world.hasten_scan();
        world.pass(Duration::from_millis(time));
    }
    assert_eq!(world.gained(), ["x"]);
    world.pass(secs(2));
    assert_eq!(world.gained(), ["x", "y"]);
}

#[test]
fn the_children_of_what_we_have_ended_are_taken_beyond_our_share_and_nothing_else_is() {
    let mut world = beyond_our_share();
    world.stream = vec![closed("m1", &[]), closed("p", &[]), open("x", &["p"]), open("y", &[])];
    world.table.rows.insert("p".into(), row("p", &[], Checkpoint::ShardEnd));
    world.table.rows.insert("x".into(), row("x", &["p"], at(1)));
    world.table.rows.insert("y".into(), row("y", &[], at(1)));
    world.hasten_scan();
    world.pass(Duration::ZERO);
    world.end("m1", vec![crate::testing::child("m5", &["m1"])]);
    assert_eq!(world.gained(), ["m5"]);
}

#[test]
fn a_child_of_what_we_have_ended_is_not_taken_if_its_shard_is_shunned_or_beyond_the_limit() {
    let children = || ["b", "c"].map(|shard| crate::testing::child(shard, &["a"])).into();
    let mut world = World::holding_a();
    world.coordinator.shun(&"b".into());
    world.end("a", children());
    assert_eq!((world.held(), world.row("b").counter), (vec!["c"], 0));
    let mut world = world_of([row("a", &[], at(1)), row("x", &[], at(1))]);
    world.coordinator.settings.max_leases = 2;
    world.start();
    world.end("a", children());
    assert_eq!(world.held().len(), 2);
}

#[test]
fn a_child_that_a_scan_has_brought_here_before_the_end_of_its_parent_was_confirmed_is_gained_once() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    let end = world.end("a", vec![crate::testing::child("b", &["a"])]);
    world.hasten_scan();
    world.pass(Duration::ZERO);
    assert_eq!(world.gained(), ["b"]);
    world.pass(secs(1));
    assert_eq!(world.answers[&end], Ok(()));
    assert_eq!(world.gained(), ["b"]);
}

#[test]
fn a_few_leases_are_taken_at_once_however_long_the_answers_take() {
    let mut world = world_of((100..200).map(|shard| row(&shard.to_string(), &[], at(1))));
    world.fail_always(Call::Write, Fault::Withheld);
    world.pass(secs(12));
    assert_eq!(world.writes.len(), 32);
}

#[test]
fn leases_that_others_were_quicker_to_take_make_room_for_the_next() {
    let rows = (100..200).map(|shard| row(&shard.to_string(), &[], at(1)));
    let mut world = world_of(rows.clone());
    world.stale_scans.push_back(rows.collect());
    for row in world.table.rows.values_mut() {
        (row.owner, row.counter) = (Some("other".into()), 1);
    }
    world.start();
    assert!(world.writes.len() > 32, "{}", world.writes.len());
}

#[test]
fn workers_that_see_each_other_begin_with_other_shards() {
    let free = (10..30).map(|shard| row(&shard.to_string(), &[], at(1)));
    let mut world = world_of(free.chain([owned("theirs", "other", 1)]));
    world.fail_always(Call::Write, Fault::Withheld);
    world.start();
    let loads = world.coordinator.loads(world.now);
    let is_preferred: Vec<bool> =
        world.writes.iter().map(|(_, write)| loads.prefers_us(&write.shard)).collect();
    let all = world.table.rows.keys().filter(|shard| shard.as_str() != "theirs");
    let preferred = all.filter(|shard| loads.prefers_us(shard)).count();
    let ours = is_preferred.iter().filter(|is_preferred| **is_preferred).count();
    assert_eq!(ours, preferred.min(is_preferred.len()));
    assert!(is_preferred.is_sorted_by_key(|is_preferred| !is_preferred), "{is_preferred:?}");
}

#[test]
fn a_lease_is_looked_at_when_it_expires_though_others_expire_later() {
    let mut world = world_of([owned("a", "other", 1), owned("b", "third", 1)]);
    world.start();
    world.table.renew("b");
    for millis in [4_000, 9_500] {
        world.pass(Duration::from_millis(millis) - world.now);
        world.hasten_scan();
        world.pass(Duration::ZERO);
    }
    world.inside().scan.due = Some(secs(11));
    world.coordinator.look_at_expiries(world.now);
    world.pass(Duration::from_millis(10_002) - world.now);
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn a_lease_is_looked_at_when_it_expires_wherever_the_scans_before_fall() {
    for millis in [4_500, 5_500, 9_900] {
        let mut world = world_of([owned("a", "other", 1)]);
        world.start();
        world.inside().scan.due = Some(secs(11));
        world.coordinator.look_at_expiries(Duration::from_millis(millis));
        assert_eq!(world.coordinator.scan.due, Some(Duration::from_millis(10_001)));
    }
}

#[test]
fn the_table_is_not_looked_at_for_leases_that_nobody_can_let_expire() {
    let finished = Lease { checkpoint: Checkpoint::ShardEnd, ..owned("a", "other", 1) };
    let mut world = world_of([finished, row("b", &[], at(1))]);
    world.stream.push(open("c", &[]));
    for shard in ["b", "c"] {
        world.coordinator.shun(&shard.into());
    }
    world.start();
    world.now = secs(8);
    world.inside().scan.due = Some(secs(11));
    world.coordinator.look_at_expiries(world.now);
    assert_eq!(world.coordinator.scan.due, Some(secs(11)));
}

#[test]
fn an_owner_changed_by_hand_is_watched_from_then_on() {
    let mut world = world_of([owned("a", "other", 5)]);
    world.pass(secs(8));
    world.table.edit("a", |row| row.owner = Some("third".into()));
    world.pass(secs(10));
    assert!(world.writes.is_empty());
}

#[test]
fn a_counter_that_falls_is_a_sign_of_life_too() {
    let mut world = world_of([owned("a", "other", 41)]);
    world.pass(secs(9));
    world.table.edit("a", |row| row.counter = 3);
    world.pass(secs(6));
    assert!(world.writes.is_empty());
}

#[test]
fn a_lease_that_cannot_be_given_back_is_let_go_when_it_runs_out() {
    let mut world = world_of([row("a", &[], at(1))]);
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.fail_always(Call::Write, Fault::Throttled);
    world.start();
    world.coordinator.stop_taking(world.now);
    world.answer_withheld();
    world.pass(secs(8));
    assert!(!world.coordinator.is_empty_handed());
    world.pass(secs(1));
    assert!(world.coordinator.is_empty_handed() && world.told.is_empty());
}

#[test]
fn a_lease_that_is_being_taken_is_not_held() {
    let mut world = world_of([row("a", &[], at(1))]);
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.start();
    assert_eq!((world.coordinator.held(), world.coordinator.is_empty_handed()), (0, false));
}
