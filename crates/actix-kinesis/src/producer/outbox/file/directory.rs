//! The directory of an outbox: its lock, and its database as it is made and opened.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::Path;

use redb::{Builder, Database, ReadableDatabase};

use super::overlay::Overlay;
use super::problem::{Problem, guarded};
use super::{ENTRIES, EVENTS, FILE, META, StoreError};

const LOCK: &str = "outbox.lock";
const PROBE: &str = "outbox.probe";
const FORMAT: u64 = 2;
/// What the database may keep of its file in memory, in bytes.
const CACHE: usize = 16 << 20;

pub(super) fn lock(directory: &Path) -> Result<File, StoreError> {
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
pub(super) fn create(directory: &Path, file: &Path) -> Result<(), StoreError> {
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

/// Whether the disk takes so many bytes. It is asked before a database that failed is opened anew.
pub(super) fn probe(directory: &Path, bytes: u64) -> Result<(), StoreError> {
    let path = directory.join(PROBE);
    let write = || {
        let mut file = File::create(&path)?;
        io::copy(&mut io::repeat(0).take(bytes), &mut file)?;
        file.sync_all()
    };
    let written = write();
    // What is left of it is overwritten by the next one.
    let _ = fs::remove_file(&path);
    written.map_err(|error| StoreError::failed(&path, error))
}

pub(super) fn open(file: &Path) -> Result<Database, StoreError> {
    guarded(|| checked(builder().open(file)?)).map_err(|problem| problem.at(file))
}

/// Without a write to the file.
pub(super) fn open_to_read(file: &Path) -> Result<Database, StoreError> {
    let overlay = Overlay::open(file).map_err(|error| StoreError::failed(file, error))?;
    guarded(|| checked(builder().create_with_backend(overlay)?)).map_err(|problem| problem.at(file))
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder
}

fn checked(database: Database) -> Result<Database, Problem> {
    let format = database.begin_read()?.open_table(META)?.get("format")?.map(|format| format.value());
    match format {
        Some(FORMAT) => Ok(database),
        Some(other) => Err(Problem::Format(format!("its format is {other}, and {FORMAT} is known"))),
        None => Err(Problem::Format("it has no format".to_owned())),
    }
}
