//! An outbox as an actor.

use std::time::Duration;

use actix::prelude::*;

use super::Outbox;
use super::error::OutboxError;
use super::outcome::{Accepted, OutboxStopped};
use crate::producer::{MessageId, ProducerEvent};

/// Accepts what it is told by [`SendDurably`], in the order of the messages, and answers when it is on the disk.
///
/// Beyond the bounds of the outbox it answers [`OutboxReason::Full`](super::OutboxReason::Full) at once: it never keeps
/// messages waiting for room.
#[derive(Debug)]
pub struct OutboxActor {
    outbox: Outbox,
}

impl OutboxActor {
    /// An actor on an outbox, which may be used directly as well and by other actors.
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox }
    }
}

impl Actor for OutboxActor {
    type Context = Context<Self>;
}

/// Accepts an event: the answer says that it is on the disk. That it was sent, or parked, is told to the recipient of
/// [`OutboxBuilder::outcomes`](super::OutboxBuilder::outcomes).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Accepted, OutboxError>")]
#[non_exhaustive]
pub struct SendDurably {
    /// The event.
    pub event: ProducerEvent,
    /// Comes back in the answer and in the outcome.
    pub message_id: MessageId,
}

impl SendDurably {
    /// With an id that no other message has.
    pub fn new(event: ProducerEvent) -> Self {
        Self::with_id(event, MessageId::random())
    }

    /// With an id of the sender's choice.
    pub fn with_id(event: ProducerEvent, message_id: impl Into<MessageId>) -> Self {
        Self { event, message_id: message_id.into() }
    }
}

/// Stops the outbox and then the actor; see [`Outbox::stop`].
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "OutboxStopped")]
pub struct StopOutbox {
    /// The time that sending the rest may take.
    pub within: Duration,
}

impl Handler<SendDurably> for OutboxActor {
    type Result = ResponseFuture<Result<Accepted, OutboxError>>;

    fn handle(&mut self, message: SendDurably, _: &mut Self::Context) -> Self::Result {
        Box::pin(self.outbox.send_with_id(message.event, message.message_id))
    }
}

impl Handler<StopOutbox> for OutboxActor {
    type Result = ResponseActFuture<Self, OutboxStopped>;

    fn handle(&mut self, StopOutbox { within }: StopOutbox, _: &mut Self::Context) -> Self::Result {
        let outbox = self.outbox.clone();
        let stop = async move { outbox.stop(within).await };
        Box::pin(stop.into_actor(self).map(|stopped, _, context: &mut Context<Self>| {
            context.stop();
            stopped
        }))
    }
}
