//! AddTagsToStream, RemoveTagsFromStream, ListTagsForStream, and the same for any resource by its ARN.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::error::{KinesisError, within};
use super::operation::Operation;
use super::service::Kinesis;
use super::target::StreamTarget;
use super::time::Timestamp;

/// Tags of one stream or consumer.
pub const MAX_TAGS: usize = 50;

/// A call of ListTagsForStream.
#[derive(Debug, Clone, Default)]
pub struct ListTagsForStreamRequest {
    /// The stream.
    pub stream: StreamTarget,
    /// The tags behind this key.
    pub exclusive_start_tag_key: Option<String>,
    /// At most so many tags, 1 to [`MAX_TAGS`]. All by default.
    pub limit: Option<u32>,
}

/// The answer to ListTagsForStream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTagsForStreamResponse {
    /// Keys with their values, by key.
    pub tags: Vec<(String, String)>,
    /// Whether there are more behind them.
    pub has_more_tags: bool,
}

impl Kinesis {
    /// Adds tags to a stream. A key that is there gets the new value.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is not active,
    /// `ValidationException` for a key or value that is too long, `InvalidArgumentException` for characters
    /// that are not allowed and for more than [`MAX_TAGS`] in the end.
    pub fn add_tags_to_stream(
        &mut self,
        target: &StreamTarget,
        tags: BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        check_given(&tags)?;
        self.admit_for_stream(Operation::AddTagsToStream, target, now)?;
        let stream = self.any_stream(target, now)?;
        stream.check_exists(now)?;
        add(&mut stream.labels.tags, tags)
    }

    /// Removes tags from a stream. A key that is not there is passed over.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is being created
    /// or deleted, `ValidationException` without keys and for more than [`MAX_TAGS`].
    pub fn remove_tags_from_stream(
        &mut self,
        target: &StreamTarget,
        keys: &[String],
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        check_keys(keys)?;
        self.admit_for_stream(Operation::RemoveTagsFromStream, target, now)?;
        let stream = self.any_stream(target, now)?;
        stream.check_exists(now)?;
        keys.iter().for_each(|key| drop(stream.labels.tags.remove(key)));
        Ok(())
    }

    /// Lists the tags of a stream.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ValidationException` for a limit out of range.
    pub fn list_tags_for_stream(
        &mut self,
        request: ListTagsForStreamRequest,
        now: Timestamp,
    ) -> Result<ListTagsForStreamResponse, KinesisError> {
        let all = MAX_TAGS as u32;
        let limit = within(request.limit.unwrap_or(all), "limit", 1..=all)? as usize;
        self.admit_for_stream(Operation::ListTagsForStream, &request.stream, now)?;
        let tags = &self.any_stream(&request.stream, now)?.labels.tags;
        let start = request.exclusive_start_tag_key.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = tags.range::<String, _>((start, Bound::Unbounded));
        let page = rest.by_ref().take(limit).map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(ListTagsForStreamResponse { tags: page, has_more_tags: rest.next().is_some() })
    }

    /// Adds tags to the stream or consumer with this ARN.
    ///
    /// # Errors
    /// As [`Kinesis::add_tags_to_stream`].
    pub fn tag_resource(
        &mut self,
        arn: &str,
        tags: BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        check_given(&tags)?;
        self.admit(Operation::TagResource, now)?;
        add(&mut self.labels(arn, now)?.tags, tags)
    }

    /// Removes tags from the stream or consumer with this ARN.
    ///
    /// # Errors
    /// As [`Kinesis::remove_tags_from_stream`].
    pub fn untag_resource(&mut self, arn: &str, keys: &[String], now: Timestamp) -> Result<(), KinesisError> {
        check_keys(keys)?;
        self.admit(Operation::UntagResource, now)?;
        let labels = self.labels(arn, now)?;
        keys.iter().for_each(|key| drop(labels.tags.remove(key)));
        Ok(())
    }

    /// All tags of the stream or consumer with this ARN.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream or consumer.
    pub fn list_tags_for_resource(
        &mut self,
        arn: &str,
        now: Timestamp,
    ) -> Result<BTreeMap<String, String>, KinesisError> {
        self.admit(Operation::ListTagsForResource, now)?;
        Ok(self.labels(arn, now)?.tags.clone())
    }
}

fn add(known: &mut BTreeMap<String, String>, tags: BTreeMap<String, String>) -> Result<(), KinesisError> {
    let new = tags.keys().filter(|key| !known.contains_key(*key)).count();
    if known.len() + new > MAX_TAGS {
        return Err(KinesisError::InvalidArgument(format!(
            "Failed to add tags because a resource cannot have more than {MAX_TAGS} tags associated with it."
        )));
    }
    known.extend(tags);
    Ok(())
}

fn check_given(tags: &BTreeMap<String, String>) -> Result<(), KinesisError> {
    if tags.is_empty() {
        let rule = "Member must have length greater than or equal to 1";
        return Err(KinesisError::constraint("{}", "tags", rule));
    }
    check_tags(tags)
}

fn check_keys(keys: &[String]) -> Result<(), KinesisError> {
    if !(1..=MAX_TAGS).contains(&keys.len()) {
        let rule = format!("Member must have length between 1 and {MAX_TAGS}");
        return Err(KinesisError::constraint(format_args!("[{} keys]", keys.len()), "tagKeys", &rule));
    }
    keys.iter().try_for_each(|key| check_key(key, "tagKeys", "Member"))
}

/// Checks tags that a request wants to add; none is fine.
pub(crate) fn check_tags(tags: &BTreeMap<String, String>) -> Result<(), KinesisError> {
    if tags.len() > MAX_TAGS {
        let rule = format!("Member must have length less than or equal to {MAX_TAGS}");
        return Err(KinesisError::constraint(format_args!("[{} tags]", tags.len()), "tags", &rule));
    }
    for (key, value) in tags {
        check_key(key, "tags", "Map keys")?;
        if value.chars().count() > 256 {
            let rule =
                "Map value must satisfy constraint: [Member must have length less than or equal to 256]";
            return Err(KinesisError::constraint(value, "tags", rule));
        }
        let allowed =
            |letter: char| letter.is_alphanumeric() || letter.is_whitespace() || "_.:/=+-@%".contains(letter);
        if !key.chars().chain(value.chars()).all(allowed) {
            return Err(KinesisError::InvalidArgument(
                "Some tags contain invalid characters. Valid characters: Unicode letters, digits, white \
                 space, _ . : / = + - @."
                    .to_owned(),
            ));
        }
        if key.starts_with("aws:") {
            return Err(KinesisError::InvalidArgument(
                "Tag keys that start with aws: are reserved for the system.".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Checks a key that stands in `member`, as a member of a list or as one of a map's keys.
fn check_key(key: &str, member: &str, part: &str) -> Result<(), KinesisError> {
    if (1..=128).contains(&key.chars().count()) {
        return Ok(());
    }
    let rule = format!(
        "{part} must satisfy constraint: [Member must have length less than or equal to 128, Member must \
         have length greater than or equal to 1]"
    );
    Err(KinesisError::constraint(key, member, &rule))
}
