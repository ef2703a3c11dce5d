//! To a stream.

use futures::future::join_all;

use super::emitter::{Batch, EmitError, Emitter, FailedItem};
use crate::producer::{KinesisProducer, ProducerEvent, SendReason};

/// Sends to a stream by a producer. With its `ordering = partition-key`, and keys of the one stream for keys of the other, the order
/// of each key is kept.
///
/// An event that the service or the producer refuses for good is a failed item; any other is sent again until it is stored. Stored twice
/// is what was emitted and not yet checkpointed before a crash, and what the producer stores twice.
#[derive(Debug, Clone)]
pub struct StreamEmitter {
    producer: KinesisProducer,
}

impl StreamEmitter {
    /// Sends by this producer, which must run for as long as the pipeline does.
    pub fn new(producer: KinesisProducer) -> Self {
        Self { producer }
    }
}

impl Emitter<ProducerEvent> for StreamEmitter {
    async fn emit(&self, batch: &Batch<ProducerEvent>) -> Result<(), EmitError> {
        let mut left: Vec<(usize, ProducerEvent)> =
            batch.items().map(|item| item.value.clone()).enumerate().collect();
        let mut refused = Vec::new();
        while !left.is_empty() {
            let sending = left.into_iter().map(|(place, event)| {
                let sending = self.producer.send(event);
                async move { (place, sending.await) }
            });
            let outcomes = join_all(sending).await;
            left = Vec::new();
            for (place, outcome) in outcomes {
                match outcome {
                    Ok(_) => {}
                    Err(error) => match error.reason {
                        SendReason::Invalid(_) | SendReason::Refused(_) => {
                            refused.push(FailedItem { place, cause: error.reason.to_string() });
                        }
                        reason if reason.passes() => left.push((place, error.event)),
                        reason => return Err(EmitError::unavailable(reason)),
                    },
                }
            }
        }
        if refused.is_empty() { Ok(()) } else { Err(EmitError::Items(refused)) }
    }
}
