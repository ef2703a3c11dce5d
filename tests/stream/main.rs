//! Streams and sinks, against a local AWS over the wire.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

#[allow(dead_code, reason = "the tests of the consumer use the rest")]
#[path = "../support/logs.rs"]
mod logs;
#[allow(dead_code, reason = "the tests of the producer use the rest")]
#[path = "../producer/support.rs"]
mod producing;
mod sink;
