//! What a consumer shows to its observer, as a history tells it.

use actix_kinesis::consumer::{ConsumerNotice, ConsumerStatus, DeliveryOutcome, Observation, Stopped};

use super::Event;

impl Event {
    /// What an observation tells. None for what is not checked; several for what concerns several events.
    pub fn of(observation: &Observation) -> Vec<Self> {
        match observation {
            Observation::LeaseTaken { shard, checkpoint, token } => vec![Self::ShardStarted {
                shard: shard.to_string(),
                checkpoint: checkpoint.clone(),
                token: Some(token.lease_counter),
            }],
            Observation::Delivered { event, attempt } => vec![Self::Delivery {
                shard: event.shard().to_string(),
                seq: event.position().sequence.clone(),
                sub: event.position().sub_sequence,
                pk: event.partition_key().map(str::to_owned),
                ehk: event.explicit_hash_key().map(str::to_owned),
                attempt: *attempt,
                token: Some(event.fencing_token().lease_counter),
            }],
            Observation::Concluded { shard, position, outcome, .. } => vec![Self::Answer {
                shard: shard.to_string(),
                seq: position.sequence.clone(),
                sub: position.sub_sequence,
                done: !matches!(outcome, DeliveryOutcome::Failed(_)),
            }],
            Observation::CheckpointStored { shard, checkpoint, token } => vec![Self::CheckpointStored {
                shard: shard.to_string(),
                checkpoint: checkpoint.clone(),
                token: token.lease_counter,
            }],
            Observation::ToldOfShutdown(shutdown) => {
                vec![Self::ConsumerShutdown { shard: shutdown.shard.to_string() }]
            }
            Observation::Noticed(notice) => Self::noticed(notice),
            Observation::Ended(ended) => {
                vec![Self::Stopped { clean: ended.as_ref().is_ok_and(Stopped::is_clean) }]
            }
            _ => Vec::new(),
        }
    }

    /// How much a process holds, by the status of its consumer.
    pub fn load(status: &ConsumerStatus) -> Self {
        Self::Load {
            in_flight: status.shards.iter().map(|shard| shard.in_flight).sum(),
            bytes: status.shards.iter().map(|shard| shard.buffered_bytes).sum(),
        }
    }

    fn noticed(notice: &ConsumerNotice) -> Vec<Self> {
        match notice {
            ConsumerNotice::Started { .. } => vec![Self::Started],
            ConsumerNotice::LeaseLost { shard, .. } => vec![Self::LeaseLost { shard: shard.to_string() }],
            ConsumerNotice::ShardRestarts { shard, .. } => {
                vec![Self::ShardRestarts { shard: shard.to_string() }]
            }
            ConsumerNotice::EventsGivenUp { shard, events } => {
                let given_up = events.iter().map(|failed| failed.event.position());
                let given_up = given_up.map(|position| Self::EventGivenUp {
                    shard: shard.to_string(),
                    seq: position.sequence.clone(),
                    sub: position.sub_sequence,
                });
                given_up.collect()
            }
            // That a shard has started is shown as a lease that is taken.
            _ => Vec::new(),
        }
    }
}
