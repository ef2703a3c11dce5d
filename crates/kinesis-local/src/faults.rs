//! Faults on demand: what a service, a network or a table may do to a client, done when a test wants it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kinesis_local::LocalAws;
//! use kinesis_local::faults::Fault;
//!
//! let aws = LocalAws::builder().stream("flights", 1).start().await?;
//! let refused = aws.faults().add(
//!     Fault::on("GetRecords").shard("shardId-000000000000").times(3).error("InternalFailure"),
//! );
//! let lost = aws.faults().add(Fault::on("UpdateItem").table("leases").skip(2).times(1).lose_reply());
//! // Run what is under test, then:
//! refused.until_fired(3).await;
//! assert_eq!(lost.fired(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! A fault says [which calls](Selector) it is for, which of these it strikes (some passed over first, a
//! number of times, with a probability, within a window of time), and [what it does](Action). Faults are
//! looked at in the order in which they were added. Delays and changes of a reply add up; the first fault
//! that decides how the call ends is the last one that is looked at. They work alike on every form of the
//! wire.
//!
//! A fault that could never strike, such as one on an operation that neither service has, is refused when it is
//! added.
//!
//! The same faults can be read [from JSON](Fault::from_json): the command reads them from a file, and a
//! running service takes them at its control endpoint, for tests in any language.
//!
//! | module | holds |
//! |---|---|
//! | `selector` | which calls: [`Selector`] and [`Service`] |
//! | `call` | what a request says about itself |
//! | `fault` | [`Fault`], as it is put together in Rust |
//! | `action` | [`Action`] and [`Refusal`] |
//! | `form` | a fault as JSON |
//! | `set` | [`Faults`], all that are set, and [`FaultHandle`] |
//! | `plan` | what happens to one call |
//! | `check` | which faults could never strike |
//! | `edit` | changes of replies |
//! | `lists` | shard lists that are wrong |

mod action;
mod call;
mod check;
mod edit;
mod fault;
mod form;
mod lists;
mod plan;
mod selector;
mod set;

pub use action::{Action, RecordFailure, Refusal, Rewrite};
pub use check::FaultError;
pub use fault::Fault;
pub(crate) use form::many;
pub use selector::{Selector, Service};
pub use set::{FaultHandle, FaultId, FaultStatus, Faults};

pub(crate) use call::{Call, Names};
pub(crate) use plan::{After, Before, Failures, Plan};
pub(crate) use set::FaultSet;
