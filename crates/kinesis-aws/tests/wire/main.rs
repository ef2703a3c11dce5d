//! The calls as they go over the wire: to Kinesis and DynamoDB on loopback, and, for what these never answer, to a
//! server that says what a test tells it to.

// Clippy knows the functions of a test, not what they share.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod connecting;
mod failures;
mod leader;
mod lease_changes;
mod lease_table;
mod puts;
mod stream;
mod support;
