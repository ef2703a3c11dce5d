//! Checkpoints and releases.

use super::harness::*;
use super::*;
use crate::store::StoreError;
use crate::testing::at;

#[test]
fn a_checkpoint_is_stored() {
    let mut world = World::holding_a();
    world.table.edit("a", |row| row.owner_switches = 3);
    let request = world.checkpoint("a", at(5));
    assert_eq!(world.answers[&request], Ok(()));
    let row = world.row("a");
    assert_eq!((row.checkpoint.clone(), row.counter, row.owner_switches), (at(5), 2, 0));
    assert_eq!(world.valid_until["a"], world.now + secs(9));
}

#[test]
fn a_checkpoint_does_not_go_back() {
    let mut world = World::holding_a();
    world.checkpoint("a", at(10));
    for earlier in [at(9), Checkpoint::Latest, Checkpoint::TrimHorizon] {
        let request = world.checkpoint("a", earlier);
        assert_eq!(world.answers[&request], Err(RequestError::Backwards));
    }
    assert_eq!(world.row("a").checkpoint, at(10));
    assert_eq!(world.writes.len(), 1);
}

#[test]
fn the_stored_checkpoint_is_confirmed_without_a_write() {
    let mut world = World::holding_a();
    world.checkpoint("a", at(10));
    let request = world.checkpoint("a", at(10));
    assert_eq!(world.answers[&request], Ok(()));
    assert_eq!(world.writes.len(), 1);
}

#[test]
fn requests_are_written_one_by_one_in_their_order() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    let requests = [world.checkpoint("a", at(1)), world.checkpoint("a", at(2)), world.checkpoint("a", at(2))];
    assert_eq!(world.writes.len(), 1);
    world.answer_withheld();
    assert_eq!(world.changes(), [&LeaseChange::Checkpoint(at(1)), &LeaseChange::Checkpoint(at(2))]);
    assert!(requests.iter().all(|request| world.answers[request] == Ok(())));
    world.assert_all_answered();
}

#[test]
fn a_checkpoint_that_the_table_refuses_is_answered_and_can_be_tried_again() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Throttled]);
    let request = world.checkpoint("a", at(5));
    assert_eq!(world.answers[&request], Err(RequestError::Store(StoreError::Throttled("too fast".into()))));
    let request = world.checkpoint("a", at(5));
    assert!(!world.answers.contains_key(&request), "not at once");
    world.pass(Duration::from_millis(500));
    assert_eq!(world.answers[&request], Ok(()));
}

#[test]
fn a_request_of_a_former_acquisition_is_refused() {
    let mut world = World::holding_a();
    let former = world.acquisition("a");
    world.release("a");
    world.pass(secs(6));
    assert_eq!(world.held(), ["a"]);
    world.held.insert("a".into(), former);
    world.forget();
    let requests =
        [world.checkpoint("a", at(5)), world.end("a", vec![]), world.release("a"), world.release("a")];
    assert!(requests.iter().all(|request| world.answers[request] == Err(RequestError::NotHeld)));
    assert!(world.writes.is_empty());
}

#[test]
fn a_loss_answers_every_request_that_waits() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    let requests = [world.checkpoint("a", at(1)), world.checkpoint("a", at(2)), world.release("a")];
    world.pass(secs(9));
    assert!(requests.iter().all(|request| world.answers[request] == Err(RequestError::NotHeld)));
    world.answer_withheld();
    world.assert_all_answered();
}

#[test]
fn a_released_lease_has_no_owner_and_keeps_its_checkpoint() {
    let mut world = World::holding_a();
    world.checkpoint("a", at(5));
    world.coordinator.shun(&"a".into());
    let request = world.release("a");
    assert_eq!(world.answers[&request], Ok(()));
    let row = world.row("a");
    assert_eq!((row.owner.clone(), row.token.clone(), row.counter), (None, None, 3));
    assert_eq!(row.checkpoint, at(5));
    assert!(world.coordinator.is_empty_handed());
    world.pass(secs(60));
    assert_eq!(world.told, [Told::Unread(vec!["a".into()])]);
}

#[test]
fn a_release_waits_for_the_checkpoints_before_it_and_refuses_what_comes_after() {
    let mut world = World::holding_a();
    world.fail_next(Call::Write, &[Fault::Withheld]);
    let requests = [
        world.checkpoint("a", at(1)),
        world.checkpoint("a", at(2)),
        world.release("a"),
        world.checkpoint("a", at(3)),
    ];
    world.answer_withheld();
    let answers = requests.map(|request| world.answers[&request].clone());
    assert_eq!(answers, [Ok(()), Ok(()), Ok(()), Err(RequestError::NotHeld)]);
    assert_eq!(world.row("a").checkpoint, at(2));
}

#[test]
fn a_release_that_finds_another_owner_is_a_loss_of_this_lease_alone() {
    let mut world = World::new(Checkpoint::TrimHorizon);
    world.stream = ["a", "b"].map(|shard| crate::testing::open(shard, &[])).into();
    world.start();
    world.table.steal("a", "other");
    let request = world.release("a");
    assert_eq!(world.answers[&request], Err(RequestError::NotHeld));
    assert_eq!(world.row("a").owner, Some("other".into()));
    assert_eq!(world.held(), ["b"]);
}
