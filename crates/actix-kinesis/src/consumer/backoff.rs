//! Pauses between attempts.

use std::time::Duration;

/// Pauses that double from `min` to `max`, each drawn from its upper half so that many who fail at once do not try
/// again at once.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
    random: fastrand::Rng,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration, random: fastrand::Rng) -> Self {
        Self { min, max, failures: 0, random }
    }

    pub(crate) fn next_pause(&mut self) -> Duration {
        let full = self.min.saturating_mul(2u32.saturating_pow(self.failures)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        full / 2 + (full / 2).mul_f64(self.random.f64())
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}
