//! What a list of shards tells, and which rows are created by it.

use kinesis_record::{HashKey, HashRange};

use super::harness::*;
use super::*;
use crate::store::Scan;
use crate::testing::{at, closed, complete_list, open, row};

fn taking(shard: Shard, start: u128, end: u128) -> Shard {
    Shard { hash_range: HashRange { start: HashKey(start), end: HashKey(end) }, ..shard }
}

#[test]
fn a_list_is_complete_if_its_open_shards_take_every_hash_key() {
    let (all, half) = (u128::MAX, u128::MAX / 2);
    let (left, right) = (|| taking(open("1", &[]), 0, half), || taking(open("2", &[]), half + 1, all));
    for (shards, is_complete) in [
        (vec![], false),
        (vec![left()], false),
        (vec![right()], false),
        (vec![left(), right()], true),
        (vec![taking(open("1", &[]), half + 1, all), taking(open("2", &[]), 0, half)], true),
        (vec![left(), taking(open("2", &[]), half + 2, all)], false),
        (vec![left(), taking(closed("2", &[]), half + 1, all)], false),
        (vec![open("0", &[]), left()], true),
        (vec![left(), taking(open("3", &[]), 5, 9), right()], true),
    ] {
        assert_eq!(ShardList::complete(shards.clone()).is_ok(), is_complete, "{shards:?}");
    }
}

#[test]
fn nothing_is_concluded_from_a_list_with_a_hole() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![closed("a", &[])];
    world.pass(secs(20));
    assert!(world.created.is_empty());
    assert!(world.count(Call::List) > 4, "it is asked for again");
    assert!(world.coordinator.listed(world.now, Ok(vec![])).is_err());
}

#[test]
fn what_the_row_of_an_unlisted_child_waits_for_is_created_whole() {
    let rows = [row("3", &["2"], Checkpoint::TrimHorizon)].map(|row| (row.shard.clone(), row)).into();
    let missing = lineage::missing_leases(&rows, &complete_list([open("2", &[])]), &Checkpoint::Latest);
    assert_eq!(missing, [NewLease::new(crate::testing::child("2", &[]), Checkpoint::TrimHorizon)]);
}

#[test]
fn a_closed_shard_without_relatives_in_a_table_in_use_is_read_whole() {
    let rows = [row("1", &[], at(1))].map(|row| (row.shard.clone(), row)).into();
    let list = complete_list([open("1", &[]), closed("7", &[])]);
    let missing = lineage::missing_leases(&rows, &list, &Checkpoint::Latest);
    assert_eq!(missing, [NewLease::new(crate::testing::child("7", &[]), Checkpoint::TrimHorizon)]);
}

#[test]
fn a_shard_that_is_to_be_read_from_an_instant_has_not_begun() {
    let list = complete_list([closed("1", &[]), open("2", &["1"])]);
    let child = row("2", &["1"], Checkpoint::AtTimestamp);
    assert!(!lineage::may_start(&child, &Rows::new(), &list), "the row of its parent may still be created");
}

fn creations(world: &World) -> Vec<&str> {
    let shards = world.coordinator.effects.iter().filter_map(|effect| match effect {
        Effect::Create(new) => Some(new.shard.as_str()),
        _ => None,
    });
    shards.collect()
}

/// The row of `a` is being created, that of its child `b` waits for it.
fn creating_a() -> World {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.coordinator.tick(world.now);
    world.inside().effects.clear();
    world.stream = vec![closed("a", &[]), open("b", &["a"])];
    world.coordinator.scanned(world.now, Ok(Scan::default()));
    world.coordinator.listed(world.now, Ok(world.stream.clone())).unwrap();
    assert_eq!(creations(&world), ["a"]);
    world
}

#[test]
fn another_list_while_a_row_is_being_created_leads_to_no_second_creation_and_none_of_its_children() {
    let mut world = creating_a();
    world.coordinator.listed(world.now, Ok(world.stream.clone())).unwrap();
    assert_eq!(creations(&world), ["a"]);
    let new = NewLease::new(crate::testing::child("c", &[]), Checkpoint::TrimHorizon);
    assert!(world.inside().creation.ask(Duration::ZERO, &new).is_some());
    assert!(world.inside().creation.ask(Duration::ZERO, &new).is_none());
}

#[test]
fn the_rows_that_wait_are_not_created_after_taking_was_stopped() {
    let mut world = creating_a();
    world.coordinator.stop_taking(world.now);
    world.inside().effects.clear();
    let new = NewLease::new(crate::testing::child("a", &[]), Checkpoint::TrimHorizon);
    world.coordinator.created(world.now, new, Ok(crate::store::Created::New));
    assert_eq!(creations(&world), Vec::<&str>::new());
}
