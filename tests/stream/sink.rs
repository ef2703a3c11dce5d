//! Events as the elements of sinks.

mod elements;
mod failures;
mod pass_through;
mod policy;
mod queue;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_kinesis::config::ProducerConf;
use actix_kinesis::producer::{Flushed, ProducerEvent, SendError};
use actix_kinesis::stream::sink::{KinesisSink, SinkError};
use futures::{SinkExt, Stream, StreamExt};
use kinesis_local::LocalAws;

use crate::producing::{self, event, eventually};

const HOUR: Duration = Duration::from_secs(3_600);
/// No end of these tests takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Settings under which events wait until they are told to go.
fn holding(aws: &LocalAws) -> ProducerConf {
    let mut conf = producing::conf(aws);
    conf.record_ttl = 2 * HOUR;
    conf.record_max_buffered_time = HOUR;
    conf
}

/// Settings under which each event is a record by itself, and comes back when it is throttled.
fn single(aws: &LocalAws) -> ProducerConf {
    let mut conf = producing::conf(aws);
    conf.aggregation.enabled = false;
    conf.fail_if_throttled = true;
    conf
}

/// Each for a key of its own.
fn events(count: usize) -> impl Stream<Item = ProducerEvent> {
    futures::stream::iter(0..count).map(move |index| event(index, count))
}

/// One that no producer takes.
fn invalid() -> ProducerEvent {
    ProducerEvent::new("", "x")
}

/// Gives the sink elements without waiting for their outcomes.
async fn feed(sink: &mut KinesisSink, events: impl IntoIterator<Item = ProducerEvent>) {
    for event in events {
        sink.feed(event).await.unwrap();
    }
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("the end does not come")
}

fn counted(counts: Flushed) -> (u64, u64) {
    (counts.sent, counts.failed)
}

/// The element, the cause and the counts of a failure.
fn failed(error: SinkError) -> (u64, SendError, (u64, u64)) {
    match error {
        SinkError::Failed { index, cause, counts, .. } => (index, *cause, counted(counts)),
        error => panic!("{error:?}"),
    }
}

/// Collects the elements that failed.
#[derive(Clone, Default)]
struct Reported(Arc<Mutex<Vec<SendError>>>);

impl Reported {
    fn take(&self, failed: SendError) {
        self.0.lock().unwrap().push(failed);
    }

    /// The payloads of their events, in order.
    fn payloads(&self) -> Vec<usize> {
        let reported = self.0.lock().unwrap();
        let mut payloads: Vec<usize> = reported
            .iter()
            .map(|it| std::str::from_utf8(&it.event.payload).unwrap().parse().unwrap())
            .collect();
        payloads.sort_unstable();
        payloads
    }
}

/// The payloads that are stored, in order.
fn payloads(aws: &LocalAws) -> Vec<usize> {
    let stored = producing::stored(aws, producing::STREAM);
    let mut payloads: Vec<usize> = stored.iter().map(|it| it.payload.parse().unwrap()).collect();
    payloads.sort_unstable();
    payloads
}

async fn until_stored(aws: &LocalAws, count: usize) {
    eventually("all is stored", || payloads(aws).len() == count).await;
}
