//! What goes in and comes out has a form in JSON that loses nothing.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::harness::{World, secs};
use super::journal::{Lines, events};
use super::*;
use crate::journal::Event;
use crate::lease::{Lease, LeaseWrite, WorkerId};
use crate::store::{Created, Deleted, LeaderPulse, Reported, Scan, StoreError, Written};
use crate::stream::StreamErrorKind;
use crate::testing::{at, child, open, owned, row};

/// Every value survives JSON, and there is one of each variant that the type has.
fn assert_round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(values: &[T]) {
    let json: Vec<String> = values.iter().map(|value| serde_json::to_string(value).unwrap()).collect();
    for (value, json) in values.iter().zip(&json) {
        assert_eq!(serde_json::from_str::<T>(json).unwrap(), *value, "{json}");
    }
    let Err(error) = serde_json::from_str::<T>(r#""unheard of""#) else { return };
    let error = error.to_string();
    for variant in error.split('`').skip(3).step_by(2) {
        let is_there = |json: &String| json.trim_start_matches('{').starts_with(&format!("\"{variant}\""));
        assert!(json.iter().any(is_there), "none is {variant}");
    }
}

pub(super) fn full_row() -> Lease {
    Lease {
        parents: vec!["p".into(), "q".into()],
        children: vec!["c".into()],
        checkpoint_owner: Some("next".into()),
        token: Some("me/01-1".into()),
        asked_by: Some("asker".into()),
        is_offered: true,
        latest_since: Some(std::time::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789)),
        ..owned("a", "me", i64::MAX)
    }
}

fn changes() -> Vec<LeaseChange> {
    let worker = || WorkerId::new("w\u{fc}rker \"1\"\n");
    vec![
        LeaseChange::Renew,
        LeaseChange::Take { owner: worker(), token: "t".into(), owner_switches: 1 },
        LeaseChange::Checkpoint(at(u128::MAX)),
        LeaseChange::End { children: vec!["c".into()] },
        LeaseChange::BeginAnew(Checkpoint::TrimHorizon),
        LeaseChange::Release,
        LeaseChange::HandOver,
        LeaseChange::Ask { by: worker() },
        LeaseChange::Withdraw { by: worker() },
        LeaseChange::Offer,
        LeaseChange::Keep,
        LeaseChange::Give { to: worker(), token: "t".into() },
    ]
}

fn store_errors() -> [StoreError; 6] {
    let message = || "table \"a\":\n\u{1b}[0m".to_owned();
    [
        StoreError::Throttled(message()),
        StoreError::TableMissing(message()),
        StoreError::OtherStream(message()),
        StoreError::Unreadable(message()),
        StoreError::Refused(message()),
        StoreError::Unknown(message()),
    ]
}

#[test]
fn every_change_and_outcome_survives_a_journal() {
    assert_round_trip(&changes());
    assert_round_trip(&store_errors());
    assert_round_trip(&[Created::New, Created::Existed]);
    assert_round_trip(&[Deleted::Gone, Deleted::Refused]);
    let row = || Some(Box::new(full_row()));
    let written =
        [Written::Applied(None), Written::Applied(row()), Written::Refused(None), Written::Refused(row())];
    assert_round_trip(&written);
    let kinds = [
        StreamErrorKind::Throttled,
        StreamErrorKind::ExpiredIterator,
        StreamErrorKind::NotFound,
        StreamErrorKind::InvalidArgument,
        StreamErrorKind::Encryption,
        StreamErrorKind::Denied,
        StreamErrorKind::Unavailable,
    ];
    assert_round_trip(&kinds);
}

#[test]
fn every_input_survives_a_journal() {
    let (shard, acquisition) = (|| ShardId::new("a"), Acquisition(u64::MAX));
    let write = |change| LeaseWrite { shard: shard(), expected_counter: -1, change };
    let new = || NewLease::new(child("c", &["a"]), Checkpoint::Latest);
    let error = || store_errors()[0].clone();
    let unavailable = StreamError { kind: StreamErrorKind::Unavailable, message: "no list".into() };
    let pulse = LeaderPulse { version: "7".into(), valid_for: secs(120) };
    let mut inputs = vec![
        Input::Tick,
        Input::Scanned(Ok(Scan {
            leases: vec![full_row(), row("b", &[], Checkpoint::ShardEnd)],
            unreadable: vec![shard()],
        })),
        Input::Scanned(Err(error())),
        Input::Listed(Ok(vec![open("a", &[]), crate::testing::closed("b", &["a"])])),
        Input::Listed(Err(unavailable)),
        Input::Created(new(), Ok(Created::Existed)),
        Input::Created(new(), Err(error())),
        Input::Deleted(shard(), Ok(Deleted::Gone)),
        Input::BegunAnew(shard(), Ok(Written::Refused(None))),
        Input::LookedUp(acquisition, shard(), Ok(None)),
        Input::LookedUp(acquisition, shard(), Ok(Some(full_row()))),
        Input::LookedUp(acquisition, shard(), Err(error())),
        Input::Reported(Ok(Reported::Unwanted)),
        Input::Reported(Ok(Reported::Stored(None))),
        Input::Reported(Ok(Reported::Stored(Some(pulse)))),
        Input::Retired,
        Input::Reported(Err(error())),
        Input::Checkpoint(shard(), acquisition, at(7)),
        Input::End(shard(), acquisition, vec![child("c", &["a"])]),
        Input::Release(shard(), acquisition),
        Input::Offer(shard(), acquisition),
        Input::Keep(shard(), acquisition),
        Input::Leave,
        Input::Shun(shard()),
        Input::Unshun(shard()),
        Input::StopTaking,
    ];
    inputs.extend(changes().into_iter().map(|change| {
        Input::Written(acquisition, write(change), Ok(Written::Applied(Some(Box::new(full_row())))))
    }));
    assert_round_trip(&inputs);
}

#[test]
fn every_effect_survives_a_journal() {
    let (shard, acquisition) = (|| ShardId::new("a"), Acquisition(7));
    let write = || LeaseWrite { shard: shard(), expected_counter: 3, change: LeaseChange::Renew };
    let lost = |loss| Effect::Lost(shard(), acquisition, loss);
    let effects = [
        Effect::Scan,
        Effect::ListShards,
        Effect::Create(NewLease::new(child("c", &["a"]), Checkpoint::AtTimestamp)),
        Effect::Write(acquisition, write()),
        Effect::Delete(shard(), 3),
        Effect::LookUp(acquisition, shard()),
        Effect::Report { wants_leases: true },
        Effect::Retire,
        Effect::Gained(acquisition, Box::new(full_row())),
        Effect::Extended(shard(), acquisition, Duration::new(u64::MAX, 999_999_999)),
        lost(Loss::Taken { by: None }),
        lost(Loss::Taken { by: Some("other".into()) }),
        lost(Loss::Expired),
        lost(Loss::RowDeleted),
        lost(Loss::RowUnreadable),
        Effect::Drain(shard(), acquisition),
        Effect::BeginAnew(write()),
        Effect::Contradicted(shard()),
        Effect::SharedName(shard()),
        Effect::Unread(Vec::new()),
        Effect::Unread(vec![shard()]),
        Effect::Answer(RequestId(u64::MAX), Ok(())),
        Effect::Answer(RequestId(1), Err(RequestError::NotHeld)),
        Effect::Answer(RequestId(1), Err(RequestError::Backwards)),
        Effect::Answer(RequestId(1), Err(RequestError::Store(store_errors()[5].clone()))),
    ];
    assert_round_trip(&effects);
    let settings = World::new(Checkpoint::Latest).settings.clone();
    let limited = Settings { max_steals: Some(3), max_leases: 4, ..settings.clone() };
    for settings in [settings, limited] {
        let lines = Lines::default();
        drop(lines.coordinator(settings.clone(), fastrand::Rng::with_seed(u64::MAX)));
        assert_eq!(events(&lines.all()).1, [Event::Begin { seed: u64::MAX, settings }]);
    }
}
