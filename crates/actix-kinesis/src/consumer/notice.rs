//! What happens to a consumer and its shards, for those who want to watch.

use std::time::Duration;

use actix::Message;
use kinesis_lease::WorkerId;
use kinesis_lease::coordinator::Loss;
use kinesis_record::{Checkpoint, Position, ShardId};

use super::event::ConsumerEvent;
use super::failure::{FailedEvent, FailureDecision};

/// Something that happened to a consumer or to one of its shards. Sent to the recipient that
/// [`ConsumerBuilder::notices`](super::ConsumerBuilder::notices) names.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
#[non_exhaustive]
pub enum ConsumerNotice {
    /// The lease table and the stream were found.
    Started {
        /// The name under which this process owns leases.
        worker_id: WorkerId,
    },
    /// A lease is ours, and its shard is read.
    ShardStarted {
        /// The shard.
        shard: ShardId,
        /// From behind this checkpoint on.
        checkpoint: Checkpoint,
    },
    /// Everything in the shard is processed, and `SHARD_END` is stored.
    ShardEnded {
        /// The shard.
        shard: ShardId,
    },
    /// The lease is no longer ours.
    LeaseLost {
        /// The shard.
        shard: ShardId,
        /// Why.
        loss: Loss,
    },
    /// The checkpoint passes events that were not processed.
    EventsGivenUp {
        /// The shard.
        shard: ShardId,
        /// The events.
        events: Vec<FailedEvent>,
    },
    /// An aggregated record held user records whose hash keys belong to another shard. The producer has sent, or
    /// will send, them there; here they are left out.
    RecordsLeftOut {
        /// The shard.
        shard: ShardId,
        /// Their positions.
        positions: Vec<Position>,
    },
    /// An aggregated record could not be taken apart and is delivered whole, as one event.
    AggregateBroken {
        /// The event.
        event: ConsumerEvent,
        /// What is wrong with it.
        cause: String,
    },
    /// Records behind the stored position are no longer in the stream: retention has outrun the consumer, or the
    /// position is one of an older stream under the same name.
    Gap {
        /// The shard.
        shard: ShardId,
        /// What is known of it.
        detail: String,
    },
    /// These shards are read by no instance, and have not been for twice the failover time: too few instances for
    /// their [`max_leases`](crate::config::LeaseConf::max_leases), a failure policy has stopped them everywhere, or their
    /// rows in the lease table cannot be read. None
    /// means that all are read again.
    Unread {
        /// The shards, by name.
        shards: Vec<ShardId>,
    },
    /// A shard failed and is started again after a pause.
    ShardRestarts {
        /// The shard.
        shard: ShardId,
        /// The pause.
        after: Duration,
        /// Why.
        cause: String,
    },
    /// A shard failed and is not started again here. Whatever the policy, this also follows a stored position that is none
    /// of the stream: reading from elsewhere could lose records.
    ShardStopped {
        /// The shard.
        shard: ShardId,
        /// Why.
        cause: String,
        /// [`FailureDecision::StopShard`] or [`FailureDecision::StopConsumer`].
        decision: FailureDecision,
    },
}
