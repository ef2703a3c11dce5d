//! Rows that are there and cannot be read.

use super::harness::*;
use super::*;
use crate::testing::{at, closed, open, owned, row};

fn lost_from_sight(world: &World) -> bool {
    world.told.contains(&Told::Lost("a".into(), Loss::RowUnreadable))
}

#[test]
fn a_shard_whose_row_cannot_be_read_is_told_as_unread_after_twice_the_failover_time() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), row("a", &[], at(1)));
    world.unreadable.extend(["a".into(), "of no shard".into()]);
    world.pass(2 * FAILOVER - secs(1));
    assert_eq!(world.told, []);
    world.pass(FAILOVER);
    assert_eq!(world.told, [Told::Unread(vec!["a".into()])]);
    assert_eq!((world.created.len(), world.writes.len()), (0, 0), "the row is left alone");

    world.unreadable.clear();
    world.pass(FAILOVER);
    assert_eq!(world.held(), ["a"]);
    assert!(world.told.contains(&Told::Unread(vec![])));
    assert_eq!(world.row("a").checkpoint, at(1));
}

#[test]
fn a_held_lease_whose_row_becomes_unreadable_is_lost_once_and_not_taken_again() {
    for seen_by in [Call::Write, Call::Scan] {
        let mut world = World::holding_a();
        if seen_by == Call::Scan {
            world.fail_always(Call::Write, Fault::Throttled);
        }
        world.unreadable.insert("a".into());
        world.pass(secs(6));
        assert!(lost_from_sight(&world), "{seen_by:?}: {:?}", world.told);
        world.heal();
        let writes = world.writes.len();
        world.pass(10 * FAILOVER);
        assert_eq!(world.told.iter().filter(|told| matches!(told, Told::Lost(..))).count(), 1);
        assert_eq!(world.gained(), Vec::<&str>::new());
        assert_eq!((world.writes.len(), world.created.len()), (writes, 0), "{seen_by:?}");
        assert_eq!(world.told.last(), Some(&Told::Unread(vec!["a".into()])));
    }
}

#[test]
fn a_take_whose_reply_cannot_be_read_does_not_count_as_held() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), row("a", &[], at(1)));
    world.unreadable.insert("a".into());
    world.stale_scans.push_back(Vec::new());
    let now = world.now;
    world.coordinator.tick(now);
    world.coordinator.scanned(now, Ok(vec![row("a", &[], at(1))].into()));
    world.coordinator.listed(now, Ok(world.stream.clone())).unwrap();
    world.drain();
    assert_eq!(world.changes().len(), 1, "it was taken by what a scan had shown");
    assert!(world.held().is_empty() && world.coordinator.is_empty_handed());
    assert_eq!(world.told, []);
}

#[test]
fn an_unreadable_row_that_is_deleted_is_created_again_as_it_was() {
    let mut world = World::holding_a();
    world.checkpoint("a", at(5));
    world.unreadable.insert("a".into());
    world.pass(3 * FAILOVER);
    assert!(lost_from_sight(&world));
    world.table.rows.clear();
    world.unreadable.clear();
    world.pass(FAILOVER);
    assert_eq!(world.held(), ["a"]);
    assert_eq!(world.row("a").checkpoint, at(5));
}

#[test]
fn nothing_is_concluded_of_the_relatives_of_an_unreadable_row() {
    let mut world = World::new(Checkpoint::Latest);
    world.stream = vec![closed("p", &[]), open("c", &["p"]), closed("o", &[]), open("d", &["o"])];
    world.table.rows.insert("p".into(), row("p", &[], at(3)));
    world.table.rows.insert("d".into(), row("d", &["o"], Checkpoint::ShardEnd));
    world.unreadable.extend(["p".into(), "d".into()]);
    world.pass(3 * FAILOVER);
    assert_eq!(
        world.created,
        [ShardId::new("c")],
        "the child of a row is read whole, the ancestor of one is not wanted"
    );
    assert_eq!(world.row("c").checkpoint, Checkpoint::TrimHorizon);
    assert!(world.held().is_empty(), "the child waits for its parent");
}

#[test]
fn a_counter_at_its_greatest_stops_no_other_lease() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[])];
    world.table.rows.insert("a".into(), row("a", &[], at(1)));
    world.table.edit("a", |row| row.counter = i64::MAX - 1);
    world.start();
    assert_eq!(world.held(), ["a"]);
    assert_eq!(world.row("a").counter, i64::MAX);
    world.pass(3 * FAILOVER);
    assert_eq!(world.row("a").counter, i64::MAX, "it is raised no more");

    let mut dead = owned("a", "other", i64::MAX);
    dead.owner_switches = i64::MAX;
    world.table.rows.insert("a".into(), dead);
    world.pass(3 * FAILOVER);
}
