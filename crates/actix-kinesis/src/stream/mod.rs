//! Consuming and producing without an actor of one's own: as streams, sinks and channels.
//!
//! | type | is |
//! |---|---|
//! | [`Source`] | a stream of the events of all shards that this process reads |
//! | [`ShardSources`] | a stream of shards, each a stream of its events |
//! | [`Channels`] | a pair of channels for each shard: records out, finished positions in |
//! | [`KinesisSink`] | a sink of events to produce, whose end tells the truth; in [`sink`], with a queue and a stream that passes through |
//!
//! Each of the first three is a [`KinesisConsumer`](crate::consumer::KinesisConsumer) underneath, and keeps its promises.

#[macro_use]
mod start;

mod channel;
mod committable;
mod queue;
mod shards;
pub mod sink;
mod source;

use std::path::Path;

use crate::config::{ConfigError, KinesisConfig};
use crate::consumer::ConsumerError;
use crate::producer::ProducerError;
use sink::KinesisSink;

pub use channel::{Channels, Checkpoints, Records, ShardChannel, ShardPosition, ShardRecord};
pub use committable::{CommitBatch, CommitHandle, CommittableEvent, NotStored};
pub(crate) use queue::Queue;
pub(crate) use shards::{Begun, Taker};
pub use shards::{ShardSource, ShardSources};
pub use source::{Source, SourceControl};

/// The streams, sinks and channels of a configuration, by name.
#[derive(Debug, Clone)]
pub struct Kinesis {
    config: KinesisConfig,
}

impl Kinesis {
    /// Loads a HOCON file as [`KinesisConfig::load`] does.
    ///
    /// # Errors
    /// As [`KinesisConfig::load`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        KinesisConfig::load(path).map(Self::from)
    }

    /// Starts the consumer of the section `kinesis.<name>` as a stream; see [`Source::start`].
    ///
    /// # Errors
    /// When there is no such consumer, or as [`Source::start`].
    pub fn source(&self, name: &str) -> Result<Source, ConsumerError> {
        Source::start(self.config.consumer(name)?)
    }

    /// Starts the consumer of the section `kinesis.<name>` as a stream for each shard; see [`ShardSources::start`].
    ///
    /// # Errors
    /// When there is no such consumer, or as [`ShardSources::start`].
    pub fn shard_sources(&self, name: &str) -> Result<ShardSources, ConsumerError> {
        ShardSources::start(self.config.consumer(name)?)
    }

    /// Starts the consumer of the section `kinesis.<name>` as channels; see [`Channels::start`].
    ///
    /// # Errors
    /// When there is no such consumer, or as [`Channels::start`].
    pub fn channels(&self, name: &str) -> Result<Channels, ConsumerError> {
        Channels::start(self.config.consumer(name)?)
    }

    /// Starts the producer of the section `kinesis.<name>` as a sink; see [`KinesisSink::start`].
    ///
    /// # Errors
    /// When there is no such producer, or as [`KinesisSink::start`].
    pub async fn sink(&self, name: &str) -> Result<KinesisSink, ProducerError> {
        KinesisSink::start(self.config.producer(name)?).await
    }
}

impl From<KinesisConfig> for Kinesis {
    fn from(config: KinesisConfig) -> Self {
        Self { config }
    }
}
