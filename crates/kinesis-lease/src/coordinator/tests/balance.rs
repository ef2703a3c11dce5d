//! What is moved between live workers, and when.

use super::harness::*;
use super::*;
use crate::lease::{Lease, LeaseWrite};
use crate::testing::{Table, at, closed, open, owned, row};

/// A row that `owner` reads, a worker of this library.
pub(super) fn peers(shard: &str, owner: &str) -> Lease {
    Lease { token: Some(format!("{owner}/life-1")), ..owned(shard, owner, 5) }
}

pub(super) fn finished(lease: Lease) -> Lease {
    Lease { checkpoint: Checkpoint::ShardEnd, ..lease }
}

fn given_to_us(shard: &str) -> Lease {
    Lease { token: Some("me/given".into()), ..owned(shard, "me", 5) }
}

/// So many rows of the owner.
fn many(owner: &str, count: usize) -> Vec<Lease> {
    (0..count).map(|number| peers(&format!("{owner}-{number:02}"), owner)).collect()
}

pub(super) fn world_of(rows: impl IntoIterator<Item = Lease>) -> World {
    let mut world = World::new(Checkpoint::TrimHorizon);
    let rows: BTreeMap<ShardId, Lease> = rows.into_iter().map(|row| (row.shard.clone(), row)).collect();
    let shard = |row: &Lease| {
        if row.is_finished() { closed(row.shard.as_str(), &[]) } else { open(row.shard.as_str(), &[]) }
    };
    world.stream = rows.values().map(shard).collect();
    world.table = Table { rows };
    world
}

/// Time goes by, and all others renew what they have.
pub(super) fn live(world: &mut World, time: Duration) {
    let end = world.now + time;
    while world.now < end {
        for row in world.table.rows.values_mut().filter(|row| !row.is_finished()) {
            let is_ours = row.reader() == Some(&"me".into());
            row.counter += i64::from(row.owner.is_some() && !is_ours);
        }
        world.pass(secs(3).min(end - world.now));
    }
}

/// The first scan comes before the first list of shards: leases are moved from the second on.
fn live_through_two_scans(world: &mut World) {
    live(world, secs(6));
    assert_eq!(world.count(Call::Scan), 2);
}

/// The owners give what they were asked for.
fn give(world: &mut World) {
    let asked = world.table.rows.values().filter_map(|row| {
        let to = row.asked_by.clone()?;
        let token = format!("{to}/given");
        let change = LeaseChange::Give { to, token };
        Some(LeaseWrite { shard: row.shard.clone(), expected_counter: row.counter, change })
    });
    for write in asked.collect::<Vec<_>>() {
        world.table.write(&write);
    }
}

pub(super) fn asks(world: &World) -> Vec<&str> {
    let is_ask = |write: &&(Duration, LeaseWrite)| matches!(write.1.change, LeaseChange::Ask { .. });
    world.writes.iter().filter(is_ask).map(|(_, write)| write.shard.as_str()).collect()
}

fn takes(world: &World) -> Vec<&str> {
    let is_take = |write: &&(Duration, LeaseWrite)| matches!(write.1.change, LeaseChange::Take { .. });
    world.writes.iter().filter(is_take).map(|(_, write)| write.shard.as_str()).collect()
}

#[test]
fn the_counts_become_equal_within_one() {
    for (total, ours) in [(1, 0), (2, 1), (6, 3), (7, 3), (20, 10)] {
        let mut world = world_of(many("other", total));
        for _ in 0..30 {
            live(&mut world, secs(3));
            give(&mut world);
        }
        assert_eq!((world.held.len(), asks(&world).len()), (ours, ours), "of {total}");
        assert!(world.coordinator.grips.values().all(Grip::is_held), "and nothing is asked for any more");
    }
}

#[test]
fn the_most_loaded_worker_is_asked_first() {
    let mut world = world_of([many("a", 3), many("b", 5), many("c", 3)].concat());
    live_through_two_scans(&mut world);
    let asked = asks(&world);
    assert!(asked.len() == 1 && asked[0].starts_with('b'), "{asked:?}");
}

#[test]
fn a_joiner_asks_for_a_fifth_of_its_share_with_each_scan() {
    for (total, first) in [(10, 1), (12, 2), (40, 4)] {
        let mut world = world_of(many("other", total));
        live_through_two_scans(&mut world);
        assert_eq!(asks(&world).len(), first, "of {total}");
    }
}

#[test]
fn a_joiner_asks_for_as_many_as_it_is_allowed_with_each_scan() {
    for max_steals in [0, 1, 3, 100] {
        let mut world = world_of(many("other", 20));
        world.coordinator.settings.max_steals = Some(max_steals);
        live_through_two_scans(&mut world);
        assert_eq!(asks(&world).len(), max_steals.min(10));
    }
}

#[test]
fn no_more_than_two_scans_requests_are_under_way() {
    let mut world = world_of(many("other", 20));
    world.coordinator.settings.max_steals = Some(2);
    live(&mut world, secs(36));
    assert_eq!(asks(&world).len(), 4, "nothing was given");
}

#[test]
fn no_more_is_asked_for_than_may_be_held() {
    let mut world = world_of([many("other", 10), vec![given_to_us("mine")]].concat());
    world.coordinator.settings.max_leases = 3;
    world.coordinator.settings.max_steals = Some(10);
    for _ in 0..10 {
        live(&mut world, secs(3));
        give(&mut world);
        assert!(world.coordinator.grips.len() <= 3);
    }
    assert_eq!(world.held.len(), 3);
}

#[test]
fn what_another_worker_has_asked_for_counts_as_its_own() {
    let mut rows = [many("other", 3), vec![given_to_us("mine")]].concat();
    rows[0].asked_by = Some("third".into());
    let mut world = world_of(rows);
    live(&mut world, secs(30));
    assert!(asks(&world).is_empty(), "the other will have two, and each of us one");
}

#[test]
fn what_we_are_asked_for_counts_as_the_others() {
    let mut world = world_of([many("other", 3), vec![given_to_us("mine"), given_to_us("more")]].concat());
    world.start();
    world.table.edit("mine", |row| row.asked_by = Some("third".into()));
    live(&mut world, secs(30));
    assert_eq!(asks(&world).len(), 1, "one of ours goes, and one of theirs comes instead");
}

#[test]
fn workers_that_join_together_do_not_ask_for_the_same_share_twice() {
    let mut rows = many("other", 9);
    for row in &mut rows[..3] {
        row.asked_by = Some("third".into());
    }
    let mut world = world_of(rows);
    world.coordinator.settings.max_steals = Some(10);
    live(&mut world, secs(30));
    let asked = asks(&world);
    assert_eq!(asked.len(), 3, "three are left to each");
    assert!(!asked.iter().any(|shard| ["other-00", "other-01", "other-02"].contains(shard)), "{asked:?}");
}

#[test]
fn finished_shards_do_not_count() {
    let mut theirs = many("other", 6);
    for row in &mut theirs[1..] {
        *row = finished(row.clone());
    }
    let mut world = world_of(theirs);
    live(&mut world, secs(30));
    assert!(world.writes.is_empty(), "the other has one that is left");
    let ours = ["x", "y", "z"].map(|shard| finished(owned(shard, "me", 3)));
    let mut world = world_of([many("other", 2), ours.into()].concat());
    live_through_two_scans(&mut world);
    assert_eq!(asks(&world).len(), 1, "and we have none");
}

#[test]
fn closed_shards_are_moved_last() {
    for index in 0..4 {
        let mut world = world_of(many("other", 4));
        let shard = world.stream[index].clone();
        world.stream[index] = closed(shard.id.as_str(), &[]);
        world.coordinator.settings.max_steals = Some(10);
        live(&mut world, secs(20));
        let asked = asks(&world);
        assert!(asked.len() == 2 && !asked.contains(&shard.id.as_str()), "{asked:?} without {}", shard.id);
    }
}

#[test]
fn a_lease_that_has_just_moved_stays_for_the_failover_time() {
    let mut world = world_of([peers("a", "x"), peers("b", "y")]);
    live(&mut world, secs(12));
    world.table.rows = world_of([peers("a", "z"), peers("b", "z")]).table.rows.clone();
    world.table.edit("a", |row| row.counter = 100);
    world.table.edit("b", |row| row.counter = 100);
    live(&mut world, secs(9));
    assert!(asks(&world).is_empty());
    live(&mut world, secs(15));
    assert_eq!(asks(&world).len(), 1);
}

#[test]
fn nothing_is_moved_while_leases_are_being_taken() {
    let mut world = world_of([many("other", 6), vec![row("free", &[], at(1))]].concat());
    world.fail_next(Call::Write, &[Fault::Withheld]);
    live(&mut world, secs(8));
    assert_eq!((takes(&world), asks(&world).len()), (vec!["free"], 0));
    world.answer_withheld();
    live(&mut world, secs(8));
    assert!(!asks(&world).is_empty());
}

#[test]
fn nothing_is_moved_while_leases_wait_for_the_workers_whose_share_they_are() {
    let others = [many("other", 4), many("third", 1), many("fourth", 1)].concat();
    let mine = ["m1", "m2", "m3"].map(given_to_us);
    let of_a_kcl = ["k1", "k2", "k3"].map(|shard| owned(shard, "kcl", 1));
    let mut world = world_of([others, mine.into(), of_a_kcl.into()].concat());
    live(&mut world, secs(12));
    assert_eq!((world.held.len(), asks(&world).len(), takes(&world).len()), (3, 0, 3));
    world.table.edit("k1", |row| *row = Lease { counter: row.counter + 1, ..peers("k1", "other") });
    for shard in ["k2", "k3"] {
        world.table.edit(shard, |row| *row = Lease { owner: None, counter: row.counter + 1, ..row.clone() });
    }
    while world.coordinator.waiting.is_empty() {
        live(&mut world, secs(1));
    }
    live(&mut world, secs(2));
    assert_eq!((takes(&world).len(), asks(&world).len()), (3, 0), "they are the others' share");
    live(&mut world, secs(2));
    assert_eq!((takes(&world).len(), asks(&world).len()), (5, 0), "but the others did not take them");
}

#[test]
fn nothing_is_moved_when_the_list_of_shards_has_just_changed() {
    let mut world = world_of([peers("a", "other"), peers("b", "third")]);
    live(&mut world, secs(48));
    world.stream.push(closed("z", &[]));
    world.table.rows.insert("z".into(), finished(row("z", &[], at(1))));
    while world.count(Call::List) == 1 {
        live(&mut world, secs(1));
    }
    world.table.edit("b", |row| *row = Lease { counter: row.counter + 1, ..peers("b", "other") });
    live(&mut world, secs(8));
    assert!(asks(&world).is_empty());
    live(&mut world, secs(8));
    assert_eq!(asks(&world).len(), 1);
}

#[test]
fn a_shunned_shard_is_not_asked_for() {
    let mut world = world_of(many("other", 2));
    world.coordinator.shun(&"other-00".into());
    live_through_two_scans(&mut world);
    assert_eq!(asks(&world), ["other-01"]);
}

#[test]
fn a_kcl_worker_loses_a_lease_without_being_asked() {
    let mut world = world_of(["a", "b", "c", "d"].map(|shard| owned(shard, "kcl", 3)));
    live(&mut world, secs(60));
    assert_eq!((takes(&world).len(), asks(&world).len(), world.held.len()), (2, 0, 2));
    let taken = world.held()[0].to_owned();
    assert_eq!(world.row(&taken).owner_switches, 1);
}

#[test]
fn a_kcl_worker_loses_no_more_leases_at_once_than_may_be_moved() {
    let mut world = world_of((10..30).map(|shard| owned(&shard.to_string(), "kcl", 3)));
    world.coordinator.settings.max_steals = Some(3);
    live_through_two_scans(&mut world);
    assert_eq!(takes(&world).len(), 3);
}

#[test]
fn a_worker_of_the_kcl_is_known_by_a_token_that_is_not_its_own() {
    let stale = |shard: &str| Lease { token: Some("other/life-1".into()), ..owned(shard, "kcl", 3) };
    let mut world = world_of([stale("a"), stale("b")]);
    live(&mut world, secs(12));
    assert_eq!((takes(&world).len(), asks(&world).len()), (1, 0));
    let longer = |shard: &str| Lease { token: Some("other-2/life-1".into()), ..owned(shard, "other", 3) };
    let mut world = world_of([longer("a"), longer("b")]);
    live(&mut world, secs(12));
    assert_eq!((takes(&world).len(), asks(&world).len()), (1, 0), "a name that begins like another's");
}

#[test]
fn an_offer_or_a_request_that_a_kcl_worker_has_left_in_a_row_asks_it_for_nothing() {
    let left = |shard: &str| Lease {
        token: Some("other/life-1".into()),
        is_offered: true,
        asked_by: (shard == "a").then(|| "third".into()),
        ..owned(shard, "kcl", 3)
    };
    let mut world = world_of([left("a"), left("b")]);
    live(&mut world, secs(30));
    assert_eq!((takes(&world).len(), asks(&world).len()), (1, 0), "it has two, and we have none");
}

#[test]
fn a_kcl_worker_keeps_what_it_would_take_back() {
    let kcls = || ["a", "b"].map(|shard| owned(shard, "kcl", 3));
    let mut world = world_of([kcls().into(), vec![finished(owned("z", "me", 3))]].concat());
    live_through_two_scans(&mut world);
    assert!(takes(&world).is_empty(), "by its count it has one more");
    live(&mut world, secs(12));
    assert_eq!(takes(&world).len(), 1, "nobody renews the finished lease, so that nobody counts it any more");
    let mut world =
        world_of([owned("a", "kcl", 3), finished(owned("y", "kcl", 3)), finished(owned("z", "kcl", 3))]);
    live(&mut world, secs(30));
    assert!(takes(&world).is_empty(), "it has one that is left");
}

#[test]
fn a_worker_of_this_library_gives_what_only_a_kcl_worker_would_take_back() {
    let mut world = world_of([many("other", 2), vec![finished(owned("z", "me", 3))]].concat());
    live_through_two_scans(&mut world);
    assert_eq!(asks(&world).len(), 1);
}

#[test]
fn a_lease_that_is_being_handed_over_is_not_stolen() {
    let promised = |shard: &str| Lease { checkpoint_owner: Some("kcl".into()), ..owned(shard, "next", 3) };
    let mut world = world_of(["a", "b", "c", "d"].map(promised));
    live(&mut world, secs(60));
    assert!(world.writes.is_empty());
    let mut world = world_of([owned("a", "next", 3), owned("b", "next", 3), promised("c")]);
    world.coordinator.shun(&"a".into());
    world.coordinator.shun(&"b".into());
    live(&mut world, secs(60));
    assert!(world.writes.is_empty(), "whatever its next owner has besides");
}

#[test]
fn a_shard_that_a_kcl_worker_holds_before_it_may_be_started_is_not_stolen() {
    let child = |shard: &str| Lease { parents: vec!["a".into()], ..owned(shard, "kcl", 3) };
    let waiting = |shard: &str| Lease { checkpoint: Checkpoint::TrimHorizon, ..child(shard) };
    let mut world = world_of([peers("a", "other"), waiting("b"), waiting("c")]);
    world.stream = vec![closed("a", &[]), open("b", &["a"]), open("c", &["a"])];
    live(&mut world, secs(60));
    assert!(takes(&world).is_empty(), "its parent is being read");
    world.table.edit("a", |row| *row = finished(row.clone()));
    live(&mut world, secs(12));
    assert_eq!(world.held.len(), 1);
}

#[test]
fn shards_that_nobody_reads_are_told_when_they_change() {
    let mut world = world_of(["a", "b", "c"].map(|shard| row(shard, &[], at(1))));
    world.coordinator.settings.max_leases = 1;
    world.start();
    let unread: Vec<String> =
        ["a", "b", "c"].iter().filter(|shard| world.held()[0] != **shard).map(ToString::to_string).collect();
    world.forget();
    live(&mut world, secs(19));
    assert!(world.told.is_empty());
    live(&mut world, secs(60));
    assert_eq!(world.told, [Told::Unread(unread.clone())], "once");
    world.forget();
    world.table.steal(&unread[0], "other");
    live(&mut world, secs(12));
    assert_eq!(world.told, [Told::Unread(unread[1..].to_vec())]);
    world.forget();
    world.table.steal(&unread[1], "other");
    live(&mut world, secs(12));
    assert_eq!(world.told, [Told::Unread(vec![])], "all are read again");
}

#[test]
fn a_shard_that_may_not_be_started_is_not_told_as_unread() {
    let mut world = world_of([owned("a", "other", 1), finished(row("z", &[], at(1)))]);
    world.stream.push(open("b", &["a"]));
    live(&mut world, secs(100));
    assert_eq!(world.told, []);
}

#[test]
fn a_shunned_shard_that_nobody_reads_is_told() {
    let mut world = world_of([row("a", &[], at(1))]);
    world.coordinator.shun(&"a".into());
    live(&mut world, secs(30));
    assert_eq!(world.told, [Told::Unread(vec!["a".into()])]);
}

#[test]
fn a_share_is_taken_at_once_and_the_rest_when_nobody_else_does() {
    let free = (10..20).map(|shard| row(&shard.to_string(), &[], at(1)));
    let mut world = world_of(free.chain(many("other", 2)));
    world.start();
    assert_eq!(takes(&world).len(), 6, "of twelve");
    live(&mut world, secs(3));
    assert_eq!(takes(&world).len(), 6);
    live(&mut world, Duration::from_millis(400));
    assert_eq!(world.held.len(), 10, "a third of the failover time has passed");
}

#[test]
fn many_leases_are_taken_in_turns() {
    let mut world = world_of((100..200).map(|shard| row(&shard.to_string(), &[], at(1))));
    world.fail_next(Call::Write, &[Fault::Withheld; 32]);
    world.start();
    assert_eq!(takes(&world).len(), 32);
    world.answer_withheld();
    assert_eq!(world.held.len(), 100);
}

#[test]
fn an_expired_lease_is_taken_within_sixteen_tenths_of_the_failover_time() {
    for millis in (0..10_000).step_by(700) {
        for of_peer in [false, true] {
            let row = if of_peer { peers("a", "other") } else { owned("a", "other", 1) };
            let mut world = world_of([row]);
            world.pass(Duration::from_millis(millis));
            world.table.renew("a");
            world.pass(FAILOVER);
            assert!(takes(&world).is_empty());
            world.pass(secs(6));
            assert_eq!(world.held(), ["a"], "last renewed at {millis} ms");
        }
    }
}

#[test]
fn a_lease_is_looked_at_when_it_expires() {
    let mut world = world_of([owned("a", "other", 1)]);
    world.pass(Duration::from_millis(10_002));
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn a_lease_assigned_by_a_kcl_3_leader_waits_until_its_owner_can_have_found_it() {
    let mut world = world_of([owned("a", "kcl-1", 1)]);
    live(&mut world, secs(6));
    world.table.steal("a", "kcl-2");
    world.pass(secs(25));
    assert!(takes(&world).is_empty());
    world.pass(secs(6));
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn an_assigned_lease_that_was_renewed_expires_like_any_other() {
    let mut world = world_of([owned("a", "kcl-1", 1)]);
    live(&mut world, secs(6));
    world.table.steal("a", "kcl-2");
    world.pass(secs(6));
    world.table.renew("a");
    world.pass(secs(16));
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn a_lease_given_to_a_worker_that_has_died_is_taken_after_the_failover_time() {
    let mut world = world_of([peers("a", "other")]);
    live(&mut world, secs(6));
    let given = Lease { token: Some("dead/given".into()), ..owned("a", "dead", 100) };
    world.table.rows.insert("a".into(), given);
    world.pass(FAILOVER);
    assert!(takes(&world).is_empty());
    world.pass(secs(6));
    assert_eq!(world.held(), ["a"]);
}

#[test]
fn a_lease_that_was_given_to_us_is_taken_at_once_and_beyond_our_share() {
    for token in [None, Some("me/given".to_owned())] {
        let ours = ["m1", "m2", "m3"].map(given_to_us);
        let mut world = world_of(many("other", 1).into_iter().chain(ours).chain([peers("a", "third")]));
        live(&mut world, secs(6));
        assert_eq!(world.held(), ["m1", "m2", "m3"]);
        world
            .table
            .edit("a", |row| *row = Lease { token: token.clone(), counter: 50, ..owned("a", "me", 50) });
        world.hasten_scan();
        live(&mut world, secs(1));
        assert_eq!(world.held(), ["a", "m1", "m2", "m3"]);
        assert_eq!(world.row("a").owner_switches, 0);
    }
}

#[test]
fn a_lease_that_was_given_to_us_beyond_what_we_may_hold_is_left() {
    let mut world = world_of([given_to_us("a"), given_to_us("b")]);
    world.coordinator.settings.max_leases = 1;
    world.pass(secs(30));
    assert_eq!(world.held.len(), 1);
}

#[test]
fn the_most_loaded_worker_is_the_one_with_the_most_work() {
    let over = (0..6).map(|number| finished(peers(&format!("over-{number}"), "b")));
    let mut world = world_of([many("a", 4), many("b", 3)].concat().into_iter().chain(over));
    live_through_two_scans(&mut world);
    let asked = asks(&world);
    assert!(asked.len() == 1 && asked[0].starts_with("a-"), "{asked:?}");
}

#[test]
fn a_worker_whose_leases_cannot_be_moved_does_not_keep_others_from_giving_theirs() {
    let mut world = world_of([many("a", 8), many("b", 5)].concat());
    world.coordinator.settings.max_steals = Some(3);
    for number in 1..8 {
        world.coordinator.shun(&format!("a-{number:02}").as_str().into());
    }
    live_through_two_scans(&mut world);
    assert_eq!(asks(&world).len(), 3);
}

#[test]
fn nothing_more_is_stolen_while_what_was_stolen_is_being_taken() {
    let mut world = world_of((10..30).map(|shard| owned(&shard.to_string(), "kcl", 3)));
    world.coordinator.settings.max_steals = Some(3);
    world.fail_always(Call::Write, Fault::Withheld);
    live(&mut world, secs(18));
    assert_eq!(takes(&world).len(), 3);
}

#[test]
fn a_free_lease_whose_shard_is_shunned_does_not_keep_others_from_moving() {
    let mut world = world_of(many("other", 4).into_iter().chain([row("free", &[], at(1))]));
    world.coordinator.shun(&"free".into());
    live_through_two_scans(&mut world);
    assert_eq!(asks(&world).len(), 1);
}

#[test]
fn a_finished_lease_is_not_asked_for() {
    let over = ["x", "y"].map(|shard| finished(peers(shard, "other")));
    let mut world = world_of(many("other", 3).into_iter().chain(over));
    for number in 0..3 {
        world.coordinator.shun(&format!("other-{number:02}").as_str().into());
    }
    live(&mut world, secs(30));
    assert!(asks(&world).is_empty());
}

#[test]
fn a_kcl_worker_loses_no_more_at_once_than_it_would_leave_to_us() {
    let ours = (0..6).map(|number| finished(owned(&format!("ours-{number}"), "me", 3)));
    let mut world = world_of((10..20).map(|shard| owned(&shard.to_string(), "kcl", 3)).chain(ours));
    world.coordinator.settings.max_steals = Some(10);
    live_through_two_scans(&mut world);
    assert_eq!(takes(&world).len(), 2, "by its own count both have eight then");
}

#[test]
fn a_list_of_shards_that_has_not_changed_keeps_nothing_from_moving() {
    let mut world = world_of(many("other", 4));
    for _ in 0..12 {
        world.hasten_list();
        live(&mut world, secs(1));
    }
    assert!(!asks(&world).is_empty());
}
