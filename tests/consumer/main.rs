//! The whole library against a local AWS, over the wire.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

mod concurrency;
mod credentials;
mod delivery;
mod failure;
mod faults;
mod leases;
mod lifecycle;
#[path = "../support/logs.rs"]
mod logs;
mod operations;
#[path = "../support/recorder.rs"]
mod recorder;
mod reshard;
mod support;
