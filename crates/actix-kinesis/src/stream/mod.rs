//! Events as streams and sinks of the `futures` crate.

pub mod sink;
