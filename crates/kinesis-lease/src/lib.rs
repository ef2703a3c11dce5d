//! Who reads which shard: the lease rows of the Java KCL, and the rules by which workers share them.
//!
//! The rules live in the [`Coordinator`], a state machine without I/O, clock or threads: it is told the time, the
//! rows of the lease table, the shards of the stream and the results of writes, and says what to do next. The outside
//! world is two traits, [`LeaseStore`] and [`StreamApi`]; that of a producer stands beside them, [`PutApi`].
//!
//! | module | holds |
//! |---|---|
//! | [`lease`] | [`Lease`], a row of the lease table, and [`LeaseChange`], a conditional write to it |
//! | [`store`] | [`LeaseStore`], where the rows are kept |
//! | [`stream`] | [`StreamApi`], the calls to Kinesis that a consumer makes |
//! | [`put`] | [`PutApi`], the calls to Kinesis that a producer makes |
//! | [`coordinator`] | [`Coordinator`]: take, renew, checkpoint, end and release leases |
//! | [`lineage`] | which shards need a lease row, and when a child shard may start |

pub mod coordinator;
pub mod lease;
pub mod lineage;
pub mod put;
pub mod store;
pub mod stream;
#[cfg(test)]
mod testing;

pub use coordinator::Coordinator;
pub use lease::{Lease, LeaseChange, LeaseWrite, NewLease, WorkerId};
pub use put::PutApi;
pub use store::{LeaseStore, StoreError};
pub use stream::{StreamApi, StreamError, StreamErrorKind};
