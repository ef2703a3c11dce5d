//! What the application is told when processing fails or a shard stops.

use std::time::Duration;

use actix::Message;
use kinesis_lease::coordinator::Loss;
use kinesis_record::ShardId;

use super::event::ConsumerEvent;

/// Tells the event processor that events could not be processed, and what follows.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct ConsumerWorkerFailure {
    /// The shard.
    pub shard: ShardId,
    /// The events that were delivered as often as they may be, in order. Empty if the worker itself failed.
    pub events: Vec<FailedEvent>,
    /// What went wrong, in words.
    pub cause: String,
    /// What follows.
    pub decision: FailureDecision,
}

/// An event that could not be processed.
#[derive(Debug, Clone)]
pub struct FailedEvent {
    /// The event.
    pub event: ConsumerEvent,
    /// How often it was delivered.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub cause: FailureCause,
}

/// Why a delivery failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailureCause {
    /// It was not answered within `batch-timeout`. It may have been processed all the same.
    #[error("not answered within {0:?}")]
    TimedOut(Duration),
    /// The processor said so.
    #[error("{0}")]
    Reported(String),
    /// The handler panicked, or its actor stopped before it answered.
    #[error("the event processor panicked or stopped before it answered")]
    NoAnswer,
}

/// What follows a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureDecision {
    /// The events are given up: the checkpoint passes them, and they are not delivered again.
    GiveUp,
    /// The shard is read again from its last checkpoint, after a pause.
    RestartShard {
        /// The pause.
        after: Duration,
    },
    /// The shard is no longer read by this process. Its lease is released, for another worker to try.
    StopShard,
    /// The consumer stops.
    StopConsumer,
}

/// Tells the event processor that a shard's worker has stopped. Nothing of the shard comes from it any more.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct ConsumerShutdown {
    /// The shard.
    pub shard: ShardId,
    /// Why.
    pub reason: ShutdownReason,
}

/// Why a shard's worker stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownReason {
    /// Everything in the shard is processed, and the shard is closed.
    #[error("everything in the shard is processed")]
    ShardEnded,
    /// The lease was lost. Events under way may be processed by another worker, too.
    #[error("{0}")]
    LeaseLost(Loss),
    /// The shard is paused, see [`KinesisConsumer::pause`](super::KinesisConsumer::pause).
    #[error("the shard is paused")]
    Paused,
    /// The lease was handed to another worker.
    #[error("the lease was handed to another worker")]
    HandedOver,
    /// The consumer stops.
    #[error("the consumer stops")]
    ConsumerStopped,
    /// Processing failed; see the [`ConsumerWorkerFailure`] before.
    #[error("processing failed")]
    Failed,
}
