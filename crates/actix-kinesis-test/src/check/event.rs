//! What a history is made of.

use std::fmt::Display;
use std::str::FromStr;

use kinesis_record::{Checkpoint, Position, SequenceNumber};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Something that happened: a line of a history. As JSON it is an object on one line, with the time as `unix_ms`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When, in milliseconds, by a clock that all processes of the history share.
    #[serde(rename = "unix_ms")]
    pub at_ms: u64,
    /// The process that it happened to, by a name that no other one has at the same time. One that follows it under the
    /// same worker id is told from it by [`Event::Started`]. Empty if that is not known, or if it happened to no process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub worker: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl Line {
    /// Reads a line of JSON. Fields that are not known are left out.
    ///
    /// # Errors
    /// When it is no JSON, has no time or event, or lacks what the event needs.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

impl Display for Line {
    /// The line of JSON.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}

/// What happened. A [`Recorder`](super::Recorder) writes those that a consumer can know of, the example `put` those of a
/// producer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The stream has a shard from now on. It closes its parents.
    Shard {
        /// The shard.
        shard: String,
        /// None after the creation of the stream, one after a split, two after a merge.
        parents: Vec<String>,
    },
    /// A user record was put into the stream.
    Put {
        /// The shard that it went to.
        shard: String,
        /// Its Kinesis record.
        #[serde(with = "text")]
        seq: SequenceNumber,
        /// Its index in an aggregate, else 0 or null.
        #[serde(default, deserialize_with = "number_or_null")]
        sub: i64,
        /// Its partition key.
        pk: String,
        /// How often it was sent until that was acknowledged. Sends before the last may have stored it as well.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        attempts: u32,
    },
    /// A user record was sent, and not acknowledged.
    PutFailed {
        /// Its partition key.
        pk: String,
        /// Whether it may be in the stream all the same.
        may_be_stored: bool,
    },
    /// The row of a shard in the lease table, as a write of the worker has left it. Told by whoever watches the table:
    /// every write, in the order in which they were made.
    Row {
        /// The shard.
        shard: String,
        /// Its checkpoint, `sequence/sub-sequence` or a sentinel.
        #[serde(with = "checkpoint")]
        checkpoint: Checkpoint,
        /// Its `leaseCounter`.
        counter: i64,
    },
    /// The row of a shard was deleted.
    RowDeleted {
        /// The shard.
        shard: String,
    },
    /// A consumer has found its table and its stream. If its name has been heard before, it is another life: the former
    /// process has ended.
    Started,
    /// A process has taken the lease of a shard.
    ShardStarted {
        /// The shard.
        shard: String,
        /// From behind this checkpoint on.
        #[serde(with = "checkpoint")]
        checkpoint: Checkpoint,
        /// The fencing token of what it delivers from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<i64>,
    },
    /// The lease table has told a process that it has this checkpoint. Less than [`Event::Row`]: a process may die before
    /// it tells of what it has stored.
    CheckpointStored {
        /// The shard.
        shard: String,
        /// The checkpoint.
        #[serde(with = "checkpoint")]
        checkpoint: Checkpoint,
        /// The fencing token of the lease under which it was stored.
        token: i64,
    },
    /// An event goes to its processor.
    Delivery {
        /// The shard that it was read from.
        shard: String,
        /// Its Kinesis record.
        #[serde(with = "text")]
        seq: SequenceNumber,
        /// Its index in an aggregate, else 0.
        sub: i64,
        /// Its partition key.
        #[serde(default)]
        pk: Option<String>,
        /// The hash key that it was put with, if that is not the one of its partition key.
        #[serde(default)]
        ehk: Option<String>,
        /// 1 at the first delivery by this shard's worker.
        attempt: u32,
        /// The fencing token: `leaseCounter` as it was when the lease was acquired.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<i64>,
    },
    /// A delivery has ended.
    Answer {
        /// The event's shard.
        shard: String,
        /// Its Kinesis record.
        #[serde(with = "text")]
        seq: SequenceNumber,
        /// Its index in an aggregate, else 0.
        sub: i64,
        /// Whether it is done with: processed or skipped.
        done: bool,
    },
    /// The application was told that the checkpoint passes an event that is not done.
    EventGivenUp {
        /// The event's shard.
        shard: String,
        /// Its Kinesis record.
        #[serde(with = "text")]
        seq: SequenceNumber,
        /// Its index in an aggregate, else 0.
        sub: i64,
    },
    /// A shard has failed and is to be started again.
    ShardRestarts {
        /// The shard.
        shard: String,
    },
    /// A process does not have a lease any more that it did not give away.
    LeaseLost {
        /// The shard.
        shard: String,
    },
    /// A shard's worker has ended: what it had under way is not answered any more.
    ConsumerShutdown {
        /// The shard.
        shard: String,
    },
    /// How much a process holds.
    Load {
        /// Events delivered and not answered.
        in_flight: u64,
        /// Memory held by events fetched and not answered, in bytes.
        bytes: u64,
    },
    /// A consumer has stopped.
    Stopped {
        /// Whether everything delivered is settled and stored, and every lease released.
        clean: bool,
    },
    /// A process has died.
    Crashed,
    /// A process stands still from now on.
    Frozen,
    /// A process that stood still goes on.
    Thawed,
    /// From now on nothing goes wrong any more.
    Calm,
    /// Something that the checker does not look at.
    #[serde(other)]
    Other,
}

impl Event {
    /// The shard that it is about, if it is about one.
    pub fn shard(&self) -> Option<&str> {
        match self {
            Self::Shard { shard, .. }
            | Self::Put { shard, .. }
            | Self::Row { shard, .. }
            | Self::RowDeleted { shard }
            | Self::CheckpointStored { shard, .. }
            | Self::ShardStarted { shard, .. }
            | Self::Delivery { shard, .. }
            | Self::Answer { shard, .. }
            | Self::EventGivenUp { shard, .. }
            | Self::ShardRestarts { shard }
            | Self::LeaseLost { shard }
            | Self::ConsumerShutdown { shard } => Some(shard),
            _ => None,
        }
    }

    /// The place of the user record that it is about, if it is about one.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Put { seq, sub, .. }
            | Self::Delivery { seq, sub, .. }
            | Self::Answer { seq, sub, .. }
            | Self::EventGivenUp { seq, sub, .. } => Some(Position::new(seq.clone(), *sub)),
            _ => None,
        }
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// A record that was not packed with others has no index.
fn number_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A value as its text.
mod text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A checkpoint as its text.
mod checkpoint {
    use super::*;

    pub(super) use super::text::serialize;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Checkpoint, D::Error> {
        let text = String::deserialize(from)?;
        let (place, sub) = text.split_once('/').unwrap_or((&text, "0"));
        Checkpoint::parse(place, sub.parse().map_err(D::Error::custom)?).map_err(D::Error::custom)
    }
}
