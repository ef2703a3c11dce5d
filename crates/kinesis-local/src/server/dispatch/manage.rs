//! The operations that only manage: consumers, tags, policies, flags. Their replies are small.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::Shared;
use super::super::answer::{empty, seconds};
use super::super::parameters::{Parameters, count, not_in_enum, required};
use crate::model::{
    ConsumerDescription, EnhancedMonitoringResponse, KinesisError, ListStreamConsumersRequest,
    ListTagsForStreamRequest, Operation, RegisterStreamConsumerRequest, Timestamp,
};

/// As [`small`](super::small), for the operations that it leaves to this.
pub(super) fn manage(
    shared: &Shared,
    operation: Operation,
    mut p: Parameters,
    now: Timestamp,
) -> Result<String, KinesisError> {
    match operation {
        Operation::RegisterStreamConsumer => {
            let request = RegisterStreamConsumerRequest {
                stream: p.target_by_arn()?,
                consumer_name: required(p.consumer_name, "consumerName")?,
                tags: p.tags.unwrap_or_default(),
            };
            let consumer = shared.model().register_stream_consumer(request, now)?;
            Ok(json!({ "Consumer": describe(&consumer, false) }).to_string())
        }
        Operation::DeregisterStreamConsumer => {
            shared.model().deregister_stream_consumer(&p.consumer(), now)?;
            Ok(empty())
        }
        Operation::DescribeStreamConsumer => {
            let consumer = shared.model().describe_stream_consumer(&p.consumer(), now)?;
            Ok(json!({ "ConsumerDescription": describe(&consumer, true) }).to_string())
        }
        Operation::ListStreamConsumers => {
            let request = ListStreamConsumersRequest {
                stream: p.target_by_arn()?,
                next_token: p.next_token,
                max_results: count(p.max_results, "maxResults")?,
                stream_created: p.stream_creation_timestamp.map(|instant| instant.0),
            };
            let response = shared.model().list_stream_consumers(request, now)?;
            let consumers: Value =
                response.consumers.iter().map(|consumer| describe(consumer, false)).collect();
            Ok(with_token(json!({ "Consumers": consumers }), response.next_token))
        }
        Operation::AddTagsToStream => {
            let tags = required(p.tags.take(), "tags")?;
            shared.model().add_tags_to_stream(&p.target(), tags, now)?;
            Ok(empty())
        }
        Operation::RemoveTagsFromStream => {
            let keys = required(p.tag_keys.take(), "tagKeys")?;
            shared.model().remove_tags_from_stream(&p.target(), &keys, now)?;
            Ok(empty())
        }
        Operation::ListTagsForStream => {
            let request = ListTagsForStreamRequest {
                stream: p.target(),
                exclusive_start_tag_key: p.exclusive_start_tag_key,
                limit: count(p.limit, "limit")?,
            };
            let response = shared.model().list_tags_for_stream(request, now)?;
            Ok(json!({ "Tags": tags(response.tags), "HasMoreTags": response.has_more_tags }).to_string())
        }
        Operation::TagResource => {
            let arn = required(p.resource_arn, "resourceARN")?;
            shared.model().tag_resource(&arn, required(p.tags, "tags")?, now)?;
            Ok(empty())
        }
        Operation::UntagResource => {
            let arn = required(p.resource_arn, "resourceARN")?;
            shared.model().untag_resource(&arn, &required(p.tag_keys, "tagKeys")?, now)?;
            Ok(empty())
        }
        Operation::ListTagsForResource => {
            let arn = required(p.resource_arn, "resourceARN")?;
            let known: BTreeMap<String, String> = shared.model().list_tags_for_resource(&arn, now)?;
            Ok(json!({ "Tags": tags(known) }).to_string())
        }
        Operation::PutResourcePolicy => {
            let arn = required(p.resource_arn, "resourceARN")?;
            shared.model().put_resource_policy(&arn, &required(p.policy, "policy")?, now)?;
            Ok(empty())
        }
        Operation::GetResourcePolicy => {
            let arn = required(p.resource_arn, "resourceARN")?;
            let policy = shared.model().get_resource_policy(&arn, now)?;
            Ok(json!({ "Policy": policy }).to_string())
        }
        Operation::DeleteResourcePolicy => {
            let arn = required(p.resource_arn, "resourceARN")?;
            shared.model().delete_resource_policy(&arn, now)?;
            Ok(empty())
        }
        Operation::StartStreamEncryption => {
            let key = encryption_key(&mut p)?;
            shared.model().start_stream_encryption(&p.target(), &key, now)?;
            Ok(empty())
        }
        Operation::StopStreamEncryption => {
            let key = encryption_key(&mut p)?;
            shared.model().stop_stream_encryption(&p.target(), &key, now)?;
            Ok(empty())
        }
        Operation::EnableEnhancedMonitoring => {
            let metrics = required(p.shard_level_metrics.take(), "shardLevelMetrics")?;
            let response = shared.model().enable_enhanced_monitoring(&p.target(), &metrics, now)?;
            Ok(enhanced_monitoring(&response))
        }
        Operation::DisableEnhancedMonitoring => {
            let metrics = required(p.shard_level_metrics.take(), "shardLevelMetrics")?;
            let response = shared.model().disable_enhanced_monitoring(&p.target(), &metrics, now)?;
            Ok(enhanced_monitoring(&response))
        }
        Operation::UpdateStreamMode => {
            let mode = required(p.mode()?, "streamModeDetails")?;
            shared.model().update_stream_mode(&p.target_by_arn()?, mode, now)?;
            Ok(empty())
        }
        Operation::DescribeLimits => {
            let limits = shared.model().describe_limits(now)?;
            Ok(json!({
                "ShardLimit": limits.shard_limit,
                "OpenShardCount": limits.open_shard_count,
                "OnDemandStreamCount": limits.on_demand_stream_count,
                "OnDemandStreamCountLimit": limits.on_demand_stream_count_limit,
            })
            .to_string())
        }
        Operation::DescribeAccountSettings => {
            shared.model().admit(operation, now)?;
            Ok(json!({ "MinimumThroughputBillingCommitment": { "Status": "DISABLED" } }).to_string())
        }
        other => Err(KinesisError::UnknownOperation(format!("{other} is not answered in a single reply."))),
    }
}

/// The key of StartStreamEncryption and StopStreamEncryption, which know one type of encryption.
fn encryption_key(p: &mut Parameters) -> Result<String, KinesisError> {
    let kind = required(p.encryption_type.take(), "encryptionType")?;
    match kind.as_str() {
        "KMS" => required(p.key_id.take(), "keyId"),
        "NONE" => Err(KinesisError::InvalidArgument(
            "EncryptionType must be KMS, the type that is started or stopped.".to_owned(),
        )),
        other => Err(not_in_enum(other, "encryptionType", "KMS, NONE")),
    }
}

/// A consumer; only a description of its own names the stream.
fn describe(consumer: &ConsumerDescription, with_stream: bool) -> Value {
    let mut value = json!({
        "ConsumerName": consumer.consumer_name,
        "ConsumerARN": consumer.consumer_arn,
        "ConsumerStatus": consumer.status.as_str(),
        "ConsumerCreationTimestamp": seconds(consumer.created),
    });
    if with_stream {
        value["StreamARN"] = consumer.stream_arn.as_str().into();
    }
    value
}

fn enhanced_monitoring(response: &EnhancedMonitoringResponse) -> String {
    json!({
        "StreamName": response.stream_name,
        "StreamARN": response.stream_arn,
        "CurrentShardLevelMetrics": response.current,
        "DesiredShardLevelMetrics": response.desired,
    })
    .to_string()
}

fn tags(tags: impl IntoIterator<Item = (String, String)>) -> Value {
    tags.into_iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect()
}

fn with_token(mut reply: Value, token: Option<String>) -> String {
    if let Some(token) = token {
        reply["NextToken"] = token.into();
    }
    reply.to_string()
}
