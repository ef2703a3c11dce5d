//! The whole library against a local AWS, over the wire.

mod delivery;
mod failure;
mod leases;
#[path = "../support/recorder.rs"]
mod recorder;
mod reshard;
mod support;
