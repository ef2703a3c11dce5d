//! The end of a shard.

use super::harness::*;
use super::*;
use crate::testing::{at, child, closed, open};

fn children() -> Vec<ChildShard> {
    vec![child("b", &["a"]), child("c", &["a"])]
}

#[test]
fn the_children_are_created_and_started_with_the_end_of_their_parent() {
    let mut world = World::holding_a();
    let request = world.end("a", children());
    assert_eq!(world.answers[&request], Ok(()));
    let parent = world.row("a");
    assert!(parent.is_finished());
    assert_eq!(parent.children, ["b".into(), "c".into()]);
    assert_eq!(parent.owner, Some("me".into()), "the row is kept as it is");
    for child in ["b", "c"] {
        let row = world.row(child);
        assert_eq!(row.checkpoint, Checkpoint::TrimHorizon);
        assert_eq!(row.parents, ["a".into()]);
        assert!(row.hash_range.is_some());
    }
    assert_eq!(world.held(), ["b", "c"]);
}

#[test]
fn the_children_of_a_stream_read_from_an_instant_are_read_from_it_too() {
    for (initial, expected) in
        [(Checkpoint::Latest, Checkpoint::TrimHorizon), (Checkpoint::AtTimestamp, Checkpoint::AtTimestamp)]
    {
        let mut world = World::new(initial);
        world.stream = vec![open("a", &[])];
        world.start();
        world.end("a", children());
        assert_eq!(world.row("b").checkpoint, expected);
    }
}

#[test]
fn the_end_is_stored_after_the_rows_of_the_children() {
    let mut world = World::holding_a();
    world.fail_always(Call::Create, Fault::Throttled);
    let request = world.end("a", children());
    world.pass(secs(30));
    assert!(!world.answers.contains_key(&request));
    assert!(world.changes().iter().all(|change| **change == LeaseChange::Renew));
    assert_eq!(world.writes.len(), 9, "the lease is renewed meanwhile");
    assert!((6..=12).contains(&world.created.len()), "{}", world.created.len());
    world.heal();
    world.pass(secs(12));
    assert_eq!(world.answers[&request], Ok(()));
    assert_eq!(world.held(), ["b", "c"]);
}

#[test]
fn a_childs_row_that_was_there_already_is_good() {
    let mut world = World::holding_a();
    world.table.rows.insert("b".into(), crate::testing::owned("b", "other", 3));
    world.end("a", children());
    assert!(world.row("a").is_finished());
    assert_eq!(world.row("b").counter, 3);
    assert_eq!(world.held(), ["c"]);
}

#[test]
fn a_childs_row_whose_creation_got_no_reply_is_created_again() {
    for fault in [Fault::LostRequest, Fault::LostReply] {
        let mut world = World::holding_a();
        world.fail_next(Call::Create, &[fault]);
        let request = world.end("a", children());
        world.pass(secs(2));
        assert_eq!(world.answers[&request], Ok(()), "{fault:?}");
        world.pass(secs(6));
        assert_eq!(world.held(), ["b", "c"], "{fault:?}");
    }
}

#[test]
fn an_end_without_children_is_stored_at_once() {
    let mut world = World::holding_a();
    let request = world.end("a", vec![]);
    assert_eq!(world.answers[&request], Ok(()));
    assert!(world.row("a").is_finished());
}

#[test]
fn a_checkpoint_at_the_end_of_the_shard_ends_it() {
    let mut world = World::holding_a();
    let request = world.checkpoint("a", Checkpoint::ShardEnd);
    assert_eq!(world.answers[&request], Ok(()));
    assert!(world.row("a").is_finished());
    assert!(world.coordinator.is_empty_handed());
}

#[test]
fn the_end_is_final() {
    let mut world = World::holding_a();
    world.stream = vec![closed("a", &[]), open("b", &["a"])];
    world.end("a", vec![child("b", &["a"])]);
    world.pass(secs(100));
    assert_eq!(world.told, [Told::Gained("b".into())], "neither lost nor gained again");
    assert_eq!(world.row("a").counter, 2);
}

#[test]
fn the_end_waits_for_the_checkpoint_before_it_and_refuses_what_comes_after() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld, Fault::Withheld]);
    let before = world.checkpoint("a", at(1));
    let end = world.end("a", vec![]);
    world.answer_withheld();
    let after = [world.checkpoint("a", at(3)), world.end("a", vec![]), world.release("a")];
    world.answer_withheld();
    assert_eq!((&world.answers[&before], &world.answers[&end]), (&Ok(()), &Ok(())));
    assert!(after.iter().all(|request| world.answers[request] == Err(RequestError::NotHeld)));
    world.assert_all_answered();
}

#[test]
fn a_release_does_not_wait_for_an_end_whose_children_cannot_be_created() {
    let mut world = World::holding_a();
    world.fail_always(Call::Create, Fault::Denied);
    let end = world.end("a", children());
    world.coordinator.stop_taking(world.now);
    let release = world.release("a");
    world.pass(secs(2));
    assert_eq!(world.answers[&release], Ok(()));
    assert_eq!(world.answers[&end], Err(RequestError::NotHeld));
    assert_eq!(world.row("a").owner, None);
    assert!(!world.row("a").is_finished());
}

#[test]
fn the_end_goes_on_after_taking_was_stopped() {
    let mut world = World::holding_a();
    world.coordinator.stop_taking(world.now);
    let request = world.end("a", children());
    assert_eq!(world.answers[&request], Ok(()));
    assert_eq!(world.table.rows.len(), 3);
    assert!(world.held().is_empty());
    assert_eq!((world.row("b").counter, world.row("c").counter), (0, 0));
}

#[test]
fn a_merged_shards_row_waits_for_the_row_of_the_other_parent() {
    let mut world = World::new(Checkpoint::Latest);
    world.stream = vec![open("a", &[])];
    world.start();
    world.checkpoint("a", at(1));
    let end = world.end("a", vec![child("c", &["a", "b"])]);
    world.pass(secs(2));
    assert!(!world.answers.contains_key(&end), "a KCL worker would start c at once");
    assert!(!world.table.rows.contains_key("c"));
    world.stream = vec![closed("a", &[]), closed("b", &[]), open("c", &["a", "b"])];
    world.pass(secs(2));
    assert_eq!(world.answers[&end], Ok(()));
    assert_eq!(world.created, ["a", "b", "c"].map(ShardId::from));
    assert_eq!(world.held(), ["b"]);
    assert!(world.row("b").checkpoint <= Checkpoint::TrimHorizon);
    world.end("b", vec![child("c", &["a", "b"])]);
    assert_eq!(world.held(), ["c"]);
}

#[test]
fn two_parents_that_end_at_once_make_one_child() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = ["a", "b"].map(|shard| open(shard, &[])).into();
    world.start();
    world.end("a", vec![child("c", &["a", "b"])]);
    assert_eq!(world.held(), ["b"]);
    world.end("b", vec![child("c", &["a", "b"])]);
    assert_eq!(world.held(), ["c"]);
    assert_eq!(world.created.iter().filter(|created| created.as_str() == "c").count(), 1);
}

#[test]
fn an_end_refused_by_the_table_after_a_failed_creation_can_be_tried_again() {
    let mut world = World::holding_a();
    world.fail_next(Call::Create, &[Fault::LostReply]);
    let request = world.end("a", vec![child("b", &["a"])]);
    world.hasten_scan();
    world.pass(Duration::ZERO);
    world.fail_next(Call::Write, &[Fault::Throttled]);
    world.checkpoint("a", at(3));
    assert!(world.answers[&request].is_err());
    world.pass(secs(5));
    assert_eq!(world.row("a").checkpoint, at(3));
    let request = world.end("a", vec![child("b", &["a"])]);
    assert_eq!(world.answers[&request], Ok(()));
    world.assert_all_answered();
}

#[test]
fn the_shards_are_listed_at_once_after_the_end_of_one() {
    let mut world = World::holding_a();
    world.stream = vec![closed("a", &[]), open("b", &["a"])];
    world.end("a", vec![]);
    world.pass(Duration::ZERO);
    assert_eq!(world.held(), ["b"], "which the end did not name");
}

#[test]
fn a_merged_shards_row_is_tried_again_each_tenth_of_the_failover_time() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.start();
    let end = world.end("a", vec![child("c", &["a", "b"])]);
    world.pass(Duration::from_millis(1_500));
    assert!(!world.answers.contains_key(&end));
    world.table.rows.insert("b".into(), crate::testing::owned("b", "other", 3));
    world.hasten_scan();
    world.pass(secs(1));
    assert_eq!(world.answers[&end], Ok(()));
}

#[test]
fn an_end_that_waits_for_rows_does_not_wake_up_in_vain() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Throttled]);
    world.checkpoint("a", at(1));
    world.fail_always(Call::Create, Fault::Throttled);
    world.end("a", children());
    world.pass(secs(5));
    world.heal();
    world.now += secs(3);
    world.coordinator.tick(world.now);
    assert!(matches!(world.coordinator.effects[0], Effect::Create(_)));
    assert!(world.coordinator.next_wakeup() > Some(world.now), "before the answer there is nothing to do");
}

#[test]
fn an_end_of_a_former_acquisition_does_not_touch_what_this_one_waits_for() {
    let mut world = World::holding_a();
    let former = world.acquisition("a");
    world.release("a");
    world.pass(secs(6));
    world.fail_always(Call::Create, Fault::Throttled);
    let end = world.end("a", children());
    world.coordinator.end(world.now, &"a".into(), former, vec![]);
    world.pass(secs(5));
    assert!(!world.answers.contains_key(&end) && !world.row("a").is_finished());
}
