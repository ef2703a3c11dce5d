//! Journals: what is written, found in logs and replayed.

use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::harness::{Fault, World, secs};
use super::*;
use crate::journal::{Difference, Entry, Event, JournalError, Replay};
use crate::lease::{Lease, LeaseWrite, WorkerId};
use crate::store::{Created, Deleted, LeaderPulse, Reported, Scan, StoreError, Written};
use crate::stream::StreamErrorKind;
use crate::testing::{at, child, open, owned, row};

/// The lines of journals.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    pub(super) fn coordinator(&self, settings: Settings, random: fastrand::Rng) -> Coordinator {
        let lines = Arc::clone(&self.0);
        Coordinator::recorded(settings, random, move |line| lines.lock().unwrap().push(line.to_owned()))
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// How many runs they are of, each of which does the same again.
    pub(super) fn assert_replayable(&self) -> usize {
        let mut replay = Replay::default();
        for line in self.all() {
            if let Err(error) = follow(&mut replay, &line) {
                panic!("{error} at {line}");
            }
        }
        replay.runs().len()
    }
}

fn follow(replay: &mut Replay, line: &str) -> Result<(), JournalError> {
    replay.follow(Entry::find(line).expect("an entry")?)
}

/// The number of the first line that cannot be followed, and why.
fn first_error(lines: &[String]) -> Option<(usize, JournalError)> {
    let mut replay = Replay::default();
    lines.iter().enumerate().find_map(|(number, line)| Some((number, follow(&mut replay, line).err()?)))
}

/// A worker takes a shard, stores a checkpoint, loses a reply and stops.
fn some_run() -> Vec<String> {
    let mut world = World::holding_a();
    world.table.create(&NewLease::new(child("b", &[]), at(1)));
    world.table.edit("b", |row| row.owner = Some("other".into()));
    world.pass(secs(20));
    world.checkpoint("a", at(9));
    world.fail_next(super::harness::Call::Write, &[Fault::LostReply]);
    world.pass(secs(5));
    world.release("a");
    world.coordinator.stop_taking(world.now);
    world.drain();
    world.journal.all()
}

fn position(lines: &[String], part: &str) -> usize {
    lines.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part}"))
}

fn difference(lines: &[String]) -> (usize, Difference) {
    match first_error(lines) {
        Some((number, JournalError::Differs(difference))) => (number, difference),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_is_written_in_the_order_in_which_it_happened() {
    let lines = some_run();
    assert!(lines[0].starts_with(r#"{"lease_journal":1,"run":"me/"#), "{}", lines[0]);
    assert!(position(&lines, r#""begin""#) == 0);
    let (scan, scanned) = (position(&lines, r#"{"out":"Scan"}"#), position(&lines, r#""scanned""#));
    assert!(scan < scanned && scanned < position(&lines, r#""Gained""#));
    assert_eq!(first_error(&lines), None);
}

#[test]
fn runs_whose_entries_are_in_one_log_are_told_apart() {
    let lines = Lines::default();
    let settings = World::new(Checkpoint::TrimHorizon).settings.clone();
    let mut one = lines.coordinator(settings.clone(), fastrand::Rng::with_seed(1));
    let mut other = lines.coordinator(settings, fastrand::Rng::with_seed(2));
    for now in (0..30).map(secs) {
        for coordinator in [&mut one, &mut other] {
            coordinator.tick(now);
            while let Some(effect) = coordinator.next_effect() {
                if effect == Effect::Scan {
                    coordinator.scanned(now, Ok(vec![row("a", &[], at(1))].into()));
                }
            }
        }
    }
    assert_eq!(lines.assert_replayable(), 2);
}

#[test]
fn a_replay_finds_where_an_input_was_changed() {
    let lines = some_run();
    let take = position(&lines, r#""Write":[2,{"shard":"b""#);
    let scanned = lines[..take].iter().rposition(|line| line.contains("scanned")).unwrap();
    let mut changed = lines.clone();
    // The other worker has renewed its lease.
    changed[scanned] =
        lines[scanned].replace(r#""owner":"other","counter":0"#, r#""owner":"other","counter":1"#);
    let (number, difference) = difference(&changed);
    assert_eq!(number, take, "{difference}");
    assert!(matches!(difference, Difference::Effect { replayed: None, .. }), "{difference}");
}

#[test]
fn a_replay_finds_where_an_effect_was_changed_left_out_or_added() {
    let lines = some_run();
    let take = position(&lines, r#""Take""#);

    let mut changed = lines.clone();
    changed[take] = lines[take].replace(r#""expected_counter":0"#, r#""expected_counter":5"#);
    let (number, told) = difference(&changed);
    assert_eq!(number, take);
    assert!(told.to_string().contains("expected_counter: 5"), "{told}");

    let mut shorter = lines.clone();
    shorter.remove(take);
    let (number, told) = difference(&shorter);
    assert!((take..=take + 1).contains(&number), "{told}");

    let mut longer = lines.clone();
    longer.insert(take, lines[take].clone());
    assert_eq!(difference(&longer).0, take + 1);
}

#[test]
fn a_replay_finds_that_an_input_is_missing() {
    let lines = some_run();
    let mut shorter = lines.clone();
    let written = position(&lines, r#""written""#);
    shorter.remove(written);
    let (number, told) = difference(&shorter);
    assert!(number >= written && number < written + 5, "{told}");
}

#[test]
fn an_effect_that_was_recorded_later_than_it_comes_is_a_difference() {
    let lines = some_run();
    let scan = position(&lines, r#"{"out":"Scan"}"#);
    let mut later = lines.clone();
    let scan = later.remove(scan);
    later.insert(position(&lines, r#""scanned""#), scan);
    assert!(matches!(difference(&later).1, Difference::Untaken { .. } | Difference::Effect { .. }));
}

#[test]
fn an_entry_is_found_in_a_line_of_text_and_in_one_of_json() {
    let lines = some_run();
    for line in &lines {
        let entry = Entry::find(line).unwrap().unwrap();
        let text =
            format!("2026-11-30T01:02:03Z TRACE consumer{{name=a}}: kinesis_lease::journal: {line} x=1");
        assert_eq!(Entry::find(&text), Some(Ok(entry.clone())));
        let json = format!(r#"{{"level":"TRACE","fields":{{"message":{}}}}}"#, serde_json::json!(line));
        assert_eq!(Entry::find(&json), Some(Ok(entry.clone())));
        assert_eq!(Entry::find(&format!(r#"{{"log":{}}}"#, serde_json::json!(text))), Some(Ok(entry)));
    }
    assert_eq!(Entry::find(r#"2026-11-30T01:02:03Z INFO {"run":"a"}"#), None);
}

#[test]
fn a_line_that_was_cut_off_is_an_error() {
    for line in some_run() {
        let cut = &line[..line.len() - 1];
        assert!(matches!(Entry::find(cut), Some(Err(JournalError::Broken(_)))), "{cut}");
        let json = serde_json::json!({ "message": line }).to_string();
        assert!(matches!(Entry::find(&json[..json.len() - 2]), Some(Err(JournalError::Broken(_)))));
    }
}

#[test]
fn an_entry_of_another_version_is_told_as_such() {
    let line = r#"{"lease_journal":2,"what":"nobody knows"}"#;
    assert_eq!(Entry::find(line), Some(Err(JournalError::OtherVersion { found: 2 })));
}

#[test]
fn a_log_without_the_beginning_of_a_run_is_told_once() {
    let lines = &some_run()[1..];
    let mut replay = Replay::default();
    assert_eq!(follow(&mut replay, &lines[0]), Err(JournalError::NoBeginning));
    assert_eq!(follow(&mut replay, &lines[1]), Ok(()));
    assert!(replay.runs().values().all(|run| !run.is_same() && run.followed() == (0, 0)));
}

#[test]
fn a_seed_that_gives_another_token_is_refused() {
    let mut lines = some_run();
    lines[0] = lines[0].replace(r#""seed":7"#, r#""seed":8"#);
    assert_eq!(first_error(&lines), Some((0, JournalError::OtherGenerator)));
}

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

fn full_row() -> Lease {
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
        Input::Reported(Ok(Reported::Stored(Some(LeaderPulse("7".into()))))),
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
        Effect::Report,
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
    let begins = [settings, limited].map(|settings| Event::Begin { seed: u64::MAX, settings });
    assert_round_trip(&begins.map(|event| Entry { version: 1, run: "me/1".into(), event }));
}

#[test]
fn what_cannot_be_written_ends_a_journal_that_can_be_replayed_until_then() {
    let lines = Lines::default();
    let settings = World::new(Checkpoint::TrimHorizon).settings.clone();
    let mut coordinator = lines.coordinator(settings, fastrand::Rng::with_seed(1));
    coordinator.tick(Duration::ZERO);
    let before_1970 = std::time::UNIX_EPOCH - secs(1);
    coordinator.scanned(
        secs(1),
        Ok(vec![Lease { latest_since: Some(before_1970), ..row("a", &[], Checkpoint::Latest) }].into()),
    );
    coordinator.tick(secs(2));
    assert_eq!(lines.all().len(), 2, "{:?}", lines.all());
    assert_eq!(lines.assert_replayable(), 1);
}
