//! Writes whose reply was lost.

use super::harness::*;
use super::*;
use crate::store::{Scan, Written};
use crate::testing::{at, child, open};

const LOST: [Fault; 3] = [Fault::LostRequest, Fault::LostReply, Fault::Late];

/// What the next write goes through until it is known to be applied.
fn settle(world: &mut World) {
    world.pass(Duration::from_millis(1));
    world.deliver_late();
    world.pass(secs(1));
}

#[test]
fn a_take_whose_reply_was_lost_succeeds_in_the_end() {
    for fault in LOST {
        let mut world = World::new(Checkpoint::TrimHorizon);
        world.stream = vec![open("a", &[])];
        world.fail_next(Call::Write, &[fault]);
        world.start();
        world.deliver_late();
        world.pass(secs(12));
        assert_eq!(world.gained(), ["a"], "{fault:?}");
        assert_eq!(world.row("a").owner, Some("me".into()), "{fault:?}");
    }
}

#[test]
fn a_take_whose_reply_was_lost_is_not_believed_before_the_row_shows_it() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.fail_always(Call::LookUp, Fault::Throttled);
    world.pass(secs(1));
    assert!(world.held().is_empty());
    world.heal();
    world.pass(secs(1));
    assert_eq!(world.held(), ["a"]);
    assert_eq!(world.valid_until["a"], secs(9), "counted from when it was asked for");
}

#[test]
fn a_take_that_another_worker_beat_is_no_loss() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), crate::testing::row("a", &[], at(1)));
    world.fail_next(Call::Write, &[Fault::LostRequest]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    world.start();
    world.table.steal("a", "other");
    world.pass(secs(5));
    assert!(world.told.is_empty());
    assert!(world.coordinator.is_empty_handed());
}

#[test]
fn a_renewal_whose_reply_was_lost_keeps_the_lease() {
    for fault in LOST {
        let mut world = World::holding_a();
        world.fail_next(Call::Write, &[fault]);
        world.pass(Duration::from_millis(3_400));
        settle(&mut world);
        world.pass(secs(60));
        assert!(world.told.is_empty(), "{fault:?}");
    }
}

#[test]
fn a_renewal_that_was_applied_late_counts_from_its_first_try() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Late]);
    world.pass(Duration::from_millis(3_400));
    assert_eq!(world.count(Call::LookUp), 1, "the row does not show it yet");
    let first_try = world.writes[0].0;
    world.deliver_late();
    world.pass(secs(1));
    assert_eq!(world.writes.len(), 2);
    assert_eq!(world.valid_until["a"], first_try + secs(9), "others may have seen it since then");
}

#[test]
fn a_renewal_whose_replies_were_lost_twice_counts_from_its_first_try() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Late, Fault::LostRequest]);
    world.pass(Duration::from_millis(3_400));
    let first_try = world.writes[0].0;
    world.deliver_late();
    world.fail_next(Call::Write, &[Fault::Throttled]);
    world.pass(Duration::from_millis(500));
    assert_eq!(world.count(Call::LookUp), 2);
    assert_eq!(world.valid_until["a"], first_try + secs(9));
}

#[test]
fn a_renewal_that_was_tried_again_with_success_counts_from_the_second_try() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::LostRequest]);
    world.pass(secs(4));
    assert_eq!(world.writes.len(), 2);
    assert_eq!(world.valid_until["a"], world.writes[1].0 + secs(9));
}

#[test]
fn a_checkpoint_whose_reply_was_lost_is_stored_once() {
    for fault in LOST {
        let mut world = World::holding_a();
        world.fail_next(Call::Write, &[fault]);
        let request = world.checkpoint("a", at(5));
        settle(&mut world);
        assert_eq!(world.answers[&request], Ok(()), "{fault:?}");
        assert_eq!((world.row("a").checkpoint.clone(), world.row("a").counter), (at(5), 2), "{fault:?}");
        assert!(world.told.is_empty(), "{fault:?}");
    }
}

#[test]
fn a_checkpoint_behind_a_renewal_that_was_applied_late_is_stored() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Late]);
    world.pass(Duration::from_millis(3_400));
    let request = world.checkpoint("a", at(5));
    world.deliver_late();
    world.pass(secs(2));
    assert_eq!(world.answers[&request], Ok(()));
    assert_eq!((world.row("a").checkpoint.clone(), world.row("a").counter), (at(5), 3));
}

#[test]
fn an_undecided_checkpoint_is_not_called_a_failure_by_a_throttled_retry() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Late, Fault::Throttled]);
    let request = world.checkpoint("a", at(5));
    world.pass(Duration::from_millis(600));
    assert_eq!(world.writes.len(), 2);
    assert!(!world.answers.contains_key(&request));
    world.pass(secs(1));
    assert_eq!(world.answers[&request], Ok(()));
}

#[test]
fn an_end_whose_reply_was_lost_is_stored() {
    for fault in LOST {
        let mut world = World::holding_a();
        world.fail_next(Call::Write, &[fault]);
        let request = world.end("a", vec![child("b", &["a"])]);
        settle(&mut world);
        assert_eq!(world.answers[&request], Ok(()), "{fault:?}");
        assert!(world.row("a").is_finished(), "{fault:?}");
        assert_eq!(world.row("a").counter, 2, "{fault:?} is stored once");
        assert_eq!(world.held(), ["b"], "{fault:?}");
    }
}

#[test]
fn a_release_whose_reply_was_lost_is_done() {
    for fault in LOST {
        let mut world = World::holding_a();
        world.coordinator.stop_taking(world.now);
        world.fail_next(Call::Write, &[fault]);
        let request = world.release("a");
        settle(&mut world);
        assert_eq!(world.answers[&request], Ok(()), "{fault:?}");
        assert_eq!(world.row("a").owner, None, "{fault:?}");
        assert!(world.told.is_empty(), "{fault:?}");
    }
}

#[test]
fn a_hand_over_whose_reply_was_lost_is_done() {
    for fault in LOST {
        let mut world = World::holding_a();
        world.table.promise("a", "next");
        world.pass(secs(6));
        world.fail_next(Call::Write, &[fault]);
        let request = world.release("a");
        settle(&mut world);
        assert_eq!(world.answers[&request], Ok(()), "{fault:?}");
        let row = world.row("a");
        assert_eq!(
            (row.owner.clone(), row.checkpoint_owner.clone()),
            (Some("next".into()), None),
            "{fault:?}"
        );
    }
}

#[test]
fn a_condition_that_fails_for_no_reason_costs_nothing() {
    for fault in [Fault::Spurious, Fault::SpuriousWithRow] {
        let mut world = World::holding_a();
        world.fail_next(Call::Write, &[fault]);
        let request = world.checkpoint("a", at(5));
        world.pass(secs(1));
        assert_eq!(world.answers[&request], Ok(()), "{fault:?}");
        assert!(world.told.is_empty(), "{fault:?}");
    }
}

#[test]
fn a_look_up_does_not_change_the_order_of_what_waits() {
    for undecided in ["a checkpoint", "a renewal"] {
        let mut world = World::holding_a();
        world.fail_next(Call::Write, &[Fault::LostRequest]);
        world.fail_next(Call::LookUp, &[Fault::Throttled]);
        if undecided == "a renewal" {
            world.pass(Duration::from_millis(3_400));
        }
        let requests = [world.checkpoint("a", at(1)), world.checkpoint("a", at(2)), world.end("a", vec![])];
        assert_eq!(world.writes.len(), 1);
        world.pass(secs(2));
        assert!(requests.iter().all(|request| world.answers[request] == Ok(())), "{undecided}");
    }
}

#[test]
fn while_the_row_cannot_be_read_the_lease_runs_out_in_time() {
    let mut world = World::holding_a();
    world.fail_always(Call::Write, Fault::LostReply);
    world.fail_always(Call::LookUp, Fault::Throttled);
    let request = world.checkpoint("a", at(5));
    world.pass(secs(9));
    assert_eq!(world.told, [Told::Lost("a".into(), Loss::Expired)]);
    assert_eq!(world.answers[&request], Err(RequestError::NotHeld));
    assert!((5..=7).contains(&world.count(Call::LookUp)), "{}", world.count(Call::LookUp));
}

#[test]
fn a_row_deleted_while_a_write_is_undecided_loses_the_lease() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    let request = world.checkpoint("a", at(5));
    world.table.rows.clear();
    world.pass(secs(1));
    assert_eq!(world.told[0], Told::Lost("a".into(), Loss::RowDeleted));
    assert_eq!(world.answers[&request], Err(RequestError::NotHeld));
}

#[test]
fn a_row_that_cannot_be_read_is_read_again_after_longer_and_longer_pauses() {
    let mut world = World::holding_a();
    world.fail_always(Call::Write, Fault::LostReply);
    world.fail_always(Call::LookUp, Fault::Throttled);
    world.checkpoint("a", at(5));
    for (millis, count) in
        [(0, 1), (499, 1), (500, 2), (1_499, 2), (1_500, 3), (3_500, 4), (5_999, 4), (6_000, 5)]
    {
        world.pass(Duration::from_millis(millis) - world.now);
        assert_eq!(world.count(Call::LookUp), count, "{millis}");
    }
}

#[test]
fn after_a_row_was_read_the_pauses_are_short_again() {
    let mut world = World::holding_a();
    for sequence in 1..4 {
        world.fail_next(Call::Write, &[Fault::LostReply]);
        world.fail_next(Call::LookUp, &[Fault::Throttled, Fault::Throttled]);
        let request = world.checkpoint("a", at(sequence));
        world.pass(Duration::from_millis(1_500));
        assert_eq!(world.answers[&request], Ok(()));
    }
}

#[test]
fn a_request_does_not_hasten_the_next_look_at_a_row_that_cannot_be_read() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    let requests = [world.checkpoint("a", at(1)), world.checkpoint("a", at(2))];
    assert_eq!(world.count(Call::LookUp), 1);
    world.pass(secs(1));
    assert!(requests.iter().all(|request| world.answers[request] == Ok(())));
}

#[test]
fn a_refusal_is_answered_once_no_earlier_write_can_be_applied_any_more() {
    let refused = |world: &World, request| matches!(world.answers[request], Err(RequestError::Store(_)));
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::LostReply]);
    world.checkpoint("a", at(1));
    world.fail_next(Call::Write, &[Fault::Throttled]);
    let request = world.checkpoint("a", at(2));
    assert!(refused(&world, &request), "the earlier one was applied");

    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::LostRequest, Fault::Throttled]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    let request = world.checkpoint("a", at(1));
    world.table.edit("a", |row| row.counter += 1);
    world.pass(secs(2));
    assert!(refused(&world, &request), "the counter has moved");
}

#[test]
fn a_renewal_that_was_not_applied_gives_way_to_a_checkpoint() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::LostRequest]);
    world.fail_next(Call::LookUp, &[Fault::Throttled]);
    world.pass(Duration::from_millis(3_400));
    world.checkpoint("a", at(1));
    world.pass(secs(2));
    assert_eq!(world.changes(), [&LeaseChange::Renew, &LeaseChange::Checkpoint(at(1))]);
}

#[test]
fn answers_for_a_former_acquisition_say_nothing_of_this_one() {
    let mut world = World::holding_a();
    let former = world.acquisition("a");
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.pass(secs(9));
    world.fail_next(Call::Write, &[Fault::LostRequest]);
    world.fail_next(Call::LookUp, &[Fault::Throttled, Fault::Throttled]);
    world.forget();
    while world.writes.is_empty() {
        world.pass(Duration::from_millis(100));
    }
    world.answer_withheld();
    assert_eq!(world.gained(), Vec::<&str>::new(), "what was applied is an old renewal");
    world.pass(secs(8));
    assert_eq!(world.gained(), ["a"]);
    world.coordinator.looked_up(world.now, former, &"a".into(), Ok(None));
    world.drain();
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn what_was_written_is_known_though_the_table_does_not_show_the_row() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.checkpoint("a", at(5));
    let write = world.writes[0].1.clone();
    let acquisition = world.acquisition("a");
    world.coordinator.written(world.now, acquisition, write, Ok(Written::Applied(None)));
    world.drain();
    assert_eq!(world.coordinator.rows()["a"], *world.row("a"));
}

#[test]
fn what_waited_for_a_look_at_the_row_goes_on_at_once() {
    let mut world = World::holding_a();
    world.coordinator.scanned(world.now, Ok(Scan::default()));
    let acquisition = world.acquisition("a");
    let request = world.coordinator.checkpoint(world.now, &"a".into(), acquisition, at(5));
    assert!(world.coordinator.effects.iter().all(|effect| !matches!(effect, Effect::Write(..))));
    world.drain();
    assert_eq!(world.answers[&request], Ok(()));
}

#[test]
fn a_scan_does_not_meddle_with_a_write_that_is_under_way() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    world.coordinator.stop_sharing(world.now, Mode::Leaving);
    let request = world.release("a");
    world.hasten_scan();
    world.pass(Duration::ZERO);
    assert_eq!(world.row("a").owner, None, "which a scan shows");
    world.stale_scans.push_back(Vec::new());
    world.hasten_scan();
    world.pass(Duration::ZERO);
    assert_eq!((world.count(Call::Scan), world.count(Call::LookUp)), (2, 0));
    assert!(world.told.is_empty() && world.answers.is_empty());
    world.answer_withheld();
    assert_eq!(world.answers[&request], Ok(()));
}
