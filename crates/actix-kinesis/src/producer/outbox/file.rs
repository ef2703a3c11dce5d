//! The store in a directory: a redb database beside a lock.

use std::fs::{self, File, TryLockError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::row::{self, RowError};
use super::store::{Change, Entry, Kept, OutboxStore, StoreError};

const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("entries");
const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

const FILE: &str = "outbox.redb";
const LOCK: &str = "outbox.lock";
const FORMAT: u64 = 1;
/// What the database may keep of its file in memory, in bytes.
const CACHE: usize = 16 << 20;

/// Keeps events in a directory: `outbox.redb`, a database of the crate `redb`, and `outbox.lock`, which holds off
/// others. Each [`apply`](OutboxStore::apply) is one transaction and ends with an fsync. At the start the checksums of
/// the whole file are checked, which reads it once.
#[derive(Debug)]
pub struct FileStore {
    file: PathBuf,
    /// Closed after a failure: the database takes nothing more until it is opened anew.
    database: Option<Database>,
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
        Ok(Self { file, database: Some(database), _lock: lock })
    }

    /// Does something with the database, and closes it if that fails.
    fn with<T>(&mut self, work: impl FnOnce(&Database) -> Result<T, Problem>) -> Result<T, StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => open(&self.file)?,
        };
        match guarded(|| work(&database)) {
            Ok(done) => {
                self.database = Some(database);
                Ok(done)
            }
            Err(problem) => Err(problem.at(&self.file)),
        }
    }
}

impl OutboxStore for FileStore {
    fn entries(&mut self) -> Result<Vec<Entry>, StoreError> {
        self.with(entries)
    }

    fn read(&mut self, numbers: &[u64]) -> Result<Vec<Option<Kept>>, StoreError> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let events = transaction.open_table(EVENTS)?;
            let read = |number: &u64| -> Result<Option<Kept>, Problem> {
                let row = events.get(number)?;
                Ok(row.map(|row| row::decode_event(row.value())).transpose()?)
            };
            numbers.iter().map(read).collect()
        })
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.with(|database| commit(database, changes))
    }
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

fn entries(database: &Database) -> Result<Vec<Entry>, Problem> {
    let entries = database.begin_read()?.open_table(ENTRIES)?;
    let rows = entries.iter()?.map(|row| {
        let (number, row) = row?;
        Ok(row::decode_entry(number.value(), row.value())?)
    });
    rows.collect()
}

type Rows<'a> = redb::Table<'a, u64, &'static [u8]>;

fn make(change: &Change, entries: &mut Rows<'_>, events: &mut Rows<'_>) -> Result<(), Problem> {
    match change {
        Change::Add { number, kept } => {
            let entry = row::encode_entry(&Entry::of(*number, kept));
            entries.insert(number, entry.as_slice())?;
            events.insert(number, row::encode_event(kept).as_slice())?;
        }
        Change::Remove { number } => {
            entries.remove(number)?;
            events.remove(number)?;
        }
        Change::Park { number, reason } => {
            let known = entries.get(number)?;
            let entry = known.map(|row| row::decode_entry(*number, row.value())).transpose()?;
            if let Some(entry) = entry {
                let parked = row::encode_entry(&Entry { parked: Some(reason.clone()), ..entry });
                entries.insert(number, parked.as_slice())?;
            }
        }
        Change::Move { number, to } => {
            let known = entries.remove(number)?;
            let entry = known.map(|row| row::decode_entry(*to, row.value())).transpose()?;
            let event = events.remove(number)?.map(|row| row.value().to_vec());
            if let (Some(entry), Some(event)) = (entry, event) {
                let waiting = row::encode_entry(&Entry { parked: None, ..entry });
                entries.insert(to, waiting.as_slice())?;
                events.insert(to, event.as_slice())?;
            }
        }
    }
    Ok(())
}

/// What went wrong in the database.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Database(redb::Error),
    #[error(transparent)]
    Row(#[from] RowError),
    #[error("{0}")]
    Format(String),
    #[error("the database panicked: {0}")]
    Panicked(String),
}

macro_rules! problems {
    ($($error:ident),*) => {
        $(impl From<redb::$error> for Problem {
            fn from(error: redb::$error) -> Self {
                Self::Database(error.into())
            }
        })*
    };
}

problems!(CommitError, DatabaseError, StorageError, TableError, TransactionError);

impl Problem {
    fn at(self, file: &Path) -> StoreError {
        match self {
            Self::Database(redb::Error::Io(error)) if !is_damage(&error) => StoreError::failed(file, error),
            Self::Database(error @ redb::Error::PreviousIo) => StoreError::failed(file, error),
            Self::Database(redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch) => {
                StoreError::InUse { path: file.to_owned() }
            }
            problem => StoreError::damaged(file, problem),
        }
    }
}

/// A file that ends too early or does not begin as a database does.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// The database finds some damage by panicking.
fn guarded<T>(work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Problem::Panicked(text.unwrap_or("no message").to_owned()))
    })
}

fn lock(directory: &Path) -> Result<File, StoreError> {
    fs::create_dir_all(directory).map_err(|error| StoreError::failed(directory, error))?;
    let path = directory.join(LOCK);
    let lock = File::options().create(true).truncate(false).write(true).open(&path);
    let lock = lock.map_err(|error| StoreError::failed(&path, error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: directory.to_owned() }),
        Err(TryLockError::Error(error)) => Err(StoreError::failed(&path, error)),
    }
}

/// Under another name until it is complete, so that an empty file is always a damaged one.
fn create(directory: &Path, file: &Path) -> Result<(), StoreError> {
    let new = directory.join(format!("{FILE}.new"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::failed(&new, error));
        }
        _ => {}
    }
    let write = || -> Result<(), Problem> {
        let database = Database::create(&new)?;
        let transaction = database.begin_write()?;
        transaction.open_table(ENTRIES)?;
        transaction.open_table(EVENTS)?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert("format", FORMAT)?;
        }
        Ok(transaction.commit()?)
    };
    guarded(write).map_err(|problem| problem.at(&new))?;
    fs::rename(&new, file).map_err(|error| StoreError::failed(file, error))?;
    let parents = [Some(directory), directory.parent().filter(|parent| !parent.as_os_str().is_empty())];
    parents.into_iter().flatten().try_for_each(sync_directory)
}

/// So that the name of the file outlives the power too.
fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    if cfg!(unix) {
        let synced = File::open(directory).and_then(|opened| opened.sync_all());
        synced.map_err(|error| StoreError::failed(directory, error))?;
    }
    Ok(())
}

fn open(file: &Path) -> Result<Database, StoreError> {
    let open = || -> Result<Database, Problem> {
        let database =
            Database::builder().set_cache_size(CACHE).set_check_integrity_on_open(true).open(file)?;
        let transaction = database.begin_read()?;
        let meta = transaction.open_table(META)?;
        let format = meta.get("format")?.map(|format| format.value());
        match format {
            Some(FORMAT) => Ok(()),
            Some(other) => Err(Problem::Format(format!("its format is {other}, and {FORMAT} is known"))),
            None => Err(Problem::Format("it has no format".to_owned())),
        }?;
        drop((meta, transaction));
        Ok(database)
    };
    guarded(open).map_err(|problem| problem.at(file))
}

#[cfg(test)]
mod tests;
