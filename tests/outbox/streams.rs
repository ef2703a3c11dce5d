//! Streams that change while events are kept for them.

use std::time::{Duration, Instant};

use actix_kinesis::SharedCredentialsProvider;
use actix_kinesis::config::{BackoffConf, ProducerConf};
use actix_kinesis::producer::ProducerEvent;
use actix_kinesis::producer::outbox::{Outbox, OutboxStopped};
use aws_credential_types::Credentials;
use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;
use tempfile::TempDir;

use crate::process::STREAM;
use crate::sender::PATIENCE;
use crate::{KEYS, assert_complete, stored, trouble};

async fn open(aws: &LocalAws, directory: &TempDir, is_aggregated: bool) -> Outbox {
    let mut conf = ProducerConf::new(STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some(aws.kinesis_url());
    conf.aws.dynamodb_endpoint = Some(aws.dynamodb_url());
    conf.rate_limit = 100_000;
    conf.record_max_buffered_time = Duration::from_millis(10);
    conf.retry_backoff = BackoffConf { min: Duration::from_millis(10), max: Duration::from_millis(100) };
    conf.aggregation.enabled = is_aggregated;
    conf.outbox.path = Some(directory.path().join("outbox").to_str().unwrap().to_owned());
    let credentials = Credentials::new("test", "test", None, None, "test");
    let credentials = SharedCredentialsProvider::new(credentials);
    Outbox::builder(conf).credentials(credentials).seed(1).open().await.unwrap()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Hands over the numbers of each key from `from` to `to`.
async fn send(outbox: &Outbox, from: usize, to: usize) {
    let numbers = (from..to).flat_map(|number| (0..KEYS).map(move |key| (key, number)));
    let event = |(key, number): (usize, usize)| ProducerEvent::new(format!("key-{key}"), number.to_string());
    let accepting: Vec<_> = numbers.map(|it| outbox.send(event(it))).collect();
    for accepted in accepting {
        within_patience("an acceptance", accepted).await.unwrap();
    }
}

async fn within_patience<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let came = tokio::time::timeout(PATIENCE, coming).await;
    came.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

async fn stop(outbox: &Outbox) -> OutboxStopped {
    within_patience("the stop", outbox.stop(Duration::ZERO)).await
}

fn accepted(count: usize) -> std::collections::BTreeMap<String, usize> {
    (0..KEYS).map(|key| (format!("key-{key}"), count)).collect()
}

/// Asserts that the numbers of each key are there, the first time in order.
fn assert_complete_from(aws: &LocalAws, from: usize, to: usize) {
    let stored = stored(aws);
    assert_eq!(stored.len(), KEYS);
    for (key, numbers) in stored {
        let mut next = from;
        for number in numbers {
            assert!((from..=next).contains(&number), "{key}: {number} is stored before {next}");
            next = next.max(number + 1);
        }
        assert_eq!(next, to, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reshard_while_events_wait_and_between_two_starts_loses_nothing_and_keeps_the_order() {
    for is_aggregated in [true, false] {
        let aws = LocalAws::builder().stream(STREAM, 2).start().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        trouble(&aws);
        let outbox = open(&aws, &directory, is_aggregated).await;
        send(&outbox, 0, 50).await;
        aws.split(STREAM, "shardId-000000000000").unwrap();
        send(&outbox, 50, 100).await;
        // What waits at this end was never sent, or to shards that are closed at the next start.
        stop(&outbox).await;
        aws.split(STREAM, "shardId-000000000001").unwrap();
        aws.merge(STREAM, "shardId-000000000002", "shardId-000000000003").unwrap();
        let outbox = open(&aws, &directory, is_aggregated).await;
        assert!(outbox.status().waiting > 0);
        send(&outbox, 100, 150).await;
        aws.merge(STREAM, "shardId-000000000004", "shardId-000000000005").unwrap();
        send(&outbox, 150, 200).await;
        aws.faults().clear();
        until("all is sent", || outbox.status().waiting == 0).await;
        assert_complete(&aws, &accepted(200));
        assert_eq!(stop(&outbox).await.left, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_created_again_under_its_name_gets_what_was_not_sent() {
    for is_aggregated in [true, false] {
        let aws = LocalAws::builder().stream(STREAM, 4).start().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let outbox = open(&aws, &directory, is_aggregated).await;
        send(&outbox, 0, 20).await;
        until("the first are sent", || outbox.status().waiting == 0).await;
        aws.with_model(|model, now| model.delete_stream(&STREAM.into(), now)).unwrap();
        until("the stream is gone", || aws.shards(STREAM).is_err()).await;
        send(&outbox, 20, 40).await;
        let calls = aws.calls("PutRecords");
        until("it was tried", || aws.calls("PutRecords") > calls).await;
        assert_eq!(outbox.status().waiting, 20 * KEYS as u64);
        // The second half meets the new stream at another start.
        stop(&outbox).await;
        aws.create_stream(STREAM, 2).unwrap();
        let outbox = open(&aws, &directory, is_aggregated).await;
        send(&outbox, 40, 60).await;
        until("all is sent", || outbox.status().waiting == 0).await;
        assert_complete_from(&aws, 20, 60);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_created_again_while_the_outbox_runs_gets_what_was_not_sent() {
    let aws = LocalAws::builder().stream(STREAM, 4).start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let outbox = open(&aws, &directory, true).await;
    send(&outbox, 0, 20).await;
    until("the first are sent", || outbox.status().waiting == 0).await;
    let down = aws.faults().add(Fault::on("PutRecords").error("ServiceUnavailable"));
    send(&outbox, 20, 40).await;
    aws.with_model(|model, now| model.delete_stream(&STREAM.into(), now)).unwrap();
    until("the stream is gone", || aws.shards(STREAM).is_err()).await;
    aws.create_stream(STREAM, 1).unwrap();
    down.remove();
    send(&outbox, 40, 60).await;
    until("all is sent", || outbox.status().waiting == 0).await;
    assert_complete_from(&aws, 20, 60);
}
