//! Events of which nothing could be made, or which could not be emitted.

use std::sync::Arc;

use bytes::Bytes;
use kinesis_record::{Checkpoint, Position, ShardId};

use super::emitter::EmitError;
use crate::consumer::ConsumerEvent;

/// Where events go that cannot be emitted. It should keep them, for somebody to look at and to redrive.
pub trait DeadLetters: Send + Sync + 'static {
    /// Keeps a letter. When this is `Ok`, the checkpoint may pass the event. The same letter may come again after a crash; one of
    /// the same shard and position replaces an earlier one.
    ///
    /// # Errors
    /// Tried again, with growing pauses, for as long as it takes; meanwhile the shard stands still.
    fn put(&self, letter: &DeadLetter) -> impl Future<Output = Result<(), EmitError>> + Send;

    /// The positions of a shard behind `checkpoint` of which there are letters, asked when this process begins to read the
    /// shard. Their events stay dead: they are not made again, whatever would come of them now, and wait to be redriven.
    ///
    /// A letter is kept before the batch of its event is emitted. If that does not happen, for a stop or a crash, the event comes
    /// again at the next start; if it does not fail then, it is emitted, and once more when its letter is redriven. Dead letters
    /// that tell what they have prevent that, as far as no two processes read the shard at a time. Who wants a stream read
    /// anew, with all of its events, must take away the letters first.
    ///
    /// By default none is known. Dead letters that wrap others must hand this on. A letter of another pipeline must not be
    /// told: its event would be missing here.
    ///
    /// # Errors
    /// [`EmitError`]: asked again until it is answered.
    fn kept(
        &self,
        shard: &ShardId,
        checkpoint: &Checkpoint,
    ) -> impl Future<Output = Result<Vec<Position>, EmitError>> + Send {
        let _ = (shard, checkpoint);
        async { Ok(Vec::new()) }
    }
}

/// Dead letters that can be taken out again; see [`Pipeline::redrive`](super::Pipeline::redrive).
pub trait DeadLetterStore: DeadLetters {
    /// Names a letter in the store.
    type Key: Send;

    /// The names of all letters.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn list(&self) -> impl Future<Output = Result<Vec<Self::Key>, EmitError>> + Send;

    /// A letter.
    ///
    /// # Errors
    /// When the store cannot be read, or what is there is no letter.
    fn get(&self, key: &Self::Key) -> impl Future<Output = Result<DeadLetter, EmitError>> + Send;

    /// Forgets a letter.
    ///
    /// # Errors
    /// When the store cannot be written to.
    fn delete(&self, key: &Self::Key) -> impl Future<Output = Result<(), EmitError>> + Send;
}

/// Where in the pipeline an event failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "object-store",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Stage {
    /// No value could be made of it.
    Decode,
    /// A transform failed, or a stage panicked.
    Transform,
    /// The emitter refused what was made of it.
    Emit,
}

/// An event that went no further, whole, and why. Its `Debug` shows neither payload nor key.
#[derive(Clone)]
pub struct DeadLetter {
    pub(super) stream: Arc<str>,
    pub(super) event: ConsumerEvent,
    pub(super) stage: Stage,
    pub(super) failed: Vec<usize>,
    pub(super) cause: String,
    pub(super) attempts: u32,
}

impl DeadLetter {
    /// The stream of the event.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The event as it was read.
    pub fn event(&self) -> &ConsumerEvent {
        &self.event
    }

    /// The shard of the event.
    pub fn shard(&self) -> &ShardId {
        self.event.shard()
    }

    /// The exact position of the event in its shard.
    pub fn position(&self) -> &Position {
        self.event.position()
    }

    /// The payload of the event.
    pub fn payload(&self) -> &Bytes {
        self.event.payload()
    }

    /// Where it failed.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Which of the values that were made of the event were not emitted, from 0. Empty if none were made. The others are where
    /// they should be.
    pub fn failed(&self) -> &[usize] {
        &self.failed
    }

    /// Why the last attempt failed.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// How many attempts there were.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

impl std::fmt::Debug for DeadLetter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadLetter")
            .field("stream", &self.stream)
            .field("event", &self.event)
            .field("stage", &self.stage)
            .field("failed", &self.failed)
            .field("cause", &self.cause)
            .field("attempts", &self.attempts)
            .finish()
    }
}
