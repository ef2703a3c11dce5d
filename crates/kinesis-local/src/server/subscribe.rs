//! SubscribeToShard: a reply that goes on for minutes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use serde_json::Value;
use tokio::sync::Notify;

use super::body::{self, Body, Cut};
use super::form::Form;
use super::parameters::Parameters;
use super::reply::Reply;
use super::transport::Connection;
use super::{Shared, dispatch, frames};
use crate::faults::{After, Call, Plan, Refusal};
use crate::model::{KinesisError, NextEvent, SubscribeToShardEvent, SubscriptionEnd, SubscriptionId};

/// How long a subscription sleeps at most, as a clock may be moved by hand.
const NAP: Duration = Duration::from_millis(100);

/// A subscription that is served. The model forgets it when this is dropped.
struct Subscription {
    shared: Arc<Shared>,
    connection: Connection,
    id: SubscriptionId,
    woken: Arc<Notify>,
    form: Form,
    call: Call,
    plan: Plan,
    /// In JSON.
    request: Bytes,
}

/// What is to be sent next.
enum Next {
    Event(Bytes),
    Failure(Bytes),
    End,
}

/// Subscribes, by the request in JSON and as it was read. What the plan does afterwards happens in the reply, unless all of it is to be lost.
///
/// # Errors
/// As `Kinesis::subscribe_to_shard`.
pub(super) fn open(
    shared: &Arc<Shared>,
    connection: &Connection,
    form: Form,
    call: Call,
    plan: Plan,
    (request, parameters): (Bytes, Parameters),
) -> Result<Body, KinesisError> {
    let parsed = dispatch::subscription(parameters)?;
    let now = shared.now();
    let id = shared.model().subscribe_to_shard(parsed, now)?;
    let woken = shared.watch(id);
    let end = plan.after.clone();
    let (shared, connection) = (shared.clone(), connection.clone());
    let subscription = Subscription { shared, connection, id, woken, form, call, plan, request };
    Ok(match end {
        None => body::pieces(events(subscription)),
        Some(After::Refuse(refusal)) => refused(&refusal, form),
        Some(After::Lose) => body::pieces(stream::iter([Err(Cut)])),
        Some(After::Half) => broken(subscription, false),
        Some(After::Stall) => broken(subscription, true),
    })
}

/// The whole stream.
fn events(subscription: Subscription) -> impl Stream<Item = Result<Bytes, Cut>> {
    let opening = Ok(frames::initial_response(subscription.form));
    let events = stream::unfold(Some(subscription), async |subscription| {
        let subscription = subscription?;
        match subscription.next().await {
            Ok(Next::Event(frame)) => Some((Ok(frame), Some(subscription))),
            Ok(Next::Failure(frame)) => Some((Ok(frame), None)),
            Ok(Next::End) => None,
            Err(cut) => Some((Err(cut), None)),
        }
    });
    stream::iter([opening]).chain(events)
}

/// A stream that opens and then fails.
fn refused(refusal: &Refusal, form: Form) -> Body {
    body::pieces(stream::iter([Ok(frames::initial_response(form)), Ok(frames::refusal(refusal, form))]))
}

/// A stream that breaks, or stalls, in the middle of its first event.
fn broken(subscription: Subscription, stalls: bool) -> Body {
    let opening = Ok(frames::initial_response(subscription.form));
    let connection = subscription.connection.clone();
    let first = async move {
        match subscription.next().await? {
            Next::Event(frame) | Next::Failure(frame) => Ok(frame.slice(..frame.len() / 2)),
            Next::End => Err(Cut),
        }
    };
    let end = async move {
        tokio::task::yield_now().await;
        if stalls {
            connection.stopped().await;
        }
        Err(Cut)
    };
    body::pieces(stream::iter([opening]).chain(stream::once(first)).chain(stream::once(end)))
}

impl Subscription {
    /// Waits for what is to be sent next.
    async fn next(&self) -> Result<Next, Cut> {
        loop {
            let now = self.shared.now();
            let next = self.shared.model().next_event(self.id, now);
            let pause = match next {
                NextEvent::Event(event) => return Ok(Next::Event(self.frame(event))),
                NextEvent::NotBefore(time) => Duration::from_millis(time.millis_since(now)),
                NextEvent::Ended(SubscriptionEnd::Failed(error)) => {
                    return Ok(Next::Failure(frames::failure(&error, self.form)));
                }
                NextEvent::Ended(_) => return Ok(Next::End),
            };
            tokio::select! {
                () = self.woken.notified() => {}
                () = tokio::time::sleep(pause.min(NAP)) => {}
                () = self.connection.stopped() => return Err(Cut),
            }
        }
    }

    fn frame(&self, event: SubscribeToShardEvent) -> Bytes {
        let mut reply = Reply::Event(event);
        if self.plan.changes_reply() {
            let mut json: Value = serde_json::from_str(&reply.into_json()).unwrap_or_default();
            self.plan.edit_reply(&self.call, &self.request, &mut json, self.shared.now());
            reply = Reply::Json(json.to_string());
        }
        frames::event("SubscribeToShardEvent", self.form, reply.write(self.form))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.model().cancel_subscription(self.id);
        self.shared.forget(self.id);
    }
}
