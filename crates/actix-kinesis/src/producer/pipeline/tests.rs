//! The pipeline against a stream in memory that fails on demand, without a clock.

mod bench;
mod by_chance;
mod failures;
mod order;
mod packing;
mod placing;
mod rates;
