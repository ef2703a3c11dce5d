//! An outbox as an actor.

use std::time::Duration;

use actix::prelude::*;

use super::Outbox;
use super::error::OutboxError;
use super::outcome::{Accepted, OutboxStopped};
use crate::producer::actor::{Unsent, answer};
use crate::producer::{
    MessageId, ProducerEvent, Send, SendError, SendFailed, SendReason, SendSuccessful, SendWithCallback,
};

/// Sends durably what it is told by the messages of a [`KinesisProducerActor`](crate::producer::KinesisProducerActor), in
/// their order: an application has its address in place of that one's, and no other change. An event is on the disk
/// before it is sent.
///
/// | message | its answer, and when |
/// |---|---|
/// | [`SendDurably`] | accepted or not, when it is on the disk: from then on it is sent whatever happens to the process |
/// | [`SendWithCallback`] | [`SendSuccessful`] when its stream has it; else [`SendFailed`] with the event |
/// | [`Send`] | none. What is not accepted, or is parked, is logged and told to its recipient if it has one |
///
/// A [`SendFailed`] says with [`SendReason::Outbox`] that the outbox did not take the event, and with [`SendReason::Kept`]
/// that it ends and keeps it, which is no reason to send it again. One that is
/// [`SendReason::Refused`] is parked as well: send the event again, or have the parked one tried again, not both. A
/// process that is killed answers nothing, and its events are sent all the same: by the next one, which tells the recipient
/// of [`OutboxBuilder::outcomes`](super::OutboxBuilder::outcomes) alone. Who waits for an answer has the event in memory
/// until then.
///
/// While the disk does not keep up, it takes no message; its mailbox then fills. When the outbox is full, it answers
/// [`OutboxReason::Full`](super::OutboxReason::Full) at once, since it may be so for hours.
#[derive(Debug)]
pub struct OutboxActor {
    outbox: Outbox,
    unsent: Unsent,
}

impl OutboxActor {
    /// An actor on an outbox, which may be used directly as well and by other actors.
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox, unsent: Unsent::default() }
    }

    /// Takes the next message when the disk keeps up.
    fn pace(&self, context: &mut Context<Self>) {
        if self.outbox.is_behind() {
            let outbox = self.outbox.clone();
            context.wait(async move { outbox.eased().await }.into_actor(self));
        }
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

    fn handle(&mut self, message: SendDurably, context: &mut Self::Context) -> Self::Result {
        let accepting = self.outbox.send_with_id(message.event, message.message_id);
        self.pace(context);
        Box::pin(accepting)
    }
}

impl Handler<SendWithCallback> for OutboxActor {
    type Result = ResponseFuture<Result<SendSuccessful, SendFailed>>;

    fn handle(&mut self, message: SendWithCallback, context: &mut Self::Context) -> Self::Result {
        let SendWithCallback { event, message_id, successes, failures } = message;
        let delivering = self.outbox.deliver(event, message_id.clone());
        self.pace(context);
        Box::pin(answer(delivering, message_id, successes, failures))
    }
}

impl Handler<Send> for OutboxActor {
    type Result = ();

    fn handle(&mut self, Send { event, failures }: Send, context: &mut Self::Context) {
        let unsent = self.unsent.clone();
        let Some(failures) = failures else {
            let accepting = self.outbox.send(event);
            actix::spawn(async move {
                if let Err(OutboxError { event, reason }) = accepting.await {
                    unsent.note(&SendError::new(event, reason.into()));
                }
            });
            return self.pace(context);
        };
        let delivering = self.outbox.deliver(event, MessageId::random());
        actix::spawn(async move {
            match delivering.await {
                // What is kept will be sent.
                Ok(_) | Err(SendError { reason: SendReason::Kept, .. }) => {}
                Err(error) => {
                    unsent.note(&error);
                    failures.do_send(error);
                }
            }
        });
        self.pace(context);
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
