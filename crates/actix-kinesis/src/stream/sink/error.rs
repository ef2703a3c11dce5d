//! How a sink fails.

use crate::producer::{Flushed, ProducerEvent, SendError};

/// Why a sink did not send all of its elements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// An element was not sent, and is not to be skipped. Of several, it is the first whose outcome was known. What was
    /// under way then has its outcome too.
    #[error(
        "element {index} was not sent: {cause} (of all that the sink was given, {} are stored and {} are not)",
        counts.sent, counts.failed
    )]
    #[non_exhaustive]
    Failed {
        /// Which one it is of those that the sink was given, from 0.
        index: u64,
        /// The element, whole, with the reason and the calls that were made with it.
        #[source]
        cause: Box<SendError>,
        /// What became of all that the sink was given.
        counts: Flushed,
    },
    /// The sink was dropped without being closed, or the queue without being completed, so that elements may be missing
    /// that were to come. What it was given has its outcome.
    #[error(
        "the sink was dropped before it was closed, so that elements may be missing (of all that it was given, {} are \
         stored and {} are not): look for what ended its sender",
        counts.sent, counts.failed
    )]
    #[non_exhaustive]
    Dropped {
        /// What became of all that the sink was given.
        counts: Flushed,
    },
    /// The sink takes nothing any more, for it is closed or has failed.
    #[error("the sink is closed or has failed, and takes no more elements: give them to another one")]
    #[non_exhaustive]
    Closed {
        /// The element that it was to take, if it was given one.
        event: Option<Box<ProducerEvent>>,
    },
    /// The task of the sink has ended too early, and what was under way has no outcome.
    #[error(
        "the sink's task has ended, by a panic (in the function that failures are reported to) or with its runtime: \
         what was under way may be stored or not ({} are stored and {} are not)",
        counts.sent, counts.failed
    )]
    #[non_exhaustive]
    Died {
        /// The outcomes that were known.
        counts: Flushed,
    },
    /// There is no tokio runtime for the task of the sink.
    #[error("a sink can only be started inside a tokio runtime, for instance under #[actix::main]")]
    NoRuntime,
}

/// An event that a queue did not take, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// As many events are under way as the queue holds.
    #[error("the queue is full: offer the event again when some are through, or wait with offer")]
    Full(ProducerEvent),
    /// The queue was completed, or has failed.
    #[error("the queue is completed or has failed, and takes no more events: finished tells how it ended")]
    Closed(ProducerEvent),
}

impl OfferError {
    /// The event, as it was offered.
    pub fn into_event(self) -> ProducerEvent {
        match self {
            Self::Full(event) | Self::Closed(event) => event,
        }
    }
}
