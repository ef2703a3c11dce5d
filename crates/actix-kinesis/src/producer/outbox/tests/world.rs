//! What the tests of the outbox share.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kinesis_lease::put::{PutPlace, PutRecord, PutRefusal, PutReply};
use kinesis_lease::{PutApi, StreamError, StreamErrorKind};
use kinesis_record::{Shard, ShardId};
use tempfile::TempDir;

use crate::config::ProducerConf;
use crate::producer::ProducerEvent;
use crate::producer::outbox::{
    Change, Contents, FileStore, Outbox, OutboxBuilder, OutboxStore, Row, StoreError,
};
use crate::producer::testing::shard;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a call comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reply {
    /// All records are stored.
    Stored,
    /// All are stored, and the reply is lost.
    Lost,
    /// Nothing is stored.
    Fails(StreamErrorKind),
    /// Every other record is refused for a moment.
    Half,
    /// The records of a key are refused.
    Refuses(&'static str),
}

type Script = Box<dyn FnMut(&str, &[PutRecord]) -> Reply + Send>;

/// Streams in memory that answer as they are told.
pub(super) struct World {
    script: Mutex<Script>,
    /// Stream, partition key and payload, in the order of the streams.
    stored: Mutex<Vec<(String, String, String)>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    pub(super) fn new(script: impl FnMut(&str, &[PutRecord]) -> Reply + Send + 'static) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(Box::new(script)), stored: Mutex::default() })
    }

    pub(super) fn working() -> Arc<Self> {
        Self::new(|_, _| Reply::Stored)
    }

    pub(super) fn unreachable() -> Arc<Self> {
        Self::new(|_, _| Reply::Fails(StreamErrorKind::Unavailable))
    }

    /// From now on it answers so.
    pub(super) fn answers(&self, script: impl FnMut(&str, &[PutRecord]) -> Reply + Send + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    pub(super) fn stored(&self) -> Vec<(String, String, String)> {
        self.stored.lock().unwrap().clone()
    }

    /// The payloads of a key, in the order of the stream.
    pub(super) fn payloads(&self, key: &str) -> Vec<String> {
        let stored = self.stored();
        stored.into_iter().filter(|(_, of, _)| of == key).map(|(_, _, payload)| payload).collect()
    }

    fn put(&self, stream: &str, records: &[PutRecord]) -> Result<Vec<PutReply>, StreamError> {
        let reply = self.script.lock().unwrap()(stream, records);
        let error = |kind| StreamError { kind, message: format!("{kind:?}") };
        if let Reply::Fails(kind) = reply {
            return Err(error(kind));
        }
        let mut stored = self.stored.lock().unwrap();
        let store = |(index, record): (usize, &PutRecord)| {
            let is_refused = match reply {
                Reply::Half => index.is_multiple_of(2),
                Reply::Refuses(key) => *record.partition_key == *key,
                _ => false,
            };
            if is_refused {
                let message = "not now".to_owned();
                return Err(PutRefusal { code: "InternalFailure".to_owned(), message });
            }
            let payload = String::from_utf8_lossy(&record.data).into_owned();
            stored.push((stream.to_owned(), record.partition_key.to_string(), payload));
            let sequence = (stored.len() as u128).into();
            Ok(PutPlace { shard: ShardId::from("shardId-0".to_owned()), sequence })
        };
        let replies = records.iter().enumerate().map(store).collect();
        if reply == Reply::Lost { Err(error(StreamErrorKind::Unavailable)) } else { Ok(replies) }
    }
}

impl PutApi for World {
    fn list_shards<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Shard>, StreamError>> {
        async { Ok(vec![shard(0, 0, u128::MAX)]) }.boxed()
    }

    fn put_records<'a>(
        &'a self,
        stream: &'a str,
        records: Vec<PutRecord>,
    ) -> BoxFuture<'a, Result<Vec<PutReply>, StreamError>> {
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.put(stream, &records)
        }
        .boxed()
    }
}

/// A store that does what a test wants before each change.
#[derive(Debug)]
pub(super) struct Hooked<F> {
    inner: FileStore,
    hook: F,
}

/// What a hook makes of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Hook {
    Done,
    /// Nothing is changed.
    Fails,
    /// It is changed, and reported as failed.
    FailsAfter,
}

pub(super) fn hooked<F: FnMut(&[Change]) -> Hook + Send + 'static>(
    directory: &TempDir,
    hook: F,
) -> impl OutboxStore {
    Hooked { inner: FileStore::open(&path(directory)).unwrap(), hook: HookFn(hook) }
}

struct HookFn<F>(F);

impl<F> std::fmt::Debug for HookFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookFn")
    }
}

impl<F: FnMut(&[Change]) -> Hook + Send + 'static> OutboxStore for Hooked<HookFn<F>> {
    fn contents(&mut self) -> Result<Contents, StoreError> {
        self.inner.contents()
    }

    fn read(&mut self, numbers: &[u64]) -> Result<Vec<Row>, StoreError> {
        self.inner.read(numbers)
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let hook = (self.hook.0)(changes);
        if hook != Hook::Fails {
            self.inner.apply(changes)?;
        }
        let failed = StoreError::Failed { path: "the disk".into(), problem: "no space left".to_owned() };
        if hook == Hook::Done { Ok(()) } else { Err(failed) }
    }
}

pub(super) fn conf(directory: &TempDir) -> ProducerConf {
    let mut conf = ProducerConf::new("orders");
    conf.aggregation.enabled = false;
    conf.outbox.path = Some(path(directory).to_str().unwrap().to_owned());
    conf
}

pub(super) fn path(directory: &TempDir) -> std::path::PathBuf {
    Path::new(directory.path()).join("outbox")
}

pub(super) fn builder(directory: &TempDir, world: &Arc<World>) -> OutboxBuilder {
    Outbox::builder(conf(directory)).api(Arc::clone(world) as Arc<dyn PutApi>).seed(1)
}

pub(super) async fn open(directory: &TempDir, world: &Arc<World>) -> Outbox {
    builder(directory, world).open().await.unwrap()
}

pub(super) fn event(key: &str, payload: impl ToString) -> ProducerEvent {
    ProducerEvent::new(key, payload.to_string())
}

/// Hands events over at once, all of which must be accepted.
pub(super) async fn send_all(outbox: &Outbox, events: impl IntoIterator<Item = ProducerEvent>) {
    let accepting: Vec<_> = events.into_iter().map(|event| outbox.send(event)).collect();
    assert!(join_all(accepting).await.iter().all(Result::is_ok));
}

/// Waits until it is so.
pub(super) async fn until(is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DAY / 24, wait).await.expect("it never came to be");
}

/// Waits until nothing waits.
pub(super) async fn until_sent(outbox: &Outbox) {
    until(|| outbox.status().waiting == 0).await;
}
