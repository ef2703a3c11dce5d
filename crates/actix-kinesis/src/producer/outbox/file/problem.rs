//! What goes wrong in a database.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::StoreError;

/// What went wrong in the database.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Database(redb::Error),
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
    pub(super) fn at(self, file: &Path) -> StoreError {
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
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Problem::Panicked(text.unwrap_or("no message").to_owned()))
    })
}
