//! Rows of finished shards: when they are deleted, and when they are begun anew.

use super::harness::*;
use super::*;
use crate::lease::Lease;
use crate::testing::{at, child, closed, open, row};

/// `a` is open, and its row is that of another stream; `me` reads `b`, from `initial` on.
fn contradiction(initial: Checkpoint) -> World {
    let mut world = World::new(initial);
    world.stream = vec![open("a", &[]), open("b", &[])];
    world.table.rows.insert("a".into(), Lease { counter: 7, ..row("a", &[], Checkpoint::ShardEnd) });
    world.table.rows.insert("b".into(), row("b", &[], at(1)));
    world.start();
    assert_eq!(world.held(), ["b"]);
    world
}

fn is_told(world: &World) -> bool {
    world.told.contains(&Told::Contradicted("a".into()))
}

#[test]
fn an_open_shard_at_its_end_is_told_of_once_and_read_from_its_oldest_record_whatever_the_initial_position() {
    for initial in [Checkpoint::TrimHorizon, Checkpoint::Latest] {
        let mut world = contradiction(initial);
        world.pass(2 * FAILOVER - secs(1));
        assert!(!is_told(&world), "two lists are not enough");
        world.pass(secs(10));
        assert_eq!(world.told.iter().filter(|told| **told == Told::Contradicted("a".into())).count(), 1);
        assert_eq!(world.held(), ["a", "b"]);
        assert_eq!(
            (&world.row("a").checkpoint, world.row("a").counter > 7),
            (&Checkpoint::TrimHorizon, true)
        );
    }
}

#[test]
fn a_row_that_could_not_be_begun_anew_is_tried_again_and_never_gone() {
    for fault in [Fault::LostRequest, Fault::LostReply, Fault::Throttled] {
        let mut world = contradiction(Checkpoint::Latest);
        world.pass(2 * FAILOVER - secs(1));
        world.fail_always(Call::Write, fault);
        world.pass(secs(3));
        world.heal();
        world.pass(3 * FAILOVER);
        assert_eq!(world.held(), ["a", "b"], "{fault:?}");
        assert_eq!(world.row("a").checkpoint, Checkpoint::TrimHorizon, "{fault:?}");
    }
}

#[test]
fn lists_that_come_one_after_another_count_once_in_a_failover_time() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = ["a", "b", "c", "d"].map(|shard| open(shard, &[])).into();
    world.start();
    for shard in ["a", "b", "c", "d"] {
        world.end(shard, vec![child(&format!("{shard}1"), &[shard])]);
        world.pass(secs(1) / 5);
    }
    assert!(!is_told(&world) && world.row("a").is_finished(), "the list is behind the ends of the shards");
    let children = ["a", "b", "c", "d"].map(|shard| open(&format!("{shard}1"), &[shard]));
    world.stream = ["a", "b", "c", "d"].map(|shard| closed(shard, &[])).into_iter().chain(children).collect();
    world.pass(5 * FAILOVER);
    assert!(!is_told(&world) && world.row("a").is_finished());
}

#[test]
fn a_finished_row_that_names_children_is_doubted_for_longer() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    let children = vec!["a1".into()];
    world.table.rows.insert("a".into(), Lease { children, ..row("a", &[], Checkpoint::ShardEnd) });
    world.pass(10 * FAILOVER);
    assert!(!is_told(&world) && world.row("a").is_finished());
    world.pass(5 * FAILOVER);
    assert!(is_told(&world));
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn a_finished_row_is_deleted_when_its_children_have_begun_and_it_is_old() {
    let mut world = World::holding_a();
    world.stream = vec![closed("a", &[]), open("b", &["a"])];
    world.end("a", vec![child("b", &["a"])]);
    world.pass(secs(400));
    assert!(world.table.rows.contains_key("a"), "its child has not begun");
    world.checkpoint("b", at(5));
    world.pass(secs(100));
    assert!(!world.table.rows.contains_key("a"));
    world.pass(secs(400));
    assert!(!world.table.rows.contains_key("a"), "and stays so");
    assert_eq!(world.held(), ["b"]);
}

#[test]
fn a_row_that_cannot_be_deleted_is_tried_again() {
    let mut world = World::holding_a();
    world.stream = vec![closed("a", &[]), open("b", &["a"])];
    world.end("a", vec![child("b", &["a"])]);
    world.checkpoint("b", at(5));
    world.fail_next(Call::Delete, &[Fault::Throttled, Fault::LostRequest]);
    world.pass(secs(600));
    assert_eq!((world.count(Call::Delete), world.table.rows.contains_key("a")), (3, false));
}

#[test]
fn shards_that_may_not_be_taken_are_told_of_as_unread() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), row("a", &[], at(1)));
    world.fail_always(Call::Write, Fault::Denied);
    world.pass(4 * FAILOVER);
    assert_eq!(world.told, [Told::Unread(vec!["a".into()])]);
    world.heal();
    world.pass(FAILOVER);
    assert_eq!(world.held(), ["a"]);
    assert!(world.told.contains(&Told::Unread(Vec::new())));
}
