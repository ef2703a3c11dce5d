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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn backoff(seed: u64) -> Backoff {
        Backoff::new(200 * MS, 10_000 * MS, fastrand::Rng::with_seed(seed))
    }

    #[test]
    fn pauses_double_up_to_the_greatest_and_are_drawn_from_the_upper_half() {
        let mut backoff = backoff(1);
        for full in [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000] {
            let pause = backoff.next_pause();
            assert!((full * MS / 2..=full * MS).contains(&pause), "{pause:?} of {full} ms");
        }
        backoff.reset();
        assert_eq!(backoff.failures(), 0);
        assert!(backoff.next_pause() <= 200 * MS);
    }

    #[test]
    fn two_who_fail_at_once_do_not_pause_alike() {
        assert_ne!(backoff(1).next_pause(), backoff(2).next_pause());
    }

    #[test]
    fn failures_without_end_are_counted_without_overflow() {
        let mut backoff = Backoff { failures: u32::MAX - 1, ..backoff(1) };
        (0..3).for_each(|_| assert!(backoff.next_pause() <= 10_000 * MS));
        assert_eq!(backoff.failures(), u32::MAX);
    }
}
