//! What the tests share: a local AWS, settings that are quick, and a look into the lease table.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use actix::Actor;
use actix_kinesis::SharedCredentialsProvider;
use actix_kinesis::config::{BackoffConf, ConsumerConf};
use actix_kinesis::consumer::{ConsumerBuilder, EventProcessors, KinesisConsumer};
use aws_credential_types::Credentials;
use aws_sdk_dynamodb::types::AttributeValue;
use kinesis_local::LocalAws;
use kinesis_local::faults::FaultHandle;
use kinesis_record::{HashKey, HashRange};

pub(crate) use crate::recorder::*;

pub(crate) const STREAM: &str = "orders";
const APPLICATION: &str = "test";

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// No condition of these tests takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(180);

/// The failover time of tests in which a lease has to expire.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(3);

pub(crate) fn new_notes() -> Notes {
    Notes::waiting(PATIENCE)
}

pub(crate) fn credentials() -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"))
}

/// A stream of so many shards.
pub(crate) async fn local_aws(shards: u32) -> LocalAws {
    start_aws(LocalAws::builder().stream(STREAM, shards)).await
}

pub(crate) async fn start_aws(aws: kinesis_local::Builder) -> LocalAws {
    crate::logs::install();
    aws.start().await.unwrap()
}

/// Settings under which everything that takes time takes little, but no lease is lost and no stop is cut short because
/// the machine is busy: what is about that says so, in [`SHORT_LEASE`].
pub(crate) fn quick_conf(aws: &LocalAws) -> ConsumerConf {
    let mut conf = ConsumerConf::new(APPLICATION, STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some(aws.kinesis_url());
    conf.aws.dynamodb_endpoint = Some(aws.dynamodb_url());
    conf.lease.failover_time = MINUTE;
    conf.lease.shard_sync_interval = Duration::from_secs(1);
    conf.polling.idle_time = Duration::from_millis(200);
    conf.checkpointer.interval = Duration::from_millis(100);
    conf.worker.batch_timeout = Duration::from_secs(30);
    conf.worker.restart_backoff =
        BackoffConf { min: Duration::from_millis(100), max: Duration::from_millis(400) };
    conf.worker.shutdown_timeout = MINUTE;
    conf
}

pub(crate) fn builder(conf: ConsumerConf, processors: impl Into<EventProcessors>) -> ConsumerBuilder {
    KinesisConsumer::builder(conf, processors).credentials(credentials())
}

/// A consumer that notes what its processor gets and what happens to it.
pub(crate) fn start_noting(conf: ConsumerConf, notes: &Notes) -> KinesisConsumer {
    let recorder = Recorder::new(notes).start();
    builder(conf, recorder.clone()).notices(recorder.recipient()).start().unwrap()
}

/// The shards of the stream, each with a partition key whose records go there as long as it is open.
pub(crate) fn keys_by_shard(aws: &LocalAws) -> BTreeMap<String, String> {
    let key_in = |range: HashRange| {
        let fits = |key: &String| range.contains(HashKey::of_partition_key(key));
        (0..).map(|index| format!("key-{index}")).find(fits).unwrap()
    };
    let shards = aws.shards(STREAM).unwrap();
    shards.into_iter().map(|shard| (shard.id.to_string(), key_in(shard.hash_range))).collect()
}

/// Waits until a fault has struck so many calls.
pub(crate) async fn struck(fault: &FaultHandle, times: u64) {
    let waited = tokio::time::timeout(PATIENCE, fault.until_fired(times)).await;
    waited.unwrap_or_else(|_| panic!("struck {} calls of {times}", fault.fired()));
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
