//! What the tests share: a local AWS, quick settings, and a look into the lease table.

use std::time::Duration;

use actix_kinesis::config::{BackoffConf, ConsumerConf};
use actix_kinesis::consumer::{ConsumerBuilder, Fleet, World};
use actix_kinesis::stream::{Channels, CommittableEvent, ShardSources, Source};
use actix_kinesis::{Checkpoint, SharedCredentialsProvider};
use aws_credential_types::Credentials;
use futures::StreamExt;
use kinesis_local::LocalAws;

pub(crate) const STREAM: &str = "orders";
pub(crate) const FIRST: &str = "shardId-000000000000";

/// No condition of these tests takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn local_aws(shards: u32) -> LocalAws {
    crate::logs::install();
    LocalAws::builder().stream(STREAM, shards).start().await.unwrap()
}

/// Puts numbers from `from` on, each for a key of its own among ten.
pub(crate) fn put_numbers(aws: &LocalAws, numbers: std::ops::Range<usize>) {
    for number in numbers {
        aws.put(STREAM, &format!("key-{}", number % 10), number.to_string()).unwrap();
    }
}

/// Settings under which what takes time takes little, and no lease is lost because the machine is busy.
pub(crate) fn conf(aws: &LocalAws) -> ConsumerConf {
    let mut conf = ConsumerConf::new("test", STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some(aws.kinesis_url());
    conf.aws.dynamodb_endpoint = Some(aws.dynamodb_url());
    conf.lease.failover_time = Duration::from_secs(60);
    conf.lease.shard_sync_interval = Duration::from_secs(1);
    conf.polling.idle_time = Duration::from_millis(200);
    conf.checkpointer.interval = Duration::from_millis(50);
    conf.worker.batch_timeout = PATIENCE;
    conf.worker.restart_backoff =
        BackoffConf { min: Duration::from_millis(20), max: Duration::from_millis(50) };
    conf.worker.shutdown_timeout = PATIENCE;
    conf
}

pub(crate) fn credentials() -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"))
}

pub(crate) fn with_credentials(consumer: ConsumerBuilder) -> ConsumerBuilder {
    consumer.credentials(credentials())
}

pub(crate) fn source(conf: ConsumerConf) -> Source {
    Source::start_with(conf, with_credentials).unwrap()
}

pub(crate) fn shard_sources(conf: ConsumerConf) -> ShardSources {
    ShardSources::start_with(conf, with_credentials).unwrap()
}

pub(crate) fn channels(conf: ConsumerConf) -> Channels {
    Channels::start_with(conf, with_credentials).unwrap()
}

/// What comes, unless nothing does.
pub(crate) async fn soon<T>(what: &str, coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// The next event of a source that has one.
pub(crate) async fn next(source: &mut Source) -> CommittableEvent {
    soon("an event", source.next()).await.unwrap().unwrap()
}

pub(crate) fn text(event: &CommittableEvent) -> String {
    String::from_utf8(event.value().payload().to_vec()).unwrap()
}

/// The checkpoint of a shard in the lease table, if there is one yet.
pub(crate) async fn checkpoint(aws: &LocalAws, shard: &str) -> Option<Checkpoint> {
    let world = World::connect(&conf(aws), Some(credentials())).await.unwrap();
    let fleet = Fleet::read(&world).await.ok()?;
    let shard = fleet.shards.into_iter().find(|it| it.shard.as_str() == shard)?;
    Some(shard.lease?.checkpoint)
}

pub(crate) async fn until_checkpoint(aws: &LocalAws, shard: &str, is_it: impl Fn(&Checkpoint) -> bool) {
    let seen = async {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        while !checkpoint(aws, shard).await.is_some_and(|checkpoint| is_it(&checkpoint)) {
            pause.tick().await;
        }
    };
    soon("a checkpoint", seen).await;
}
