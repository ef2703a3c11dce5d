//! RegisterStreamConsumer, DeregisterStreamConsumer, DescribeStreamConsumer and ListStreamConsumers.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::consumer::{
    ConsumerDescription, ConsumerState, ConsumerStatus, ConsumerTarget, check_consumer_name,
};
use super::error::{KinesisError, within};
use super::opaque::{Seal, TOKEN_LIFETIME, open, seal};
use super::operation::Operation;
use super::service::Kinesis;
use super::stream::Stream;
use super::tags::check_tags;
use super::target::StreamTarget;
use super::time::Timestamp;

/// Consumers of one stream.
pub const MAX_CONSUMERS: usize = 20;
/// Consumers of one stream that may be CREATING at a time.
pub const MAX_CREATING_CONSUMERS: usize = 5;
/// Consumers in one reply, whatever the request asks for.
const MAX_PAGE: u32 = 100;

/// A call of RegisterStreamConsumer.
#[derive(Debug, Clone, Default)]
pub struct RegisterStreamConsumerRequest {
    /// The stream, which the service wants named by its ARN.
    pub stream: StreamTarget,
    /// 1 to 128 of `a-z A-Z 0-9 _ . -`, which no other consumer of the stream has.
    pub consumer_name: String,
    /// Its first tags.
    pub tags: BTreeMap<String, String>,
}

/// A call of ListStreamConsumers.
#[derive(Debug, Clone, Default)]
pub struct ListStreamConsumersRequest {
    /// The stream. It may be given together with a token if they agree.
    pub stream: StreamTarget,
    /// From the reply before.
    pub next_token: Option<String>,
    /// At most so many consumers, 1 to 10,000. A reply has no more than 100.
    pub max_results: Option<u32>,
    /// Tells the stream from another of the same name; not with a token.
    pub stream_created: Option<Timestamp>,
}

/// The answer to ListStreamConsumers.
#[derive(Debug, Clone)]
pub struct ListStreamConsumersResponse {
    /// Consumers by their names.
    pub consumers: Vec<ConsumerDescription>,
    /// Where to go on, if there are more. Good for five minutes.
    pub next_token: Option<String>,
}

impl Kinesis {
    /// Registers a consumer. It is CREATING as long as [`Settings::transition`](super::Settings) says.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is being created
    /// or deleted and for a name that is taken, `LimitExceededException` above [`MAX_CONSUMERS`] and
    /// [`MAX_CREATING_CONSUMERS`].
    pub fn register_stream_consumer(
        &mut self,
        request: RegisterStreamConsumerRequest,
        now: Timestamp,
    ) -> Result<ConsumerDescription, KinesisError> {
        let name = &request.consumer_name;
        check_consumer_name(name)?;
        check_tags(&request.tags)?;
        let transition = self.settings.transition;
        self.admit_for_stream(Operation::RegisterStreamConsumer, &request.stream, now)?;
        let stream = self.any_stream(&request.stream, now)?;
        stream.check_exists(now)?;
        if stream.consumers.contains_key(name) {
            return Err(KinesisError::ResourceInUse(format!(
                "Consumer {name} under stream {} already exists for account {}.",
                stream.name, stream.account
            )));
        }
        let creating = stream.consumers.values();
        let creating = creating.filter(|consumer| consumer.status(now) == ConsumerStatus::Creating).count();
        if stream.consumers.len() >= MAX_CONSUMERS {
            return Err(KinesisError::LimitExceeded(format!(
                "Stream {} under account {} has {MAX_CONSUMERS} registered consumers, which is the limit.",
                stream.name, stream.account
            )));
        }
        if creating >= MAX_CREATING_CONSUMERS {
            return Err(KinesisError::LimitExceeded(format!(
                "{MAX_CREATING_CONSUMERS} consumers of stream {} under account {} are in status CREATING, \
                 which is the limit.",
                stream.name, stream.account
            )));
        }
        // A consumer has another ARN than the one of its name before it, even within a second.
        let serial = stream.last_consumer_serial.map_or(now.as_secs(), |last| now.as_secs().max(last + 1));
        let mut consumer = ConsumerState::new(stream, name, serial, now, transition);
        consumer.labels.tags = request.tags;
        let description = consumer.describe(now);
        stream.consumers.insert(name.clone(), consumer);
        Ok(description)
    }

    /// Removes a consumer. Its subscriptions end at once.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a consumer, `InvalidArgumentException` if the request names
    /// none.
    pub fn deregister_stream_consumer(
        &mut self,
        target: &ConsumerTarget,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        let transition = self.settings.transition;
        self.admit_for_consumer(Operation::DeregisterStreamConsumer, target, now)?;
        let (stream, name) = self.consumer(target, now)?;
        let consumer = stream.consumer_mut(&name)?;
        if consumer.status(now) != ConsumerStatus::Deleting {
            consumer.delete(now, transition);
            let stream_name = stream.name.clone();
            stream.forget_consumers(now);
            self.subscriptions.wake_stream(&stream_name);
        }
        Ok(())
    }

    /// Describes a consumer.
    ///
    /// # Errors
    /// As [`Kinesis::deregister_stream_consumer`].
    pub fn describe_stream_consumer(
        &mut self,
        target: &ConsumerTarget,
        now: Timestamp,
    ) -> Result<ConsumerDescription, KinesisError> {
        self.admit_for_consumer(Operation::DescribeStreamConsumer, target, now)?;
        let (stream, name) = self.consumer(target, now)?;
        Ok(stream.consumer(&name)?.describe(now))
    }

    /// Lists the consumers of a stream.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is being created
    /// or deleted, `InvalidArgumentException` for what is no token or belongs to another stream,
    /// `ExpiredNextTokenException` for a token older than five minutes.
    pub fn list_stream_consumers(
        &mut self,
        request: ListStreamConsumersRequest,
        now: Timestamp,
    ) -> Result<ListStreamConsumersResponse, KinesisError> {
        let limit = within(request.max_results.unwrap_or(MAX_PAGE), "maxResults", 1..=10_000)?.min(MAX_PAGE);
        let created = request.stream_created;
        let (stream, epoch, start) = match &request.next_token {
            None => (request.stream, None, Bound::Unbounded),
            Some(token) => {
                let (stream, epoch, last) = resume(&request, token, now)?;
                (stream, Some(epoch), Bound::Excluded(last))
            }
        };
        self.admit_for_stream(Operation::ListStreamConsumers, &stream, now)?;
        let stream = self.any_stream(&stream, now)?;
        stream.check_created(created)?;
        stream.check_token(epoch)?;
        stream.check_exists(now)?;
        let mut rest = stream.consumers.range::<String, _>((start, Bound::Unbounded));
        let page = rest.by_ref().take(limit as usize).map(|(_, consumer)| consumer.describe(now));
        let consumers: Vec<_> = page.collect();
        let last = consumers.last().filter(|_| rest.next().is_some());
        let next_token = last.map(|last| {
            let numbers = [stream.epoch, now.as_millis()];
            seal(Seal::ListStreamConsumers, &numbers, &format!("{}/{}", stream.name, last.consumer_name))
        });
        Ok(ListStreamConsumersResponse { consumers, next_token })
    }

    fn admit_for_consumer(
        &mut self,
        operation: Operation,
        target: &ConsumerTarget,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        let (stream, _) = target.names()?;
        self.admit_for_stream(operation, &StreamTarget::from(stream.as_str()), now)
    }

    /// The stream of a consumer, and the consumer's name, which is there.
    pub(crate) fn consumer(
        &mut self,
        target: &ConsumerTarget,
        now: Timestamp,
    ) -> Result<(&mut Stream, String), KinesisError> {
        let (stream, name) = target.names()?;
        let stream = self.stream_named(&stream, now)?;
        let fits = |consumer: &ConsumerState| target.arn.as_ref().is_none_or(|arn| *arn == consumer.arn);
        if fits(stream.consumer(&name)?) {
            return Ok((stream, name));
        }
        Err(KinesisError::ResourceNotFound(format!(
            "The consumer of ConsumerARN under stream {} was deregistered.",
            stream.name
        )))
    }
}

/// What a token stands for: a stream by name and creation, and the consumer that was listed last.
fn resume(
    request: &ListStreamConsumersRequest,
    token: &str,
    now: Timestamp,
) -> Result<(StreamTarget, u64, String), KinesisError> {
    if request.stream_created.is_some() {
        return Err(KinesisError::InvalidArgument(
            "NextToken and StreamCreationTimestamp cannot be provided together.".to_owned(),
        ));
    }
    let invalid = || KinesisError::InvalidArgument("Invalid NextToken.".to_owned());
    let ([epoch, issued], names) = open(Seal::ListStreamConsumers, token).ok_or_else(invalid)?;
    let (stream, last) = names.split_once('/').ok_or_else(invalid)?;
    if !request.stream.is_empty() && request.stream.stream_name()? != stream {
        return Err(invalid());
    }
    if now.as_millis() > issued.saturating_add(TOKEN_LIFETIME) {
        return Err(KinesisError::expired_token());
    }
    Ok((StreamTarget::from(stream), epoch, last.to_owned()))
}
