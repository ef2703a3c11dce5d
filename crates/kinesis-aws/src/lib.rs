//! Kinesis and DynamoDB for consumers and producers, on the AWS SDK for Rust. No other crate of the workspace knows the SDK.
//!
//! ```no_run
//! use std::time::Duration;
//! use kinesis_aws::{AwsSettings, Clients, DynamoLeaseStore, KinesisStream};
//!
//! # async fn connect() -> Result<(), kinesis_aws::AwsError> {
//! let clients = Clients::connect(&AwsSettings::default()).await?;
//! let stream = KinesisStream::new(&clients, "orders");
//! let leases = DynamoLeaseStore::new(&clients, "orders-application", "orders", Duration::from_secs(3));
//! # let _ = (stream, leases);
//! # Ok(())
//! # }
//! ```
//!
//! Calls to Kinesis and to the lease table are made once each: the SDK's own retries are off. The caller knows what
//! a repetition costs (a limit of the shard, a conditional write that was already applied) and repeats what can
//! pass, with a delay of its own. Only the calls by which credentials are had are repeated here, by the SDK.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | [`AwsSettings`]: region, credentials, endpoints, time limits |
//! | [`clients`] | [`Clients`], made from the settings |
//! | [`kinesis`] | [`KinesisStream`], a [`StreamApi`](kinesis_lease::StreamApi) |
//! | [`puts`] | [`KinesisPuts`], a [`PutApi`](kinesis_lease::PutApi) |
//! | [`lease_table`] | [`DynamoLeaseStore`], a [`LeaseStore`](kinesis_lease::LeaseStore) |

pub mod clients;
pub mod kinesis;
pub mod lease_table;
pub mod puts;
pub mod settings;

mod failure;
mod region;

pub use clients::{AwsError, Clients};
pub use kinesis::KinesisStream;
pub use lease_table::DynamoLeaseStore;
pub use puts::KinesisPuts;
pub use settings::AwsSettings;
