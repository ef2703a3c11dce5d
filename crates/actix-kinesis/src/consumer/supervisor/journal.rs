//! The journal of the coordinator, as lines of the log.
//!
//! Whoever renews leases must not wait for a log that nobody reads at the moment. So a thread of its own writes the lines,
//! one for each consumer with a journal, and what waits for it is bounded.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::{io, thread};

use kinesis_lease::coordinator::{Coordinator, Settings};
use tracing::{Level, Span, dispatcher, enabled, trace, warn};

use crate::consumer::placement::Arbiters;

/// Apart from other targets, so that a filter can ask for it alone: it holds all that is told of the lease table.
const TARGET: &str = "kinesis_lease::journal";

/// How many bytes may wait for the log: more than a minute of a thousand shards.
const MOST_WAITING: usize = 32 << 20;

/// A coordinator whose journal is logged if a filter asks for it now. One that began later could not be replayed.
pub(super) fn coordinator(
    settings: Settings,
    random: fastrand::Rng,
    span: &Span,
    arbiters: &Arbiters,
) -> Coordinator {
    if !enabled!(target: TARGET, Level::TRACE) {
        return Coordinator::new(settings, random);
    }
    let log = {
        let span = span.clone();
        move |line: &str| trace!(target: TARGET, parent: &span, "{line}")
    };
    if !arbiters.are_own() {
        return Coordinator::recorded(settings, random, move |line| {
            log(&line);
            true
        });
    }
    match Queue::start(MOST_WAITING, log) {
        Ok(mut queue) => Coordinator::recorded(settings, random, move |line| queue.put(line)),
        Err(error) => {
            warn!(parent: span, %error, "no journal of the leases: there is no thread to write it");
            Coordinator::new(settings, random)
        }
    }
}

/// Lines on their way to the thread that writes them, which ends with the queue.
struct Queue {
    lines: mpsc::Sender<String>,
    /// The bytes of the lines that are not written yet.
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
    is_full: bool,
}

impl Queue {
    fn start(most_waiting: usize, mut log: impl FnMut(&str) + Send + 'static) -> io::Result<Self> {
        let (lines, coming) = mpsc::channel::<String>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let written = Arc::clone(&waiting);
        // A test may log somewhere else than the rest of the process.
        let dispatch = dispatcher::get_default(Clone::clone);
        let write = move || {
            for line in coming {
                log(&line);
                written.fetch_sub(line.len(), Ordering::Relaxed);
            }
        };
        let thread = thread::Builder::new().name("kinesis-journal".to_owned());
        thread.spawn(move || dispatcher::with_default(&dispatch, write))?;
        Ok(Self { lines, waiting, most_waiting, is_full: false })
    }

    /// Whether the line was taken. One after the other that was not is in any case: it says that the journal ends.
    fn put(&mut self, line: String) -> bool {
        let waiting = self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        if !self.is_full && waiting + line.len() > self.most_waiting {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            self.is_full = true;
            return false;
        }
        // A thread that has died in a logger takes nothing.
        self.lines.send(line).is_ok()
    }
}
