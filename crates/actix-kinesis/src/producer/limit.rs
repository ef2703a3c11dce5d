//! How fast a shard may be written to.
//!
//! A shard takes 1,000 records and 1 MiB in a second from all its producers together. Each producer allows itself
//! `rate-limit` percent of that, and less where the shard has refused records: the rate falls with the share that was
//! refused and rises slowly while nothing is (AIMD). So producers that do not know of each other share a shard, and none
//! of them hammers it.
//!
//! What was refused counts as sent. Whether the service counts it is not documented; `kinesis-local` counts only what it
//! takes. Yet the rate paces the attempts: given back, the charge would let the next records go to the same refusal at
//! once. What a large record owes beyond what there was is given back, for a debt would hold up others for data that the
//! shard never took.

use std::time::Duration;

use tokio::time::Instant;

/// Records per second that a shard takes.
const RECORDS: f64 = 1_000.0;
/// Bytes per second that a shard takes.
const BYTES: f64 = (1 << 20) as f64;
/// The rate never falls below this part of the full one.
const LEAST: f64 = 0.01;
/// What the rate rises by in a second without refusals: this part of the full one.
const RISE: f64 = 0.05;
/// The rate falls once in such a time: refusals in one go are one event.
const FALL_INTERVAL: Duration = Duration::from_millis(250);
/// The rate begins to rise so long after it has fallen.
const HOLD: Duration = Duration::from_millis(500);

/// Tokens for records and bytes of one shard.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    /// The full rate, in shards' worth.
    full: f64,
    /// The part of the full rate that the shard seems to take, up to 1.
    part: f64,
    records: f64,
    bytes: f64,
    filled: Instant,
    fell: Option<Instant>,
}

impl Bucket {
    /// A full bucket of a rate in percent of a shard's.
    pub(crate) fn new(percent: f64, now: Instant) -> Self {
        let full = percent / 100.0;
        Self { full, part: 1.0, records: RECORDS * full, bytes: BYTES * full, filled: now, fell: None }
    }

    /// A bucket for so many shards whose records cannot be told apart.
    pub(crate) fn widen(&mut self, percent: f64, shards: usize) {
        self.full = percent / 100.0 * shards.max(1) as f64;
    }

    /// Adds what has come since the last time. A second's worth is the most that is kept.
    pub(crate) fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled);
        self.filled = now;
        let since_fall = self.fell.map_or(Duration::MAX, |fell| now.saturating_duration_since(fell));
        let rising = passed.min(since_fall.saturating_sub(HOLD)).as_secs_f64();
        self.part = (self.part + RISE * rising).min(1.0);
        let seconds = passed.as_secs_f64();
        self.records = (self.records + RECORDS * self.rate() * seconds).min(RECORDS * self.rate());
        self.bytes = (self.bytes + BYTES * self.rate() * seconds).min(BYTES * self.rate());
    }

    /// Whether a record of so many bytes may go. What is larger than the bucket may when that is full.
    pub(crate) fn allows(&self, bytes: usize) -> bool {
        self.records >= 1.0_f64.min(RECORDS * self.rate()) && self.bytes >= self.needed(bytes)
    }

    /// The records and bytes that may go at once.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.records.max(0.0) as usize, self.bytes.max(0.0) as usize)
    }

    /// Takes the tokens of a record that goes. Debt is worked off.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.records -= 1.0;
        self.bytes -= bytes as f64;
    }

    /// So many bytes that have been taken were refused: no debt is left of them.
    pub(crate) fn forgive(&mut self, bytes: usize) {
        if self.bytes < 0.0 {
            self.bytes = (self.bytes + bytes as f64).min(0.0);
        }
    }

    /// How long it takes until a record of so many bytes may go.
    pub(crate) fn wait(&self, bytes: usize) -> Duration {
        let records = (1.0_f64.min(RECORDS * self.rate()) - self.records) / (RECORDS * self.rate());
        let bytes = (self.needed(bytes) - self.bytes) / (BYTES * self.rate());
        Duration::try_from_secs_f64(records.max(bytes).max(0.0)).unwrap_or(Duration::MAX)
    }

    /// The shard refused this share, above 0 and up to 1, of what went to it in one call. True if the rate falls for
    /// that.
    pub(crate) fn refused(&mut self, share: f64, now: Instant) -> bool {
        if self.fell.is_some_and(|fell| now.saturating_duration_since(fell) < FALL_INTERVAL) {
            return false;
        }
        self.fell = Some(now);
        self.part = (self.part * (1.0 - share / 2.0)).max(LEAST);
        true
    }

    /// The rate, in shards' worth.
    pub(crate) fn rate(&self) -> f64 {
        self.full * self.part
    }

    fn needed(&self, bytes: usize) -> f64 {
        (bytes as f64).min(BYTES * self.rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const KIB: usize = 1 << 10;

    /// What goes in `seconds` under full load, in records.
    fn flow(bucket: &mut Bucket, begin: Instant, seconds: u32, bytes: usize) -> usize {
        let mut gone = 0;
        for step in 0..seconds * 100 {
            bucket.fill(begin + Duration::from_millis(10) * step);
            while bucket.allows(bytes) {
                bucket.take(bytes);
                gone += 1;
            }
        }
        gone
    }

    #[test]
    fn records_and_bytes_are_limited_each_by_the_percentage() {
        let now = Instant::now();
        for (percent, bytes, per_second) in
            [(100.0, 1, 1000), (150.0, 1, 1500), (100.0, 64 * KIB, 16), (50.0, 64 * KIB, 8)]
        {
            let gone = flow(&mut Bucket::new(percent, now), now, 10, bytes);
            // A second's worth to begin with.
            let expected = per_second * 11;
            assert!(
                gone.abs_diff(expected) <= expected / 50 + 1,
                "{percent} %, {bytes}: {gone} and not {expected}"
            );
        }
    }

    #[test]
    fn a_record_larger_than_the_bucket_goes_when_it_is_full_and_is_worked_off() {
        let now = Instant::now();
        let mut bucket = Bucket::new(100.0, now);
        assert!(bucket.allows(10 * KIB * KIB));
        bucket.take(10 * KIB * KIB);
        bucket.fill(now + 8 * SECOND);
        assert!(!bucket.allows(1));
        bucket.fill(now + 8 * SECOND + bucket.wait(10 * KIB * KIB));
        assert!(bucket.allows(10 * KIB * KIB));
    }

    #[test]
    fn what_was_refused_costs_what_there_was_and_leaves_no_debt() {
        let now = Instant::now();
        let mut bucket = Bucket::new(100.0, now);
        bucket.take(100 * KIB);
        bucket.forgive(100 * KIB);
        assert_eq!(bucket.room(), (999, 924 * KIB));
        // A stored one of 2 MiB, and a refused one.
        bucket.take(2 * KIB * KIB);
        bucket.take(KIB * KIB);
        let owed = bucket.wait(1);
        bucket.forgive(KIB * KIB);
        assert_eq!(owed - bucket.wait(1), SECOND);
        bucket.forgive(10 * KIB * KIB);
        assert!(bucket.wait(1) < Duration::from_micros(2) && !bucket.allows(1));
    }

    #[test]
    fn the_rate_falls_with_the_share_refused_and_once_in_a_while() {
        let now = Instant::now();
        let mut bucket = Bucket::new(100.0, now);
        bucket.refused(0.2, now);
        bucket.refused(1.0, now + FALL_INTERVAL / 2);
        assert_eq!(bucket.rate(), 0.9);
        bucket.refused(1.0, now + FALL_INTERVAL);
        assert_eq!(bucket.rate(), 0.45);
        for fall in 2..100 {
            bucket.refused(1.0, now + FALL_INTERVAL * fall);
        }
        assert_eq!(bucket.rate(), LEAST);
    }

    #[test]
    fn the_rate_comes_back_when_nothing_is_refused() {
        let now = Instant::now();
        let mut bucket = Bucket::new(150.0, now);
        bucket.refused(1.0, now);
        bucket.fill(now + HOLD);
        assert_eq!(bucket.rate(), 0.75);
        bucket.fill(now + HOLD + 4 * SECOND);
        assert!((bucket.rate() - 1.05).abs() < 1e-9);
        bucket.fill(now + 60 * SECOND);
        assert_eq!(bucket.rate(), 1.5);
    }

    #[test]
    fn the_wait_is_exact() {
        let now = Instant::now();
        let mut bucket = Bucket::new(100.0, now);
        while bucket.allows(KIB) {
            bucket.take(KIB);
        }
        let wait = bucket.wait(KIB);
        assert!(wait > Duration::ZERO);
        bucket.fill(now + wait + Duration::from_nanos(10));
        assert!(bucket.allows(KIB), "{bucket:?}");
    }
}
