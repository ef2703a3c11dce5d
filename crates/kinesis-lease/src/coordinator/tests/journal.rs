//! Journals: what is written, found in logs and replayed.

use std::sync::{Arc, Mutex};

use super::form::full_row;
use super::harness::{Fault, World, secs};
use super::*;
use crate::journal::{Difference, Ending, Entry, Event, JournalError, Replay, Unreadable};
use crate::lease::{Lease, LeaseWrite};
use crate::store::{Scan, StoreError, Written};
use crate::testing::{at, child, open, row};

/// The lines of journals.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    pub(super) fn coordinator(&self, settings: Settings, random: fastrand::Rng) -> Coordinator {
        let lines = Arc::clone(&self.0);
        Coordinator::recorded(settings, random, move |line| {
            lines.lock().unwrap().push(line);
            true
        })
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

fn entry(line: &str) -> Entry {
    Entry::find(line).expect("an entry").unwrap()
}

fn follow(replay: &mut Replay, line: &str) -> Result<(), JournalError> {
    let entry = entry(line);
    let run = entry.run.clone();
    replay.read(entry)?.into_iter().try_for_each(|event| replay.follow(&run, event))
}

/// The number of the first line that cannot be followed, and why.
fn first_error(lines: &[String]) -> Option<(usize, JournalError)> {
    let mut replay = Replay::default();
    lines.iter().enumerate().find_map(|(number, line)| Some((number, follow(&mut replay, line).err()?)))
}

/// The events of a single run, and its name.
pub(super) fn events(lines: &[String]) -> (String, Vec<Event>) {
    let mut replay = Replay::default();
    let events = lines.iter().flat_map(|line| replay.read(entry(line)).unwrap()).collect();
    (entry(&lines[0]).run, events)
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
    let journal = world.journal.clone();
    drop(world);
    journal.all()
}

fn position(events: &[Event], part: &str) -> usize {
    let is_it = |event: &Event| format!("{event:?}").contains(part);
    events.iter().position(is_it).unwrap_or_else(|| panic!("no {part}"))
}

/// At which of the events the replay differs, and how.
fn difference((run, events): (&str, Vec<Event>)) -> (usize, Difference) {
    let mut replay = Replay::default();
    let errors = events.into_iter().map(|event| replay.follow(run, event).err());
    match errors.enumerate().find_map(|(number, error)| Some((number, error?))) {
        Some((number, JournalError::Differs(difference))) => (number, difference),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_is_written_in_the_order_in_which_it_happened() {
    let lines = some_run();
    assert!(lines[0].starts_with(r#"{"lease_journal":2,"run":""#), "{}", lines[0]);
    let (_, events) = events(&lines);
    assert!(position(&events, "Begin") == 0);
    let (scan, scanned) = (position(&events, "Out(Scan)"), position(&events, "Scanned"));
    assert!(scan < scanned && scanned < position(&events, "Gained"));
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
    let (run, mut events) = events(&some_run());
    let take = position(&events, r#"LeaseWrite { shard: b"#);
    let scanned = |event: &Event| matches!(event, Event::In { input: Input::Scanned(Ok(_)), .. });
    let scanned = events[..take].iter().rposition(scanned).unwrap();
    let Event::In { input: Input::Scanned(Ok(rows)), .. } = &mut events[scanned] else { unreachable!() };
    // The other worker has renewed its lease.
    rows.leases.iter_mut().find(|row| row.shard == "b".into()).unwrap().counter += 1;
    let (number, difference) = difference((&run, events));
    assert_eq!(number, take, "{difference}");
    assert!(matches!(difference, Difference::Effect { replayed: None, .. }), "{difference}");
}

#[test]
fn a_replay_finds_where_an_effect_was_changed_left_out_or_added() {
    let (run, events) = events(&some_run());
    let take = position(&events, "Take {");

    let mut changed = events.clone();
    let Event::Out(Effect::Write(_, write)) = &mut changed[take] else { panic!("{:?}", changed[take]) };
    write.expected_counter = 5;
    let (number, told) = difference((&run, changed));
    assert_eq!(number, take);
    assert!(told.to_string().contains("expected_counter: 5"), "{told}");

    let mut shorter = events.clone();
    shorter.remove(take);
    let (number, told) = difference((&run, shorter));
    assert!((take..=take + 1).contains(&number), "{told}");

    let mut longer = events.clone();
    longer.insert(take, events[take].clone());
    assert_eq!(difference((&run, longer)).0, take + 1);
}

#[test]
fn an_effect_that_was_recorded_later_than_it_comes_is_a_difference() {
    let (run, mut events) = events(&some_run());
    let scan = position(&events, "Out(Scan)");
    let scan = events.remove(scan);
    events.insert(position(&events, "Scanned") + 1, scan);
    assert!(matches!(difference((&run, events)).1, Difference::Untaken { .. } | Difference::Effect { .. }));
}

#[test]
fn a_tick_at_which_nothing_is_due_is_not_written() {
    let mut world = World::holding_a();
    let before = world.journal.all().len();
    let due = world.coordinator.next_wakeup().unwrap();
    let between = world.now + (due - world.now) / 2;
    world.coordinator.tick(between);
    assert_eq!(world.journal.all().len(), before);
    world.coordinator.tick(due);
    assert_eq!(world.journal.all().len(), before + 1);
}

#[test]
fn an_entry_that_is_missing_is_named_and_taken_for_no_difference() {
    let lines = some_run();
    for gap in 1..lines.len() - 1 {
        let mut shorter = lines.clone();
        shorter.remove(gap);
        let (number, error) = first_error(&shorter).unwrap();
        let (last, found) = (gap as u64, gap as u64 + 2);
        assert_eq!((number, &error), (gap, &JournalError::Missing { last, found }));
        let told = format!("entry {} is missing (the log has {last}, then {found})", last + 1);
        assert!(error.to_string().starts_with(&told), "{error}");
    }
    let mut shorter = lines.clone();
    shorter.drain(3..5);
    let told = first_error(&shorter).unwrap().1.to_string();
    assert!(told.starts_with("entries 4 to 5 are missing (the log has 3, then 6)"), "{told}");
}

#[test]
fn a_line_that_was_delivered_twice_is_read_once() {
    let lines = some_run();
    let twice: Vec<_> = lines.iter().flat_map(|line| [line.clone(), line.clone()]).collect();
    assert_eq!(first_error(&twice), None);
    assert_eq!(events(&twice), events(&lines));
}

fn in_json(line: &str, documents: usize) -> String {
    (0..documents).fold(line.to_owned(), |line, document| match document {
        0 => serde_json::json!({ "level": "TRACE", "fields": { "message": line } }).to_string(),
        _ => serde_json::json!({ "log": format!("{line}\n"), "stream": "stderr" }).to_string(),
    })
}

#[test]
fn an_entry_is_found_in_a_line_of_text_and_in_json_in_json() {
    let lines = some_run();
    for line in lines.iter().chain(&long_run(100)) {
        let entry = entry(line);
        let text =
            format!("2026-11-30T01:02:03Z TRACE consumer{{name=a}}: kinesis_lease::journal: {line} x=1");
        for line in [line, &text] {
            for documents in 0..4 {
                assert_eq!(Entry::find(&in_json(line, documents)), Some(Ok(entry.clone())), "{documents}");
            }
        }
    }
    assert_eq!(Entry::find(r#"2026-11-30T01:02:03Z INFO {"run":"a"}"#), None);
    assert_eq!(Entry::find(r#"INFO "lease_journal" and {\\"lease_journal\\": are no entries"#), None);
}

#[test]
fn a_line_that_was_cut_off_tells_its_run_if_that_is_left() {
    for line in some_run() {
        let run = entry(&line).run;
        for documents in 0..3 {
            let whole = in_json(&line, documents);
            let cut = &whole[..whole.len() - 1 - 40 * documents];
            let Some(Err(Unreadable { run: told, error: JournalError::Broken(_) })) = Entry::find(cut) else {
                panic!("{cut}")
            };
            assert_eq!(told.as_ref(), Some(&run));
        }
    }
    let broken = Entry::find(r#"{"lease_journal":2,"ru"#).unwrap().unwrap_err();
    assert!(matches!(broken, Unreadable { run: None, error: JournalError::Broken(_) }), "{broken:?}");
}

#[test]
fn an_entry_of_another_version_is_told_as_such() {
    let line = r#"{"lease_journal":99,"run":"a","what":"nobody knows"}"#;
    let other = Unreadable { run: Some("a".into()), error: JournalError::OtherVersion { found: 99 } };
    assert_eq!(Entry::find(line), Some(Err(other)));
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

/// What a worker is told of many shards: all rows, all shards, those that are not read, and an error of any length.
fn long_run(shards: usize) -> Vec<String> {
    let lines = Lines::default();
    let settings = World::new(Checkpoint::TrimHorizon).settings.clone();
    let mut coordinator =
        lines.coordinator(Settings { max_leases: 1, ..settings }, fastrand::Rng::with_seed(1));
    let name = |number| format!("s{number:05}");
    let rows: Vec<_> = (0..shards).map(|number| row(&name(number), &[], at(1))).collect();
    let list: Vec<_> = (0..shards).map(|number| open(&name(number), &[])).collect();
    let mut has_failed = false;
    for now in (0..60).step_by(5).map(secs) {
        coordinator.tick(now);
        while let Some(effect) = coordinator.next_effect() {
            match effect {
                Effect::Scan if !std::mem::replace(&mut has_failed, true) => {
                    let message = "\u{fc}ber \"alles\" \\ \n".repeat(shards);
                    coordinator.scanned(now, Err(StoreError::Unknown(message)));
                }
                Effect::Scan => coordinator.scanned(now, Ok(rows.clone().into())),
                // One that is not complete is taken down as well.
                Effect::ListShards => drop(coordinator.listed(now, Ok(list.clone()))),
                _ => {}
            }
        }
    }
    drop(coordinator);
    lines.all()
}

#[test]
fn no_line_is_longer_than_log_drivers_take_whatever_the_number_of_shards() {
    for shards in [1, 37, 60, 500, 3000] {
        let lines = long_run(shards);
        assert_eq!(first_error(&lines), None);
        let longest = lines.iter().map(String::len).max().unwrap();
        assert!(longest <= 8 * 1024, "{longest} bytes with {shards} shards");
        // A driver splits what an application writes, be it JSON, before it puts it into JSON itself.
        let longest = lines.iter().map(|line| in_json(line, 1).len()).max().unwrap();
        assert!(longest <= 15 * 1024, "{longest} bytes in JSON with {shards} shards");
        assert_eq!(shards > 30, lines.iter().any(|line| line.contains(r#","more":true}"#)), "{shards}");
    }
}

#[test]
fn a_part_that_is_missing_is_a_missing_entry() {
    let mut lines = long_run(500);
    let part = lines.iter().position(|line| line.contains(r#","more":true}"#)).unwrap();
    lines.remove(part + 1);
    let (last, found) = (part as u64 + 1, part as u64 + 3);
    assert_eq!(first_error(&lines), Some((part + 1, JournalError::Missing { last, found })));
}

#[test]
fn rows_and_lists_that_are_as_before_are_not_written_again() {
    let lines = long_run(60);
    let rows = |line: &&String| line.contains(r#""s00059""#);
    let told = lines.iter().filter(rows).count();
    assert!(told < 8, "{told} lines of {} tell of a row that stays as it is", lines.len());
}

#[test]
fn every_scan_is_read_as_it_was_written() {
    let mut random = fastrand::Rng::with_seed(5);
    let lines = Lines::default();
    let settings = World::new(Checkpoint::TrimHorizon).settings.clone();
    let mut coordinator = lines.coordinator(settings, fastrand::Rng::with_seed(1));
    let mut rows: Vec<Lease> = Vec::new();
    let mut scans = Vec::new();
    for second in 0..300 {
        for _ in 0..random.usize(..3) {
            let name = format!("s{}", random.usize(..8));
            let index = random.usize(..=rows.len());
            match random.usize(..6) {
                0 => rows.insert(index, row(&name, &["p"], Checkpoint::Latest)),
                1 => rows.insert(index, Lease { shard: name.as_str().into(), ..full_row() }),
                2 if index < rows.len() => drop(rows.remove(index)),
                3 if index < rows.len() => rows[index].counter = random.i64(..),
                4 if index < rows.len() => rows[index].owner = random.bool().then(|| "other".into()),
                5 if index < rows.len() => rows[index].latest_since = None,
                _ => rows.reverse(),
            }
        }
        let unreadable = (0..random.usize(..3)).map(|shard| format!("u{shard}").into()).collect();
        let scan = Scan { leases: rows.clone(), unreadable };
        coordinator.scanned(secs(second), Ok(scan.clone()));
        while coordinator.next_effect().is_some() {}
        scans.push(scan);
    }
    drop(coordinator);
    let (_, events) = events(&lines.all());
    let read = events.into_iter().filter_map(|event| match event {
        Event::In { input: Input::Scanned(Ok(scan)), .. } => Some(scan),
        _ => None,
    });
    assert_eq!(read.collect::<Vec<_>>(), scans);
    assert_eq!(lines.assert_replayable(), 1);
}

#[test]
fn a_write_is_written_once_unless_its_outcome_tells_of_another() {
    let mut world = World::holding_a();
    let due = world.coordinator.next_wakeup().unwrap();
    world.coordinator.tick(due);
    let effect = world.coordinator.next_effect();
    let Some(Effect::Write(acquisition, write)) = effect else { panic!("{effect:?}") };
    let mut last = |write: &LeaseWrite| {
        world.coordinator.written(due, acquisition, write.clone(), Ok(Written::Refused(None)));
        while world.coordinator.next_effect().is_some() {}
        world.journal.all().last().unwrap().clone()
    };
    assert!(last(&write).contains("refused"));
    let other = LeaseWrite { expected_counter: 77, ..write };
    assert!(last(&other).contains(r#""expected_counter":77"#));
    let read = events(&world.journal.all()).1;
    assert!(read.iter().any(|event| {
        format!("{event:?}").contains("Written(Acquisition(1), LeaseWrite { shard: a, expected_counter: 77")
    }));
}

#[test]
fn a_journal_whose_line_is_refused_ends_with_a_word_of_that() {
    for refused in [0, 1, 5, 9] {
        let lines = Lines::default();
        let taken = lines.clone();
        let mut calls = 0;
        let sink = move |line| {
            calls += 1;
            let is_taken = calls != refused + 1;
            if is_taken {
                taken.0.lock().unwrap().push(line);
            }
            is_taken
        };
        let settings = World::new(Checkpoint::TrimHorizon).settings.clone();
        let mut coordinator = Coordinator::recorded(settings, fastrand::Rng::with_seed(1), sink);
        let many: Vec<_> = (0..200).map(|number| row(&format!("s{number}"), &[], at(1))).collect();
        for now in (0..60).map(secs) {
            coordinator.tick(now);
            while let Some(effect) = coordinator.next_effect() {
                if effect == Effect::Scan {
                    coordinator.scanned(now, Ok(many.clone().into()));
                }
            }
        }
        let lines = lines.all();
        assert_eq!(lines.len(), refused + 1);
        assert_eq!(first_error(&lines), Some((refused, JournalError::Ended(Ending::NotTaken))));
    }
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
    let lines = lines.all();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let (number, error) = first_error(&lines).unwrap();
    assert!(number == 2 && matches!(error, JournalError::Ended(Ending::Unwritable(_))), "{error}");
}
