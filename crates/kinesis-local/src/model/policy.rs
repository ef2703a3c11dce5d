//! PutResourcePolicy, GetResourcePolicy and DeleteResourcePolicy. A policy is kept and given back; nobody is
//! kept out by it.

use super::error::KinesisError;
use super::operation::Operation;
use super::service::Kinesis;
use super::time::Timestamp;

impl Kinesis {
    /// Attaches a policy, a JSON object, to the stream or consumer with this ARN.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream or consumer, `InvalidArgumentException` for what is
    /// no JSON object.
    pub fn put_resource_policy(
        &mut self,
        arn: &str,
        policy: &str,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        self.admit(Operation::PutResourcePolicy, now)?;
        let labels = self.labels(arn, now)?;
        if !matches!(serde_json::from_str(policy), Ok(serde_json::Value::Object(_))) {
            return Err(KinesisError::InvalidArgument("The policy is not a JSON object.".to_owned()));
        }
        labels.policy = Some(policy.to_owned());
        Ok(())
    }

    /// The policy of the stream or consumer with this ARN.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream or consumer, or if it has no policy.
    pub fn get_resource_policy(&mut self, arn: &str, now: Timestamp) -> Result<String, KinesisError> {
        self.admit(Operation::GetResourcePolicy, now)?;
        self.labels(arn, now)?.policy.clone().ok_or_else(|| no_policy(arn))
    }

    /// Removes the policy of the stream or consumer with this ARN.
    ///
    /// # Errors
    /// As [`Kinesis::get_resource_policy`].
    pub fn delete_resource_policy(&mut self, arn: &str, now: Timestamp) -> Result<(), KinesisError> {
        self.admit(Operation::DeleteResourcePolicy, now)?;
        self.labels(arn, now)?.policy.take().map(drop).ok_or_else(|| no_policy(arn))
    }
}

fn no_policy(arn: &str) -> KinesisError {
    KinesisError::ResourceNotFound(format!("Policy not found for resource {arn}."))
}
