//! Where a pipeline's values go.

use std::ops::RangeInclusive;

use kinesis_record::{Checkpoint, Position, ShardId};

/// A destination. It is shared by all shards, which emit side by side, each one batch at a time.
pub trait Emitter<T>: Send + Sync + 'static {
    /// Emits a batch. When this is `Ok`, everything in it is where it should be, and its events may be checkpointed.
    ///
    /// The future is dropped when the shard's lease is lost. It has no time limit; after a minute, a warning is logged.
    ///
    /// # Errors
    /// [`EmitError`] tells which items are to be tried again.
    fn emit(&self, batch: &Batch<T>) -> impl Future<Output = Result<(), EmitError>> + Send;

    /// The ranges of a shard's positions behind `checkpoint` whose events were emitted for good before this process began to
    /// read the shard. They are not emitted again. An emitter that knows makes of "at least once" "once", as far as no two
    /// processes emit the same shard at a time. A range may be told only if each event in it was emitted, filtered or put to the
    /// dead letters; [`Batch::range`] is one when all of the batch is emitted at once. A batch that
    /// [is redriven](Batch::is_redrive) may be behind the checkpoint, too: an emitter that does not tell it may get its event
    /// once more.
    ///
    /// By default none is known. An emitter that wraps another one must hand this on.
    ///
    /// # Errors
    /// [`EmitError`]: asked again until it is answered.
    fn emitted(
        &self,
        shard: &ShardId,
        checkpoint: &Checkpoint,
    ) -> impl Future<Output = Result<Vec<RangeInclusive<Position>>, EmitError>> + Send {
        let _ = (shard, checkpoint);
        async { Ok(Vec::new()) }
    }
}

/// What was gathered of one shard, in order. It has all that was made of the events in its range.
#[derive(Debug)]
pub struct Batch<T> {
    shard: ShardId,
    range: RangeInclusive<Position>,
    is_redrive: bool,
    attempt: u32,
    pub(super) items: Vec<Item<T>>,
}

/// A value in a batch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Item<T> {
    /// The position of the event that it was made of.
    pub position: Position,
    /// Which of the values of that event it is, from 0.
    pub index: usize,
    /// The value.
    pub value: T,
}

impl<T> Batch<T> {
    pub(super) fn new(
        shard: ShardId,
        range: RangeInclusive<Position>,
        items: Vec<Item<T>>,
        is_redrive: bool,
    ) -> Self {
        Self { shard, range, is_redrive, attempt: 1, items }
    }

    /// The shard.
    pub fn shard(&self) -> &ShardId {
        &self.shard
    }

    /// From the first to the last position that was gathered, those of events that went to the dead letters or were filtered out
    /// among them.
    pub fn range(&self) -> &RangeInclusive<Position> {
        &self.range
    }

    /// What is to be emitted. At a later attempt, what has failed.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &Item<T>> {
        self.items.iter()
    }

    /// 1 at the first attempt.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether it comes from dead letters. Its range may be that of a batch that was emitted.
    pub fn is_redrive(&self) -> bool {
        self.is_redrive
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Keeps the items at these places, for another attempt.
    pub(super) fn retain(&mut self, places: &[usize]) {
        let mut place = 0;
        self.items.retain(|_| {
            place += 1;
            places.binary_search(&(place - 1)).is_ok()
        });
    }

    pub(super) fn begin_next_attempt(&mut self) {
        self.attempt = self.attempt.saturating_add(1);
    }
}

/// Why a batch was not emitted. Causes are for logs and dead letters, and must not hold what must not be there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The destination does not take anything just now. All of the batch is tried again, with growing pauses, for as long as it
    /// takes; meanwhile the shard stands still.
    #[error("{0}")]
    Unavailable(String),
    /// Some items cannot be emitted just now, and all others are where they should be. Those are tried again, with growing pauses,
    /// for as long as it takes.
    #[error("{} items were not taken, the first because: {}", .0.len(), First(.0))]
    Later(Vec<FailedItem>),
    /// Some items failed, and all others are where they should be. Those are tried again as [`Retry`](super::Retry) says;
    /// then their events go to the dead letters. An index out of range is passed over.
    #[error("{} items failed, the first because: {}", .0.len(), First(.0))]
    Items(Vec<FailedItem>),
}

impl EmitError {
    /// [`EmitError::Unavailable`] for a cause.
    pub fn unavailable(cause: impl std::fmt::Display) -> Self {
        Self::Unavailable(cause.to_string())
    }
}

/// An item that was not emitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedItem {
    /// Its place among [`Batch::items`], from 0.
    pub place: usize,
    /// Why.
    pub cause: String,
}

struct First<'a>(&'a [FailedItem]);

impl std::fmt::Display for First<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.first().map_or(Ok(()), |failed| f.write_str(&failed.cause))
    }
}
