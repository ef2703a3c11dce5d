//! Kinesis and DynamoDB on loopback in one process, for trying out and for tests.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kinesis_local::LocalAws;
//!
//! let aws = LocalAws::builder().stream("flights", 4).start().await?;
//! println!("{} {}", aws.kinesis_url(), aws.dynamodb_url());
//!
//! aws.put("flights", "LH400", "boarding")?;
//! aws.split("flights", "shardId-000000000000")?;
//! assert_eq!(aws.shards("flights")?.len(), 6);
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalAws`] is both services behind ports. [`model`] is Kinesis without any wire, for a simulation that
//! drives it under its own time. DynamoDB is the embedded server `dynoxide`, which wants requests to be
//! signed, with whatever credentials; Kinesis does not look at signatures.

mod builder;
pub mod faults;
mod journal;
mod local;
pub mod model;
mod server;

pub use builder::{Builder, StartError};
pub use local::LocalAws;

/// Keeps the example of the README compiling.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
