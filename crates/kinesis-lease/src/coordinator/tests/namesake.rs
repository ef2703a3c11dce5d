//! Two processes under one worker id.

use super::harness::*;
use super::*;
use crate::lease::Lease;
use crate::testing::{open, owned};

fn beside(token: &str) -> World {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("a", &[]), open("b", &[])];
    for shard in ["a", "b"] {
        let row = Lease { token: Some(token.to_owned()), ..owned(shard, "me", 5) };
        world.table.rows.insert(shard.into(), row);
    }
    world
}

fn renewed_for(world: &mut World, scans: usize) -> usize {
    for _ in 0..scans {
        world.pass(FAILOVER / 2 + secs(1));
        ["a", "b"].into_iter().for_each(|shard| world.table.renew(shard));
    }
    world.pass(FAILOVER / 2 + secs(1));
    world.told.iter().filter(|told| matches!(told, Told::SharedName(_))).count()
}

#[test]
fn another_process_under_the_same_name_is_told_of_once() {
    let mut world = beside("me/another-life-1");
    assert_eq!(renewed_for(&mut world, 6), 1);
}

#[test]
fn what_a_former_life_did_before_it_died_is_not_taken_for_another_process() {
    let mut world = beside("me/former-life-1");
    assert_eq!(renewed_for(&mut world, 1), 0);
    world.pass(3 * FAILOVER);
    assert_eq!(world.held(), ["a", "b"]);
    assert!(!world.told.iter().any(|told| matches!(told, Told::SharedName(_))));
}

#[test]
fn leases_of_other_names_and_of_the_kcl_are_no_namesakes() {
    for (owner, token) in [("other", "other/life-1"), ("me", "somebody/life-1"), ("me", "me/given")] {
        let mut world = beside(token);
        world.table.edit("a", |row| row.owner = Some(owner.into()));
        world.table.edit("b", |row| row.owner = Some(owner.into()));
        assert_eq!(renewed_for(&mut world, 6), 0, "{owner} {token}");
    }
}
