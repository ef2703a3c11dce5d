//! Writes down what a consumer does.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use actix_kinesis::consumer::{ConsumerNotice, Observation};
use tracing::error;

use super::{Event, Line};

/// Writes the history of a consumer as JSON lines, for the [`Checker`](super::Checker). A line has names, positions, keys
/// and times, and nothing of payloads or of what the application says.
///
/// ```
/// # use std::fs::File;
/// # use actix_kinesis::config::ConsumerConf;
/// # use actix_kinesis::consumer::{ConsumerError, EventProcessors, KinesisConsumer};
/// use actix_kinesis_test::check::Recorder;
///
/// # fn start(conf: ConsumerConf, processors: EventProcessors) -> Result<KinesisConsumer, Box<dyn std::error::Error>> {
/// let recorder = Recorder::new(File::options().create(true).append(true).open("run.jsonl")?);
/// Ok(KinesisConsumer::builder(conf, processors).observer(recorder.observer()).start()?)
/// # }
/// ```
///
/// Each line is written whole with one call, and flushed, before the consumer goes on: a process that dies has told of
/// all that it has delivered. So give a file as it is, rather than a `BufWriter` around it.
///
/// When a line cannot be written, that is logged as an error, and nothing more is written, so that what there is has no
/// hole. The consumer goes on.
///
/// Cloning gives the same recorder.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Sink>>);

struct Sink {
    to: Box<dyn Write + Send>,
    /// The worker id, which the consumer tells at first.
    worker: String,
    at_ms: u64,
    has_failed: bool,
}

impl Recorder {
    /// A recorder of one consumer. Several recorders may append to one file, at once or one after the other.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        let sink = Sink { to: Box::new(to), worker: String::new(), at_ms: 0, has_failed: false };
        Self(Arc::new(Mutex::new(sink)))
    }

    /// What [`ConsumerBuilder::observer`](actix_kinesis::consumer::ConsumerBuilder::observer) takes.
    pub fn observer(&self) -> impl Fn(Observation) + Send + Sync + 'static {
        let recorder = self.clone();
        move |observation| {
            if let Observation::Noticed(ConsumerNotice::Started { worker_id }) = &observation {
                recorder.sink().worker = worker_id.to_string();
            }
            Event::of(&observation).into_iter().for_each(|event| recorder.tell(event));
        }
    }

    /// Writes down something that the observer is not shown, as [`Event::load`].
    pub fn tell(&self, event: Event) {
        let mut sink = self.sink();
        if sink.has_failed {
            return;
        }
        if let Err(error) = sink.write(event) {
            sink.has_failed = true;
            error!(%error, "the history of the consumer cannot be written, and ends here");
        }
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink {
    fn write(&mut self, event: Event) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The clock may be set back, and the order of the lines is the one that counts.
        self.at_ms = self.at_ms.max(now.as_millis() as u64);
        let line = Line { at_ms: self.at_ms, worker: self.worker.clone(), event };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        self.to.write_all(&bytes)?;
        self.to.flush()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}
