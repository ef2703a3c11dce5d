//! Reports to the leader of a KCL 3.x fleet, and what it is left to do.

use super::harness::*;
use super::*;
use crate::store::{LeaderPulse, Reported, Scan};
use crate::testing::open;

fn pulse(version: &str) -> Reported {
    let version = version.to_owned();
    Reported::Stored(Some(LeaderPulse { version, valid_for: secs(120) }))
}

/// A worker `me` with one lease, beside a KCL worker with five.
fn beside_the_kcl(reported: Reported) -> World {
    beside_the_kcl_with("a", reported)
}

/// The lease `free` is unowned at first.
fn beside_the_kcl_with(free: &str, reported: Reported) -> World {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.reported = reported;
    fill(&mut world, free);
    world
}

fn fill(world: &mut World, free: &str) {
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
fn a_worker_reports_once_it_has_seen_the_table_and_each_half_minute_from_then_on() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.reported = pulse("1");
    world.fail_next(Call::Scan, &[Fault::Throttled]);
    world.start();
    assert!(world.reports.is_empty());
    world.pass(secs(331));
    assert!((10..=13).contains(&world.reports.len()), "{:?}", world.reports);
    assert!(world.reports.iter().all(|wants_leases| *wants_leases));
}

#[test]
fn it_is_rarely_tried_whether_refused_reports_are_allowed() {
    for (fault, expected) in [(None, 18..=23), (Some(Fault::Denied), 5..=7)] {
        let mut world = World::new(Checkpoint::TrimHorizon);
        fault.into_iter().for_each(|fault| world.fail_always(Call::Report, fault));
        world.start();
        world.pass(secs(600));
        assert!(expected.contains(&world.reports.len()), "{:?}", world.reports);
    }
}

#[test]
fn a_report_that_fails_is_soon_made_again() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.reported = pulse("1");
    world.fail_next(Call::Report, &[Fault::Throttled, Fault::LostReply]);
    world.start();
    world.pass(secs(5));
    assert_eq!(world.reports.len(), 3);
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
fn a_report_that_fails_and_a_lock_that_changes_hands_say_nothing_against_the_leader() {
    let mut world = beside_the_kcl(pulse("1"));
    for (version, fault) in [(2, Fault::Throttled), (3, Fault::LostReply), (4, Fault::LostRequest)] {
        world.fail_next(Call::Report, &[fault; 3]);
        others_renew(&mut world, secs(30));
        world.reported = Reported::Stored(None);
        others_renew(&mut world, secs(30));
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
fn a_leader_that_cannot_be_asked_for_is_waited_for_in_vain_for_two_minutes() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.fail_always(Call::Report, Fault::Throttled);
    fill(&mut world, "a");
    others_renew(&mut world, secs(110));
    assert_eq!(world.held(), ["a"]);
    others_renew(&mut world, secs(60));
    assert_eq!(world.held().len(), 3);
}

#[test]
fn leases_are_moved_once_the_leader_shows_itself_no_more() {
    let mut world = beside_the_kcl(pulse("1"));
    others_renew(&mut world, secs(110));
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
fn a_leader_that_may_not_be_reported_to_does_not_count() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.fail_always(Call::Report, Fault::Denied);
    fill(&mut world, "a");
    others_renew(&mut world, secs(60));
    assert_eq!(world.held().len(), 3);
}

#[test]
fn a_worker_that_may_not_report_any_more_takes_back_what_it_reported() {
    let mut world = beside_the_kcl(pulse("1"));
    world.forget();
    world.fail_always(Call::Report, Fault::Denied);
    others_renew(&mut world, secs(60));
    assert_eq!(world.told, [Told::Retire]);
}

#[test]
fn a_worker_with_all_the_leases_that_it_may_have_is_reported_no_more_and_still_led() {
    let mut world = beside_the_kcl(pulse("1"));
    world.coordinator.settings.max_leases = 1;
    world.forget();
    world.reports.clear();
    world.pass(secs(6));
    assert_eq!((world.told.as_slice(), world.reports.len()), ([Told::Retire].as_slice(), 0));
    for version in 2..6 {
        world.reported = pulse(&version.to_string());
        others_renew(&mut world, secs(30));
    }
    assert!(!world.reports.is_empty() && world.reports.iter().all(|wants_leases| !wants_leases));
    assert_eq!(world.told, [Told::Retire], "once");
    world.reports.clear();
    world.coordinator.settings.max_leases = 7;
    others_renew(&mut world, secs(60));
    assert!(world.reports.iter().any(|wants_leases| *wants_leases));
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn a_worker_that_stops_takes_its_report_back() {
    let mut world = beside_the_kcl(pulse("1"));
    world.coordinator.stop_taking(world.now);
    assert!(!world.coordinator.is_empty_handed());
    world.drain();
    assert!(world.told.contains(&Told::Retire));
    world.forget();
    world.reports.clear();
    world.pass(secs(120));
    assert_eq!((world.reports.len(), world.told.len()), (0, 0));
}

#[test]
fn a_report_that_is_under_way_at_a_stop_is_taken_back_when_it_has_ended() {
    for fault in [None, Some(Fault::LostReply)] {
        let mut world = World::new(Checkpoint::TrimHorizon);
        world.coordinator.tick(world.now);
        world.coordinator.scanned(world.now, Ok(Scan::default()));
        world.coordinator.tick(world.now);
        world.coordinator.stop_taking(world.now);
        assert!(!world.coordinator.is_empty_handed());
        world.reported = pulse("1");
        fault.into_iter().for_each(|fault| world.fail_next(Call::Report, &[fault]));
        world.drain();
        assert_eq!(
            (world.told.as_slice(), world.coordinator.is_empty_handed()),
            ([Told::Retire].as_slice(), true)
        );
    }
}

#[test]
fn a_worker_that_nobody_was_told_of_takes_nothing_back() {
    let mut world = World::holding_a();
    world.coordinator.stop_taking(world.now);
    world.drain();
    assert_eq!(world.told, []);
}
