//! Reports to the leader of a KCL 3.x fleet, and what it is left to do.

use super::harness::*;
use super::*;
use crate::store::{LeaderPulse, Reported};
use crate::testing::open;

fn pulse(version: &str) -> Reported {
    Reported::Stored(Some(LeaderPulse(version.to_owned())))
}

/// A worker `me` with one lease, beside a KCL worker with five.
fn beside_the_kcl(reported: Reported) -> World {
    beside_the_kcl_with("a", reported)
}

/// The lease `free` is unowned at first.
fn beside_the_kcl_with(free: &str, reported: Reported) -> World {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.reported = reported;
    world.stream = ["a", "b", "c", "d", "e", "f"].map(|shard| open(shard, &[])).into();
    for shard in world.stream.clone() {
        world.table.create(&NewLease::new((&shard).into(), Checkpoint::TrimHorizon));
        let row = world.table.rows.get_mut(&shard.id).unwrap();
        row.owner = (shard.id.as_str() != free).then(|| "kcl".into());
    }
    // So that the first scan finds the shards listed.
    world.fail_next(Call::Scan, &[Fault::Throttled]);
    world.start();
    world.pass(secs(1));
    world
}

fn others_renew(world: &mut World, time: Duration) {
    for _ in 0..time.as_secs() / 3 {
        world.pass(secs(3));
        for row in world.table.rows.values_mut().filter(|row| row.owner == Some("kcl".into())) {
            row.counter += 1;
        }
    }
}

#[test]
fn a_worker_reports_at_once_and_each_half_minute() {
    let mut world = World::holding_a();
    assert_eq!(world.count(Call::Report), 0);
    world = World::new(Checkpoint::TrimHorizon);
    world.start();
    assert_eq!(world.count(Call::Report), 1);
    world.pass(secs(330));
    assert!((10..=13).contains(&world.count(Call::Report)), "{}", world.count(Call::Report));
}

#[test]
fn a_report_that_fails_is_made_again_with_the_next_and_not_sooner() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.fail_always(Call::Report, Fault::Denied);
    world.start();
    world.pass(secs(330));
    assert!((10..=13).contains(&world.count(Call::Report)), "{}", world.count(Call::Report));
}

#[test]
fn nothing_is_moved_while_a_leader_lives_and_free_leases_are_taken() {
    let mut world = beside_the_kcl(pulse("1"));
    for version in 0..10 {
        world.reported = pulse(&version.to_string());
        others_renew(&mut world, secs(30));
    }
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn nothing_is_moved_before_it_is_known_whether_there_is_a_leader() {
    let mut world = beside_the_kcl_with("", pulse("1"));
    others_renew(&mut world, secs(60));
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn leases_are_moved_once_the_leader_shows_itself_no_more() {
    let mut world = beside_the_kcl(pulse("1"));
    others_renew(&mut world, secs(80));
    assert_eq!(world.held(), ["a"]);
    others_renew(&mut world, secs(60));
    assert_eq!(world.held().len(), 3);
}

#[test]
fn leases_are_moved_where_nobody_leads() {
    for reported in [Reported::Unwanted, Reported::Stored(None)] {
        let mut world = beside_the_kcl(reported);
        others_renew(&mut world, secs(60));
        assert_eq!(world.held().len(), 3);
    }
}

#[test]
fn a_leader_that_cannot_be_reported_to_does_not_count() {
    let mut world = beside_the_kcl(pulse("1"));
    world.fail_always(Call::Report, Fault::Denied);
    others_renew(&mut world, secs(90));
    assert_eq!(world.held().len(), 3);
}

#[test]
fn a_worker_with_all_the_leases_that_it_may_have_is_reported_no_more_until_it_wants_some() {
    let mut world = beside_the_kcl(pulse("1"));
    world.coordinator.settings.max_leases = 1;
    world.forget();
    others_renew(&mut world, secs(120));
    assert_eq!((world.count(Call::Report), world.told.as_slice()), (0, [Told::Retire].as_slice()));
    world.coordinator.settings.max_leases = 7;
    others_renew(&mut world, secs(60));
    assert_ne!(world.count(Call::Report), 0);
}

#[test]
fn a_worker_that_stops_takes_its_report_back() {
    let mut world = beside_the_kcl(pulse("1"));
    world.coordinator.stop_taking(world.now);
    world.drain();
    assert!(world.told.contains(&Told::Retire));
    world.forget();
    world.pass(secs(120));
    assert_eq!(world.count(Call::Report), 0);
}

#[test]
fn a_worker_that_nobody_was_told_of_takes_nothing_back() {
    let mut world = World::holding_a();
    world.coordinator.stop_taking(world.now);
    world.drain();
    assert_eq!(world.told, []);
}
