//! The rules of form that the API reference has for the texts of a request. The service looks at them before
//! it looks at anything else.
//!
//! A text means the same in whatever request it stands, so that one list of rules is enough. What the model
//! checks by itself (partition keys, hash keys, ARNs of consumers, tags, numbers) is not repeated here.

use super::parameters::Parameters;
use crate::model::KinesisError;
use crate::model::target::{check_name, name_in_arn};

/// Digits of a sequence number.
const MAX_DIGITS: usize = 129;

const AT_LEAST_ONE: &str = "Member must have length greater than or equal to 1";

type Rule = fn(&str, &str) -> Result<(), KinesisError>;

/// Checks the texts of a request.
///
/// # Errors
/// `ValidationException` for the first that breaks its rule.
pub(super) fn check(p: &Parameters) -> Result<(), KinesisError> {
    let filter = p.shard_filter.as_ref().and_then(|filter| filter.shard_id.as_ref());
    let start = p.starting_position.as_ref().and_then(|start| start.sequence_number.as_ref());
    let texts: [(Option<&String>, &str, Rule); 17] = [
        (p.stream_name.as_ref(), "streamName", check_name),
        (p.stream_arn.as_ref(), "streamARN", |arn, _| name_in_arn(arn).map(drop)),
        (p.resource_arn.as_ref(), "resourceARN", resource_arn),
        (p.consumer_name.as_ref(), "consumerName", check_name),
        (p.exclusive_start_stream_name.as_ref(), "exclusiveStartStreamName", check_name),
        (p.shard_id.as_ref(), "shardId", check_name),
        (p.exclusive_start_shard_id.as_ref(), "exclusiveStartShardId", check_name),
        (p.shard_to_split.as_ref(), "shardToSplit", check_name),
        (p.shard_to_merge.as_ref(), "shardToMerge", check_name),
        (p.adjacent_shard_to_merge.as_ref(), "adjacentShardToMerge", check_name),
        (filter, "shardFilter.shardId", check_name),
        (p.starting_sequence_number.as_ref(), "startingSequenceNumber", sequence_number),
        (p.sequence_number_for_ordering.as_ref(), "sequenceNumberForOrdering", sequence_number),
        (start, "startingPosition.sequenceNumber", sequence_number),
        (p.shard_iterator.as_ref(), "shardIterator", length::<512>),
        (p.next_token.as_ref(), "nextToken", length::<1_048_576>),
        (p.exclusive_start_tag_key.as_ref(), "exclusiveStartTagKey", length::<128>),
    ];
    for (text, member, rule) in texts {
        text.map_or(Ok(()), |text| rule(text, member))?;
    }
    match &p.tags {
        Some(tags) if tags.is_empty() => Err(KinesisError::constraint("{}", "tags", AT_LEAST_ONE)),
        _ => Ok(()),
    }
}

/// 1 to `MAX` characters. What is too long is not told again.
fn length<const MAX: usize>(text: &str, member: &str) -> Result<(), KinesisError> {
    match text.chars().count() {
        0 => Err(KinesisError::constraint(text, member, AT_LEAST_ONE)),
        count if count > MAX => {
            let rule = format!("Member must have length less than or equal to {MAX}");
            Err(KinesisError::constraint(format_args!("[{count} characters]"), member, &rule))
        }
        _ => Ok(()),
    }
}

fn sequence_number(text: &str, member: &str) -> Result<(), KinesisError> {
    let digits = (1..=MAX_DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits && (text == "0" || !text.starts_with('0')) {
        return Ok(());
    }
    let rule = "Member must satisfy regular expression pattern: ^(0|([1-9]\\d{0,128}))$";
    Err(KinesisError::constraint(text, member, rule))
}

/// The ARN of a stream, or of a consumer of one, which has the stream's in front.
fn resource_arn(arn: &str, member: &str) -> Result<(), KinesisError> {
    let stream = arn.split("/consumer/").next().unwrap_or_default();
    name_in_arn(stream).map(drop).map_err(|_| {
        let rule =
            "Member must satisfy regular expression pattern: arn:aws.*:kinesis:.*:\\d{12}:.*stream/\\S+";
        KinesisError::constraint(arn, member, rule)
    })
}
