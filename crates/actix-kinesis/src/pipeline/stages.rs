//! What is made of an event.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::dead_letter::Stage;
use crate::consumer::ConsumerEvent;

/// Why nothing could be made of an event.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) stage: Stage,
    pub(super) cause: String,
}

type Made<T> = Result<T, Failure>;

/// Makes any number of values of an event. Cloning costs a reference count.
pub(super) struct Stages<T>(Kind<T>);

enum Kind<T> {
    AtOnce(Arc<MakeAtOnce<T>>),
    Async(Arc<Make<T>>),
}

/// Without anything to wait for: at most one value.
type MakeAtOnce<T> = dyn Fn(&ConsumerEvent) -> Made<Option<T>> + Send + Sync;
type Make<T> = dyn Fn(ConsumerEvent) -> BoxFuture<'static, Made<Vec<T>>> + Send + Sync;

impl<T: Send + 'static> Stages<T> {
    pub(super) fn decode<E: fmt::Display>(
        decode: impl Fn(&ConsumerEvent) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        Self(Kind::AtOnce(Arc::new(move |event| match decode(event) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(Failure { stage: Stage::Decode, cause: error.to_string() }),
        })))
    }

    pub(super) fn filter(self, keep: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        match self.0 {
            Kind::AtOnce(make) => {
                Self(Kind::AtOnce(Arc::new(move |event| Ok(make(event)?.filter(|value| keep(value))))))
            }
            Kind::Async(make) => {
                let keep = Arc::new(keep);
                Self(Kind::Async(Arc::new(move |event| {
                    let (made, keep) = (make(event), Arc::clone(&keep));
                    Box::pin(async move {
                        let mut values = made.await?;
                        values.retain(|value| keep(value));
                        Ok(values)
                    })
                })))
            }
        }
    }

    pub(super) fn transform<U, I, E, F>(self, transform: impl Fn(T) -> F + Send + Sync + 'static) -> Stages<U>
    where
        U: Send + 'static,
        I: IntoIterator<Item = U>,
        E: fmt::Display,
        F: Future<Output = Result<I, E>> + Send + 'static,
    {
        let transform = Arc::new(transform);
        let stages = self.clone();
        Stages(Kind::Async(Arc::new(move |event| {
            let (stages, transform) = (stages.clone(), Arc::clone(&transform));
            Box::pin(async move {
                let mut made = Vec::new();
                for value in stages.make(event).await? {
                    match transform(value).await {
                        Ok(values) => made.extend(values),
                        Err(error) => {
                            return Err(Failure { stage: Stage::Transform, cause: error.to_string() });
                        }
                    }
                }
                Ok(made)
            })
        })))
    }

    async fn make(&self, event: ConsumerEvent) -> Made<Vec<T>> {
        match &self.0 {
            Kind::AtOnce(make) => Ok(make(&event)?.into_iter().collect()),
            Kind::Async(make) => make(event).await,
        }
    }

    /// What is made of the event. A panic is a failure as any other.
    pub(super) async fn run(&self, event: ConsumerEvent) -> Made<Vec<T>> {
        let made = AssertUnwindSafe(self.make(event)).catch_unwind().await;
        made.unwrap_or_else(|_| {
            Err(Failure { stage: Stage::Transform, cause: "a stage panicked".to_owned() })
        })
    }
}

impl<T> Clone for Stages<T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Kind::AtOnce(make) => Kind::AtOnce(Arc::clone(make)),
            Kind::Async(make) => Kind::Async(Arc::clone(make)),
        })
    }
}
