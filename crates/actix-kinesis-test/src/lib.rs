//! Tests of an event processor against the real consumer, with Kinesis and DynamoDB in the test's own process.
//!
//! ```
//! use actix::{Actor, Context, Handler};
//! use actix_kinesis::consumer::{ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, ProcessEvent};
//! use actix_kinesis_test::TestStream;
//!
//! struct Orders; // the processor under test
//! # impl Actor for Orders {
//! #     type Context = Context<Self>;
//! # }
//! # impl Handler<ProcessEvent> for Orders {
//! #     type Result = EventProcessed;
//! #     fn handle(&mut self, _: ProcessEvent, _: &mut Self::Context) -> EventProcessed {
//! #         EventProcessed::Processed
//! #     }
//! # }
//! # impl Handler<ConsumerWorkerFailure> for Orders {
//! #     type Result = ();
//! #     fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
//! # }
//! # impl Handler<ConsumerShutdown> for Orders {
//! #     type Result = ();
//! #     fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
//! # }
//!
//! # actix::System::new().block_on(async {
//! // In a test: #[actix::test] async fn orders_survive_a_reshard() { .. }
//! let stream = TestStream::start("orders", 2).await;
//! stream.put("customer-1", "one book");
//! let consumer = stream.consume(Orders.start()).await;
//! consumer.until_all_processed().await;
//!
//! let [left, _] = stream.split("shardId-000000000000");
//! let key = stream.keys_of(&left).next().unwrap();
//! stream.put(&key, "two pens");
//! consumer.until_all_checkpointed().await;
//! consumer.stop().await;
//!
//! let seen = consumer.seen();
//! assert_eq!(seen.payloads_of("customer-1"), ["one book"]);
//! seen.assert_in_order();
//! # });
//! ```
//!
//! - [`TestStream`] is a stream in a local AWS of its own: put records, split and merge shards, inject [`faults`].
//! - [`TestConsumer`] is a consumer of it: wait until something is so, stop it or crash it, see what it stored.
//! - [`check`] records what a consumer does, and looks for what no fleet may do in such a history.
//! - [`Seen`] is what consumers did: messages to processors, how each delivery ended, notices; with assertions.
//!
//! The consumer is the one of production, unchanged: it is watched through
//! [`ConsumerBuilder::observer`](actix_kinesis::consumer::ConsumerBuilder::observer), and sends its messages
//! straight to the processor. Order, numbers of events under way, time-outs and panics are the real ones.
//!
//! Everything runs beside the test: the local AWS and each consumer have threads of their own and the clock of the
//! system, so that a handler may block its thread and the test's runtime be of any kind, paused time included.
//! No environment variable need be set, ports are whichever are free, and tests run side by side.
//!
//! # Panics
//! This is a kit for tests: what cannot be done, is not so, or does not come in time panics, with a text that tells
//! what was wanted and what was there.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

mod background;
pub mod check;
mod consumer;
mod fate;
mod log;
mod process;
mod record;
mod report;
mod seen;
mod stream;

pub use consumer::TestConsumer;
pub use record::Record;
pub use seen::{Delivery, Seen};
pub use stream::TestStream;

pub use kinesis_lease::Lease;
pub use kinesis_local::faults;
pub use kinesis_local::{Builder as LocalAwsBuilder, LocalAws};
pub use kinesis_record::aggregation::Aggregate;
