//! Events together with what commits them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kinesis_record::{Checkpoint, Position, ShardId};

use crate::consumer::{AnswerLink, ConsumerEvent, EventHandle, EventProcessed, Offered};

/// A value made of an event, and the handle that commits the event. It comes out of a [`Source`](super::Source) with the
/// event itself for a value.
///
/// Every event must be committed, skipped or failed, in any order: the checkpoint of its shard stays before the first that is
/// not. Dropped without either, it counts as failed.
#[derive(Debug)]
#[must_use = "an event that is dropped without a commit counts as failed, and is delivered again"]
pub struct CommittableEvent<T = ConsumerEvent> {
    value: T,
    commit: CommitHandle,
}

impl CommittableEvent {
    pub(crate) fn take(offered: Offered) -> Option<Self> {
        let (event, handle) = offered.take_with_deadline()?;
        Some(Self { value: event.clone(), commit: CommitHandle { event, handle } })
    }
}

impl<T> CommittableEvent<T> {
    /// Puts together what [`split`](Self::split) has taken apart.
    pub fn new(value: T, commit: CommitHandle) -> Self {
        Self { value, commit }
    }

    /// The value: the event, or what was made of it.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The handle that commits the event.
    pub fn commit_handle(&self) -> &CommitHandle {
        &self.commit
    }

    /// Makes another value of it, which commits the same event.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> CommittableEvent<U> {
        CommittableEvent { value: f(self.value), commit: self.commit }
    }

    /// Makes another value of it by a future, which commits the same event. If the future is dropped, the event counts as
    /// failed.
    ///
    /// ```
    /// use actix_kinesis::consumer::ConsumerEvent;
    /// use actix_kinesis::stream::{CommittableEvent, Source};
    /// use futures::{StreamExt, TryStreamExt};
    ///
    /// # async fn look_up(event: ConsumerEvent) -> usize { event.payload().len() }
    /// # async fn run(source: Source) -> Result<(), Box<dyn std::error::Error>> {
    /// // Eight at a time, in their order.
    /// let mut found = source.map_ok(|event| async { Ok(event.map_async(look_up).await) }).try_buffered(8);
    /// while let Some(event) = found.try_next().await? {
    ///     println!("{}", event.value());
    ///     event.commit();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn map_async<F: Future>(self, f: impl FnOnce(T) -> F) -> CommittableEvent<F::Output> {
        CommittableEvent { value: f(self.value).await, commit: self.commit }
    }

    /// The value and the handle, apart.
    pub fn split(self) -> (T, CommitHandle) {
        (self.value, self.commit)
    }

    /// The event is done: see [`CommitHandle::commit`].
    pub fn commit(self) {
        self.commit.commit();
    }

    /// The event is not wanted: see [`CommitHandle::skip`].
    pub fn skip(self) {
        self.commit.skip();
    }

    /// The event could not be processed: see [`CommitHandle::fail`].
    pub fn fail(self, reason: impl fmt::Display) {
        self.commit.fail(reason);
    }
}

impl<T, E> CommittableEvent<Result<T, E>> {
    /// The value if there is one; else the event [fails](CommitHandle::fail) for the error, which is returned.
    ///
    /// # Errors
    /// The error that was the value.
    pub fn or_fail(self) -> Result<CommittableEvent<T>, E>
    where
        E: fmt::Display,
    {
        match self.value {
            Ok(value) => Ok(CommittableEvent { value, commit: self.commit }),
            Err(error) => {
                self.commit.fail(&error);
                Err(error)
            }
        }
    }
}

/// Says what became of one event that was taken from a source, from any thread. None of its methods waits; what is
/// said of an event whose shard is no longer read here is counted and otherwise ignored.
///
/// Dropped before it has said anything, it says that processing failed.
#[derive(Debug)]
#[must_use = "an event whose handle is dropped counts as failed, and is delivered again"]
pub struct CommitHandle {
    event: ConsumerEvent,
    handle: EventHandle,
}

impl CommitHandle {
    /// The shard of the event.
    pub fn shard(&self) -> &ShardId {
        self.event.shard()
    }

    /// The place of the event in its shard.
    pub fn position(&self) -> &Position {
        self.event.position()
    }

    /// 1 at the first delivery by this shard's worker, one more with each further one.
    pub fn attempt(&self) -> u32 {
        self.handle.delivery.attempt
    }

    /// The event is done, as by [`EventProcessed::Processed`]. The checkpoint moves behind it when all before it in the shard
    /// are done, and is stored at most once per `checkpointer.interval`; [`CommitBatch`] waits for that.
    pub fn commit(self) {
        self.handle.answer(EventProcessed::Processed);
    }

    /// The event is not wanted, as by [`EventProcessed::Skipped`]: the checkpoint may move behind it.
    pub fn skip(self) {
        self.handle.answer(EventProcessed::Skipped);
    }

    /// The event could not be processed, as by [`EventProcessed::Failed`]: it is delivered again, at most
    /// `failed-message-retries` times; then `failure-policy` decides. The reason is logged.
    pub fn fail(self, reason: impl fmt::Display) {
        self.handle.answer(EventProcessed::failed(reason));
    }
}

/// Commits many events at once, and tells when that is stored in the lease table.
///
/// ```
/// use actix_kinesis::stream::{CommitBatch, Source};
/// use futures::{StreamExt, TryStreamExt};
///
/// # async fn run(source: Source) -> Result<(), Box<dyn std::error::Error>> {
/// let mut chunks = source.ready_chunks(100);
/// while let Some(chunk) = chunks.next().await {
///     let mut batch = CommitBatch::new();
///     for event in chunk {
///         let (event, handle) = event?.split();
///         println!("{}", event.position());
///         batch.push(handle);
///     }
///     batch.commit().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use = "the events of a batch that is dropped count as failed, and are delivered again"]
pub struct CommitBatch(Vec<CommitHandle>);

impl CommitBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    pub fn push(&mut self, event: CommitHandle) {
        self.0.push(event);
    }

    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Commits all of them, at once and in any case, as [`CommitHandle::commit`] does. The future resolves when the
    /// checkpoint of each of their shards is stored behind the last of them there, which needs all events before it to be
    /// done, too. Dropping it changes nothing.
    ///
    /// # Errors
    /// [`NotStored`] if that will not be seen here: the lease of a shard was lost, or was given away before.
    pub fn commit(self) -> impl Future<Output = Result<(), NotStored>> + Send + 'static {
        let mut last: HashMap<*const AnswerLink, (Arc<AnswerLink>, ConsumerEvent)> = HashMap::new();
        for CommitHandle { event, handle } in self.0 {
            if let Some(link) = &handle.link {
                last.entry(Arc::as_ptr(link))
                    .and_modify(|(_, last)| {
                        if last.position() < event.position() {
                            *last = event.clone();
                        }
                    })
                    .or_insert_with(|| (Arc::clone(link), event));
            }
            handle.answer(EventProcessed::Processed);
        }
        // A pointer must not be held over an await.
        let last: Vec<_> = last.into_values().map(|(link, event)| (link.stored(), event)).collect();
        async move {
            for (mut stored, event) in last {
                let place = Checkpoint::At(event.position().clone());
                if stored.wait_for(|stored| *stored >= place).await.is_err() {
                    let (shard, position) = (event.shard().clone(), event.position().clone());
                    return Err(NotStored { shard, position });
                }
            }
            Ok(())
        }
    }
}

impl Extend<CommitHandle> for CommitBatch {
    fn extend<I: IntoIterator<Item = CommitHandle>>(&mut self, events: I) {
        self.0.extend(events);
    }
}

/// A commit that was not stored while this process read the shard. The event may be delivered again, here or by another
/// process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the commit of {position} in shard {shard} was not stored before the shard's lease was given up or lost"
)]
pub struct NotStored {
    /// The shard.
    pub shard: ShardId,
    /// The last position that was to be committed in it.
    pub position: Position,
}
