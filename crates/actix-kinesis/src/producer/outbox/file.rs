//! The store in a directory: a redb database beside a lock.

mod directory;
mod overlay;
mod problem;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::row::{self, RowError};
use super::store::{Change, Contents, Entry, Kept, OutboxStore, Row, StoreError, Unreadable};
use directory::{create, lock, open, open_to_read, probe};
use problem::{Problem, guarded};

const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("entries");
const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

const FILE: &str = "outbox.redb";
/// What a change may take besides its events: some pages of each table.
const PAGES: u64 = 64 << 10;
/// How often a database that failed is opened anew although the disk does not take what is to be written: what was freed in
/// its file may do.
const RETRY: Duration = Duration::from_secs(60);

/// Keeps events in a directory: `outbox.redb`, a database of the crate `redb`, and `outbox.lock`, which holds off
/// others. Each [`apply`](OutboxStore::apply) is one transaction and ends with an fsync.
///
/// After an end that was not clean, and after a failure to write, the database checks all that is kept, which reads it
/// once. After a clean end it does not, and each event is checked when it is read. While the disk takes no writes, what is
/// kept is read without any. A try to write opens the database anew, which checks all as well, so that one is made only when
/// the disk takes as much as is to be written, and once a minute whatever it takes: room in the file may have become free.
#[derive(Debug)]
pub struct FileStore {
    directory: PathBuf,
    file: PathBuf,
    /// Closed after a failure: the database takes nothing more until it is opened anew.
    database: Option<Database>,
    /// In place of the database, while that is closed.
    reader: Option<Database>,
    /// From when on a database that is closed is opened whatever the disk takes.
    retry_at: Instant,
    _lock: File,
}

impl FileStore {
    /// Opens the outbox in this directory, making both if they are not there.
    ///
    /// # Errors
    /// When it is in use, damaged, or the directory cannot be written to.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let lock = lock(directory)?;
        let file = directory.join(FILE);
        let exists = file.try_exists().map_err(|error| StoreError::failed(&file, error))?;
        if !exists {
            create(directory, &file)?;
        }
        let database = open(&file)?;
        let directory = directory.to_owned();
        let retry_at = Instant::now();
        Ok(Self { directory, file, database: Some(database), reader: None, retry_at, _lock: lock })
    }

    /// Does something with the database that takes so many bytes of the disk, and closes it if that fails.
    fn with<T>(
        &mut self,
        bytes: u64,
        work: impl FnOnce(&Database) -> Result<T, Problem>,
    ) -> Result<T, StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => self.open_anew(bytes)?,
        };
        match guarded(|| work(&database)) {
            Ok(done) => {
                self.database = Some(database);
                Ok(done)
            }
            Err(problem) => {
                self.retry_at = Instant::now() + RETRY;
                Err(problem.at(&self.file))
            }
        }
    }

    fn open_anew(&mut self, bytes: u64) -> Result<Database, StoreError> {
        if Instant::now() < self.retry_at {
            probe(&self.directory, bytes)?;
        }
        self.retry_at = Instant::now() + RETRY;
        self.reader = None;
        open(&self.file)
    }

    /// Reads from the database, or beside it while it is closed.
    fn reading<T>(&mut self, work: impl FnOnce(&Database) -> Result<T, Problem>) -> Result<T, StoreError> {
        if self.database.is_some() {
            return self.with(0, work);
        }
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => open_to_read(&self.file)?,
        };
        let done = guarded(|| work(&reader)).map_err(|problem| problem.at(&self.file))?;
        self.reader = Some(reader);
        Ok(done)
    }
}

impl OutboxStore for FileStore {
    fn contents(&mut self) -> Result<Contents, StoreError> {
        let file = self.file.clone();
        self.with(PAGES, |database| contents(database, &file))
    }

    fn read(&mut self, numbers: &[u64]) -> Result<Vec<Row>, StoreError> {
        let file = self.file.clone();
        self.reading(|database| {
            let events = database.begin_read()?.open_table(EVENTS)?;
            let read = |number: &u64| -> Result<Row, Problem> {
                Ok(match events.get(number)? {
                    None => Row::Missing,
                    Some(row) => match row::decode_event(*number, row.value()) {
                        Ok(kept) => Row::Kept(kept),
                        Err(error) => Row::Unreadable(told(&file, *number, &error)),
                    },
                })
            };
            numbers.iter().map(read).collect()
        })
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.with(needed(changes), |database| commit(database, changes))
    }
}

/// The most that these changes are thought to take of the disk. What they free is not counted.
fn needed(changes: &[Change]) -> u64 {
    let added =
        changes.iter().map(|change| if let Change::Add { kept, .. } = change { kept.bytes() } else { 0 });
    PAGES + added.sum::<u64>()
}

fn told(file: &Path, number: u64, error: &RowError) -> Arc<str> {
    format!("row {number} of {} cannot be read: {error}", file.display()).into()
}

/// In one transaction, which is on the disk when this returns: that is how redb commits unless it is told otherwise.
fn commit(database: &Database, changes: &[Change]) -> Result<(), Problem> {
    let transaction = database.begin_write()?;
    {
        let mut entries = transaction.open_table(ENTRIES)?;
        let mut events = transaction.open_table(EVENTS)?;
        changes.iter().try_for_each(|change| make(change, &mut entries, &mut events))?;
    }
    Ok(transaction.commit()?)
}

/// An entry that cannot be read is made anew from its event.
fn contents(database: &Database, file: &Path) -> Result<Contents, Problem> {
    let transaction = database.begin_read()?;
    let (rows, events) = (transaction.open_table(ENTRIES)?, transaction.open_table(EVENTS)?);
    let (mut entries, mut broken) = (BTreeMap::new(), BTreeMap::new());
    for row in rows.iter()? {
        let (number, row) = row?;
        match row::decode_entry(number.value(), row.value()) {
            Ok(entry) => drop(entries.insert(entry.number, entry)),
            Err(error) => drop(broken.insert(number.value(), (row.value().len(), error))),
        }
    }
    if !broken.is_empty() {
        // What is broken may be the number, so that all are looked at.
        for row in events.iter()? {
            let (number, row) = row?;
            let number = number.value();
            if entries.contains_key(&number) {
                continue;
            }
            match row::decode_event(number, row.value()) {
                Ok(kept) => {
                    broken.remove(&number);
                    entries.insert(number, Entry::of(number, &kept));
                }
                Err(error) => drop(broken.insert(number, (row.value().len(), error))),
            }
        }
    }
    let unreadable = broken.into_iter().map(|(number, (bytes, error))| Unreadable {
        number,
        bytes: bytes as u64,
        problem: told(file, number, &error),
    });
    Ok(Contents { entries: entries.into_values().collect(), unreadable: unreadable.collect() })
}

type Rows<'a> = redb::Table<'a, u64, &'static [u8]>;

fn make(change: &Change, entries: &mut Rows<'_>, events: &mut Rows<'_>) -> Result<(), Problem> {
    match change {
        Change::Add { number, kept } => {
            let entry = row::encode_entry(&Entry::of(*number, kept));
            entries.insert(number, entry.as_slice())?;
            events.insert(number, row::encode_event(*number, kept).as_slice())?;
        }
        Change::Remove { number } => {
            entries.remove(number)?;
            events.remove(number)?;
        }
        Change::Park { number, reason } => {
            if let Some(kept) = readable(events, *number)? {
                let parked = Entry { parked: Some(reason.clone()), ..Entry::of(*number, &kept) };
                entries.insert(number, row::encode_entry(&parked).as_slice())?;
            }
        }
        Change::Move { number, to } => {
            if let Some(kept) = readable(events, *number)? {
                make(&Change::Remove { number: *number }, entries, events)?;
                make(&Change::Add { number: *to, kept }, entries, events)?;
            }
        }
    }
    Ok(())
}

/// The event under this number, if it is there and can be read.
fn readable(events: &Rows<'_>, number: u64) -> Result<Option<Kept>, Problem> {
    let row = events.get(number)?;
    Ok(row.and_then(|row| row::decode_event(number, row.value()).ok()))
}

#[cfg(test)]
mod tests;
