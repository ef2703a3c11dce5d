//! The kit, with processors that do well and such that do not.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

mod conditions;
mod processors;
mod runs;
mod runtimes;
mod stream;
