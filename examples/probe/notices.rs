//! What happens to the consumer and its shards, besides deliveries.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message};
use actix_kinesis::consumer::{ConsumerError, ConsumerNotice, Stopped};

use super::output::{Happening, Output};

/// Writes a line for each notice.
pub(crate) struct Notices(pub(crate) Arc<Output>);

impl Actor for Notices {
    type Context = Context<Self>;
}

impl Handler<ConsumerNotice> for Notices {
    type Result = ();

    fn handle(&mut self, notice: ConsumerNotice, _: &mut Self::Context) {
        let Self(output) = self;
        match &notice {
            ConsumerNotice::Started { .. } => output.tell(&Happening::Started),
            ConsumerNotice::ShardStarted { shard, checkpoint } => output
                .tell(&Happening::ShardStarted { shard: shard.as_str(), checkpoint: checkpoint.to_string() }),
            ConsumerNotice::ShardEnded { shard } => {
                output.tell(&Happening::ShardEnded { shard: shard.as_str() })
            }
            ConsumerNotice::LeaseLost { shard, loss } => {
                output.tell(&Happening::LeaseLost { shard: shard.as_str(), cause: loss.to_string() })
            }
            ConsumerNotice::EventsGivenUp { shard, events } => {
                for failed in events {
                    output.tell(&Happening::EventGivenUp {
                        shard: shard.as_str(),
                        seq: failed.event.position().sequence.as_str(),
                        sub: failed.event.position().sub_sequence,
                        attempts: failed.attempts,
                        cause: failed.cause.to_string(),
                    });
                }
            }
            ConsumerNotice::ShardRestarts { shard, after, cause } => output.tell(&Happening::ShardRestarts {
                shard: shard.as_str(),
                after_ms: after.as_millis(),
                cause,
            }),
            ConsumerNotice::RecordsLeftOut { shard, positions } => {
                output.tell(&Happening::RecordsLeftOut { shard: shard.as_str(), records: positions.len() })
            }
            ConsumerNotice::AggregateBroken { event, cause } => output.tell(&Happening::AggregateBroken {
                shard: event.shard().as_str(),
                seq: event.position().sequence.as_str(),
                cause,
            }),
            ConsumerNotice::Gap { shard, detail } => {
                output.tell(&Happening::Gap { shard: shard.as_str(), cause: detail })
            }
            other => tracing::info!(notice = ?other, "a notice without a line"),
        }
    }
}

/// Writes the last line, behind all notices.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Finish(pub(crate) Result<Stopped, ConsumerError>);

impl Handler<Finish> for Notices {
    type Result = ();

    fn handle(&mut self, Finish(ended): Finish, _: &mut Self::Context) {
        let error = ended.as_ref().err().map(ToString::to_string);
        let clean = ended.as_ref().is_ok_and(Stopped::is_clean);
        let Stopped { unsettled, not_stored, not_released, .. } = ended.unwrap_or_default();
        self.0.tell(&Happening::Stopped {
            clean,
            unsettled,
            not_stored: not_stored.iter().map(ToString::to_string).collect(),
            not_released: not_released.iter().map(ToString::to_string).collect(),
            error,
        });
    }
}
