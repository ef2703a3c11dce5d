//! What the consumer does, as lines: those of `actix_kinesis_test::check`, with more in them, and some beside them.

use actix_kinesis::consumer::{
    ConsumerError, ConsumerEvent, ConsumerNotice, FailureDecision, Observation, Stopped,
};
use actix_kinesis_test::check::Event;
use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::output::Output;

/// A line that the checker looks at.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    event: Event,
    #[serde(flatten)]
    more: More<'a>,
}

/// What it has besides, for people and tests.
#[derive(Serialize)]
#[serde(untagged)]
enum More<'a> {
    Delivery { len: usize, sha256: String, aggregated: bool },
    Answer { attempt: u32, outcome: String },
    EventGivenUp { attempts: u32, cause: String },
    ShardRestarts { after_ms: u128, cause: &'a str },
    LeaseLost { cause: String },
    ConsumerShutdown { reason: String },
    Stopped { unsettled: usize, not_stored: Vec<String>, not_released: Vec<String>, error: Option<String> },
    Nothing {},
}

/// A line of what the checker does not look at.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Happening<'a> {
    ShardEnded { shard: &'a str },
    RecordsLeftOut { shard: &'a str, records: usize },
    AggregateBroken { shard: &'a str, seq: &'a str, cause: &'a str },
    Gap { shard: &'a str, cause: &'a str },
    Failure { shard: &'a str, cause: &'a str, events: usize, decision: &'static str },
}

/// Writes the lines of an observation, or none.
pub(crate) fn write(output: &Output, observation: &Observation) {
    if let Observation::Noticed(ConsumerNotice::Started { worker_id }) = observation {
        output.set_worker(worker_id.to_string());
    }
    for (index, event) in Event::of(observation).into_iter().enumerate() {
        output.tell(&Told { event, more: More::of(observation, index) });
    }
    if let Some(happening) = Happening::of(observation) {
        output.tell(&happening);
    }
}

impl<'a> More<'a> {
    /// What belongs to the event of this number among those of the observation.
    fn of(observation: &'a Observation, index: usize) -> Self {
        match observation {
            Observation::Delivered { event, .. } => Self::delivery(event),
            Observation::Concluded { attempt, outcome, .. } => {
                Self::Answer { attempt: *attempt, outcome: outcome.to_string() }
            }
            Observation::ToldOfShutdown(shutdown) => {
                Self::ConsumerShutdown { reason: shutdown.reason.to_string() }
            }
            Observation::Noticed(ConsumerNotice::LeaseLost { loss, .. }) => {
                Self::LeaseLost { cause: loss.to_string() }
            }
            Observation::Noticed(ConsumerNotice::EventsGivenUp { events, .. }) => {
                events.get(index).map_or(Self::Nothing {}, |failed| Self::EventGivenUp {
                    attempts: failed.attempts,
                    cause: failed.cause.to_string(),
                })
            }
            Observation::Noticed(ConsumerNotice::ShardRestarts { after, cause, .. }) => {
                Self::ShardRestarts { after_ms: after.as_millis(), cause }
            }
            Observation::Ended(ended) => Self::stopped(ended),
            _ => Self::Nothing {},
        }
    }

    fn delivery(event: &ConsumerEvent) -> Self {
        Self::Delivery {
            len: event.payload().len(),
            sha256: format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(event.payload()))),
            aggregated: event.is_aggregated(),
        }
    }

    fn stopped(ended: &Result<Stopped, ConsumerError>) -> Self {
        let error = ended.as_ref().err().map(ToString::to_string);
        let Stopped { unsettled, not_stored, not_released, .. } = ended.clone().unwrap_or_default();
        Self::Stopped {
            unsettled,
            not_stored: not_stored.iter().map(ToString::to_string).collect(),
            not_released: not_released.iter().map(ToString::to_string).collect(),
            error,
        }
    }
}

impl<'a> Happening<'a> {
    fn of(observation: &'a Observation) -> Option<Self> {
        Some(match observation {
            Observation::ToldOfFailure(failure) => Self::Failure {
                shard: failure.shard.as_str(),
                cause: &failure.cause,
                events: failure.events.len(),
                decision: match failure.decision {
                    FailureDecision::GiveUp => "give-up",
                    FailureDecision::RestartShard { .. } => "restart-shard",
                    FailureDecision::StopShard => "stop-shard",
                    FailureDecision::StopConsumer => "stop-consumer",
                    _ => "other",
                },
            },
            Observation::Noticed(ConsumerNotice::ShardEnded { shard }) => {
                Self::ShardEnded { shard: shard.as_str() }
            }
            Observation::Noticed(ConsumerNotice::RecordsLeftOut { shard, positions }) => {
                Self::RecordsLeftOut { shard: shard.as_str(), records: positions.len() }
            }
            Observation::Noticed(ConsumerNotice::AggregateBroken { event, cause }) => Self::AggregateBroken {
                shard: event.shard().as_str(),
                seq: event.position().sequence.as_str(),
                cause,
            },
            Observation::Noticed(ConsumerNotice::Gap { shard, detail }) => {
                Self::Gap { shard: shard.as_str(), cause: detail }
            }
            _ => return None,
        })
    }
}
