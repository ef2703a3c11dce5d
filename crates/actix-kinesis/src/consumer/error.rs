//! Why a consumer failed, and how a stopped one left.

use std::sync::Arc;

use kinesis_aws::AwsError;
use kinesis_lease::{StoreError, StreamError};
use kinesis_record::ShardId;

use crate::config::ConfigError;

/// Why a consumer could not start or had to stop.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The settings are impossible.
    #[error(transparent)]
    Config(Arc<ConfigError>),
    /// `start` was called outside of an actix system, so that there is no thread for actors.
    #[error("a consumer can only be started inside an actix system, for instance under #[actix::main]")]
    NoSystem,
    /// AWS could not be set up.
    #[error(transparent)]
    Aws(Arc<AwsError>),
    /// The lease table cannot be used until somebody acts.
    #[error(transparent)]
    LeaseTable(StoreError),
    /// The stream cannot be read until somebody acts.
    #[error(transparent)]
    Stream(StreamError),
    /// The one event processor for all shards has stopped.
    #[error(
        "the event processor has stopped, most likely by a panic in a handler; give the consumer a factory of \
         processors (EventProcessors::per_shard) and it survives that"
    )]
    ProcessorGone,
    /// Events of a shard could not be processed, and the failure policy is to stop.
    #[error("shard {shard}: {cause}")]
    ShardFailed {
        /// The shard.
        shard: ShardId,
        /// What went wrong.
        cause: String,
    },
    /// The consumer's own threads ended before it was stopped, or its supervisor panicked.
    #[error("the consumer's own threads have ended, by a panic or with the actix system")]
    Died,
}

impl From<ConfigError> for ConsumerError {
    fn from(error: ConfigError) -> Self {
        Self::Config(Arc::new(error))
    }
}

impl From<AwsError> for ConsumerError {
    fn from(error: AwsError) -> Self {
        Self::Aws(Arc::new(error))
    }
}

/// Why a shard could not be paused, resumed or drained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// This process does not hold the shard's lease, or is giving it away.
    #[error("shard {shard} is not read by this process")]
    NotHeld {
        /// The shard.
        shard: ShardId,
    },
    /// The consumer stops, or has stopped.
    #[error("the consumer stops or has stopped")]
    Stopping,
}

/// How a consumer left its shards when it stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Events that were delivered and are neither processed nor skipped nor given up. They are delivered again.
    pub unsettled: usize,
    /// Shards whose last checkpoint could not be stored.
    pub not_stored: Vec<ShardId>,
    /// Shards whose lease could not be released: another worker takes it after the failover time.
    pub not_released: Vec<ShardId>,
}

impl Stopped {
    /// Whether everything that was delivered is settled and stored, and every lease released.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}
