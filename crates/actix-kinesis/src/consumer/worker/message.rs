//! What a shard's worker is told, and what it tells.

use actix::Message;
use kinesis_lease::coordinator::{Acquisition, Loss};
use kinesis_lease::stream::ChildShard;
use kinesis_record::ShardId;
use tokio::time::Instant;

use crate::consumer::failure::{FailedEvent, ShutdownReason};
use crate::consumer::fetch::Misplaced;
use crate::consumer::processor::EventProcessor;
use crate::consumer::tracker::PageItem;

/// Brings what a page of the shard held.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct PageFetched {
    pub(crate) items: Vec<PageItem>,
}

/// Tells that nothing comes after what was fetched, ever.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ShardDrained {
    pub(crate) children: Vec<ChildShard>,
}

/// Tells that the shard cannot be read from the stored position on, nor from any other without a person's word.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct PositionRefused(pub(crate) Misplaced);

/// Tells a worker that its lease holds again, after a time in which that was not known and nothing was delivered.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct LeaseHolds;

/// Tells a worker to stop.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub(crate) enum StopWorker {
    /// Deliver nothing more, and wait for what is under way until the deadline.
    Drain { deadline: Instant, reason: ShutdownReason },
    /// At once: the shard may be read by another process.
    LeaseLost(Loss),
}

/// Tells the supervisor that a worker has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct WorkerEnded {
    pub(crate) shard: ShardId,
    pub(crate) acquisition: Acquisition,
    /// How many events were delivered and could not be settled.
    pub(crate) unsettled: usize,
    /// The processor that it had, to be told of a failure.
    pub(crate) processor: Option<EventProcessor>,
    pub(crate) outcome: Outcome,
}

/// How a worker ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// `SHARD_END` is stored.
    ShardEnded,
    /// It was told to drain.
    Drained,
    /// Events could not be processed.
    Failed { events: Vec<FailedEvent>, cause: String },
    /// The stored position is none of the stream.
    Misplaced(Misplaced),
    /// The processor that serves all shards has stopped.
    ProcessorGone,
    /// The worker itself panicked, or could not get a processor.
    Died { cause: String },
}
