//! What a consumer does, step by step, for tests and instruments.

use std::fmt;
use std::sync::Arc;

use kinesis_record::{Checkpoint, Position, ShardId};

use super::error::{ConsumerError, Stopped};
use super::event::{ConsumerEvent, EventProcessed, FencingToken};
use super::failure::{ConsumerShutdown, ConsumerWorkerFailure, FailureCause};
use super::notice::ConsumerNotice;

/// A step of a consumer. Shown to the observer that [`ConsumerBuilder::observer`](super::ConsumerBuilder::observer)
/// names, on the thread that makes it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Observation {
    /// A lease is ours, and its shard is read. Shown before the notice of it.
    LeaseTaken {
        /// The shard.
        shard: ShardId,
        /// From behind this checkpoint on.
        checkpoint: Checkpoint,
        /// That of all events that are delivered under this lease.
        token: FencingToken,
    },
    /// An event goes to its processor now.
    Delivered {
        /// The event.
        event: ConsumerEvent,
        /// 1 at the first delivery by this shard's worker, one more with each further one.
        attempt: u32,
    },
    /// A delivery has ended. One that was too late may end again, with the late answer, as long as that counts.
    /// Answers that change nothing any more are not shown:
    /// [`ShardStatus::late_answers`](super::ShardStatus::late_answers) counts them.
    Concluded {
        /// The event's shard.
        shard: ShardId,
        /// The event's position.
        position: Position,
        /// Which delivery of the event it was.
        attempt: u32,
        /// How it ended.
        outcome: DeliveryOutcome,
    },
    /// The lease table has a checkpoint, as its answer says. One that was stored by a write whose answer was lost is not
    /// shown.
    CheckpointStored {
        /// The shard.
        shard: ShardId,
        /// Everything up to here is done with.
        checkpoint: Checkpoint,
        /// Of the lease under which it was stored.
        token: FencingToken,
    },
    /// The processor is told of a failure now.
    ToldOfFailure(ConsumerWorkerFailure),
    /// The processor is told now that a shard's worker has stopped.
    ToldOfShutdown(ConsumerShutdown),
    /// What the recipient of notices is told, too.
    Noticed(ConsumerNotice),
    /// The consumer has ended, as [`KinesisConsumer::finished`](super::KinesisConsumer::finished) says it right after.
    /// Not shown after [`ConsumerError::Died`].
    Ended(Result<Stopped, ConsumerError>),
}

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The processor answered that it is done.
    Processed,
    /// The processor answered that it is not wanted.
    Skipped,
    /// It was not processed.
    Failed(FailureCause),
}

impl DeliveryOutcome {
    /// What an answer says; nothing if it is none.
    pub(crate) fn of(answer: &EventProcessed) -> Option<Self> {
        match answer {
            EventProcessed::Processed => Some(Self::Processed),
            EventProcessed::Skipped => Some(Self::Skipped),
            EventProcessed::Failed { reason } => Some(Self::Failed(FailureCause::Reported(reason.clone()))),
            EventProcessed::Later => None,
        }
    }
}

impl fmt::Display for DeliveryOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processed => f.write_str("processed"),
            Self::Skipped => f.write_str("skipped"),
            Self::Failed(cause) => write!(f, "failed: {cause}"),
        }
    }
}

/// Whom a consumer shows its steps to.
pub(crate) type Observer = Arc<dyn Fn(Observation) + Send + Sync>;
