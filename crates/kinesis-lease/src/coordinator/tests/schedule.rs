//! When the table is scanned and the shards are listed.

use super::harness::*;
use super::*;

const INTERVAL: Duration = Duration::from_secs(5);

/// How long after `now` the call is due, in milliseconds.
fn pause(schedule: &Schedule, now: Duration) -> u128 {
    (schedule.due.unwrap() - now).as_millis()
}

#[test]
fn failures_are_followed_by_longer_and_longer_pauses_up_to_the_interval_and_a_success_by_the_interval() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut schedule = Schedule::at_once();
    for _ in 0..2 {
        for millis in [400, 800, 1_600, 3_200, 5_000, 5_000] {
            schedule.failed(secs(9), INTERVAL, &mut random);
            let pause = pause(&schedule, secs(9));
            assert!((millis * 9 / 10..=millis * 11 / 10).contains(&pause), "{pause} for {millis}");
        }
        schedule.succeeded(secs(9), INTERVAL, &mut random);
        assert!((4_500..=5_500).contains(&pause(&schedule, secs(9))));
    }
}

#[test]
fn workers_that_start_together_do_not_stay_together() {
    let mut random = fastrand::Rng::with_seed(7);
    let pauses: BTreeSet<u128> = (0..10)
        .map(|_| {
            let mut schedule = Schedule::at_once();
            schedule.succeeded(secs(0), INTERVAL, &mut random);
            pause(&schedule, secs(0))
        })
        .collect();
    assert!(pauses.len() > 1);
}

#[test]
fn a_call_is_hastened_but_not_put_off_and_not_made_twice_at_once() {
    let mut schedule = Schedule::at_once();
    schedule.hasten(secs(3));
    assert_eq!(schedule.due, Some(Duration::ZERO));
    schedule.due = Some(secs(9));
    schedule.hasten(secs(3));
    assert_eq!(schedule.due, Some(secs(3)));
    schedule.due = None;
    schedule.hasten(secs(3));
    assert_eq!(schedule.due, None, "it is under way");
}

#[test]
fn one_scan_one_list_and_one_report_are_under_way() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.inside().reporting = Schedule::at_once();
    world.coordinator.tick(world.now);
    world.coordinator.tick(world.now);
    let report = Effect::Report { wants_leases: true };
    assert_eq!(world.coordinator.effects, [Effect::Scan, Effect::ListShards, report]);
    assert_eq!(world.coordinator.next_wakeup(), None);
}
