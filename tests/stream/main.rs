//! Streams and sinks, against a local AWS over the wire.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../support/logs.rs"]
mod logs;
mod sink;
