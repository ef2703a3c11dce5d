//! One consumer with enhanced fan-out: a reader of a stream that has its own throughput on every shard.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::KinesisError;
use super::resource::Labels;
use super::stream::Stream;
use super::subscription::SubscriptionId;
use super::target::{StreamTarget, check_name, name_in_arn};
use super::time::Timestamp;

/// In which state a consumer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerStatus {
    /// It cannot subscribe yet.
    Creating,
    /// It can subscribe.
    Active,
    /// It is about to go and cannot subscribe any more.
    Deleting,
}

impl ConsumerStatus {
    /// The service's name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Active => "ACTIVE",
            Self::Deleting => "DELETING",
        }
    }
}

/// A consumer by its ARN, or by its name and the stream's ARN, or by all of them if they agree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumerTarget {
    /// The request's `ConsumerARN`.
    pub arn: Option<String>,
    /// The request's `ConsumerName`.
    pub name: Option<String>,
    /// The request's `StreamARN`.
    pub stream_arn: Option<String>,
}

impl ConsumerTarget {
    /// The consumer with this ARN.
    pub fn by_arn(arn: impl Into<String>) -> Self {
        Self { arn: Some(arn.into()), ..Self::default() }
    }

    /// The consumer of this name at the stream with this ARN.
    pub fn by_name(stream_arn: impl Into<String>, name: impl Into<String>) -> Self {
        Self { arn: None, name: Some(name.into()), stream_arn: Some(stream_arn.into()) }
    }

    /// The names of stream and consumer.
    pub(crate) fn names(&self) -> Result<(String, String), KinesisError> {
        let from_arn = self.arn.as_deref().map(names_in_arn).transpose()?;
        let from_names = match (&self.stream_arn, &self.name) {
            (Some(stream), Some(name)) => {
                check_consumer_name(name)?;
                let stream = StreamTarget { name: None, arn: Some(stream.clone()) };
                Some((stream.stream_name()?.to_owned(), name.clone()))
            }
            (None, None) => None,
            _ => {
                return Err(KinesisError::InvalidArgument(
                    "StreamARN and ConsumerName must be specified together.".to_owned(),
                ));
            }
        };
        match (from_arn, from_names) {
            (Some(one), Some(other)) if one != other => Err(KinesisError::InvalidArgument(
                "ConsumerARN is not that of the consumer that StreamARN and ConsumerName name.".to_owned(),
            )),
            (Some(names), _) | (None, Some(names)) => Ok(names),
            (None, None) => Err(KinesisError::InvalidArgument(
                "Either ConsumerARN or StreamARN and ConsumerName must be specified.".to_owned(),
            )),
        }
    }
}

/// What there is to know of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerDescription {
    /// Its name.
    pub consumer_name: String,
    /// Its ARN, which tells it from one of the same name before it.
    pub consumer_arn: String,
    /// Its state.
    pub status: ConsumerStatus,
    /// When it was registered.
    pub created: Timestamp,
    /// The ARN of its stream.
    pub stream_arn: String,
}

/// A registered consumer.
#[derive(Debug)]
pub(crate) struct ConsumerState {
    name: String,
    pub(crate) arn: String,
    stream_arn: String,
    created: Timestamp,
    /// The second in its ARN.
    pub(crate) serial: u64,
    pub(crate) labels: Labels,
    /// By shard the newest subscription and when it was made, whether or not it still runs.
    pub(crate) subscribed: BTreeMap<u64, (SubscriptionId, Timestamp)>,
    transition: (ConsumerStatus, Timestamp),
}

impl ConsumerState {
    /// A consumer that is CREATING for `span`.
    pub(crate) fn new(stream: &Stream, name: &str, serial: u64, now: Timestamp, span: Duration) -> Self {
        let arn = format!("{}/consumer/{name}:{serial}", stream.arn);
        let transition = (ConsumerStatus::Creating, end_of(now, span));
        Self {
            name: name.to_owned(),
            arn,
            stream_arn: stream.arn.clone(),
            created: now,
            serial,
            labels: Labels::default(),
            subscribed: BTreeMap::new(),
            transition,
        }
    }

    pub(crate) fn describe(&self, now: Timestamp) -> ConsumerDescription {
        ConsumerDescription {
            consumer_name: self.name.clone(),
            consumer_arn: self.arn.clone(),
            status: self.status(now),
            created: self.created,
            stream_arn: self.stream_arn.clone(),
        }
    }

    pub(crate) fn status(&self, now: Timestamp) -> ConsumerStatus {
        let (status, until) = self.transition;
        if now < until { status } else { ConsumerStatus::Active }
    }

    /// Is DELETING for `span`, then gone.
    pub(crate) fn delete(&mut self, now: Timestamp, span: Duration) {
        self.transition = (ConsumerStatus::Deleting, end_of(now, span));
    }

    pub(crate) fn is_gone(&self, now: Timestamp) -> bool {
        matches!(self.transition, (ConsumerStatus::Deleting, until) if now >= until)
    }
}

/// None at all is over even for a clock that is set back.
fn end_of(now: Timestamp, span: Duration) -> Timestamp {
    if span.is_zero() { Timestamp::default() } else { now.after(span) }
}

/// Checks the form of a consumer's name: 1 to 128 of `a-z A-Z 0-9 _ . -`.
pub(crate) fn check_consumer_name(name: &str) -> Result<(), KinesisError> {
    check_name(name, "consumerName")
}

/// The names of stream and consumer in a consumer's ARN.
fn names_in_arn(arn: &str) -> Result<(String, String), KinesisError> {
    let names = || {
        let (stream, rest) = arn.split_once("/consumer/")?;
        let stream = name_in_arn(stream).ok()?;
        let (name, serial) = rest.split_once(':')?;
        check_consumer_name(name).ok()?;
        let fits = !serial.is_empty() && serial.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| (stream.to_owned(), name.to_owned()))
    };
    names().ok_or_else(|| {
        let rule = "Member must satisfy regular expression pattern: ^(arn):aws.*:kinesis:.*:\\d{12}:.*stream\
                    \\/[a-zA-Z0-9_.-]+\\/consumer\\/[a-zA-Z0-9_.-]+:[0-9]+";
        KinesisError::constraint(arn, "consumerARN", rule)
    })
}
