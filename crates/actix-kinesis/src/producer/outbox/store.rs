//! What an outbox asks of the disk.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use kinesis_record::HashKey;

use crate::producer::{MessageId, ProducerEvent};

/// What an entry takes beside what is counted of it, in bytes.
const OVERHEAD: u64 = 128;

/// Keeps the events of an outbox. The one that comes with the library is [`FileStore`](super::FileStore).
///
/// Its methods block, and are called one at a time on threads for blocking work.
pub trait OutboxStore: fmt::Debug + Send + 'static {
    /// All that is kept. Called once, at the start.
    ///
    /// # Errors
    /// When it cannot be read as a whole. The outbox then does not start.
    fn contents(&mut self) -> Result<Contents, StoreError>;

    /// What is kept under these numbers, in this order. It is asked for while [`apply`](Self::apply) fails, too: what was
    /// accepted is still to be sent.
    ///
    /// # Errors
    /// When nothing can be read now. The outbox tries again after a pause. One event that cannot be read is no such error.
    fn read(&mut self, numbers: &[u64]) -> Result<Vec<Row>, StoreError>;

    /// Makes all changes, in this order, or none of them. When it returns, they outlive the process and the power.
    ///
    /// # Errors
    /// When that cannot be promised. Events that were to be added are then refused, and taken out again by the next call
    /// in case that they were kept all the same. All other changes are made again after a pause: each has to bear it.
    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError>;
}

/// An event as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What the application knows it by.
    pub message_id: MessageId,
    /// The event.
    pub event: ProducerEvent,
    /// When it was handed over, by the wall clock in milliseconds.
    pub accepted: SystemTime,
}

impl Kept {
    /// What is counted of it: payload, partition key, stream and message id, and 128 bytes.
    pub fn bytes(&self) -> u64 {
        let stream = self.event.stream.as_ref().map_or(0, |stream| stream.len());
        (self.event.size() + stream + self.message_id.as_str().len()) as u64 + OVERHEAD
    }
}

/// What an outbox has to know of an event to decide when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number. Those of a partition key are sent in this order.
    pub number: u64,
    /// The stream. None stands for that of the configuration; an outbox names it in all that it adds.
    pub stream: Option<Arc<str>>,
    /// The hash key of the partition key.
    pub group: HashKey,
    /// [`Kept::bytes`].
    pub bytes: u64,
    /// [`Kept::accepted`].
    pub accepted: SystemTime,
    /// Why it is parked, if it is.
    pub parked: Option<Arc<str>>,
}

impl Entry {
    /// That of an event that is not parked.
    pub fn of(number: u64, kept: &Kept) -> Self {
        Self {
            number,
            stream: kept.event.stream.clone(),
            group: HashKey::of_partition_key(&kept.event.partition_key),
            bytes: kept.bytes(),
            accepted: kept.accepted,
            parked: None,
        }
    }
}

/// All that a store keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// In ascending order of their numbers.
    pub entries: Vec<Entry>,
    /// Those of which not even an entry can be made.
    pub unreadable: Vec<Unreadable>,
}

/// What a store has under a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// An event.
    Kept(Kept),
    /// Nothing.
    Missing,
    /// Something that is no event, and why.
    Unreadable(Arc<str>),
}

/// An event that was accepted and cannot be read. It stays on the disk as it is, and is tried again at the next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// What [`Outbox::discard`](super::Outbox::discard) knows it by.
    pub number: u64,
    /// What is counted of it: [`Kept::bytes`], as far as that is known.
    pub bytes: u64,
    /// Where it is, and why it cannot be read.
    pub problem: Arc<str>,
}

/// A change of what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds an event under a number that none has.
    Add {
        /// The number.
        number: u64,
        /// The event.
        kept: Kept,
    },
    /// Takes out what is under a number, if something is.
    Remove {
        /// Its number.
        number: u64,
    },
    /// Notes that an event is not to be sent, if it is there.
    Park {
        /// Its number.
        number: u64,
        /// Why.
        reason: Arc<str>,
    },
    /// Gives a parked event another number, under which it is to be sent, if it is there.
    Move {
        /// Its number.
        number: u64,
        /// The other, that none has.
        to: u64,
    },
}

/// Why an outbox could not read or write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has it open, or another outbox of this one.
    #[error(
        "the outbox in {} is open in another process, or a second time in this one: give each its own `outbox.path`",
        .path.display()
    )]
    InUse {
        /// Where it is.
        path: PathBuf,
    },
    /// What is there is not what was written.
    #[error(
        "the outbox file {} is damaged ({problem}). Events that were accepted and not yet sent may be lost with it: move \
         it away for a look, or put a copy back, and start again",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// It cannot be read or written now: no room, no permission, a read-only or failing disk.
    #[error("the outbox cannot use {}: {problem}", .path.display())]
    Failed {
        /// What could not be used.
        path: PathBuf,
        /// What the system says.
        problem: String,
    },
}

impl StoreError {
    pub(super) fn failed(path: &Path, problem: impl fmt::Display) -> Self {
        Self::Failed { path: path.to_owned(), problem: problem.to_string() }
    }

    pub(super) fn damaged(path: &Path, problem: impl fmt::Display) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.to_string() }
    }
}
