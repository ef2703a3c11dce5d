//! How many events of a shard may be under way at once.

use std::time::Duration;

/// Starts at one event and doubles while answers come fast; shrinks when they take a good part of the time that an
/// event has, so that a slow processor never has more events queued than it can answer in time.
#[derive(Debug)]
pub(crate) struct Window {
    size: f64,
    timeout: Duration,
}

impl Window {
    /// For events that must be answered within `timeout`.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { size: 1.0, timeout }
    }

    /// The window, at most `limit`.
    pub(crate) fn size(&self, limit: usize) -> usize {
        (self.size as usize).clamp(1, limit.max(1))
    }

    /// An answer came `after` its delivery, while `in_flight` events were under way.
    pub(crate) fn answered(&mut self, after: Duration, in_flight: usize, limit: usize) {
        if after > self.timeout / 4 {
            self.size = (self.size * 0.9).max(1.0);
        } else if after < self.timeout / 10 && in_flight + 1 >= self.size as usize {
            self.size = (self.size + 1.0).min(limit.max(1) as f64);
        }
    }

    /// An event was not answered in time.
    pub(crate) fn timed_out(&mut self) {
        self.size = (self.size / 2.0).max(1.0);
    }
}
