//! Amazon Kinesis Data Streams as actors.
//!
//! An actix application gives this library an *event processor* actor and a few settings; it gets every record of a
//! stream, in order, at least once, through restarts, crashes and resharding. Progress is kept in the DynamoDB lease
//! table of the Java KCL, row for row.
//!
//! ```no_run
//! use actix::{Actor, Context, Handler};
//! use actix_kinesis::config::ConsumerConf;
//! use actix_kinesis::consumer::{
//!     ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, KinesisConsumer, ProcessEvent,
//! };
//!
//! struct Orders;
//!
//! impl Actor for Orders {
//!     type Context = Context<Self>;
//! }
//!
//! impl Handler<ProcessEvent> for Orders {
//!     type Result = EventProcessed;
//!
//!     fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> EventProcessed {
//!         println!("{} bytes at {}", message.event.payload().len(), message.event.position());
//!         EventProcessed::Processed
//!     }
//! }
//!
//! impl Handler<ConsumerWorkerFailure> for Orders {
//!     type Result = ();
//!
//!     fn handle(&mut self, failure: ConsumerWorkerFailure, _: &mut Self::Context) {
//!         eprintln!("{}: {}", failure.shard, failure.cause);
//!     }
//! }
//!
//! impl Handler<ConsumerShutdown> for Orders {
//!     type Result = ();
//!
//!     fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
//! }
//!
//! #[actix::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let conf = ConsumerConf::new("shop", "orders");
//!     let consumer = KinesisConsumer::start(conf, Orders.start())?;
//!     consumer.finished().await?;
//!     Ok(())
//! }
//! ```
//!
//! - [`consumer`]: consuming a stream, and all that an application is told meanwhile
//! - [`producer`]: sending events to streams
//! - [`stream`]: both as streams, sinks and channels
//! - [`pipeline`]: decode, filter, transform, emit
//! - [`config`]: settings, from a HOCON file or in code
//!
//! # Features
//! - `sso`: credentials of AWS IAM Identity Center
//! - `credentials-process`: credentials of a program that a profile names
//! - `object-store`: pipelines to files and object stores; `s3` to Amazon S3
//! - `outbox`: sends that survive a crash, in `producer::outbox`

mod aws;
mod backoff;
pub mod config;
pub mod consumer;
pub mod pipeline;
pub mod producer;
pub mod stream;

pub use aws_credential_types::provider::SharedCredentialsProvider;
pub use kinesis_record::{Checkpoint, HashKey, HashRange, Position, SequenceNumber, ShardId};
