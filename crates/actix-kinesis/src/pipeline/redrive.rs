//! Dead letters once more through the pipeline.

use std::fmt;

use tracing::warn;

use super::Pipeline;
use super::dead_letter::{DeadLetter, DeadLetterStore, Stage};
use super::emitter::{Batch, EmitError, Emitter, Item};

/// What became of dead letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redriven {
    /// Emitted, and forgotten by the store.
    pub emitted: u64,
    /// Nothing is made of them any more; forgotten by the store.
    pub filtered: u64,
    /// Still in the store.
    pub failed: u64,
}

impl<T: Send + Sync + 'static> Pipeline<T> {
    /// Takes each letter that is in the store now once through the stages to the emitter, with one attempt. What succeeds is
    /// deleted there. Of an event that was emitted in part, what is missing is emitted; for this, the stages must make the same
    /// values in the same order as before. Batches hold one event each, and
    /// [`Batch::is_redrive`] is true.
    ///
    /// It reads no stream, and may run beside the pipeline that the letters come from. Events are then not in the order of
    /// their keys.
    ///
    /// An event out of `ObjectDeadLetters` has no [`arrival`](crate::consumer::ConsumerEvent::arrival), is not
    /// [`behind`](crate::consumer::ConsumerEvent::behind), and its fencing token is 0, which a destination that compares tokens
    /// refuses. All else of it is as it was read.
    ///
    /// # Errors
    /// When the store or the destination does not work. What was redriven until then is.
    pub async fn redrive<S: DeadLetterStore>(
        &self,
        store: &S,
        emitter: &impl Emitter<T>,
    ) -> Result<Redriven, EmitError> {
        let mut redriven = Redriven::default();
        for key in store.list().await? {
            let letter = match store.get(&key).await {
                Ok(letter) => letter,
                Err(error) => {
                    warn!(%error, "a dead letter cannot be read, and stays");
                    redriven.failed += 1;
                    continue;
                }
            };
            match self.redrive_letter(&letter, emitter).await? {
                Fate::Emitted => redriven.emitted += 1,
                Fate::Filtered => redriven.filtered += 1,
                Fate::Failed { cause, left } => {
                    warn!(shard = %letter.shard(), position = %letter.position(), %cause, "a dead letter fails again, and stays");
                    redriven.failed += 1;
                    if let Some(left) = left {
                        store.put(&left).await?;
                    }
                    continue;
                }
            }
            store.delete(&key).await?;
        }
        Ok(redriven)
    }

    async fn redrive_letter(
        &self,
        letter: &DeadLetter,
        emitter: &impl Emitter<T>,
    ) -> Result<Fate, EmitError> {
        let values = match self.stages.run(letter.event().clone()).await {
            Ok(values) => values,
            Err(failure) => return Ok(Fate::failed(failure.cause)),
        };
        let position = letter.position();
        if !values.is_empty() && letter.failed().iter().any(|index| *index >= values.len()) {
            return Ok(Fate::failed("fewer values are made of the event than when it failed"));
        }
        let is_missing = |index: &usize| letter.stage() != Stage::Emit || letter.failed().contains(index);
        let items: Vec<_> = values
            .into_iter()
            .enumerate()
            .filter(|(index, _)| is_missing(index))
            .map(|(index, value)| Item { position: position.clone(), index, value })
            .collect();
        if items.is_empty() {
            return Ok(Fate::Filtered);
        }
        let range = position.clone()..=position.clone();
        let batch = Batch::new(letter.shard().clone(), range, items, true);
        match emitter.emit(&batch).await {
            Ok(()) => Ok(Fate::Emitted),
            Err(error @ EmitError::Unavailable(_)) => Err(error),
            Err(EmitError::Items(failed) | EmitError::Later(failed)) => {
                let cause = failed.first().map_or_else(String::new, |failed| failed.cause.clone());
                let failed: Vec<_> =
                    failed.iter().filter_map(|failed| Some(batch.items.get(failed.place)?.index)).collect();
                if failed.is_empty() {
                    return Ok(Fate::Emitted);
                }
                let left = DeadLetter {
                    stage: Stage::Emit,
                    failed,
                    cause: cause.clone(),
                    attempts: letter.attempts.saturating_add(1),
                    ..letter.clone()
                };
                Ok(Fate::Failed { cause, left: Some(left) })
            }
        }
    }
}

enum Fate {
    Emitted,
    Filtered,
    Failed {
        cause: String,
        /// The letter as it is by now, if part of it was emitted.
        left: Option<DeadLetter>,
    },
}

impl Fate {
    fn failed(cause: impl fmt::Display) -> Self {
        Self::Failed { cause: cause.to_string(), left: None }
    }
}
