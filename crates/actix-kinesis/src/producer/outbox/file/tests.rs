use std::fs;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use kinesis_record::HashKey;
use redb::StorageBackend;
use tempfile::TempDir;

use super::*;
use crate::producer::ProducerEvent;

fn kept(key: &str, payload: impl Into<bytes::Bytes>) -> Kept {
    let accepted = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234);
    Kept { message_id: format!("id-{key}").into(), event: ProducerEvent::new(key, payload), accepted }
}

fn add(number: u64, kept: &Kept) -> Change {
    Change::Add { number, kept: kept.clone() }
}

fn open_in(directory: &TempDir) -> Result<FileStore, StoreError> {
    FileStore::open(&directory.path().join("outbox"))
}

fn file_of(directory: &TempDir) -> PathBuf {
    directory.path().join("outbox").join(FILE)
}

#[test]
fn an_event_comes_back_as_it_was_kept() {
    let directory = tempfile::tempdir().unwrap();
    let plain = kept("key", "");
    let mut full = kept("\u{10348}", vec![0xff; 3_000_000]);
    full.event = full.event.with_stream("other").with_explicit_hash_key(HashKey(u128::MAX));
    open_in(&directory).unwrap().apply(&[add(3, &plain), add(7, &full)]).unwrap();
    let mut store = open_in(&directory).unwrap();
    assert_eq!(
        store.read(&[7, 5, 3]).unwrap(),
        [Row::Kept(full.clone()), Row::Missing, Row::Kept(plain.clone())]
    );
    assert_eq!(store.contents().unwrap().entries, [Entry::of(3, &plain), Entry::of(7, &full)]);
}

#[test]
fn events_are_parked_moved_and_removed_and_each_change_bears_repetition() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open_in(&directory).unwrap();
    let event = kept("key", "1");
    store.apply(&[add(1, &event), add(2, &event), add(3, &event)]).unwrap();
    let changes = [
        Change::Park { number: 1, reason: "too large".into() },
        Change::Park { number: 2, reason: "too large".into() },
        Change::Remove { number: 3 },
        Change::Move { number: 2, to: 4 },
    ];
    for _ in 0..2 {
        store.apply(&changes).unwrap();
        let parked = Entry { parked: Some("too large".into()), ..Entry::of(1, &event) };
        assert_eq!(store.contents().unwrap().entries, [parked, Entry::of(4, &event)]);
        assert_eq!(store.read(&[1, 2, 3, 4]).unwrap().iter().filter(|row| **row != Row::Missing).count(), 2);
    }
}

#[test]
fn a_second_one_in_the_same_directory_is_refused_until_the_first_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let first = open_in(&directory).unwrap();
    let refused = open_in(&directory).unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains(directory.path().to_str().unwrap()), "{refused}");
    drop(first);
    open_in(&directory).unwrap();
}

#[test]
fn a_directory_that_cannot_be_used_is_named_with_the_cause() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("outbox"), "a file").unwrap();
    let refused = open_in(&directory).unwrap_err();
    assert!(matches!(refused, StoreError::Failed { .. }), "{refused}");
    assert!(refused.to_string().contains("outbox"), "{refused}");
}

#[test]
fn one_whose_making_was_cut_off_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("outbox")).unwrap();
    fs::write(file_of(&directory).with_extension("redb.new"), "half").unwrap();
    let mut store = open_in(&directory).unwrap();
    store.apply(&[add(1, &kept("key", "1"))]).unwrap();
}

fn event_of(number: u64) -> Kept {
    kept(&format!("key-{number}"), vec![7; 500])
}

/// The bytes of a file with 200 events.
fn filled(directory: &TempDir) -> Vec<u8> {
    let mut store = open_in(directory).unwrap();
    for number in 0..200 {
        store.apply(&[add(number, &event_of(number))]).unwrap();
    }
    drop(store);
    fs::read(file_of(directory)).unwrap()
}

fn assert_damaged(directory: &TempDir, what: &str) {
    let Err(error) = open_in(directory) else { panic!("{what} was not seen") };
    assert!(matches!(error, StoreError::Damaged { .. }), "{what}: {error}");
    assert!(error.to_string().contains(file_of(directory).to_str().unwrap()), "{what}: {error}");
}

#[test]
fn a_file_that_is_cut_short_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let whole = filled(&directory);
    for length in [0, 1, 100, 4_095, 4_096, whole.len() / 2, whole.len() - 4_096, whole.len() - 1] {
        fs::write(file_of(&directory), &whole[..length]).unwrap();
        assert_damaged(&directory, &format!("an end after {length} of {} bytes", whole.len()));
    }
    fs::write(file_of(&directory), &whole).unwrap();
    assert_eq!(open_in(&directory).unwrap().contents().unwrap().entries.len(), 200);
}

#[test]
fn a_file_of_something_else_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("outbox")).unwrap();
    for other in [vec![0; 100_000], b"a letter".repeat(2_000)] {
        fs::write(file_of(&directory), other).unwrap();
        assert_damaged(&directory, "another file");
    }
    fs::remove_file(file_of(&directory)).unwrap();
    drop(Database::create(file_of(&directory)).unwrap());
    assert_damaged(&directory, "another database");
}

#[test]
fn changed_bytes_are_told_and_never_pass_for_an_event() {
    let directory = tempfile::tempdir().unwrap();
    let whole = filled(&directory);
    let numbers: Vec<u64> = (0..200).collect();
    let (mut refused, mut told) = (0, 0);
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..300 {
        let mut damaged = whole.clone();
        let at = random.usize(..damaged.len());
        damaged[at] ^= 1 << random.u8(..8);
        fs::write(file_of(&directory), damaged).unwrap();
        let found = open_in(&directory).and_then(|mut store| Ok((store.contents()?, store.read(&numbers)?)));
        let (contents, rows) = match found {
            Ok(found) => found,
            Err(error) => {
                assert!(matches!(error, StoreError::Damaged { .. }), "byte {at}: {error}");
                refused += 1;
                continue;
            }
        };
        let known: Vec<u64> = contents.entries.iter().map(|entry| entry.number).collect();
        let unreadable: Vec<u64> = contents.unreadable.iter().map(|it| it.number).collect();
        for (number, row) in numbers.iter().zip(rows) {
            match row {
                Row::Kept(found) => {
                    assert!(known.contains(number), "byte {at}: {number} would not be sent");
                    assert!(found == event_of(*number), "byte {at}");
                }
                Row::Unreadable(problem) => {
                    assert!(known.contains(number) || unreadable.contains(number), "byte {at}: {number}");
                    assert!(problem.contains(file_of(&directory).to_str().unwrap()), "{problem}");
                    told += 1;
                }
                // Its number was changed.
                Row::Missing => {
                    assert!(known.contains(number) || !unreadable.is_empty(), "byte {at}: {number} is gone");
                    told += 1;
                }
            }
        }
    }
    assert!(refused >= 2 && told >= 20, "{refused} refused, {told} told");
}

#[test]
fn an_entry_that_cannot_be_read_is_made_from_its_event_and_else_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open_in(&directory).unwrap();
    let event = kept("key", "1");
    store.apply(&[add(1, &event), add(2, &event), add(3, &event), add(4, &event)]).unwrap();
    store.apply(&[Change::Park { number: 4, reason: "too large".into() }]).unwrap();
    damage(&mut store, ENTRIES, 1);
    damage(&mut store, ENTRIES, 2);
    damage(&mut store, EVENTS, 2);
    damage(&mut store, EVENTS, 3);
    damage(&mut store, ENTRIES, 4);
    for _ in 0..2 {
        let contents = store.contents().unwrap();
        assert_eq!(contents.entries, [1, 3, 4].map(|number| Entry::of(number, &event)));
        let [unreadable] = &contents.unreadable[..] else { panic!("{contents:?}") };
        assert_eq!(unreadable.number, 2);
        assert!(unreadable.problem.contains(store.file.to_str().unwrap()), "{}", unreadable.problem);
        let rows = store.read(&[1, 2, 3]).unwrap();
        assert!(matches!(&rows[..], [Row::Kept(_), Row::Unreadable(_), Row::Unreadable(_)]), "{rows:?}");
        // It stays, whatever is made of others.
        store
            .apply(&[Change::Park { number: 3, reason: "no".into() }, Change::Move { number: 2, to: 9 }])
            .unwrap();
    }
}

#[test]
fn an_event_under_the_number_of_another_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open_in(&directory).unwrap();
    store.apply(&[add(1, &kept("key", "1"))]).unwrap();
    store
        .with(0, |database| {
            let transaction = database.begin_write()?;
            {
                let mut events = transaction.open_table(EVENTS)?;
                let row = events.remove(1)?.unwrap().value().to_vec();
                events.insert(2, row.as_slice())?;
            }
            Ok(transaction.commit()?)
        })
        .unwrap();
    let rows = store.read(&[1, 2]).unwrap();
    assert!(matches!(&rows[..], [Row::Missing, Row::Unreadable(_)]), "{rows:?}");
}

/// Changes a byte of a row.
fn damage(store: &mut FileStore, table: TableDefinition<u64, &'static [u8]>, number: u64) {
    store
        .with(0, |database| {
            let transaction = database.begin_write()?;
            {
                let mut rows = transaction.open_table(table)?;
                let mut row = rows.get(number)?.unwrap().value().to_vec();
                row[3] ^= 1;
                rows.insert(number, row.as_slice())?;
            }
            Ok(transaction.commit()?)
        })
        .unwrap();
}

#[test]
fn what_is_kept_is_read_without_a_write_while_the_disk_takes_none() {
    for is_clean in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let mut store = open_in(&directory).unwrap();
        let event = kept("key", vec![7; 5_000]);
        (0..50).for_each(|number| store.apply(&[add(number, &event)]).unwrap());
        let as_after_a_crash = fs::read(&store.file).unwrap();
        // As a failed write leaves it.
        store.database = None;
        store.retry_at += RETRY;
        if !is_clean {
            fs::write(&store.file, as_after_a_crash).unwrap();
        }
        let before = fs::read(&store.file).unwrap();
        let probe = store.directory.join("outbox.probe");
        fs::create_dir(&probe).unwrap();
        for _ in 0..3 {
            let error = store.apply(&[add(50, &event)]).unwrap_err();
            assert!(error.to_string().contains("outbox.probe"), "{error}");
            assert_eq!(
                store.read(&[3, 49, 50]).unwrap(),
                [Row::Kept(event.clone()), Row::Kept(event.clone()), Row::Missing]
            );
        }
        assert!(fs::read(&store.file).unwrap() == before, "the file was written to");
        fs::remove_dir(&probe).unwrap();
        store.apply(&[add(50, &event), Change::Remove { number: 3 }]).unwrap();
        assert_eq!(store.read(&[3, 50]).unwrap(), [Row::Missing, Row::Kept(event.clone())]);
        assert!(!probe.exists());
    }
}

#[test]
fn a_database_that_failed_is_opened_when_the_disk_takes_what_is_to_be_written() {
    let removal = needed(&[Change::Remove { number: 1 }]);
    assert!(removal <= 64 << 10, "{removal}");
    let payload = 300_000;
    let added = needed(&[add(1, &kept("key", vec![7; payload]))]);
    assert!(added > payload as u64 && added < payload as u64 + removal + 1_024, "{added}");
}

#[test]
fn a_database_that_failed_is_opened_after_a_time_whatever_the_disk_takes() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open_in(&directory).unwrap();
    let event = kept("key", vec![7; 5_000]);
    store.apply(&[add(1, &event)]).unwrap();
    store.database = None;
    store.retry_at += RETRY;
    fs::create_dir(store.directory.join("outbox.probe")).unwrap();
    store.apply(&[Change::Remove { number: 1 }]).unwrap_err();
    store.retry_at = Instant::now();
    store.apply(&[Change::Remove { number: 1 }]).unwrap();
    assert_eq!(store.read(&[1]).unwrap(), [Row::Missing]);
}

/// A disk that loses what was written since the last sync, or any part of it.
#[derive(Debug, Clone, Default)]
struct Volatile(Arc<Mutex<Platter>>);

#[derive(Debug, Default)]
struct Platter {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Written since the last sync.
    unsynced: BTreeMap<usize, (u64, Vec<u8>)>,
}

impl Volatile {
    /// What is there after a power cut that spared some of the writes that were not synced.
    fn after_a_cut(&self, random: &mut fastrand::Rng) -> Self {
        let platter = self.0.lock().unwrap();
        let mut left = platter.synced.clone();
        for (offset, written) in platter.unsynced.values().filter(|_| random.bool()) {
            let from = *offset as usize;
            left.resize(left.len().max(from + written.len()), 0);
            left[from..from + written.len()].copy_from_slice(written);
        }
        Self(Arc::new(Mutex::new(Platter { now: left.clone(), synced: left, ..Platter::default() })))
    }
}

impl StorageBackend for Volatile {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let from = offset as usize;
        out.copy_from_slice(&self.0.lock().unwrap().now[from..from + out.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        self.0.lock().unwrap().now.resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut platter = self.0.lock().unwrap();
        platter.synced = platter.now.clone();
        platter.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut platter = self.0.lock().unwrap();
        let from = offset as usize;
        platter.now[from..from + data.len()].copy_from_slice(data);
        let count = platter.unsynced.len();
        platter.unsynced.insert(count, (offset, data.to_vec()));
        Ok(())
    }
}

#[test]
fn what_was_applied_outlives_a_power_cut_at_any_moment() {
    for seed in 0..5 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut disk = Volatile::default();
        let mut expected = BTreeMap::new();
        for round in 0..10_u64 {
            let database = Database::builder().create_with_backend(disk.clone()).unwrap();
            if round == 0 {
                commit(&database, &[]).unwrap();
            }
            let found: Vec<_> = contents(&database, Path::new("disk"))
                .unwrap()
                .entries
                .iter()
                .map(|entry| entry.number)
                .collect();
            assert_eq!(found, expected.keys().copied().collect::<Vec<_>>(), "seed {seed}, round {round}");
            for step in 0..random.u64(1..20) {
                let number = round * 100 + step;
                let event = kept(&format!("key-{number}"), vec![0; random.usize(..9_000)]);
                let mut changes = vec![add(number, &event)];
                expected.insert(number, ());
                if random.bool()
                    && let Some((oldest, ())) = expected.pop_first()
                {
                    changes.push(Change::Remove { number: oldest });
                }
                commit(&database, &changes).unwrap();
            }
            disk = disk.after_a_cut(&mut random);
        }
    }
}
