//! Why an outbox does not open, or does not take an event.

use std::sync::Arc;

use super::store::StoreError;
use crate::producer::{InvalidEvent, ProducerError, ProducerEvent, SendReason};

/// Why an outbox could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxOpenError {
    /// The settings name no directory.
    #[error("the producer's outbox.path is not set: name a directory of its own, on a disk that stays")]
    NoPath,
    /// What is kept cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its producer could not start.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The thread that opened it panicked.
    #[error("opening the outbox panicked: {0}")]
    Panicked(String),
}

/// An event that an outbox did not accept, as whole as it was given, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct OutboxError {
    /// The event. It can be handed over again as it is.
    pub event: ProducerEvent,
    /// Why.
    pub reason: OutboxReason,
}

impl OutboxError {
    pub(super) fn new(event: ProducerEvent, reason: OutboxReason) -> Self {
        Self { event, reason }
    }
}

/// Why an outbox did not accept an event, or did not do something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxReason {
    /// The event breaks a rule of the service, or of the configuration.
    #[error("the event cannot be sent: {0}")]
    Invalid(Arc<InvalidEvent>),
    /// There is no room for it.
    #[error(
        "the outbox keeps as much as outbox.max-events or outbox.max-bytes allow, or the disk does not keep up; hand \
         the event over again when some are sent"
    )]
    Full,
    /// The disk does not take it: it is full, read-only or failing.
    #[error("the event could not be kept: {0}")]
    Store(Arc<StoreError>),
    /// The outbox is stopped, or stops.
    #[error("the outbox was stopped")]
    Stopped,
    /// The outbox has ended by itself.
    #[error(
        "the outbox has ended ({0}): what it accepted is kept and will be sent when it is opened again, by another \
         start of the process for instance"
    )]
    Ended(Arc<str>),
}

/// An invalid event is one for a producer as well.
impl From<OutboxReason> for SendReason {
    fn from(reason: OutboxReason) -> Self {
        match reason {
            OutboxReason::Invalid(invalid) => Self::Invalid(invalid),
            reason => Self::Outbox(Arc::new(reason)),
        }
    }
}
