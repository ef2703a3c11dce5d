//! What an application is told by an outbox.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::Message;

use super::store::Unreadable;
use crate::producer::{MessageId, ProducerEvent, PutResult};

/// An event is on the disk, and will be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// What it is known by in its [`OutboxOutcome`].
    pub message_id: MessageId,
}

/// What became of an accepted event. It may come before the sender knows of the acceptance, comes again for an event that
/// is sent twice, and not at all if the process ends in that moment.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
#[non_exhaustive]
pub enum OutboxOutcome {
    /// It is stored in its stream.
    Sent {
        /// That of the event.
        message_id: MessageId,
        /// Where, and by which attempts.
        result: PutResult,
    },
    /// The service refuses it for good, and it is kept aside: see [`Outbox::parked`](super::Outbox::parked).
    Parked(Parked),
    /// It was accepted and cannot be read from the disk: see [`Outbox::unreadable`](super::Outbox::unreadable).
    Unreadable(Unreadable),
}

/// An event that is kept aside since the service refuses it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parked {
    /// What [`Outbox::retry`](super::Outbox::retry) and [`Outbox::discard`](super::Outbox::discard) know it by.
    pub number: u64,
    /// What the application knows it by.
    pub message_id: MessageId,
    /// The event.
    pub event: ProducerEvent,
    /// When it was handed over, by the wall clock.
    pub accepted: SystemTime,
    /// Why it is refused.
    pub reason: Arc<str>,
}

/// What became of the events of an outbox that was stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxStopped {
    /// Sent since the stop was called.
    pub sent: u64,
    /// Kept on the disk, to be sent at the next start. With a failing disk, some of them may be in their streams.
    pub left: u64,
    /// Kept on the disk and parked.
    pub parked: u64,
    /// Kept on the disk, and unreadable.
    pub unreadable: u64,
}

/// How an outbox is doing.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct OutboxStatus {
    /// Events that were accepted since the start.
    pub accepted: u64,
    /// Events that were sent since the start.
    pub sent: u64,
    /// Events that are accepted, and neither sent and taken out nor kept aside.
    pub waiting: u64,
    /// Of those that wait, the ones that the producer has.
    pub under_way: u64,
    /// Of those that wait, the ones that are stored in their streams and not yet taken out. They are sent again if the
    /// process ends now.
    pub unnoted: u64,
    /// Events that the service refuses, kept aside.
    pub parked: u64,
    /// Events that cannot be read from the disk, kept aside.
    pub unreadable: u64,
    /// What is kept or on its way to the disk, as `outbox.max-bytes` counts it. The file may be larger.
    pub bytes: u64,
    /// How long the first of those that wait has waited, by the wall clock.
    pub oldest: Option<Duration>,
    /// Why the disk cannot be written to, or not be read, while it cannot.
    pub disk_error: Option<String>,
}
