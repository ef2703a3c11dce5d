//! What the tests share: a local AWS, a producer with quick settings, and a look at what is stored.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use actix_kinesis::config::{BackoffConf, ProducerConf};
use actix_kinesis::producer::{KinesisProducer, Outcome, ProducerEvent, PutResult, SendError, Sending};
use actix_kinesis::{HashRange, ShardId, SharedCredentialsProvider};
use aws_credential_types::Credentials;
use futures::future::join_all;
use kinesis_local::LocalAws;
use kinesis_record::aggregation::{Deaggregated, deaggregate};

pub(crate) const STREAM: &str = "orders";
pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// No condition of these tests takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn local_aws(shards: u32) -> LocalAws {
    crate::logs::install();
    LocalAws::builder().stream(STREAM, shards).start().await.unwrap()
}

/// Settings under which what takes time takes little, and nothing expires because the machine is busy.
pub(crate) fn conf(aws: &LocalAws) -> ProducerConf {
    let mut conf = ProducerConf::new(STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some(aws.kinesis_url());
    conf.aws.dynamodb_endpoint = Some(aws.dynamodb_url());
    conf.rate_limit = 100_000;
    conf.record_ttl = PATIENCE;
    conf.request_timeout = 20 * SECOND;
    conf.record_max_buffered_time = 20 * MS;
    conf.retry_backoff = BackoffConf { min: 10 * MS, max: 100 * MS };
    conf
}

pub(crate) async fn start(conf: ProducerConf) -> KinesisProducer {
    let credentials = Credentials::new("test", "test", None, None, "test");
    let credentials = SharedCredentialsProvider::new(credentials);
    KinesisProducer::builder(conf).credentials(credentials).seed(1).start().await.unwrap()
}

/// Waits for outcomes.
pub(crate) async fn outcomes(sendings: Vec<Sending>) -> Vec<Outcome> {
    tokio::time::timeout(PATIENCE, join_all(sendings)).await.expect("outcomes do not come")
}

pub(crate) async fn results(sendings: Vec<Sending>) -> Vec<PutResult> {
    outcomes(sendings).await.into_iter().map(|outcome| outcome.unwrap()).collect()
}

pub(crate) async fn error(sending: Sending) -> SendError {
    outcomes(vec![sending]).await.remove(0).unwrap_err()
}

/// Sends so many events, `<index>` for `key-<index % keys>`.
pub(crate) fn send_many(producer: &KinesisProducer, events: usize, keys: usize) -> Vec<Sending> {
    (0..events).map(|index| producer.send(event(index, keys))).collect()
}

pub(crate) fn event(index: usize, keys: usize) -> ProducerEvent {
    ProducerEvent::new(format!("key-{}", index % keys), index.to_string())
}

/// An event in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) shard: ShardId,
    pub(crate) sequence: String,
    pub(crate) sub_sequence: Option<u32>,
    pub(crate) key: String,
    pub(crate) payload: String,
}

/// All that a KCL delivers of the stream, in its order: none of an aggregate that went to a shard which is not that of
/// all its events.
pub(crate) fn stored(aws: &LocalAws, stream: &str) -> Vec<Stored> {
    let shards = aws.shards(stream).unwrap();
    let ranges: HashMap<ShardId, HashRange> = shards.into_iter().map(|it| (it.id, it.hash_range)).collect();
    let mut stored = Vec::new();
    for (shard, record) in aws.records(stream).unwrap() {
        let sequence = record.sequence_number.to_string();
        let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
        match deaggregate(&record.data, Some(ranges[&shard])) {
            Deaggregated::Aggregated { out_of_range, .. } if !out_of_range.is_empty() => {}
            Deaggregated::Aggregated { records, .. } => {
                stored.extend(records.into_iter().map(|user| Stored {
                    shard: shard.clone(),
                    sequence: sequence.clone(),
                    sub_sequence: Some(user.sub_sequence as u32),
                    key: user.partition_key.to_string(),
                    payload: text(&user.data),
                }))
            }
            _ => stored.push(Stored {
                shard,
                sequence,
                sub_sequence: None,
                key: record.partition_key.map(|key| key.to_string()).unwrap_or_default(),
                payload: text(&record.data),
            }),
        }
    }
    stored
}

/// The payloads of each key, in the order in which a reader meets them.
pub(crate) fn by_key(aws: &LocalAws) -> BTreeMap<String, Vec<usize>> {
    let mut stored = stored(aws, STREAM);
    // The sequence numbers of a child shard are above those of its parent.
    stored.sort_by_key(|it| (it.sequence.len(), it.sequence.clone()));
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for it in stored {
        by_key.entry(it.key).or_default().push(it.payload.parse().unwrap());
    }
    by_key
}

/// Asserts that the events from 0 are stored, once each.
pub(crate) fn assert_once_each(aws: &LocalAws, events: usize) {
    let mut payloads: Vec<usize> = stored(aws, STREAM).iter().map(|it| it.payload.parse().unwrap()).collect();
    payloads.sort_unstable();
    assert!(payloads.iter().copied().eq(0..events), "{} of {events}", payloads.len());
}

/// Asserts that results tell where the events are: those from 0, in order.
pub(crate) fn assert_told(aws: &LocalAws, results: &[PutResult]) {
    let stored: HashMap<_, _> = stored(aws, STREAM)
        .into_iter()
        .map(|it| ((it.shard.to_string(), it.sequence, it.sub_sequence), it.payload))
        .collect();
    for (index, result) in results.iter().enumerate() {
        let at = (result.shard.to_string(), result.sequence.to_string(), result.sub_sequence);
        assert_eq!(stored.get(&at), Some(&index.to_string()), "{at:?}");
    }
}

/// Waits for something that comes.
pub(crate) async fn within_patience<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let came = tokio::time::timeout(PATIENCE, coming).await;
    came.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so() {
            tokio::time::sleep(5 * MS).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}
