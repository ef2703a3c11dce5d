//! Fan-out through the SDK, over HTTP/1.1 and over TLS with HTTP/2.

use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kinesis::operation::subscribe_to_shard::SubscribeToShardError;
use aws_sdk_kinesis::operation::subscribe_to_shard::SubscribeToShardOutput;
use aws_sdk_kinesis::types::{
    ShardIteratorType, StartingPosition, SubscribeToShardEvent, SubscribeToShardEventStream,
};
use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;
use serde_json::json;

use super::kinesis_client;
use super::tls::secured_client;

const SHARD_0: &str = "shardId-000000000000";

async fn started() -> (LocalAws, Client, String) {
    let aws = LocalAws::builder().stream("flights", 1).tls_port(0).start().await.unwrap();
    let client = kinesis_client(&aws);
    let arn = "arn:aws:kinesis:us-east-1:000000000000:stream/flights";
    let consumer =
        client.register_stream_consumer().stream_arn(arn).consumer_name("radar").send().await.unwrap();
    let arn = consumer.consumer().unwrap().consumer_arn().to_owned();
    (aws, client, arn)
}

async fn subscribe(
    client: &Client,
    arn: &str,
) -> Result<SubscribeToShardOutput, SdkError<SubscribeToShardError, aws_smithy_runtime_api::http::Response>> {
    let start = StartingPosition::builder().r#type(ShardIteratorType::TrimHorizon).build().unwrap();
    client.subscribe_to_shard().consumer_arn(arn).shard_id(SHARD_0).starting_position(start).send().await
}

async fn event(output: &mut SubscribeToShardOutput) -> SubscribeToShardEvent {
    let next = output.event_stream.recv();
    let next = tokio::time::timeout(Duration::from_secs(30), next).await.unwrap().unwrap();
    match next {
        Some(SubscribeToShardEventStream::SubscribeToShardEvent(event)) => event,
        other => panic!("{other:?}"),
    }
}

fn data(event: &SubscribeToShardEvent) -> Vec<&[u8]> {
    event.records().iter().map(|record| record.data().as_ref()).collect()
}

/// Reads a shard to its end while it is written and split.
async fn follow(aws: &LocalAws, client: &Client, arn: &str) {
    aws.put("flights", "a", "1").unwrap();
    let mut output = subscribe(client, arn).await.unwrap();
    assert_eq!(data(&event(&mut output).await), [b"1"]);
    aws.put("flights", "a", "2").unwrap();
    let second = event(&mut output).await;
    assert_eq!(data(&second), [b"2"]);
    assert!(!second.continuation_sequence_number().is_empty());
    assert!(second.records()[0].approximate_arrival_timestamp().is_some());
    aws.split("flights", SHARD_0).unwrap();
    let last = event(&mut output).await;
    assert_eq!((last.records().len(), last.child_shards().len()), (0, 2));
    assert!(output.event_stream.recv().await.unwrap().is_none());
}

#[tokio::test]
async fn records_come_as_they_are_put_and_the_stream_ends_with_the_shard() {
    let (aws, client, arn) = started().await;
    follow(&aws, &client, &arn).await;
    let (aws, _, arn) = started().await;
    follow(&aws, &secured_client(&aws), &arn).await;
}

#[tokio::test]
async fn a_subscription_opens_before_there_is_an_event() {
    let (aws, client, arn) = started().await;
    let mut output = subscribe(&client, &arn).await.unwrap();
    aws.put("flights", "a", "1").unwrap();
    assert_eq!(data(&event(&mut output).await), [b"1"]);
    assert_eq!(aws.calls_of(&kinesis_local::faults::Selector::on("SubscribeToShard").stream("flights")), 1);
}

#[tokio::test]
async fn a_subscription_too_many_or_to_nothing_is_refused_before_it_opens() {
    let (_aws, client, arn) = started().await;
    let _first = subscribe(&client, &arn).await.unwrap();
    let second = subscribe(&client, &arn).await.unwrap_err();
    assert_eq!(second.code(), Some("ResourceInUseException"));
    let nobody = subscribe(&client, &format!("{arn}0")).await.unwrap_err();
    assert_eq!(nobody.code(), Some("ResourceNotFoundException"));
}

#[tokio::test]
async fn a_consumer_that_goes_takes_its_subscription_along() {
    let (_aws, client, arn) = started().await;
    let mut output = subscribe(&client, &arn).await.unwrap();
    client.deregister_stream_consumer().consumer_arn(&arn).send().await.unwrap();
    let error = output.event_stream.recv().await.unwrap_err();
    assert!(error.into_service_error().is_resource_not_found_exception());
}

#[tokio::test]
async fn faults_strike_a_subscription_before_it_opens() {
    let (aws, client, arn) = started().await;
    aws.faults().add(Fault::on("SubscribeToShard").shard(SHARD_0).times(1).error("LimitExceededException"));
    let refused = subscribe(&client, &arn).await.unwrap_err();
    assert_eq!(refused.code(), Some("LimitExceededException"));
    // That one was not applied, this one is: it stands in the way of the next.
    aws.faults().add(Fault::on("SubscribeToShard").times(1).lose_reply());
    assert_eq!(subscribe(&client, &arn).await.unwrap_err().code(), None);
    assert_eq!(subscribe(&client, &arn).await.unwrap_err().code(), Some("ResourceInUseException"));
}

#[tokio::test]
async fn faults_strike_a_subscription_that_is_open() {
    let (aws, client, arn) = started().await;
    aws.put("flights", "a", "1").unwrap();
    aws.faults().add(Fault::on("SubscribeToShard").error_after("InternalFailureException"));
    let mut output = subscribe(&client, &arn).await.unwrap();
    let error = output.event_stream.recv().await.unwrap_err();
    assert!(error.into_service_error().is_internal_failure_exception());

    let (aws, client, arn) = started().await;
    aws.put("flights", "a", "1").unwrap();
    aws.faults().add(Fault::on("SubscribeToShard").half_body());
    let mut output = subscribe(&client, &arn).await.unwrap();
    let error = output.event_stream.recv().await.unwrap_err();
    assert!(error.as_service_error().is_none(), "{error:?}");
}

#[tokio::test]
async fn events_are_changed_by_faults() {
    let (aws, client, arn) = started().await;
    aws.put("flights", "a", "1").unwrap();
    aws.faults().add(Fault::on("SubscribeToShard").merge(json!({"MillisBehindLatest": 77})));
    let mut output = subscribe(&client, &arn).await.unwrap();
    assert_eq!(event(&mut output).await.millis_behind_latest(), 77);
}

#[tokio::test]
async fn an_open_subscription_does_not_hold_up_the_end() {
    let (aws, client, arn) = started().await;
    let mut output = subscribe(&client, &arn).await.unwrap();
    tokio::time::timeout(Duration::from_secs(4), aws.stop()).await.unwrap();
    assert!(output.event_stream.recv().await.is_err());
}
