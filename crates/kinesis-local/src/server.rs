//! The services on the wire: HTTP/1.1 and HTTP/2, one operation per POST, named by the header
//! `X-Amz-Target`.
//!
//! | module | holds |
//! |---|---|
//! | [`transport`] | connections, in clear and under TLS |
//! | [`tls`] | the certificate, and both services on one port |
//! | [`body`] | bodies of requests, up to a limit, and of replies: whole, cut off, in pieces |
//! | [`fate`] | how a call ends when faults have their hands in it |
//! | [`kinesis`] | a call of Kinesis from its request to its reply |
//! | [`form`] | JSON and CBOR, by content type |
//! | [`cbor`] | from CBOR to JSON and back |
//! | [`parameters`] | what a request says |
//! | [`rules`] | the rules for its texts |
//! | [`dispatch`](mod@dispatch) | from a request to the model and back |
//! | [`reply`] | what a call is answered with |
//! | [`answer`] | the JSON of small replies |
//! | [`writer`] | JSON and CBOR, member by member |
//! | [`subscribe`] | SubscribeToShard, a reply that goes on |
//! | [`frames`] | frames of an event stream |
//! | [`dynamodb`] | a call of DynamoDB on its way to dynoxide |
//! | [`calls`] | how often each operation was called |
//! | [`control`] | faults and counters over HTTP |

mod answer;
mod body;
pub(crate) mod calls;
mod cbor;
mod control;
mod dispatch;
mod dynamodb;
mod fate;
mod form;
mod frames;
mod kinesis;
mod parameters;
mod reply;
mod rules;
mod subscribe;
mod tls;
mod transport;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use hyper::header::HeaderName;
use tokio::sync::Notify;

use crate::builder::StartError;
use crate::faults::{Failures, FaultSet};
use crate::journal::{self, Journal, Past};
use crate::model::{Kinesis, KinesisError, Operation, SubscriptionId, Timestamp};
use calls::Calls;

pub(crate) use dispatch::dispatch;
pub(crate) use dynamodb::DynamoDb;
pub(crate) use kinesis::KinesisWire;
pub(crate) use parameters::Parameters;
pub(crate) use reply::Reply;
pub(crate) use tls::{BothWires, Certificate};
pub(crate) use transport::serve;

/// Milliseconds without an eviction after which the next is logged again.
const EVICTION_STRETCH: u64 = 60_000;

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");

/// The model with what a server needs around it.
pub(crate) struct Shared {
    model: Mutex<Kinesis>,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
    pub(crate) calls: Calls,
    pub(crate) faults: FaultSet,
    requests: AtomicU64,
    /// Where changes are kept. It is held while something changes, so that the order there is the order in
    /// which things happened.
    journal: Mutex<Option<Journal>>,
    /// The subscriptions that are served.
    watching: Mutex<BTreeMap<SubscriptionId, Arc<Notify>>>,
    evictions: Mutex<Evictions>,
}

/// What is known of records that went before their time.
#[derive(Debug, Default)]
struct Evictions {
    records: u64,
    last: Option<Timestamp>,
}

/// The model, held. What its work means for subscriptions and to the log is told when it is let go.
pub(crate) struct Held<'a> {
    model: MutexGuard<'a, Kinesis>,
    shared: &'a Shared,
}

impl Deref for Held<'_> {
    type Target = Kinesis;

    fn deref(&self) -> &Kinesis {
        &self.model
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Kinesis {
        &mut self.model
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let woken = self.model.take_woken();
        if !woken.is_empty() {
            let watching = self.shared.watching.lock().unwrap_or_else(PoisonError::into_inner);
            woken.iter().filter_map(|id| watching.get(id)).for_each(|woken| woken.notify_one());
        }
        let evicted = self.model.evicted_records();
        if evicted > 0 {
            self.shared.tell_evicted(evicted, self.model.settings().max_stored_bytes);
        }
    }
}

impl Shared {
    pub(crate) fn new(
        model: Kinesis,
        clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
        faults: FaultSet,
    ) -> Self {
        let (calls, requests) = (Calls::default(), AtomicU64::new(0));
        let (journal, watching, evictions) = Default::default();
        Self { model: Mutex::new(model), clock, calls, faults, requests, journal, watching, evictions }
    }

    /// The model, held for one call that does not wait for anything.
    pub(crate) fn model(&self) -> Held<'_> {
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        Held { model, shared: self }
    }

    /// Brings the past back and keeps what happens from now on. Limits do not hold for the past.
    ///
    /// # Errors
    /// When the past cannot be read, or a call of it does not work any more.
    pub(crate) fn remember(&self, mut journal: Journal) -> Result<(), StartError> {
        let limits = std::mem::take(&mut self.model().settings.limits);
        for call in journal.past() {
            self.redo(&call?).map_err(StartError::Past)?;
        }
        self.model().settings.limits = limits;
        *self.journal() = Some(journal);
        Ok(())
    }

    fn redo(&self, call: &Past) -> Result<(), String> {
        let (at, operation, request) =
            call.call().ok_or_else(|| format!("this version does not know {call:?}"))?;
        Parameters::parse(request.as_bytes())
            .and_then(|parameters| dispatch(self, operation, parameters, &Failures::new(), at))
            .map_err(|error| format!("{operation} at {at} does not work again: {error}"))?;
        Ok(())
    }

    /// The streams that are there.
    pub(crate) fn stream_names(&self) -> Vec<String> {
        self.model().streams.keys().cloned().collect()
    }

    /// Keeps nothing from now on.
    pub(crate) fn close(&self) {
        if let Some(Err(error)) = self.journal().take().map(|mut journal| journal.catch_up()) {
            tracing::error!(%error, "the last change is not kept");
        }
    }

    fn journal(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a call to the model, and keeps it if it is to be kept. `failures` are of PutRecords, and `json` gives the
    /// request in JSON.
    fn apply(
        &self,
        operation: Operation,
        parameters: Parameters,
        failures: &Failures,
        json: impl FnOnce() -> Result<Bytes, KinesisError>,
    ) -> Result<Reply, KinesisError> {
        if !journal::changes(operation) {
            return dispatch(self, operation, parameters, failures, self.now());
        }
        // Without a journal, calls need not wait for one another.
        let mut journal = self.journal();
        let Some(journal) = journal.as_mut() else {
            drop(journal);
            return dispatch(self, operation, parameters, failures, self.now());
        };
        journal.catch_up().map_err(not_made)?;
        let (now, json) = (self.now(), json()?);
        let reply = dispatch(self, operation, parameters, failures, now)?;
        let stored = match &reply {
            Reply::Places(places) => journal::stored(json, places),
            _ => Some(json),
        };
        stored.map_or(Ok(()), |request| journal.keep(now, operation, &request)).map_err(not_kept)?;
        Ok(reply)
    }

    /// Does the work of a call whose request is this, and keeps it.
    pub(crate) fn change<R>(
        &self,
        operation: Operation,
        request: impl FnOnce() -> serde_json::Value,
        work: impl FnOnce(&mut Kinesis, Timestamp) -> Result<R, KinesisError>,
    ) -> Result<R, KinesisError> {
        let mut journal = self.journal();
        journal.as_mut().map_or(Ok(()), Journal::catch_up).map_err(not_made)?;
        let now = self.now();
        let result = work(&mut self.model(), now)?;
        if let Some(journal) = journal.as_mut() {
            journal.keep(now, operation, request().to_string().as_bytes()).map_err(not_kept)?;
        }
        Ok(result)
    }

    /// Logs that records went before their time: once for a stretch in which this happens again and again.
    fn tell_evicted(&self, records: u64, bound: usize) {
        let mut known = self.evictions.lock().unwrap_or_else(PoisonError::into_inner);
        if known.records == records {
            return;
        }
        let now = self.now();
        if known.last.is_none_or(|last| now.millis_since(last) > EVICTION_STRETCH) {
            let records = records - known.records;
            tracing::warn!(
                bound,
                records,
                "memory is full: the oldest records go before their retention is over"
            );
        }
        *known = Evictions { records, last: Some(now) };
    }

    /// Tells when a subscription may have news.
    fn watch(&self, id: SubscriptionId) -> Arc<Notify> {
        let woken = Arc::new(Notify::new());
        self.watching.lock().unwrap_or_else(PoisonError::into_inner).insert(id, woken.clone());
        woken
    }

    fn forget(&self, id: SubscriptionId) {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)().into()
    }

    fn request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("00000000-0000-4000-8000-{number:012x}")
    }
}

fn not_made(error: std::io::Error) -> KinesisError {
    KinesisError::InternalFailure(format!("Nothing changes until the change before is kept: {error}"))
}

fn not_kept(error: std::io::Error) -> KinesisError {
    tracing::error!(%error, "a change is not kept yet: until it is, nothing else changes");
    KinesisError::InternalFailure(format!("The change is made, but it is not kept yet: {error}"))
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("calls", &self.calls).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::create_stream;
    use crate::model::Settings;

    #[test]
    fn nothing_changes_while_the_change_before_cannot_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        std::fs::write(&path, "").unwrap();
        let model = Kinesis::new(Settings::default());
        let shared = Shared::new(model, Box::new(SystemTime::now), FaultSet::new(0));
        shared.remember(Journal::read_only(&path).unwrap()).unwrap();
        let made = create_stream(&shared, "flights", 1).unwrap_err();
        assert!(made.message().contains("The change is made"), "{made}");
        let refused = create_stream(&shared, "trains", 1).unwrap_err();
        assert!(refused.message().contains("Nothing changes"), "{refused}");
        let parameters = Parameters::parse(br#"{"StreamName": "flights"}"#).unwrap();
        let json = || Ok(Bytes::new());
        let refused = shared.apply(Operation::DeleteStream, parameters, &Failures::new(), json).unwrap_err();
        assert!(refused.message().contains("Nothing changes"), "{refused}");
        assert_eq!(shared.stream_names(), ["flights"]);
    }
}
