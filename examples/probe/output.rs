//! The lines on stdout.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::watch;

/// Writes lines: each whole and flushed at once, whichever thread it comes from.
pub(crate) struct Output {
    start: Instant,
    worker: OnceLock<String>,
    broken: watch::Sender<Option<String>>,
}

/// A line.
#[derive(Serialize)]
struct Line<'a, T> {
    t_ms: u128,
    /// By the clock that the processes of a host share.
    unix_ms: u128,
    worker: &'a str,
    #[serde(flatten)]
    event: &'a T,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), worker: OnceLock::new(), broken: watch::Sender::new(None) }
    }

    /// The worker's id in all lines.
    pub(crate) fn set_worker(&self, id: String) {
        self.worker.get_or_init(|| id);
    }

    /// Writes a line. `broken` tells of a failure.
    pub(crate) fn tell(&self, event: &impl Serialize) {
        if let Err(error) = self.write(event) {
            self.broken.send_replace(Some(error.to_string()));
        }
    }

    fn write(&self, event: &impl Serialize) -> io::Result<()> {
        let worker = self.worker.get().map_or("", String::as_str);
        let mut out = io::stdout().lock();
        // Under the lock, so that the times of the lines never go back.
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let line = Line { t_ms: self.start.elapsed().as_millis(), unix_ms, worker, event };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        out.write_all(&bytes).and_then(|()| out.flush())
    }

    /// Whether a line could not be written.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.borrow().is_some()
    }

    /// Waits until a line could not be written, and gives the reason.
    pub(crate) async fn broken(&self) -> String {
        let mut broken = self.broken.subscribe();
        match broken.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }
}
