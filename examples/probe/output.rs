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
struct Line<'a> {
    t_ms: u128,
    /// By the clock that the processes of a host share.
    unix_ms: u128,
    worker: &'a str,
    #[serde(flatten)]
    event: &'a Happening<'a>,
}

/// What a line tells.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Happening<'a> {
    Delivery {
        shard: &'a str,
        seq: &'a str,
        sub: i64,
        pk: Option<&'a str>,
        ehk: Option<&'a str>,
        len: usize,
        sha256: String,
        attempt: u32,
        /// `leaseCounter` as it was when the lease was acquired.
        token: i64,
        aggregated: bool,
    },
    Started,
    ShardStarted {
        shard: &'a str,
        checkpoint: String,
    },
    ShardEnded {
        shard: &'a str,
    },
    ShardRestarts {
        shard: &'a str,
        after_ms: u128,
        cause: &'a str,
    },
    LeaseLost {
        shard: &'a str,
        cause: String,
    },
    EventGivenUp {
        shard: &'a str,
        seq: &'a str,
        sub: i64,
        attempts: u32,
        cause: String,
    },
    RecordsLeftOut {
        shard: &'a str,
        records: usize,
    },
    AggregateBroken {
        shard: &'a str,
        seq: &'a str,
        cause: &'a str,
    },
    Gap {
        shard: &'a str,
        cause: &'a str,
    },
    Failure {
        shard: &'a str,
        cause: &'a str,
        events: usize,
        decision: &'static str,
    },
    ConsumerShutdown {
        shard: &'a str,
        reason: String,
    },
    Stopped {
        clean: bool,
        unsettled: usize,
        not_stored: Vec<String>,
        not_released: Vec<String>,
        error: Option<String>,
    },
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), worker: OnceLock::new(), broken: watch::Sender::new(None) }
    }

    /// The worker's id in all lines.
    pub(crate) fn set_worker(&self, id: String) {
        self.worker.get_or_init(|| id);
    }

    /// Writes a line.
    pub(crate) fn write(&self, event: &Happening<'_>) -> io::Result<()> {
        let worker = self.worker.get().map_or("", String::as_str);
        let mut out = io::stdout().lock();
        // Under the lock, so that the times of the lines never go back.
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let line = Line { t_ms: self.start.elapsed().as_millis(), unix_ms, worker, event };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        let written = out.write_all(&bytes).and_then(|()| out.flush());
        if let Err(error) = &written {
            self.broken.send_replace(Some(error.to_string()));
        }
        written
    }

    /// Writes a line that is not worth more than the attempt.
    pub(crate) fn tell(&self, event: &Happening<'_>) {
        // `broken` tells of a failure.
        let _ = self.write(event);
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
