//! Keeping leases, and giving them up in time.

use super::harness::*;
use super::*;
use crate::testing::at;

const EXPIRED: Loss = Loss::Expired;

fn lost(loss: Loss) -> [Told; 1] {
    [Told::Lost("a".into(), loss)]
}

#[test]
fn a_lease_is_renewed_each_third_of_the_failover_time() {
    let mut world = World::holding_a();
    world.pass(secs(60));
    assert_eq!(world.writes.len(), 18);
    assert!(world.changes().iter().all(|change| **change == LeaseChange::Renew));
    assert_eq!(world.row("a").counter, 19);
    assert!(world.told.is_empty());
}

#[test]
fn a_checkpoint_takes_the_place_of_a_renewal() {
    let mut world = World::holding_a();
    for sequence in 1..20 {
        world.pass(secs(3));
        world.checkpoint("a", at(sequence));
    }
    assert_eq!(world.writes.len(), 19);
}

#[test]
fn a_renewal_that_is_throttled_is_tried_again_soon() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Throttled, Fault::Throttled]);
    world.pass(secs(5));
    assert_eq!(world.writes.len(), 3);
    assert!(world.told.is_empty());
}

#[test]
fn a_lease_is_given_up_before_its_last_renewal_is_as_old_as_the_failover_time() {
    for fault in
        [Fault::Throttled, Fault::Denied, Fault::LostRequest, Fault::Spurious, Fault::SpuriousWithRow]
    {
        let mut world = World::holding_a();
        world.fail_always(Call::Write, fault);
        world.pass(secs(8));
        assert_eq!(world.held(), ["a"], "{fault:?}");
        world.pass(secs(2) - Duration::from_millis(1));
        assert_eq!(world.told, lost(EXPIRED), "{fault:?}");
        assert!(world.calls[&Call::Write] < 40, "{fault:?} is not tried too often");
    }
}

#[test]
fn the_validity_is_counted_from_when_the_renewal_was_asked_for() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.pass(secs(4));
    let asked_at = world.writes[0].0;
    world.pass(secs(3));
    world.fail_always(Call::Write, Fault::Throttled);
    world.answer_withheld();
    assert_eq!(world.valid_until["a"], asked_at + secs(9));
    world.pass(asked_at + secs(9) - world.now);
    assert_eq!(world.told, lost(EXPIRED));
}

#[test]
fn a_renewal_that_gets_no_reply_at_all_loses_the_lease_in_time() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.pass(secs(9));
    assert_eq!(world.told, lost(EXPIRED));
    world.answer_withheld();
    assert_eq!(world.told, lost(EXPIRED), "a reply after that changes nothing");
}

#[test]
fn after_a_freeze_nothing_is_done_under_an_expired_lease() {
    let mut world = World::holding_a();
    world.freeze(secs(60));
    let request = {
        let acquisition = world.acquisition("a");
        world.coordinator.checkpoint(world.now, &"a".into(), acquisition, at(9))
    };
    world.drain();
    assert_eq!(world.answers[&request], Err(RequestError::NotHeld));
    assert_eq!(world.told, lost(EXPIRED));
    assert!(world.writes.is_empty());
}

#[test]
fn a_reply_that_was_frozen_too_long_does_not_extend_the_lease() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.pass(secs(4));
    world.freeze(secs(20));
    world.answer_withheld();
    assert_eq!(world.told, lost(EXPIRED));
}

#[test]
fn a_lease_that_ran_out_is_taken_again_if_nobody_else_took_it() {
    let mut world = World::holding_a();
    world.fail_always(Call::Write, Fault::Throttled);
    world.pass(secs(9));
    world.heal();
    world.pass(secs(6));
    assert_eq!(world.gained(), ["a"]);
    assert_eq!(world.row("a").owner_switches, 0);
}

#[test]
fn a_lease_that_ran_out_and_was_taken_by_another_is_left_to_it() {
    let mut world = World::holding_a();
    world.freeze(secs(20));
    world.table.steal("a", "other");
    world.pass(secs(5));
    assert!(world.gained().is_empty());
    assert_eq!(world.row("a").owner, Some("other".into()));
}

#[test]
fn a_renewal_that_finds_another_owner_loses_the_lease() {
    let mut world = World::holding_a();
    world.fail_always(Call::Scan, Fault::Throttled);
    world.table.steal("a", "other");
    world.pass(secs(4));
    assert_eq!(world.told, lost(Loss::Taken { by: Some("other".into()) }));
}

#[test]
fn a_scan_that_shows_another_owner_loses_the_lease() {
    let mut world = World::holding_a();
    world.fail_always(Call::Write, Fault::Throttled);
    world.pass(secs(3));
    world.table.steal("a", "other");
    world.pass(secs(3));
    assert_eq!(world.told, lost(Loss::Taken { by: Some("other".into()) }));
}

#[test]
fn an_owner_changed_by_hand_is_noticed_although_the_counter_is_unmoved() {
    for owner in [Some("other".into()), None] {
        let mut world = World::holding_a();
        world.table.edit("a", |row| row.owner = owner.clone());
        world.pass(secs(6));
        assert_eq!(world.told[..1], lost(Loss::Taken { by: owner }));
    }
}

#[test]
fn a_counter_raised_by_hand_is_adopted() {
    let mut world = World::holding_a();
    world.table.edit("a", |row| row.counter += 5);
    world.pass(secs(30));
    assert!(world.told.is_empty());
    assert!(world.row("a").counter > 12);
}

#[test]
fn a_counter_raised_by_hand_proves_no_renewal() {
    let mut world = World::holding_a();
    world.pass(secs(1));
    world.table.edit("a", |row| row.counter += 1);
    world.fail_next(Call::Write, &[Fault::SpuriousWithRow, Fault::Throttled]);
    world.pass(Duration::from_millis(2_400));
    assert_eq!(world.writes.len(), 2, "it is renewed at once");
    assert_eq!(world.valid_until["a"], secs(9), "others may count from before that");
}

#[test]
fn an_old_scan_loses_nothing() {
    let mut world = World::holding_a();
    let before = crate::testing::owned("a", "other", 0);
    world.stale_scans.push_back(vec![before]);
    world.pass(secs(30));
    assert!(world.told.is_empty());
}

#[test]
fn a_scan_without_a_held_row_is_checked_by_reading_the_row() {
    let mut world = World::holding_a();
    world.stale_scans.push_back(Vec::new());
    world.pass(secs(30));
    assert_eq!(world.count(Call::LookUp), 1);
    assert!(world.told.is_empty());
}

#[test]
fn a_deleted_row_loses_the_lease_and_is_created_anew() {
    let mut world = World::holding_a();
    world.fail_next(Call::Scan, &[Fault::Throttled]);
    world.table.rows.clear();
    world.pass(secs(7));
    assert_eq!(world.told[..1], lost(Loss::RowDeleted));
    assert_eq!(world.gained(), ["a"]);
    assert_eq!(world.row("a").checkpoint, Checkpoint::TrimHorizon);
}

#[test]
fn a_deleted_row_is_noticed_by_a_scan_too() {
    let mut world = World::holding_a();
    world.fail_always(Call::Write, Fault::Throttled);
    world.table.rows.clear();
    world.pass(secs(6));
    assert_eq!(world.told[..1], lost(Loss::RowDeleted));
}

#[test]
fn a_row_that_was_deleted_and_created_anew_is_not_ours() {
    let mut world = World::holding_a();
    world.table.rows.insert("a".into(), crate::testing::row("a", &[], Checkpoint::TrimHorizon));
    world.pass(secs(4));
    assert_eq!(world.told[..1], lost(Loss::RowDeleted));
}

#[test]
fn a_refusal_that_shows_an_applied_renewal_does_not_shorten_the_lease() {
    let mut world = World::holding_a();
    world.pass(secs(4));
    let until = world.valid_until["a"];
    assert!(until > secs(9));
    world.table.edit("a", |row| row.counter += 1);
    world.fail_next(Call::Write, &[Fault::SpuriousWithRow]);
    world.fail_always(Call::Write, Fault::Throttled);
    world.pass(secs(3));
    assert_eq!(world.valid_until["a"], until);
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn a_lease_that_was_lost_is_not_tried_for_while_its_new_owner_is_seen() {
    for seen_by in [Call::Scan, Call::Write] {
        let mut world = World::holding_a();
        let other = if seen_by == Call::Scan { Call::Write } else { Call::Scan };
        world.fail_always(other, Fault::Throttled);
        world.table.steal("a", "other");
        world.pass(secs(6));
        assert_eq!(world.told, lost(Loss::Taken { by: Some("other".into()) }), "{seen_by:?}");
        assert!(world.changes().iter().all(|change| **change == LeaseChange::Renew), "{seen_by:?}");
        assert_eq!(world.coordinator.rows()["a"], *world.row("a"), "{seen_by:?}");
    }
}

#[test]
fn a_row_that_a_renewal_finds_deleted_is_created_anew_at_once() {
    let mut world = World::holding_a();
    world.table.rows.clear();
    world.pass(Duration::from_millis(3_400));
    assert_eq!(world.told, [Told::Lost("a".into(), Loss::RowDeleted), Told::Gained("a".into())]);
}

#[test]
fn a_refused_checkpoint_leads_to_no_wake_up_of_its_own() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Throttled]);
    world.checkpoint("a", at(5));
    let wakeup = world.coordinator.grips["a"].next_wakeup(FAILOVER);
    assert_eq!(wakeup, Some(world.now + FAILOVER / 3), "the next renewal");
}
