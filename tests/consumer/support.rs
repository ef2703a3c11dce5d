//! What the tests share: a local AWS, settings that are quick, processors that note what they get, and a look into
//! the lease table.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler};
use actix_kinesis::SharedCredentialsProvider;
use actix_kinesis::config::{BackoffConf, ConsumerConf};
use actix_kinesis::consumer::{
    ConsumerBuilder, ConsumerNotice, ConsumerShutdown, ConsumerWorkerFailure, EventProcessed,
    EventProcessors, KinesisConsumer, ProcessEvent,
};
use aws_credential_types::Credentials;
use aws_sdk_dynamodb::types::AttributeValue;
use kinesis_local::LocalAws;
use tokio::sync::watch;

pub(crate) const STREAM: &str = "orders";
const APPLICATION: &str = "test";

/// No condition of these tests takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn credentials() -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"))
}

/// A stream of so many shards.
pub(crate) async fn local_aws(shards: u32) -> LocalAws {
    // RUST_LOG=debug shows what a failing test did.
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
    LocalAws::builder().stream(STREAM, shards).start().await.unwrap()
}

/// Settings under which everything that takes time takes little.
pub(crate) fn quick_conf(aws: &LocalAws) -> ConsumerConf {
    let mut conf = ConsumerConf::new(APPLICATION, STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some(aws.kinesis_url());
    conf.aws.dynamodb_endpoint = Some(aws.dynamodb_url());
    conf.lease.failover_time = Duration::from_secs(3);
    conf.lease.shard_sync_interval = Duration::from_secs(1);
    conf.polling.idle_time = Duration::from_millis(200);
    conf.checkpointer.interval = Duration::from_millis(100);
    conf.worker.batch_timeout = Duration::from_secs(30);
    conf.worker.restart_backoff =
        BackoffConf { min: Duration::from_millis(100), max: Duration::from_millis(400) };
    conf.worker.shutdown_timeout = Duration::from_secs(8);
    conf
}

pub(crate) fn builder(conf: ConsumerConf, processors: impl Into<EventProcessors>) -> ConsumerBuilder {
    KinesisConsumer::builder(conf, processors).credentials(credentials())
}

/// A delivery as a processor noted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) shard: String,
    pub(crate) sequence: String,
    pub(crate) sub_sequence: i64,
    pub(crate) key: String,
    pub(crate) payload: String,
    pub(crate) attempt: u32,
}

/// What processors and notices have told.
#[derive(Debug, Default, Clone)]
pub(crate) struct Noted {
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) failures: Vec<ConsumerWorkerFailure>,
    pub(crate) shutdowns: Vec<ConsumerShutdown>,
    pub(crate) notices: Vec<ConsumerNotice>,
}

impl Noted {
    pub(crate) fn payloads(&self) -> Vec<&str> {
        self.deliveries.iter().map(|delivery| delivery.payload.as_str()).collect()
    }

    /// The first deliveries of each key, in order.
    pub(crate) fn first_by_key(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut seen = HashMap::new();
        let mut by_key: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for delivery in &self.deliveries {
            let position = (&delivery.shard, &delivery.sequence, delivery.sub_sequence);
            if seen.insert(position, ()).is_none() {
                by_key.entry(&delivery.key).or_default().push(&delivery.payload);
            }
        }
        by_key
    }
}

/// Where processors note what they get, and tests wait for it.
#[derive(Debug, Clone)]
pub(crate) struct Notes(Arc<watch::Sender<Noted>>);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::channel(Noted::default()).0))
    }

    pub(crate) fn note(&self, note: impl FnOnce(&mut Noted)) {
        self.0.send_modify(note);
    }

    /// Waits until what is noted is as wanted.
    pub(crate) async fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Noted) -> bool) -> Noted {
        let mut noted = self.0.subscribe();
        let found = tokio::time::timeout(PATIENCE, noted.wait_for(|noted| is_so(noted))).await;
        match found {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!("waited in vain for {what}; deliveries: {}", self.now().deliveries.len()),
        }
    }

    pub(crate) fn now(&self) -> Noted {
        self.0.borrow().clone()
    }
}

/// Waits until a condition outside of the notes holds.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        while !is_so().await {
            pause.tick().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

type Answer = dyn Fn(&ProcessEvent) -> EventProcessed + Send + Sync;

/// A processor that notes what it gets and answers as it is told.
#[derive(Clone)]
pub(crate) struct Recorder {
    notes: Notes,
    answer: Arc<Answer>,
}

impl Recorder {
    pub(crate) fn new(notes: &Notes) -> Self {
        Self::answering(notes, |_| EventProcessed::Processed)
    }

    pub(crate) fn answering(
        notes: &Notes,
        answer: impl Fn(&ProcessEvent) -> EventProcessed + Send + Sync + 'static,
    ) -> Self {
        Self { notes: notes.clone(), answer: Arc::new(answer) }
    }

    pub(crate) fn note(&self, message: &ProcessEvent) {
        let event = &message.event;
        let delivery = Delivery {
            shard: event.shard().to_string(),
            sequence: event.position().sequence.to_string(),
            sub_sequence: event.position().sub_sequence,
            key: event.partition_key().unwrap_or_default().to_owned(),
            payload: String::from_utf8_lossy(event.payload()).into_owned(),
            attempt: message.attempt,
        };
        self.notes.note(|noted| noted.deliveries.push(delivery));
    }
}

impl Actor for Recorder {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Recorder {
    type Result = EventProcessed;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        self.note(&message);
        (self.answer)(&message)
    }
}

impl Handler<ConsumerWorkerFailure> for Recorder {
    type Result = ();

    fn handle(&mut self, failure: ConsumerWorkerFailure, _: &mut Self::Context) {
        self.notes.note(|noted| noted.failures.push(failure));
    }
}

impl Handler<ConsumerShutdown> for Recorder {
    type Result = ();

    fn handle(&mut self, shutdown: ConsumerShutdown, _: &mut Self::Context) {
        self.notes.note(|noted| noted.shutdowns.push(shutdown));
    }
}

impl Handler<ConsumerNotice> for Recorder {
    type Result = ();

    fn handle(&mut self, notice: ConsumerNotice, _: &mut Self::Context) {
        self.notes.note(|noted| noted.notices.push(notice));
    }
}

/// A client of the lease table as anybody may use it.
pub(crate) fn dynamodb(aws: &LocalAws) -> aws_sdk_dynamodb::Client {
    let conf = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::v2026_01_12())
        .region(aws_sdk_dynamodb::config::Region::new("us-east-1"))
        .credentials_provider(credentials())
        .endpoint_url(aws.dynamodb_url())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    aws_sdk_dynamodb::Client::from_conf(conf)
}

pub(crate) type Row = HashMap<String, AttributeValue>;

/// The rows of the lease table, by shard.
pub(crate) async fn rows(aws: &LocalAws, table: &str) -> BTreeMap<String, Row> {
    let scanned = dynamodb(aws).scan().table_name(table).consistent_read(true).send().await;
    let items = scanned.map(|scanned| scanned.items.unwrap_or_default()).unwrap_or_default();
    items.into_iter().map(|row| (text(&row, "leaseKey").unwrap_or_default(), row)).collect()
}

pub(crate) fn text(row: &Row, attribute: &str) -> Option<String> {
    row.get(attribute)?.as_s().ok().cloned()
}

pub(crate) fn number(row: &Row, attribute: &str) -> Option<i64> {
    row.get(attribute)?.as_n().ok()?.parse().ok()
}
