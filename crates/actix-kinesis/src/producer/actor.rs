//! A producer as an actor.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::prelude::*;

use super::event::ProducerEvent;
use super::outcome::{Attempt, Flushed, Outcome, PutResult, SendError, SendReason};
use super::{KinesisProducer, Sending};

/// Failures of events that nobody waits for are logged once in such a time.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Sends what it is told by [`Send`] and [`SendWithCallback`], in the order of the messages.
///
/// When the stream of a message has reached `max-outstanding-requests` or `max-outstanding-bytes`, it takes no message
/// until the load is below 0.9 of it. A stream that is stuck so holds up the messages behind it: where streams must not
/// hold each other up, give each an actor of its own, all on one producer. Its mailbox then fills: `Addr::try_send` and [`Recipient::try_send`] refuse a message when it is full, while
/// actix takes as many of `do_send` and `send` as there is memory for.
///
/// When it stops, what it has taken is still sent, and answered.
#[derive(Debug)]
pub struct KinesisProducerActor {
    producer: KinesisProducer,
    unsent: Unsent,
}

impl KinesisProducerActor {
    /// An actor on a producer, which may be used directly as well and by other actors.
    pub fn new(producer: KinesisProducer) -> Self {
        Self { producer, unsent: Unsent::default() }
    }

    fn take(&self, event: ProducerEvent, context: &mut Context<Self>) -> Sending {
        let stream = event.stream.clone();
        let sending = self.producer.send(event);
        let stream = stream.as_deref().unwrap_or(&self.producer.conf.stream_name);
        if self.producer.admission.is_throttled(stream) {
            let (producer, stream) = (self.producer.clone(), stream.to_owned());
            context.wait(async move { producer.room_for(&stream).await }.into_actor(self));
        }
        sending
    }
}

impl Actor for KinesisProducerActor {
    type Context = Context<Self>;
}

/// Names a [`SendWithCallback`] in its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Arc<str>);

impl MessageId {
    /// One that no other message has.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string().into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for MessageId {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sends an event without an answer. That it failed is counted in the producer's status and logged.
#[derive(Debug, Message)]
#[rtype(result = "()")]
#[non_exhaustive]
pub struct Send {
    /// The event.
    pub event: ProducerEvent,
    /// Who gets the event if it was not sent. None: nobody.
    pub failures: Option<Recipient<SendError>>,
}

impl Send {
    /// Nobody gets the event back.
    pub fn new(event: ProducerEvent) -> Self {
        Self { event, failures: None }
    }

    /// `recipient` gets the event if it was not sent.
    #[must_use]
    pub fn failures_to(self, recipient: Recipient<SendError>) -> Self {
        Self { failures: Some(recipient), ..self }
    }
}

impl Message for SendError {
    type Result = ();
}

/// Sends an event and answers what became of it: as the reply to the message, and to recipients if there are some.
#[derive(Debug, Message)]
#[rtype(result = "Result<SendSuccessful, SendFailed>")]
#[non_exhaustive]
pub struct SendWithCallback {
    /// The event.
    pub event: ProducerEvent,
    /// Comes back in the answer.
    pub message_id: MessageId,
    /// Who else is told that it was sent.
    pub successes: Option<Recipient<SendSuccessful>>,
    /// Who else is told that it was not.
    pub failures: Option<Recipient<SendFailed>>,
}

impl SendWithCallback {
    /// With an id that no other message has.
    pub fn new(event: ProducerEvent) -> Self {
        Self::with_id(event, MessageId::random())
    }

    /// With an id of the sender's choice.
    pub fn with_id(event: ProducerEvent, message_id: impl Into<MessageId>) -> Self {
        Self { event, message_id: message_id.into(), successes: None, failures: None }
    }

    /// The answer also goes to this actor, as a message. It is lost if the actor has stopped.
    #[must_use]
    pub fn reply_to<A>(self, actor: &Addr<A>) -> Self
    where
        A: Actor + Handler<SendSuccessful> + Handler<SendFailed>,
        A::Context: ToEnvelope<A, SendSuccessful> + ToEnvelope<A, SendFailed>,
    {
        let actor = actor.clone();
        Self { successes: Some(actor.clone().recipient()), failures: Some(actor.recipient()), ..self }
    }
}

/// An event is stored.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
#[non_exhaustive]
pub struct SendSuccessful {
    /// That of the message.
    pub message_id: MessageId,
    /// Where, and by which attempts.
    pub result: PutResult,
}

/// An event was not sent. It can be sent again as it is.
#[derive(Debug, Clone, PartialEq, Eq, Message, thiserror::Error)]
#[rtype(result = "()")]
#[error("{message_id}: {reason}")]
#[non_exhaustive]
pub struct SendFailed {
    /// The event.
    pub event: ProducerEvent,
    /// That of the message.
    pub message_id: MessageId,
    /// Why.
    pub reason: SendReason,
    /// The calls that were made with it, oldest first; see [`Attempt`].
    pub attempts: Box<[Attempt]>,
}

impl SendFailed {
    /// Whether the event may be in the stream all the same, so that another send may store it twice.
    pub fn may_be_stored(&self) -> bool {
        Attempt::may_be_stored(&self.attempts)
    }
}

/// Stops the producer and then the actor, behind the messages that are in the mailbox already, whose events are sent
/// first. `within` counts from when the actor takes this message, which is late while the producer is full.
///
/// To stop at once, keep a clone of the [`KinesisProducer`] and call [`stop`](KinesisProducer::stop) on it: the actor then
/// answers what is in its mailbox with [`SendReason::Stopped`], this message in its turn.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Flushed")]
pub struct StopProducer {
    /// The time that it may take.
    pub within: Duration,
}

impl Handler<Send> for KinesisProducerActor {
    type Result = ();

    fn handle(&mut self, Send { event, failures }: Send, context: &mut Self::Context) {
        let (sending, unsent) = (self.take(event, context), self.unsent.clone());
        actix::spawn(async move {
            if let Err(error) = sending.await {
                unsent.note(&error);
                if let Some(failures) = failures {
                    failures.do_send(error);
                }
            }
        });
    }
}

impl Handler<SendWithCallback> for KinesisProducerActor {
    type Result = ResponseFuture<Result<SendSuccessful, SendFailed>>;

    fn handle(&mut self, message: SendWithCallback, context: &mut Self::Context) -> Self::Result {
        let SendWithCallback { event, message_id, successes, failures } = message;
        let sending = self.take(event, context);
        Box::pin(answer(sending, message_id, successes, failures))
    }
}

/// The answer to a [`SendWithCallback`], told to its recipients.
pub(super) async fn answer(
    sending: impl Future<Output = Outcome>,
    message_id: MessageId,
    successes: Option<Recipient<SendSuccessful>>,
    failures: Option<Recipient<SendFailed>>,
) -> Result<SendSuccessful, SendFailed> {
    match sending.await {
        Ok(result) => {
            let successful = SendSuccessful { message_id, result };
            successes.iter().for_each(|it| it.do_send(successful.clone()));
            Ok(successful)
        }
        Err(SendError { event, reason, attempts }) => {
            let failed = SendFailed { event, message_id, reason, attempts };
            failures.iter().for_each(|it| it.do_send(failed.clone()));
            Err(failed)
        }
    }
}

impl Handler<StopProducer> for KinesisProducerActor {
    type Result = ResponseActFuture<Self, Flushed>;

    fn handle(&mut self, StopProducer { within }: StopProducer, _: &mut Self::Context) -> Self::Result {
        let producer = self.producer.clone();
        let stop = async move { producer.stop(within).await };
        Box::pin(stop.into_actor(self).map(|flushed, _, context: &mut Context<Self>| {
            context.stop();
            flushed
        }))
    }
}

/// Tells of events that were not sent: the first at once, those that follow soon together.
#[derive(Debug, Clone, Default)]
pub(super) struct Unsent(Rc<RefCell<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    is_quiet: bool,
    untold: u64,
}

impl Unsent {
    pub(super) fn note(&self, error: &SendError) {
        let mut noted = self.0.borrow_mut();
        if noted.is_quiet {
            noted.untold += 1;
            return;
        }
        noted.is_quiet = true;
        tracing::warn!(event = ?error.event, reason = %error.reason, "an event was not sent");
        let noted = Rc::clone(&self.0);
        actix::spawn(async move {
            tokio::time::sleep(LOG_INTERVAL).await;
            let Noted { untold, .. } = noted.take();
            if untold > 0 {
                tracing::warn!(events = untold, "more events were not sent");
            }
        });
    }
}
