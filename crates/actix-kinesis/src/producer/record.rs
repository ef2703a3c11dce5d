//! An event on its way through the producer.

use std::fmt;
use std::sync::Arc;

use kinesis_record::HashKey;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::admission::Permit;
use super::event::ProducerEvent;
use super::outcome::{Attempt, AttemptError, Outcome, PutResult, SendError, SendReason};

/// An event, its sender who waits for the outcome, and the room that it takes.
///
/// The sender gets exactly one outcome: a record that is dropped for whatever reason, a panic included, gives its event
/// back.
pub(crate) struct Record {
    content: Option<Content>,
    /// What decides the shard.
    pub(crate) hash_key: HashKey,
    /// The hash key of the partition key: records of one group are kept in order.
    pub(crate) group: HashKey,
    pub(crate) arrived: Instant,
    pub(crate) expires: Instant,
    /// Counts the flushes that came before it.
    pub(crate) epoch: u64,
    /// Whether it must not be packed with others, for one of those was refused.
    pub(crate) alone: bool,
    pub(crate) attempts: Vec<Attempt>,
    /// When the call began that is under way with it, or whose reply is not yet judged.
    called: Option<Instant>,
}

#[derive(Debug)]
struct Content {
    event: ProducerEvent,
    sender: oneshot::Sender<Outcome>,
    permit: Option<Permit>,
}

impl Record {
    /// The record of `event`, and where its outcome comes. Times are set when it is accepted.
    pub(crate) fn new(event: ProducerEvent, now: Instant) -> (Self, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        let group = HashKey::of_partition_key(&event.partition_key);
        let record = Self {
            hash_key: event.explicit_hash_key.unwrap_or(group),
            group,
            content: Some(Content { event, sender, permit: None }),
            arrived: now,
            expires: now,
            epoch: 0,
            alone: false,
            attempts: Vec::new(),
            called: None,
        };
        (record, receiver)
    }

    pub(crate) fn event(&self) -> Option<&ProducerEvent> {
        self.content.as_ref().map(|content| &content.event)
    }

    pub(crate) fn hold(&mut self, permit: Permit) {
        if let Some(content) = &mut self.content {
            content.permit = Some(permit);
        }
    }

    /// Notes that a call begins with it.
    pub(crate) fn calling(&mut self, now: Instant) {
        self.called = Some(now);
    }

    /// Notes a call that began and ended then.
    pub(crate) fn attempted(&mut self, began: Instant, now: Instant, error: Option<Arc<AttemptError>>) {
        self.called = None;
        let before: std::time::Duration =
            self.attempts.iter().map(|attempt| attempt.delay + attempt.duration).sum();
        let delay = began.saturating_duration_since(self.arrived + before);
        if self.attempts.len() == Attempt::KEPT {
            let left_out = self.attempts.remove(1);
            if let Some(next) = self.attempts.get_mut(1) {
                next.follow(&left_out);
            }
        }
        self.attempts.push(Attempt::new(delay, now.saturating_duration_since(began), error));
    }

    pub(crate) fn last_error(&self) -> Option<Arc<AttemptError>> {
        self.attempts.last().and_then(|attempt| attempt.error.clone())
    }

    /// Ends it with its place in the stream, which its last attempt found.
    pub(crate) fn stored(mut self, at: impl FnOnce(Vec<Attempt>) -> PutResult) {
        let attempts = std::mem::take(&mut self.attempts);
        self.settle(Ok(at(attempts)));
    }

    /// Ends it without having been sent.
    pub(crate) fn failed(mut self, reason: SendReason) {
        self.settle(Err(reason));
    }

    /// Takes the event back from a record that nobody waits for.
    pub(crate) fn into_event(mut self) -> Option<ProducerEvent> {
        self.content.take().map(|content| content.event)
    }

    fn settle(&mut self, end: Result<PutResult, SendReason>) {
        if let Some(Content { event, sender, permit }) = self.content.take() {
            let attempts = std::mem::take(&mut self.attempts).into_boxed_slice();
            // So that whoever gets the outcome finds the room that it leaves.
            drop(permit);
            // A sender that no longer listens has said that it does not care.
            let _ = sender.send(end.map_err(|reason| SendError { event, reason, attempts }));
        }
    }
}

/// As of its event, the hash of the key is not shown.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("event", &self.event()).finish_non_exhaustive()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.content.is_some()
            && let Some(began) = self.called.take()
        {
            self.attempted(began, Instant::now(), Some(Arc::new(super::send::cut_off())));
        }
        self.settle(Err(SendReason::Died));
    }
}
