//! SubscribeToShard: a shard's records as a stream of events.
//!
//! [`Kinesis::subscribe_to_shard`] makes a subscription and [`Kinesis::next_event`] asks it for its next
//! event. Who serves it asks again when [`Kinesis::take_woken`] names the subscription and at the instant that
//! [`NextEvent::NotBefore`] tells, whichever comes first.

use std::collections::BTreeSet;
use std::time::Duration;

use kinesis_record::{SequenceNumber, ShardId};

use super::consumer::{ConsumerStatus, ConsumerTarget};
use super::error::KinesisError;
use super::iterator::{Cursor, StartingPosition, starting_index};
use super::read::{ChildShard, child_shards};
use super::record::Record;
use super::service::{Kinesis, ShardEnd};
use super::shard::shard_id;
use super::stream::Stream;
use super::subscription::{Subscription, SubscriptionId};
use super::time::Timestamp;

/// A subscription without records gives an empty event after this time.
pub const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long after a subscription another of the same consumer to the same shard is refused, whether or not
/// the first still runs.
pub const TAKEOVER_AFTER: Duration = Duration::from_secs(5);
/// Records in one event.
pub const MAX_EVENT_RECORDS: usize = 10_000;
/// Bytes of payload and partition keys in one event, unless a single record has more: 2 MiB.
pub const MAX_EVENT_BYTES: usize = 2 << 20;
/// Subscriptions that run at the same time, of all consumers together.
pub const MAX_SUBSCRIPTIONS: usize = 10_000;
/// Bytes per second of one subscription, under limits: 2 MiB.
const BYTES_PER_SECOND: u64 = 2 << 20;

/// A call of SubscribeToShard.
#[derive(Debug, Clone)]
pub struct SubscribeToShardRequest {
    /// The ARN of the consumer, which must be active.
    pub consumer_arn: String,
    /// The shard, open or closed.
    pub shard_id: ShardId,
    /// Where to start.
    pub position: StartingPosition,
}

/// An event of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribeToShardEvent {
    /// The records, by sequence number; none for a sign of life.
    pub records: Vec<Record>,
    /// What a subscription that goes on here starts at or after. Given without records too. None at the end
    /// of a closed shard, and only there.
    pub continuation_sequence_number: Option<SequenceNumber>,
    /// Milliseconds from the arrival of the last record here to now; 0 if there is nothing behind it.
    pub millis_behind_latest: u64,
    /// With the end of a closed shard, the shards that go on from there.
    pub child_shards: Vec<ChildShard>,
}

/// What a subscription has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextEvent {
    /// An event. There may be another behind it at once.
    Event(SubscribeToShardEvent),
    /// Nothing before this instant, unless [`Kinesis::take_woken`] names the subscription.
    NotBefore(Timestamp),
    /// Nothing any more. The subscription is forgotten.
    Ended(SubscriptionEnd),
}

/// Why a subscription ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionEnd {
    /// The event before told the end of the shard. The stream of events ends without an error.
    ShardEnd,
    /// The five minutes are over. The stream of events ends without an error.
    Expired,
    /// The same consumer has subscribed to the shard again, or the stream, the shard or the consumer is gone.
    /// The stream of events ends with this error.
    Failed(KinesisError),
    /// There is no such subscription, or not any more. The stream of events ends.
    Unknown,
}

impl Kinesis {
    /// Subscribes a consumer to a shard. A subscription of the same consumer to the same shard that still
    /// runs gives way to it.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a consumer or shard; `ResourceInUseException` while the
    /// consumer is not active, and within [`TAKEOVER_AFTER`] of its last subscription to the shard;
    /// `InvalidArgumentException` for a position that the shard cannot have; `LimitExceededException` while
    /// [`MAX_SUBSCRIPTIONS`] run.
    pub fn subscribe_to_shard(
        &mut self,
        request: SubscribeToShardRequest,
        now: Timestamp,
    ) -> Result<SubscriptionId, KinesisError> {
        let target = ConsumerTarget::by_arn(request.consumer_arn);
        let (stream, name) = self.consumer(&target, now)?;
        stream.check_live(now)?;
        let number = stream.trimmed_shard(&request.shard_id, now)?.number;
        let consumer = stream.consumer(&name)?;
        if consumer.status(now) != ConsumerStatus::Active {
            return Err(KinesisError::ResourceInUse(format!(
                "Consumer {name} with creation timestamp {} under stream: {}, account {} is not in ACTIVE \
                 status.",
                consumer.serial, stream.name, stream.account
            )));
        }
        let before = consumer.subscribed.get(&number).copied();
        if before.is_some_and(|(_, since)| now < since.after(TAKEOVER_AFTER)) {
            return Err(taken(stream, &name, &request.shard_id));
        }
        let shard = stream.shard(&request.shard_id)?;
        let index = starting_index(stream, shard, &request.position, "SubscribeToShard", now)?;
        let subscription = Subscription {
            consumer_arn: consumer.arn.clone(),
            cursor: Cursor::new(stream, number, index, now),
            last_event: now,
            paced_until: Timestamp::default(),
            told_end: false,
        };
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(KinesisError::LimitExceeded(format!(
                "{MAX_SUBSCRIPTIONS} subscriptions run already, as many as there can be."
            )));
        }
        let id = self.subscriptions.add(subscription);
        let (stream, name) = self.consumer(&target, now)?;
        stream.consumer_mut(&name)?.subscribed.insert(number, (id, now));
        if let Some((before, _)) = before {
            self.subscriptions.wake(before);
        }
        Ok(id)
    }

    /// What a subscription has to say now. Once it has ended it is forgotten.
    pub fn next_event(&mut self, id: SubscriptionId, now: Timestamp) -> NextEvent {
        let Some(mut subscription) = self.subscriptions.take(id) else {
            return NextEvent::Ended(SubscriptionEnd::Unknown);
        };
        let next = self.advance(id, &mut subscription, now);
        let next = next.unwrap_or_else(|error| NextEvent::Ended(SubscriptionEnd::Failed(error)));
        if !matches!(next, NextEvent::Ended(_)) {
            self.subscriptions.put_back(id, subscription);
        }
        next
    }

    /// Forgets a subscription whose reader is gone. Its consumer may not subscribe to the shard sooner for
    /// it.
    pub fn cancel_subscription(&mut self, id: SubscriptionId) {
        self.subscriptions.take(id);
    }

    /// The subscriptions that may have something to say since the last call: a record arrived, the shard was
    /// closed, another took over, something was removed. Some of them may have ended.
    pub fn take_woken(&mut self) -> BTreeSet<SubscriptionId> {
        self.subscriptions.take_woken()
    }

    fn advance(
        &mut self,
        id: SubscriptionId,
        subscription: &mut Subscription,
        now: Timestamp,
    ) -> Result<NextEvent, KinesisError> {
        if subscription.told_end {
            return Ok(NextEvent::Ended(SubscriptionEnd::ShardEnd));
        }
        let (limits, shard_end) = (self.settings.limits, self.settings.shard_end);
        let expires = subscription.cursor.issued.after(self.settings.subscription_lifetime);
        let (stream, name) = self.consumer(&ConsumerTarget::by_arn(&subscription.consumer_arn), now)?;
        stream.check_live(now)?;
        let shard_id = shard_id(subscription.cursor.shard);
        let consumer = stream.consumer(&name)?;
        if consumer.status(now) == ConsumerStatus::Deleting {
            return Err(KinesisError::ResourceNotFound(format!(
                "Consumer {} is being deregistered.",
                consumer.arn
            )));
        }
        if consumer.subscribed.get(&subscription.cursor.shard).is_none_or(|(newest, _)| *newest != id) {
            return Err(taken(stream, &name, &shard_id));
        }
        if now >= expires {
            return Ok(NextEvent::Ended(SubscriptionEnd::Expired));
        }
        // The greatest record there is holds up the next for no longer than an empty event takes.
        if now < subscription.paced_until {
            return Ok(NextEvent::NotBefore(subscription.paced_until.min(expires)));
        }
        let shard = stream.trimmed_shard(&shard_id, now)?;
        let (records, next) = shard.page(subscription.cursor.index, MAX_EVENT_RECORDS, MAX_EVENT_BYTES);
        let caught_up = next == shard.next_index();
        let ended =
            caught_up && !shard.is_open() && (records.is_empty() || shard_end == ShardEnd::WithLastRecord);
        let heartbeat = subscription.last_event.after(HEARTBEAT);
        if records.is_empty() && !ended && now < heartbeat {
            return Ok(NextEvent::NotBefore(heartbeat.min(expires)));
        }

        let millis_behind_latest = match records.last() {
            Some(last) if !caught_up => now.millis_since(last.arrival),
            _ => 0,
        };
        let continuation_sequence_number = match records.last() {
            _ if ended => None,
            Some(last) => Some(last.sequence_number.clone()),
            None => Some(shard.number_before(next, now)),
        };
        if limits {
            let size = records.iter().map(Record::size).sum::<usize>() as u64;
            let millis = size.saturating_mul(1_000).div_ceil(BYTES_PER_SECOND);
            subscription.paced_until = now.after(Duration::from_millis(millis));
        }
        subscription.cursor.index = next;
        subscription.last_event = now;
        subscription.told_end = ended;
        let child_shards = if ended { child_shards(stream, subscription.cursor.shard) } else { Vec::new() };
        Ok(NextEvent::Event(SubscribeToShardEvent {
            records,
            continuation_sequence_number,
            millis_behind_latest,
            child_shards,
        }))
    }
}

fn taken(stream: &Stream, consumer: &str, shard: &ShardId) -> KinesisError {
    KinesisError::ResourceInUse(format!(
        "Another active subscription exists for this consumer: {}:{}:{shard}:{consumer}",
        stream.account, stream.name
    ))
}
