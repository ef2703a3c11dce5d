//! The first start, and rows that are missing.

use super::harness::*;
use super::*;
use crate::store::Scan;
use crate::testing::{at, child, closed, open, owned, row};

/// `a` was split into `b` and `c`, `c` and the first shard `d` were merged into `e`.
fn resharded() -> Vec<Shard> {
    vec![closed("a", &[]), open("b", &["a"]), closed("c", &["a"]), closed("d", &[]), open("e", &["c", "d"])]
}

#[test]
fn the_first_start_from_the_oldest_record_makes_a_row_for_every_shard_and_reads_the_first_ones() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = resharded();
    world.start();
    assert_eq!(world.table.rows.len(), 5);
    assert!(world.table.rows.values().all(|row| row.checkpoint == Checkpoint::TrimHorizon));
    assert_eq!(world.row("e").parents, ["c".into(), "d".into()]);
    assert_eq!(world.held(), ["a", "d"]);
}

#[test]
fn the_first_start_from_the_newest_record_reads_the_open_shards_alone() {
    let mut world = World::new(Checkpoint::Latest);
    world.stream = resharded();
    world.start();
    assert_eq!(world.held(), ["b", "e"]);
    assert_eq!(world.table.rows.len(), 2);
    assert!(world.table.rows.values().all(|row| row.checkpoint == Checkpoint::Latest));
    world.pass(secs(200));
    assert_eq!(world.created.len(), 2, "nothing before them is wanted later either");
}

#[test]
fn rows_of_a_first_start_that_may_exist_are_looked_for_before_others_are_taken_for_missing() {
    let others = || vec![row("b", &["a"], Checkpoint::Latest), row("e", &["c", "d"], Checkpoint::Latest)];
    for is_lost in [true, false] {
        let mut world = World::new(Checkpoint::Latest);
        world.stream = resharded();
        world.stream.push(open("f", &[]));
        if is_lost {
            world.fail_next(Call::Create, &[Fault::LostReply; 2]);
        } else {
            // Another worker creates them just after the scan.
            world.table.rows.extend(others().into_iter().map(|row| (row.shard.clone(), row)));
            world.stale_scans.push_back(Vec::new());
        }
        world.start();
        assert!(world.held().contains(&"f"), "its row is the one that is known");
        world.checkpoint("f", at(7));
        world.fail_next(Call::Scan, &[Fault::LostRequest; 2]);
        world.pass(secs(200));
        assert_eq!(world.held(), ["b", "e", "f"]);
        assert_eq!(world.table.rows.len(), 3, "nothing before them is wanted");
    }
}

#[test]
fn the_first_start_from_an_instant_makes_a_row_for_every_shard() {
    let mut world = World::new(Checkpoint::AtTimestamp);
    world.stream = resharded();
    world.start();
    assert_eq!(world.table.rows.len(), 5);
    assert!(world.table.rows.values().all(|row| row.checkpoint == Checkpoint::AtTimestamp));
    assert_eq!(world.held(), ["a", "d"]);
}

#[test]
fn a_first_start_that_broke_off_is_completed() {
    for (initial, existing, rows) in [
        (Checkpoint::TrimHorizon, "a", 5),
        (Checkpoint::AtTimestamp, "a", 5),
        (Checkpoint::Latest, "b", 2),
        (Checkpoint::Latest, "e", 2),
    ] {
        let mut world = World::new(initial.clone());
        world.stream = resharded();
        world.table.rows.insert(existing.into(), row(existing, &[], initial.clone()));
        world.start();
        assert_eq!(world.table.rows.len(), rows, "{initial} {existing}");
        assert!(world.table.rows.values().all(|row| row.checkpoint == initial), "{initial} {existing}");
    }
}

#[test]
fn nothing_is_created_before_both_the_table_and_the_stream_are_known() {
    for call in [Call::Scan, Call::List] {
        let mut world = World::new(Checkpoint::TrimHorizon);
        world.stream = vec![open("a", &[])];
        world.fail_always(call, Fault::Throttled);
        world.pass(secs(20));
        assert!(world.created.is_empty(), "{call:?}");
        assert!(world.count(call) > 4, "{call:?} is tried again and again");
        world.heal();
        world.pass(secs(10));
        assert_eq!(world.held(), ["a"], "{call:?}");
    }
}

#[test]
fn a_row_is_created_after_its_parents_rows() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = resharded();
    world.start();
    let position = |shard: &str| world.created.iter().position(|created| created.as_str() == shard);
    for (parent, child) in [("a", "b"), ("a", "c"), ("c", "e"), ("d", "e")] {
        assert!(position(parent) < position(child), "{parent} {child}");
    }
}

#[test]
fn a_parents_row_that_could_not_be_created_keeps_its_childrens_back() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![closed("a", &[]), open("b", &["a"]), closed("c", &[]), open("d", &["c"])];
    world.fail_next(Call::Create, &[Fault::Throttled]);
    world.start();
    assert_eq!(world.created, ["a", "c"].map(ShardId::from));
    world.pass(secs(2));
    assert_eq!(world.created, ["a", "c", "a", "b", "d"].map(ShardId::from));
}

#[test]
fn a_row_created_during_a_scan_is_remembered_although_the_scan_does_not_show_it() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.coordinator.settings.max_leases = 0;
    world.start();
    world.now = secs(6);
    world.coordinator.tick(world.now);
    let new = NewLease::new(child("a", &[]), Checkpoint::TrimHorizon);
    world.coordinator.created(world.now, new, Ok(crate::store::Created::New));
    world.coordinator.scanned(world.now, Ok(Scan::default()));
    assert!(world.coordinator.rows().contains_key("a"));
    world.now = secs(12);
    world.coordinator.tick(world.now);
    world.coordinator.scanned(world.now, Ok(Scan::default()));
    assert!(world.coordinator.rows().is_empty());
}

#[test]
fn a_row_whose_creation_got_no_reply_is_created_once() {
    for fault in [Fault::LostRequest, Fault::LostReply] {
        let mut world = World::new(Checkpoint::TrimHorizon);
        world.stream = vec![open("a", &[])];
        world.fail_next(Call::Create, &[fault]);
        world.pass(secs(10));
        assert_eq!(world.held(), ["a"], "{fault:?}");
    }
}

#[test]
fn a_row_that_another_worker_created_first_is_left_as_it_is_and_seen_soon() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), owned("a", "other", 3));
    world.stale_scans.push_back(Vec::new());
    world.start();
    assert_eq!(world.created, ["a".into()]);
    assert_eq!(world.count(Call::Scan), 2);
    assert_eq!(world.coordinator.rows()["a"].counter, 3);
    assert!(world.held().is_empty());
}

#[test]
fn a_shard_that_appears_is_read_from_its_oldest_record() {
    let mut world = World::new(Checkpoint::Latest);
    world.stream = vec![open("a", &[])];
    world.start();
    world.checkpoint("a", at(1));
    world.stream = vec![closed("a", &[]), open("b", &["a"]), open("c", &["a"])];
    world.pass(secs(70));
    assert_eq!(world.row("b").checkpoint, Checkpoint::TrimHorizon);
    assert_eq!(world.row("c").checkpoint, Checkpoint::TrimHorizon);
    assert_eq!(world.held(), ["a"], "its parent is not finished");
}

#[test]
fn a_finished_parent_that_was_cleaned_up_is_not_created_again() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![closed("a", &[]), open("b", &["a"])];
    world.table.rows.insert("b".into(), row("b", &["a"], at(5)));
    world.pass(secs(200));
    assert!(world.created.is_empty());
    assert_eq!(world.held(), ["b"]);
}

#[test]
fn shards_are_listed_again_after_each_interval() {
    let mut world = World::holding_a();
    world.pass(secs(600));
    assert!((9..=11).contains(&world.count(Call::List)), "{}", world.count(Call::List));
    assert!((105..=135).contains(&world.count(Call::Scan)), "{}", world.count(Call::Scan));
}
