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

#[test]
fn a_row_that_another_worker_has_cleaned_up_leads_to_no_list_of_shards() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![closed("a", &[]), open("b", &["a"])];
    world.table.rows.insert("a".into(), row("a", &[], Checkpoint::ShardEnd));
    world.table.rows.insert("b".into(), row("b", &["a"], at(5)));
    world.start();
    world.forget();
    world.table.rows.remove("a");
    world.pass(secs(12));
    assert_eq!((world.coordinator.rows().len(), world.count(Call::List)), (1, 0));
}

#[test]
fn a_finished_open_shard_is_no_contradiction_while_a_child_of_it_is_listed() {
    let finished = || row("a", &[], Checkpoint::ShardEnd);
    for (child_is_listed, expected) in [(true, false), (false, true)] {
        let mut world = World::new(Checkpoint::TrimHorizon);
        world.stream = vec![open("a", &[])];
        world.stream.extend(child_is_listed.then(|| open("b", &["a"])));
        world.table.rows.insert("a".into(), finished());
        world.table.rows.insert("b".into(), row("b", &["a"], at(1)));
        world.pass(5 * FAILOVER);
        assert_eq!(is_told(&world), expected);
    }
}

#[test]
fn a_finished_row_of_a_shard_that_is_not_listed_is_no_contradiction() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = vec![open("b", &[])];
    world.table.rows.insert("a".into(), row("a", &[], Checkpoint::ShardEnd));
    world.pass(20 * FAILOVER);
    assert!(!is_told(&world) && world.row("a").is_finished());
}

#[test]
fn a_contradiction_is_told_of_once_though_the_row_cannot_be_begun_anew() {
    let mut world = contradiction(Checkpoint::Latest);
    world.fail_always(Call::Write, Fault::Throttled);
    for _ in 0..60 {
        world.hasten_list();
        world.pass(secs(1));
    }
    assert_eq!(world.told.iter().filter(|told| **told == Told::Contradicted("a".into())).count(), 1);
}

#[test]
fn lists_that_come_at_once_count_as_one() {
    let mut world = contradiction(Checkpoint::Latest);
    for _ in 0..19 {
        world.hasten_list();
        world.pass(secs(1));
        assert!(!is_told(&world));
    }
}

#[test]
fn a_row_that_was_begun_anew_is_taken_at_once_even_if_the_reply_was_lost() {
    for fault in [None, Some(Fault::LostReply)] {
        let mut world = contradiction(Checkpoint::Latest);
        world.pass(2 * FAILOVER - secs(1));
        while !is_told(&world) {
            world.fail_next(Call::Write, fault.as_slice());
            world.hasten_list();
            world.pass(Duration::from_millis(100));
        }
        world.pass(secs(1));
        assert_eq!(world.held(), ["a", "b"], "{fault:?}");
    }
}

#[test]
fn a_row_is_begun_anew_and_deleted_by_one_call_at_a_time() {
    let mut world = contradiction(Checkpoint::Latest);
    world.coordinator.settings.clean_up_after = Duration::ZERO;
    world.coordinator.scanned(
        world.now,
        Ok(vec![row("a", &[], Checkpoint::ShardEnd), row("x", &[], Checkpoint::ShardEnd)].into()),
    );
    for _ in 0..6 {
        world.now += FAILOVER;
        world.coordinator.listed(world.now, Ok(world.stream.clone())).unwrap();
    }
    let effects = |is_meant: fn(&Effect) -> bool| {
        world.coordinator.effects.iter().filter(|effect| is_meant(effect)).count()
    };
    assert_eq!(effects(|effect| matches!(effect, Effect::BeginAnew(_))), 1);
    assert_eq!(effects(|effect| matches!(effect, Effect::Delete(..))), 1);
}

#[test]
fn a_finished_row_stays_for_the_time_that_was_asked_for() {
    let mut world = World::holding_a();
    world.stream = vec![closed("a", &[]), open("b", &["a"])];
    world.end("a", vec![child("b", &["a"])]);
    world.checkpoint("b", at(5));
    world.pass(secs(295));
    assert!(world.table.rows.contains_key("a"));
    world.pass(secs(75));
    assert!(!world.table.rows.contains_key("a"));
}

/// The finished rows that are deleted at first sight.
fn cleaned(stream: Vec<Shard>, rows: Vec<Lease>) -> Vec<String> {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.coordinator.settings.clean_up_after = Duration::ZERO;
    world.stream = stream;
    let all: BTreeSet<ShardId> = rows.iter().map(|row| row.shard.clone()).collect();
    world.table.rows = rows.into_iter().map(|row| (row.shard.clone(), row)).collect();
    world.start();
    let is_gone = |shard: &&str| all.contains(*shard) && !world.table.rows.contains_key(*shard);
    ["g", "p"].into_iter().filter(is_gone).map(ToOwned::to_owned).collect()
}

#[test]
fn a_finished_row_is_deleted_when_no_start_can_need_it_any_more() {
    let (end, unread) = (Checkpoint::ShardEnd, Checkpoint::TrimHorizon);
    let p = |parents: &[&str]| row("p", parents, end.clone());
    let naming = |child: &str| Lease { children: vec![child.into()], ..p(&[]) };
    let open_to_all = || open("x", &[]);
    for (what, stream, rows, expected) in [
        ("its children may not be listed yet", vec![open_to_all(), closed("p", &[])], vec![p(&[])], false),
        ("it is of no listed shard", vec![open_to_all()], vec![p(&[])], true),
        (
            "its child has begun",
            vec![closed("p", &[]), open("q", &["p"])],
            vec![p(&[]), row("q", &["p"], at(9))],
            true,
        ),
        (
            "its child has not",
            vec![closed("p", &[]), open("q", &["p"])],
            vec![p(&[]), row("q", &["p"], unread.clone())],
            false,
        ),
        (
            "one of its children has not",
            vec![closed("p", &[]), open("q", &["p"]), open("r", &["p"])],
            vec![p(&[]), row("q", &["p"], at(9)), row("r", &["p"], unread.clone())],
            false,
        ),
        ("its child has no row", vec![closed("p", &[]), open("q", &["p"])], vec![p(&[])], false),
        (
            "an unlisted child has not begun",
            vec![open_to_all()],
            vec![p(&[]), row("q", &["p"], unread.clone())],
            false,
        ),
        (
            "a child whose row names no parent has not begun",
            vec![open("q", &["p"])],
            vec![p(&[]), row("q", &[], unread.clone())],
            false,
        ),
        ("it names a child that nobody knows", vec![open_to_all()], vec![naming("gone")], true),
        (
            "it alone names a child that has not begun",
            vec![open("q", &[])],
            vec![naming("q"), row("q", &[], unread.clone())],
            false,
        ),
    ] {
        let rows = rows.into_iter().chain([row("x", &[], at(1))]).collect();
        assert_eq!(cleaned(stream, rows), if expected { vec!["p"] } else { vec![] }, "{what}");
    }
    let chain = vec![closed("g", &[]), closed("p", &["g"]), open("q", &["p"])];
    let rows = vec![row("g", &[], end.clone()), p(&["g"]), row("q", &["p"], at(9))];
    assert_eq!(cleaned(chain, rows), ["g"], "parents go first");
}

#[test]
fn so_many_rows_are_deleted_at_once_each_by_one_of_those_that_see_each_other() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.coordinator.settings.clean_up_after = Duration::ZERO;
    world.stream = vec![open("x", &[])];
    let over = (10..50).map(|shard| row(&shard.to_string(), &[], Checkpoint::ShardEnd));
    world.table.rows = over.map(|row| (row.shard.clone(), row)).collect();
    let mut shared = World::new(Checkpoint::TrimHorizon);
    shared.coordinator.settings.clean_up_after = Duration::ZERO;
    shared.stream = world.stream.clone();
    shared.table = world.table.clone();
    shared.table.rows.insert("x".into(), crate::testing::owned("x", "other", 1));
    world.start();
    assert_eq!(world.count(Call::Delete), 16);
    for _ in 0..20 {
        shared.hasten_list();
        shared.table.renew("x");
        shared.pass(secs(1));
    }
    let left = shared.table.rows.len() - 1;
    assert!(0 < left && left < 40, "{left}");
    let loads = shared.coordinator.loads(shared.now);
    assert!(shared.table.rows.keys().all(|shard| shard.as_str() == "x" || !loads.prefers_us(shard)));
}

#[test]
fn a_row_that_is_not_deleted_after_all_is_known_still() {
    let mut world = World::holding_a();
    world.coordinator.deleted(&"a".into(), Ok(crate::store::Deleted::Refused));
    assert!(world.coordinator.rows().contains_key("a"));
    world.coordinator.deleted(&"a".into(), Ok(crate::store::Deleted::Gone));
    assert!(!world.coordinator.rows().contains_key("a"));
}
