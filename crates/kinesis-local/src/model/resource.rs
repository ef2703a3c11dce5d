//! What streams and consumers have in common: tags and a policy, found by an ARN.

use std::collections::BTreeMap;

use super::consumer::ConsumerTarget;
use super::error::KinesisError;
use super::service::Kinesis;
use super::target::StreamTarget;
use super::time::Timestamp;

/// Tags and policy of a stream or consumer.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) policy: Option<String>,
}

impl Kinesis {
    /// What the stream or consumer with this ARN is labelled with.
    pub(crate) fn labels(&mut self, arn: &str, now: Timestamp) -> Result<&mut Labels, KinesisError> {
        if arn.contains("/consumer/") {
            let (stream, name) = self.consumer(&ConsumerTarget::by_arn(arn), now)?;
            return Ok(&mut stream.consumer_mut(&name)?.labels);
        }
        let target = StreamTarget { name: None, arn: Some(arn.to_owned()) };
        let stream = self.any_stream(&target, now)?;
        stream.check_exists(now)?;
        Ok(&mut stream.labels)
    }
}
