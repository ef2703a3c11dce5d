//! A send whose outcome is to come.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::admission::{Admission, Ticket};
use super::outcome::{Outcome, SendError, SendReason};

/// A send; as a future, its outcome. It must not be polled again after that.
///
/// Dropping it takes an event back that still waits for room. An event that does not is sent all the same.
#[must_use = "dropping it takes back an event that waits for room"]
pub struct Sending {
    state: State,
    /// Among those who wait for room.
    place: Option<(Arc<Admission>, Ticket)>,
}

enum State {
    Refused(Box<SendError>),
    Accepted(oneshot::Receiver<Outcome>),
    Done,
}

impl Sending {
    pub(super) fn refused(error: SendError) -> Self {
        Self { state: State::Refused(Box::new(error)), place: None }
    }

    pub(super) fn accepted(outcome: oneshot::Receiver<Outcome>) -> Self {
        Self { state: State::Accepted(outcome), place: None }
    }

    pub(super) fn waiting(
        outcome: oneshot::Receiver<Outcome>,
        admission: Arc<Admission>,
        ticket: Ticket,
    ) -> Self {
        Self { state: State::Accepted(outcome), place: Some((admission, ticket)) }
    }

    /// Itself, unless it was refused.
    pub(super) fn refused_at_once(mut self) -> Result<Self, Box<SendError>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Refused(error) => Err(error),
            state => {
                self.state = state;
                Ok(self)
            }
        }
    }

    /// The outcome, or the event if there is still no room for it after so long.
    pub(super) async fn waiting_at_most(mut self, wait: Duration) -> Outcome {
        if self.place.is_some() {
            match timeout(wait, &mut self).await {
                Ok(outcome) => return outcome,
                Err(_) => {
                    if let Some(record) = self.withdraw() {
                        record.failed(SendReason::Full);
                    }
                }
            }
        }
        self.await
    }

    fn withdraw(&mut self) -> Option<super::record::Record> {
        let (admission, ticket) = self.place.take()?;
        admission.withdraw(&ticket)
    }
}

impl Future for Sending {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if let State::Accepted(outcome) = &mut self.state {
            let Poll::Ready(outcome) = Pin::new(outcome).poll(context) else { return Poll::Pending };
            self.state = State::Done;
            return match outcome {
                Ok(outcome) => Poll::Ready(outcome),
                // A record always answers, if only when it is dropped.
                Err(_) => Poll::Pending,
            };
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Refused(error) => Poll::Ready(Err(*error)),
            _ => Poll::Pending,
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        // Its outcome has nobody to go to.
        drop(self.withdraw());
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("waits_for_room", &self.place.is_some()).finish_non_exhaustive()
    }
}
