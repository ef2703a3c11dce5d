//! What became of an event.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinesis_record::{Position, SequenceNumber, ShardId};

use super::event::{InvalidEvent, ProducerEvent};

/// The outcome of a send.
pub type Outcome = Result<PutResult, SendError>;

/// Where an event is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PutResult {
    /// The shard.
    pub shard: ShardId,
    /// The number of the Kinesis record in the shard.
    pub sequence: SequenceNumber,
    /// The event's index in that record, from 0, if it was packed into one with others.
    pub sub_sequence: Option<u32>,
    /// The calls that it took, oldest first. The last one succeeded.
    pub attempts: Vec<Attempt>,
}

impl PutResult {
    /// How many calls it took, those included that `attempts` leaves out.
    pub fn calls(&self) -> u64 {
        Attempt::calls(&self.attempts)
    }

    /// The position at which a consumer meets the event.
    pub fn position(&self) -> Position {
        Position::new(self.sequence.clone(), i64::from(self.sub_sequence.unwrap_or(0)))
    }
}

/// A call that an event was part of. Of more than [`Attempt::KEPT`] calls, the first and the newest are kept; the second
/// that is kept stands for those between as well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// From the end of the attempt before that is kept, or from the acceptance of the event, to the start of the call.
    pub delay: Duration,
    /// From the start of the call to its end.
    pub duration: Duration,
    /// Why it failed, if it did.
    pub error: Option<Arc<AttemptError>>,
    /// How many attempts right before it are left out.
    pub left_out: u32,
    /// Whether the event may be stored by one of those.
    pub left_out_may_be_stored: bool,
}

impl Attempt {
    /// How many attempts of an event are kept.
    pub const KEPT: usize = 20;

    pub(crate) fn new(delay: Duration, duration: Duration, error: Option<Arc<AttemptError>>) -> Self {
        Self { delay, duration, error, left_out: 0, left_out_may_be_stored: false }
    }

    /// Takes the place of the one before it: its time belongs to this one, and what it may have done is not forgotten.
    pub(crate) fn follow(&mut self, before: &Self) {
        self.delay += before.delay + before.duration;
        self.left_out = self.left_out.saturating_add(before.left_out).saturating_add(1);
        self.left_out_may_be_stored |= before.may_have_stored();
    }

    fn may_have_stored(&self) -> bool {
        self.left_out_may_be_stored || self.error.as_ref().is_some_and(|error| error.may_be_stored)
    }

    /// How many calls these stand for.
    pub(crate) fn calls(attempts: &[Self]) -> u64 {
        attempts.iter().map(|attempt| 1 + u64::from(attempt.left_out)).sum()
    }

    /// Whether one of these may have stored an event that failed.
    pub(crate) fn may_be_stored(attempts: &[Self]) -> bool {
        attempts.iter().any(Self::may_have_stored)
    }
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptError {
    /// The service's error code, such as `ProvisionedThroughputExceededException`, or `Wrong Shard` as the KPL has it;
    /// what happened to the call, such as `Unavailable`, if it failed as a whole.
    pub code: String,
    /// The cause for people.
    pub message: String,
    /// Whether the event may be stored although the attempt failed: the reply did not come, or an aggregate went to a
    /// shard that is not that of all its events.
    pub may_be_stored: bool,
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// An event that was not sent, as whole as it was given, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct SendError {
    /// The event. It can be sent again as it is.
    pub event: ProducerEvent,
    /// Why it was not sent.
    pub reason: SendReason,
    /// The calls that were made with it, oldest first; see [`Attempt`].
    pub attempts: Box<[Attempt]>,
}

impl SendError {
    pub(crate) fn new(event: ProducerEvent, reason: SendReason) -> Self {
        Self { event, reason, attempts: Box::default() }
    }

    /// Whether the event may be in the stream all the same, so that another send may store it twice.
    pub fn may_be_stored(&self) -> bool {
        Attempt::may_be_stored(&self.attempts)
    }

    /// How many calls were made with it, those included that `attempts` leaves out.
    pub fn calls(&self) -> u64 {
        Attempt::calls(&self.attempts)
    }
}

/// Why an event was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendReason {
    /// The event breaks a rule of the service, or of the configuration.
    #[error("the event cannot be sent: {0}")]
    Invalid(Arc<InvalidEvent>),
    /// There is no room for more events, and none came in time.
    #[error(
        "the producer has as many events under way as max-outstanding-requests or max-outstanding-bytes allow; send \
         again when some are through"
    )]
    Full,
    /// The `record-ttl` is over. With the cause of the last attempt; of an event that had none, with that of the calls to
    /// its stream that fail, if they do.
    #[error("the record-ttl is over; last: {}", Last(.0))]
    Expired(Option<Arc<AttemptError>>),
    /// The shard's throughput is exceeded, and `fail-if-throttled` is set.
    #[error("the throughput of the shard is exceeded ({0}), and fail-if-throttled is set")]
    Throttled(Arc<AttemptError>),
    /// The service does not take the event, whatever it is sent with.
    #[error("the service refuses the event: {0}")]
    Refused(Arc<AttemptError>),
    /// The producer was stopped before the event was through, with the cause as in [`Expired`](Self::Expired).
    #[error("the producer was stopped; last: {}", Last(.0))]
    Stopped(Option<Arc<AttemptError>>),
    /// The outbox did not take the event.
    #[cfg(feature = "outbox")]
    #[error("{0}")]
    Outbox(Arc<super::outbox::OutboxReason>),
    /// The outbox accepted the event and has ended before it was sent: it sends it at the next start.
    #[cfg(feature = "outbox")]
    #[error("the outbox has ended, keeps the event and sends it at the next start: do not send it again")]
    Kept,
    /// The producer's task has ended, by a panic or with its runtime. An event whose call was under way may be stored.
    #[error("the producer's task has ended, by a panic or with its runtime: start another producer")]
    Died,
}

impl SendReason {
    /// Whether another send to the same producer may go better.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Full | Self::Expired(_) | Self::Throttled(_))
    }
}

struct Last<'a>(&'a Option<Arc<AttemptError>>);

impl fmt::Display for Last<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(error) => error.fmt(f),
            None => f.write_str("not attempted yet"),
        }
    }
}

/// What became of the events that a flush or a stop waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flushed {
    /// Stored.
    pub sent: u64,
    /// Given back with an error.
    pub failed: u64,
}

impl Flushed {
    /// Whether none failed.
    pub fn is_clean(&self) -> bool {
        self.failed == 0
    }
}

impl std::ops::AddAssign for Flushed {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.failed += other.failed;
    }
}
