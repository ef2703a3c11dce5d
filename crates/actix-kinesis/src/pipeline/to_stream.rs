//! To a stream.

use futures::future::join_all;

use super::emitter::{Batch, EmitError, Emitter, FailedItem};
use crate::producer::{KinesisProducer, ProducerEvent, SendReason};

/// Sends to a stream by a producer. With its `ordering = partition-key`, and keys of the one stream for keys of the other, the order
/// of each key is kept, but for events whose `record-ttl` is over and that are sent again.
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
        let sending: Vec<_> = batch.items().map(|item| self.producer.send(item.value.clone())).collect();
        let (mut refused, mut later) = (Vec::new(), Vec::new());
        for (place, outcome) in join_all(sending).await.into_iter().enumerate() {
            let Err(error) = outcome else { continue };
            let failed = FailedItem { place, cause: error.reason.to_string() };
            match error.reason {
                SendReason::Invalid(_) | SendReason::Refused(_) => refused.push(failed),
                _ => later.push(failed),
            }
        }
        match (refused.is_empty(), later.is_empty()) {
            (true, true) => Ok(()),
            (false, true) => Err(EmitError::Items(refused)),
            (_, false) => {
                later.extend(refused);
                Err(EmitError::Later(later))
            }
        }
    }
}
