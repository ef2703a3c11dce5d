//! A pipeline: decode, filter, transform, gather, emit, and only then checkpoint.
//!
//! ```no_run
//! use actix_kinesis::config::KinesisConfig;
//! use actix_kinesis::pipeline::{Batch, DeadLetter, DeadLetters, EmitError, Emitter, Pipeline};
//!
//! struct Printer;
//!
//! impl Emitter<String> for Printer {
//!     async fn emit(&self, batch: &Batch<String>) -> Result<(), EmitError> {
//!         batch.items().for_each(|item| println!("{}", item.value));
//!         Ok(())
//!     }
//! }
//!
//! struct Log;
//!
//! impl DeadLetters for Log {
//!     async fn put(&self, letter: &DeadLetter) -> Result<(), EmitError> {
//!         println!("{} of {}: {}", letter.position(), letter.shard(), letter.cause());
//!         Ok(())
//!     }
//! }
//!
//! #[actix::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let config = KinesisConfig::load("application.conf")?;
//!     let running = Pipeline::decode(|event| String::from_utf8(event.payload().to_vec()))
//!         .filter(|line| !line.is_empty())
//!         .transform(async |line: String| Ok::<_, String>(line.lines().map(str::to_owned).collect::<Vec<_>>()))
//!         .start(config.consumer("orders")?, Printer, Log)?;
//!     running.finished().await?;
//!     Ok(())
//! }
//! ```
//!
//! - **Every event ends once**: it is emitted with all that was made of it, or filtered out, or in the dead letters, with its
//!   position and the cause. [`Counts`] adds up to the input. Only then may the checkpoint pass it.
//! - **Shards are apart.** Each has its own buffer and retries; while one waits for its destination, the others go on.
//! - **Order.** What is made of a shard's events is gathered and emitted in their order. Of a key, one event after the other is
//!   transformed; of a shard, as many at once as `worker.concurrency` says: `n` of `key(n)`, 1 of `shard`, and 64 without it.
//! - **Bounds.** A shard's events under way are bounded by its share of `worker.max-bytes` and one page of GetRecords, of up to
//!   10 MiB, which is taken whole; a buffer is by [`Gather`].
//!   `worker.max-in-flight-events`, `batch-timeout` and `failure-tolerance-percentage` are not applied, but that a pause of a
//!   shard waits as long as `batch-timeout`. A shard that is resumed then begins when the emitter has done with its last batch.
//! - **At least once.** After a crash, what was emitted and not yet behind a checkpoint is emitted again, unless the emitter
//!   knows what it has: see [`Emitter::emitted`]. Likewise an event that was put to the dead letters may be emitted all the
//!   same, unless they know it: see [`DeadLetters::kept`].
//!
//! | file | holds |
//! |---|---|
//! | `stages` | what is made of an event |
//! | `buffer` | what is gathered of a shard |
//! | `before` | what became of a shard's events before |
//! | `emitter`, `dead_letter` | where it goes |
//! | `shard` | the task of one shard |
//! | `ends` | what is done until everything is where it should be |
//! | `turns` | one after the other, of those of a key or a shard |
//! | `redrive` | dead letters once more |
//! | `to_objects`, `to_stream` | emitters to files and object stores, and to a stream |

mod before;
mod buffer;
mod counts;
mod dead_letter;
mod emitter;
mod ends;
mod redrive;
mod shard;
mod stages;
#[cfg(feature = "object-store")]
mod to_objects;
mod to_stream;
mod turns;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::{Instrument, error, error_span};

use crate::config::{BackoffConf, Concurrency, ConsumerConf, FailurePolicy};
use crate::consumer::{ConsumerBuilder, ConsumerError, ConsumerEvent, KinesisConsumer, Stopped};
use crate::stream::Begun;
use counts::Counters;
use ends::Ends;
use shard::ShardTask;
use stages::Stages;
use turns::Turns;

pub use buffer::Gather;
pub use counts::Counts;
pub use dead_letter::{DeadLetter, DeadLetterStore, DeadLetters, Stage};
pub use emitter::{Batch, EmitError, Emitter, FailedItem, Item};
pub use redrive::Redriven;
#[cfg(feature = "object-store")]
pub use to_objects::{ObjectDeadLetters, ObjectEmitter};
pub use to_stream::StreamEmitter;

/// How often something is tried, and how long the pauses between are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// How often an event is transformed, or an item emitted, before it goes to the dead letters. 1 or more; default 5. Nothing
    /// limits how often a destination is tried that cannot be reached.
    pub attempts: u32,
    /// The pauses. Default 100 ms to 30 s.
    pub backoff: BackoffConf,
}

impl Default for Retry {
    fn default() -> Self {
        let backoff = BackoffConf { min: Duration::from_millis(100), max: Duration::from_secs(30) };
        Self { attempts: 5, backoff }
    }
}

impl Retry {
    /// So many attempts, with the default pauses.
    pub fn times(attempts: u32) -> Self {
        Self { attempts, ..Self::default() }
    }

    /// The same with other pauses.
    pub fn with_backoff(self, backoff: BackoffConf) -> Self {
        Self { backoff, ..self }
    }
}

/// What is made of events on their way to a destination.
#[must_use = "a pipeline does nothing until it is started"]
pub struct Pipeline<T> {
    stages: Stages<T>,
    gather: Gather,
    retry: Retry,
}

impl<T: Send + Sync + 'static> Pipeline<T> {
    /// Begins with what makes a value of an event. An event for which it fails goes to the dead letters at once, since it
    /// would fail again.
    pub fn decode<E: fmt::Display>(
        decode: impl Fn(&ConsumerEvent) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        Self { stages: Stages::decode(decode), gather: Gather::default(), retry: Retry::default() }
    }

    /// Goes on with the values for which `keep` holds. The others are done with.
    pub fn filter(self, keep: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        Self { stages: self.stages.filter(keep), ..self }
    }

    /// Makes any number of values of each: none of them if the value is not wanted. A value for which it fails is tried again
    /// with its event, from the beginning, as [`Retry`] says, and so it is after a panic; then the event goes to the dead letters.
    pub fn transform<U, I, E, F>(self, transform: impl Fn(T) -> F + Send + Sync + 'static) -> Pipeline<U>
    where
        U: Send + Sync + 'static,
        I: IntoIterator<Item = U>,
        E: fmt::Display,
        F: Future<Output = Result<I, E>> + Send + 'static,
    {
        let Self { stages, gather, retry } = self;
        Pipeline { stages: stages.transform(transform), gather, retry }
    }

    /// How much is gathered before it is emitted.
    pub fn gather(self, gather: Gather) -> Self {
        Self { gather, ..self }
    }

    /// How often what fails is tried.
    pub fn retry(self, retry: Retry) -> Self {
        Self { retry: Retry { attempts: retry.attempts.max(1), ..retry }, ..self }
    }

    /// Starts a consumer whose events go through the pipeline to `emitter`, and to `dead_letters` what cannot be emitted. It
    /// must be called inside an actix system.
    ///
    /// # Errors
    /// As [`KinesisConsumer::start`].
    pub fn start(
        self,
        conf: ConsumerConf,
        emitter: impl Emitter<T>,
        dead_letters: impl DeadLetters,
    ) -> Result<RunningPipeline, ConsumerError> {
        self.start_with(conf, emitter, dead_letters, |consumer| consumer)
    }

    /// Starts it with more said about the consumer, its notices for instance.
    ///
    /// # Errors
    /// As [`KinesisConsumer::start`].
    pub fn start_with(
        self,
        mut conf: ConsumerConf,
        emitter: impl Emitter<T>,
        dead_letters: impl DeadLetters,
        configure: impl FnOnce(ConsumerBuilder) -> ConsumerBuilder,
    ) -> Result<RunningPipeline, ConsumerError> {
        conf.validate()?;
        let at_once = match std::mem::take(&mut conf.worker.concurrency) {
            Concurrency::Shard => 1,
            Concurrency::Key(keys) => keys,
            Concurrency::None => AT_ONCE,
        };
        let worker = &mut conf.worker;
        worker.max_in_flight_events = MOST_EVENTS;
        // Nothing is given up here: what cannot be emitted is in the dead letters.
        worker.failure_tolerance_percentage = 0.0;
        if worker.failure_policy == FailurePolicy::Skip {
            worker.failure_policy = FailurePolicy::RestartShard;
        }
        let stream: Arc<str> = conf.stream_name.as_str().into();
        let mut begun = Begun::start_with(conf, configure)?;
        let consumer = begun.consumer.clone();
        let counters = Arc::new(Counters::default());
        let ends = Arc::new(Ends {
            stream: Arc::clone(&stream),
            emitter,
            dead_letters,
            retry: self.retry,
            counters: Arc::clone(&counters),
        });
        let (stages, gather) = (self.stages, self.gather);
        tokio::spawn(async move {
            let mut shards = JoinSet::new();
            // A shard may start again while the emitter is still busy with what was taken of it before.
            let mut turns = Turns::new();
            loop {
                let next = poll_fn(|cx| begun.poll_next(cx));
                tokio::select! {
                    begun = next => match begun {
                        Some(Ok((shard, taker))) => {
                            let span = error_span!("pipeline", %stream, %shard);
                            let task = ShardTask::new(taker, stages.clone(), gather, at_once, Arc::clone(&ends));
                            shards.spawn(task.run(turns.next(shard)).instrument(span));
                        }
                        // `RunningPipeline::finished` tells the error.
                        Some(Err(_)) | None => break,
                    },
                    Some(ended) = shards.join_next() => if ended.is_err_and(|error| error.is_panic()) {
                        error!(%stream, "an emitter or dead letters panicked: the shard starts again behind its checkpoint");
                    },
                }
            }
        });
        Ok(RunningPipeline { consumer, counters })
    }
}

/// What is gathered, and what the consumer has fetched, is bounded otherwise.
const MOST_EVENTS: usize = 1_000_000;

/// How many events of a shard are transformed at once if the settings do not say.
const AT_ONCE: usize = 64;

impl<T> fmt::Debug for Pipeline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("gather", &self.gather)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// A pipeline that runs. Cloning gives another handle of the same one. Dropping all handles does not stop it.
#[derive(Debug, Clone)]
pub struct RunningPipeline {
    consumer: KinesisConsumer,
    counters: Arc<Counters>,
}

impl RunningPipeline {
    /// Stops: no more events are taken, what was taken is emitted until near the `shutdown-timeout`, and the last checkpoints are
    /// stored.
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn stop(&self) -> Result<Stopped, ConsumerError> {
        self.consumer.stop().await
    }

    /// Waits until the consumer has ended.
    ///
    /// # Errors
    /// As [`KinesisConsumer::finished`].
    pub async fn finished(&self) -> Result<Stopped, ConsumerError> {
        self.consumer.finished().await
    }

    /// What has become of the events so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// The consumer underneath, to pause or drain a shard, or to see how far each is.
    pub fn consumer(&self) -> &KinesisConsumer {
        &self.consumer
    }
}
