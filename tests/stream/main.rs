//! Streams, sinks, channels and pipelines against a local AWS, over the wire.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

mod backlog;
mod channels;
#[allow(dead_code, reason = "other tests look at what is logged")]
#[path = "../support/logs.rs"]
mod logs;
mod pipeline;
#[allow(dead_code, reason = "the tests of the producer use the rest")]
#[path = "../producer/support.rs"]
mod producing;
mod shards;
mod sink;
mod source;
mod support;
