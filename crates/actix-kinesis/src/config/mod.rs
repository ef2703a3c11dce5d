//! The settings of consumers and producers, from a HOCON file or in code.
//!
//! A file needs a name for the application and a section for each consumer or producer, with the stream's name:
//!
//! ```
//! use actix_kinesis::config::KinesisConfig;
//!
//! let config: KinesisConfig = r#"
//!     kinesis {
//!       application-name = billing
//!       aws.region = eu-west-1
//!
//!       default-consumer.worker.batch-timeout = 30s   # for both consumers
//!       default-consumer.worker.shutdown-timeout = 90s
//!
//!       orders {
//!         stream-name = orders
//!         initial-position = latest
//!       }
//!       payments {
//!         stream-name = payments
//!         worker { failure-policy = skip, max-bytes = 128MiB }
//!       }
//!       receipts {
//!         stream-name = receipts
//!         ordering = partition-key
//!       }
//!     }
//! "#.parse()?;
//!
//! let orders = config.consumer("orders")?;
//! assert_eq!(orders.table_name(), "billing-orders");
//! assert_eq!(orders.worker.batch_timeout.as_secs(), 30);
//! assert_eq!(config.producer("receipts")?.stream_name, "receipts");
//! # Ok::<(), actix_kinesis::config::ConfigError>(())
//! ```
//!
//! - **Keys and defaults** are in `reference.conf`, with a comment for each; [`ConsumerConf`] and [`ProducerConf`] describe
//!   the same settings and can be built without a file.
//! - **A section** with keys of a producer alone is no consumer's, and the other way round; one with a `stream-name` and
//!   keys of both, or of neither, serves for both.
//! - **Merging.** A consumer's section lies over `kinesis.default-consumer`, a producer's over
//!   `kinesis.default-producer`, its `aws` also over `kinesis.aws`, key by
//!   key. `null` takes a key, or a whole section, back to the default of `reference.conf`.
//! - **Layers.** Environment variables and code lie over the file: see [`ConfigLoader`].
//! - **Durations** have a unit: `10s`, `500ms`, `2 minutes`. **Sizes** are bytes or have one: `64MiB` is 2^26 bytes,
//!   `64MB` 64,000,000. Whole numbers may be written `1e3` or `150.0`, but have no fraction. Numbers in quotes, and so
//!   those from environment variables, count as numbers.
//! - **An unknown key** is an error with the nearest known one, in every section that has a `stream-name`, whether a
//!   program asks for it or not. A section without one is named in a warning.
//! - **Empty is not absent.** An environment variable set to nothing gives an empty text, which no key takes.
//!   `${?NAME}` of a variable that is not set leaves the key as it was.
//! - **Secrets** have no place here: credentials come from the SDK's chain of providers.
//! - **reactive-kinesis.** A file written for it loads as it is: its keys are translated, those without a meaning here
//!   are named in a [warning](KinesisConfig::warnings). A key of this library
//!   and its counterpart in one section are an error.
//!
//! Two kinds of broken text that a HOCON parser may take in silence are refused, in included files as well: a `}` that
//! closes nothing, and a key without a value, which would swallow the next line.

#[cfg(test)]
mod agreement;
mod aws;
mod checks;
mod consumer;
mod environment;
mod error;
mod guard;
mod keys;
mod kinds;
mod kinesis;
mod leaves;
mod loader;
mod nearest;
mod producer;
mod reactive;
mod reader;
mod source;

pub use aws::AwsConf;
pub use consumer::{
    BackoffConf, CheckpointerConf, Concurrency, ConsumerConf, FailurePolicy, InitialPosition, LeaseConf,
    PollingConf, WorkerConf,
};
pub use error::ConfigError;
pub use kinesis::KinesisConfig;
pub use loader::ConfigLoader;
pub use producer::{AggregationConf, CollectionConf, Ordering, OutboxConf, ProducerConf};
