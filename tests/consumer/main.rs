//! The whole library against a local AWS, over the wire.

mod delivery;
mod failure;
mod leases;
mod reshard;
mod support;
