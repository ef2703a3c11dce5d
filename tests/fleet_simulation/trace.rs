//! What happened in a run, event for event.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use actix_kinesis_test::check::{Event, Line};
use tokio::time::Instant;

/// An entry: a line for the checker, or a remark for people.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Line(Line),
    Remark { at_ms: u64, worker: String, text: String },
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => line.fmt(f),
            Self::Remark { at_ms, worker, text } => {
                write!(
                    f,
                    "{}",
                    serde_json::json!({"unix_ms": at_ms, "worker": worker, "event": "remark", "text": text})
                )
            }
        }
    }
}

/// Where everything is written down.
#[derive(Debug, Clone)]
pub(crate) struct Trace(Arc<Mutex<Written>>);

#[derive(Debug)]
struct Written {
    begin: Instant,
    entries: Vec<Entry>,
    /// Processes that have died: nothing of them is written any more.
    silent: BTreeSet<String>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        let written = Written { begin: Instant::now(), entries: Vec::new(), silent: BTreeSet::new() };
        Self(Arc::new(Mutex::new(written)))
    }

    pub(crate) fn tell(&self, worker: &str, event: Event) {
        self.write(worker, |at_ms| Entry::Line(Line { at_ms, worker: worker.to_owned(), event }));
    }

    pub(crate) fn remark(&self, worker: &str, text: impl Into<String>) {
        self.write(worker, |at_ms| Entry::Remark { at_ms, worker: worker.to_owned(), text: text.into() });
    }

    /// Writes down nothing more of a process, save what its calls on their way still do.
    pub(crate) fn silence(&self, worker: &str) {
        self.0.lock().unwrap().silent.insert(worker.to_owned());
    }

    /// A write of a process, which may have died meanwhile.
    pub(crate) fn tell_write(&self, worker: &str, event: Event) {
        let mut written = self.0.lock().unwrap();
        let at_ms = written.begin.elapsed().as_millis() as u64;
        written.entries.push(Entry::Line(Line { at_ms, worker: worker.to_owned(), event }));
    }

    fn write(&self, worker: &str, entry: impl FnOnce(u64) -> Entry) {
        let mut written = self.0.lock().unwrap();
        if !written.silent.contains(worker) {
            let at_ms = written.begin.elapsed().as_millis() as u64;
            written.entries.push(entry(at_ms));
        }
    }

    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.0.lock().unwrap().entries)
    }
}

/// Two runs with the same digest are the same.
pub(crate) fn digest(entries: &[Entry]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entry in entries {
        entry.to_string().hash(&mut hasher);
    }
    hasher.finish()
}
