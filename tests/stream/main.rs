//! Streams and channels against a local AWS, over the wire.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

mod channels;
#[allow(dead_code, reason = "other tests look at what is logged")]
#[path = "../support/logs.rs"]
mod logs;
mod pipeline;
mod shards;
mod source;
mod support;
