use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::error::ProvideErrorMetadata;
use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::{
    ConsumerStatus, EncryptionType, MetricsName, MinimumThroughputBillingCommitmentOutputStatus,
    PutRecordsRequestEntry, ShardIteratorType, StreamMode, StreamModeDetails,
};
use kinesis_local::LocalAws;
use kinesis_local::model::Settings;

use super::kinesis_client;

const ARN: &str = "arn:aws:kinesis:us-east-1:000000000000:stream/flights";
const SHARD_0: &str = "shardId-000000000000";

async fn started(settings: Settings) -> (LocalAws, Client) {
    let aws = LocalAws::builder().settings(settings).stream("flights", 1).start().await.unwrap();
    let client = kinesis_client(&aws);
    (aws, client)
}

async fn plain() -> (LocalAws, Client) {
    started(Settings::default()).await
}

fn mode(mode: StreamMode) -> StreamModeDetails {
    StreamModeDetails::builder().stream_mode(mode).build().unwrap()
}

#[tokio::test]
async fn a_consumer_is_registered_described_listed_and_deregistered() {
    let (_aws, client) = plain().await;
    let register =
        client.register_stream_consumer().stream_arn(ARN).consumer_name("radar").tags("team", "red");
    let consumer = register.clone().send().await.unwrap().consumer.unwrap();
    assert_eq!((consumer.consumer_name(), consumer.consumer_status()), ("radar", &ConsumerStatus::Active));
    assert!(consumer.consumer_creation_timestamp().secs() > 0);
    let again = register.send().await.unwrap_err().into_service_error();
    assert!(again.is_resource_in_use_exception(), "{again:?}");

    let describe = || client.describe_stream_consumer();
    let arn = consumer.consumer_arn();
    for call in [describe().consumer_arn(arn), describe().stream_arn(ARN).consumer_name("radar")] {
        let described = call.send().await.unwrap().consumer_description.unwrap();
        assert_eq!((described.consumer_arn(), described.stream_arn()), (arn, ARN));
    }
    client.register_stream_consumer().stream_arn(ARN).consumer_name("tower").send().await.unwrap();
    let page = client.list_stream_consumers().stream_arn(ARN).max_results(1).send().await.unwrap();
    assert_eq!(page.consumers()[0].consumer_name(), "radar");
    let token = page.next_token().unwrap();
    let page = client.list_stream_consumers().stream_arn(ARN).next_token(token).send().await.unwrap();
    assert_eq!((page.consumers()[0].consumer_name(), page.next_token()), ("tower", None));

    let summary = client.describe_stream_summary().stream_name("flights").send().await.unwrap();
    let summary = summary.stream_description_summary.unwrap();
    assert_eq!((summary.consumer_count(), summary.open_shard_count()), (Some(2), 1));
    let tags = client.list_tags_for_resource().resource_arn(arn).send().await.unwrap();
    assert_eq!(tags.tags()[0].value(), Some("red"));

    let delete = client.delete_stream().stream_name("flights").send().await.unwrap_err().into_service_error();
    assert!(delete.is_resource_in_use_exception(), "{delete:?}");
    client.deregister_stream_consumer().consumer_arn(arn).send().await.unwrap();
    let gone = describe().consumer_arn(arn).send().await.unwrap_err().into_service_error();
    assert!(gone.is_resource_not_found_exception(), "{gone:?}");
    client.delete_stream().stream_name("flights").enforce_consumer_deletion(true).send().await.unwrap();
}

#[tokio::test]
async fn tags_come_out_as_they_went_in() {
    let (_aws, client) = plain().await;
    let create = client.create_stream().stream_name("trains").tags("team", "\u{8d64}");
    create.stream_mode_details(mode(StreamMode::OnDemand)).send().await.unwrap();
    client.add_tags_to_stream().stream_name("trains").tags("stage", "test").send().await.unwrap();
    let list = client.list_tags_for_stream().stream_name("trains").limit(1).send().await.unwrap();
    assert_eq!((list.tags()[0].key(), list.has_more_tags()), ("stage", true));
    let list = client
        .list_tags_for_stream()
        .stream_name("trains")
        .exclusive_start_tag_key("stage")
        .send()
        .await
        .unwrap();
    assert_eq!((list.tags()[0].value(), list.has_more_tags()), (Some("\u{8d64}"), false));
    client.remove_tags_from_stream().stream_name("trains").tag_keys("team").send().await.unwrap();
    client.tag_resource().resource_arn(ARN).tags("a", "b").send().await.unwrap();
    client.untag_resource().resource_arn(ARN).tag_keys("a").send().await.unwrap();
    let list = client.list_tags_for_stream().stream_arn(ARN).send().await.unwrap();
    assert!(list.tags().is_empty());
}

#[tokio::test]
async fn an_encrypted_record_says_so() {
    let (_aws, client) = plain().await;
    let put = || client.put_record().stream_name("flights").partition_key("k").data(Blob::new("x")).send();
    assert_eq!(put().await.unwrap().encryption_type(), None);
    let start = client.start_stream_encryption().stream_name("flights").encryption_type(EncryptionType::Kms);
    start.key_id("alias/aws/kinesis").send().await.unwrap();
    assert_eq!(put().await.unwrap().encryption_type(), Some(&EncryptionType::Kms));
    let entry = PutRecordsRequestEntry::builder().partition_key("k").data(Blob::new("y")).build().unwrap();
    let puts = client.put_records().stream_name("flights").records(entry).send().await.unwrap();
    assert_eq!(puts.encryption_type(), Some(&EncryptionType::Kms));
    let stream = client.describe_stream().stream_name("flights").send().await.unwrap();
    let stream = stream.stream_description.unwrap();
    assert_eq!(stream.key_id(), Some("alias/aws/kinesis"));
    let iterator = client.get_shard_iterator().stream_name("flights").shard_id(SHARD_0);
    let iterator = iterator.shard_iterator_type(ShardIteratorType::TrimHorizon).send().await.unwrap();
    let page = client.get_records().set_shard_iterator(iterator.shard_iterator).send().await.unwrap();
    let types: Vec<_> = page.records().iter().map(|record| record.encryption_type()).collect();
    assert_eq!(types, [None, Some(&EncryptionType::Kms), Some(&EncryptionType::Kms)]);
    let stop = client.stop_stream_encryption().stream_name("flights").encryption_type(EncryptionType::Kms);
    stop.key_id("alias/aws/kinesis").send().await.unwrap();
    assert_eq!(put().await.unwrap().encryption_type(), None);
}

#[tokio::test]
async fn flags_and_policies_of_a_stream_are_kept() {
    let (_aws, client) = plain().await;
    let enable = client.enable_enhanced_monitoring().stream_name("flights");
    let enabled = enable.shard_level_metrics(MetricsName::IncomingBytes).send().await.unwrap();
    assert_eq!(enabled.current_shard_level_metrics(), []);
    assert_eq!(enabled.desired_shard_level_metrics(), [MetricsName::IncomingBytes]);
    let stream = client.describe_stream().stream_name("flights").send().await.unwrap();
    let metrics = stream.stream_description().unwrap().enhanced_monitoring()[0].shard_level_metrics();
    assert_eq!(metrics, [MetricsName::IncomingBytes]);
    let disable = client.disable_enhanced_monitoring().stream_arn(ARN);
    let disabled = disable.shard_level_metrics(MetricsName::All).send().await.unwrap();
    assert_eq!(disabled.desired_shard_level_metrics(), []);

    client.put_resource_policy().resource_arn(ARN).policy("{}").send().await.unwrap();
    let policy = client.get_resource_policy().resource_arn(ARN).send().await.unwrap();
    assert_eq!(policy.policy(), "{}");
    client.delete_resource_policy().resource_arn(ARN).send().await.unwrap();
}

#[tokio::test]
async fn a_stream_changes_its_mode_and_the_account_tells_its_limits() {
    let (_aws, client) = plain().await;
    let update = client.update_stream_mode().stream_arn(ARN).stream_mode_details(mode(StreamMode::OnDemand));
    update.send().await.unwrap();
    let stream = client.describe_stream_summary().stream_arn(ARN).send().await.unwrap();
    let details = stream.stream_description_summary.unwrap().stream_mode_details.unwrap();
    assert_eq!(details.stream_mode(), &StreamMode::OnDemand);
    let limits = client.describe_limits().send().await.unwrap();
    assert_eq!((limits.open_shard_count(), limits.on_demand_stream_count()), (0, 1));
    let split = client.split_shard().stream_name("flights").shard_to_split(SHARD_0);
    let refused = split.new_starting_hash_key("1000").send().await.unwrap_err().into_service_error();
    assert_eq!(refused.code(), Some("ValidationException"));
    let account = client.describe_account_settings().send().await.unwrap();
    let status = account.minimum_throughput_billing_commitment.unwrap().status;
    assert_eq!(status, MinimumThroughputBillingCommitmentOutputStatus::Disabled);
}

#[tokio::test]
async fn a_throttled_call_and_a_throttled_record_have_their_errors() {
    let (_aws, client) = started(Settings { limits: true, ..Default::default() }).await;
    let entry = |data: Vec<u8>| {
        PutRecordsRequestEntry::builder().partition_key("k").data(Blob::new(data)).build().unwrap()
    };
    let half = 600 << 10;
    let put = client.put_records().stream_name("flights");
    let put = put.records(entry(vec![0; half])).records(entry(vec![0; half])).send().await.unwrap();
    assert_eq!(put.failed_record_count(), Some(1));
    let [taken, refused] = put.records() else { panic!("{put:?}") };
    assert_eq!((taken.shard_id(), taken.error_code()), (Some(SHARD_0), None));
    assert_eq!(refused.error_code(), Some("ProvisionedThroughputExceededException"));
    assert!(refused.error_message().unwrap().starts_with("Rate exceeded for shard shardId-000000000000"));
    assert_eq!(refused.sequence_number(), None);

    client.describe_limits().send().await.unwrap();
    let refused = client.describe_limits().send().await.unwrap_err().into_service_error();
    assert!(refused.is_limit_exceeded_exception(), "{refused:?}");
    for _ in 0..5 {
        let call = client.get_shard_iterator().stream_name("flights").shard_id(SHARD_0);
        call.shard_iterator_type(ShardIteratorType::Latest).send().await.unwrap();
    }
    let call = client.get_shard_iterator().stream_name("flights").shard_id(SHARD_0);
    let refused = call.shard_iterator_type(ShardIteratorType::Latest).send().await;
    let refused = refused.unwrap_err().into_service_error();
    assert!(refused.is_provisioned_throughput_exceeded_exception(), "{refused:?}");
}

#[tokio::test]
async fn a_list_is_asked_for_by_the_streams_time_of_creation() {
    let settings = Settings { transition: Duration::ZERO, ..Default::default() };
    let (_aws, client) = started(settings).await;
    let stream = client.describe_stream_summary().stream_arn(ARN).send().await.unwrap();
    let created = stream.stream_description_summary.unwrap().stream_creation_timestamp;
    let list = |at: DateTime| client.list_shards().stream_arn(ARN).stream_creation_timestamp(at).send();
    assert_eq!(list(created).await.unwrap().shards().len(), 1);
    let other = DateTime::from_secs(created.secs() - 60);
    let refused = list(other).await.unwrap_err().into_service_error();
    assert!(refused.is_resource_not_found_exception(), "{refused:?}");
}
