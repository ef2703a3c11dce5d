//! When the table is scanned, the shards are listed, this worker is reported, and rows are created after a failure.

use std::time::Duration;

/// A call that is made again and again, one at a time.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) due: Option<Duration>,
    failures: u32,
}

impl Schedule {
    pub(super) fn at_once() -> Self {
        Self { due: Some(Duration::ZERO), failures: 0 }
    }

    /// Not before another call says so.
    pub(super) fn after_another() -> Self {
        Self { due: None, failures: 0 }
    }

    pub(super) fn succeeded(&mut self, now: Duration, interval: Duration, random: &mut fastrand::Rng) {
        self.failures = 0;
        self.due = Some(now + jittered(interval, random));
    }

    pub(super) fn failed(&mut self, now: Duration, interval: Duration, random: &mut fastrand::Rng) {
        self.failures = self.failures.saturating_add(1);
        let backoff = Duration::from_millis(200) * 2u32.saturating_pow(self.failures.min(16));
        self.due = Some(now + jittered(backoff.min(interval), random));
    }

    pub(super) fn hasten(&mut self, now: Duration) {
        self.due = self.due.map(|due| due.min(now));
    }
}

/// `interval`, give or take a tenth.
fn jittered(interval: Duration, random: &mut fastrand::Rng) -> Duration {
    interval.mul_f64(0.9 + 0.2 * random.f64())
}
