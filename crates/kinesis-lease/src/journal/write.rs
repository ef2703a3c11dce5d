//! Writing the entries of one run.

use std::fmt;
use std::time::Duration;

use super::form::{Happening, Memory};
use super::{Ending, Event, Input, entry};
use crate::coordinator::{Effect, Settings};

/// Who gets the lines, and says whether it has taken them.
type Sink = Box<dyn FnMut(String) -> bool + Send + Sync>;

/// Writes the entries of one run.
///
/// An input is in the log before it is acted on. Effects follow from what was told before, so that they can wait for the
/// next input and be in one entry with it.
pub(crate) struct Journal {
    run: String,
    number: u64,
    at: Duration,
    memory: Memory,
    /// Events that are not written yet, in JSON, with commas between.
    pending: String,
    sink: Option<Sink>,
}

impl Journal {
    pub(crate) fn new(run: String, sink: impl FnMut(String) -> bool + Send + Sync + 'static) -> Self {
        Self {
            run,
            number: 0,
            at: Duration::ZERO,
            memory: Memory::default(),
            pending: String::new(),
            sink: Some(Box::new(sink)),
        }
    }

    pub(crate) fn begin(&mut self, seed: u64, settings: Settings) {
        self.add(Event::Begin { seed, settings });
        self.flush();
    }

    pub(crate) fn input(&mut self, now: Option<Duration>, untaken: usize, input: impl FnOnce() -> Input) {
        if self.sink.is_some() {
            self.at = now.unwrap_or(self.at);
            self.add(Event::In { at: self.at, untaken, input: input() });
            self.flush();
        }
    }

    pub(crate) fn effect(&mut self, effect: &Effect) {
        if self.sink.is_some() {
            self.add(Event::Out(effect.clone()));
            if self.pending.len() > entry::LONGEST_LINE / 2 {
                self.flush();
            }
        }
    }

    fn add(&mut self, event: Event) {
        let text = self.memory.shorten(event).and_then(|event| serde_json::to_string(&event));
        match text {
            Ok(text) => self.push(&text),
            // A time before 1970. What follows could not be replayed.
            Err(error) => self.end(Ending::Unwritable(error.to_string())),
        }
    }

    fn push(&mut self, event: &str) {
        if !self.pending.is_empty() {
            self.pending.push(',');
        }
        self.pending.push_str(event);
    }

    fn end(&mut self, ending: Ending) {
        if let Ok(text) = serde_json::to_string(&Happening::Ended(ending)) {
            self.push(&text);
        }
        self.flush();
        self.sink = None;
    }

    fn flush(&mut self) {
        let events = std::mem::take(&mut self.pending);
        let Some(sink) = self.sink.as_mut().filter(|_| !events.is_empty()) else { return };
        for content in entry::contents(&format!("[{events}]")) {
            let next = self.number + 1;
            if !sink(entry::line(&self.run, next, &content)) {
                return self.refused();
            }
            self.number = next;
        }
    }

    /// The last entry, which the sink has to take.
    fn refused(&mut self) {
        let Some(mut sink) = self.sink.take() else { return };
        let Ok(ended) = serde_json::to_string(&[Happening::Ended(Ending::NotTaken)]) else { return };
        for content in entry::contents(&ended) {
            sink(entry::line(&self.run, self.number + 1, &content));
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.flush();
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("run", &self.run).finish_non_exhaustive()
    }
}
