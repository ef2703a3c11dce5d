//! The producer: against a local AWS over the wire, and against a stream in memory under tokio's paused clock.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

mod actor;
#[path = "../support/child.rs"]
mod child;
mod delivery;
#[path = "../support/example.rs"]
mod example;
mod faults;
mod lifecycle;
#[path = "../support/logs.rs"]
mod logs;
mod put;
mod reshard;
mod simulated;
mod support;
