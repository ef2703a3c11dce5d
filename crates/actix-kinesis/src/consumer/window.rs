//! How many events of a shard may be under way at once.

use std::time::Duration;

use crate::config::{Concurrency, WorkerConf};

/// Starts at two events, so that one that is stuck does not idle the shard, and doubles while answers come fast;
/// shrinks when they take a good part of the time that an event has, so that a slow processor does not have more
/// events queued than it can answer in time.
///
/// A processor that takes long for each event, and works on many at once, is told from one with a queue by the
/// answer to an event that was alone: while the others take no longer, none of them waits.
///
/// With `concurrency = key(n)` the application has said how many it works on at once, and that is the window.
#[derive(Debug)]
pub(crate) struct Window {
    size: f64,
    is_fixed: bool,
    timeout: Duration,
    /// How long the last event took that had no other before it.
    alone: Duration,
}

impl Window {
    /// As the settings have it.
    pub(crate) fn of(conf: &WorkerConf) -> Self {
        let window = Self::new(conf.batch_timeout);
        match conf.concurrency {
            Concurrency::Key(keys) => Self { size: keys as f64, is_fixed: true, ..window },
            Concurrency::None | Concurrency::Shard => window,
        }
    }

    /// For events that must be answered within `timeout`.
    fn new(timeout: Duration) -> Self {
        Self { size: 2.0, is_fixed: false, timeout, alone: Duration::ZERO }
    }

    /// The window, at most `limit`.
    pub(crate) fn size(&self, limit: usize) -> usize {
        (self.size as usize).clamp(1, limit.max(1))
    }

    /// The window of whoever takes events when they are wanted, at most `limit`: none waits there for an answer.
    pub(crate) fn size_for_taker(&self, limit: usize) -> usize {
        if self.is_fixed { self.size(limit) } else { limit }
    }

    /// An answer came `after` its delivery, which made `among` events under way; `in_flight` still are.
    pub(crate) fn answered(&mut self, after: Duration, among: usize, in_flight: usize, limit: usize) {
        if self.is_fixed {
            return;
        }
        self.size = self.size.min(limit.max(1) as f64);
        if among <= 1 {
            self.alone = after;
        }
        let has_waited = after > self.alone * 3 / 2;
        let is_full = in_flight + 1 >= self.size as usize;
        // An answer tells of the window as it was `after` ago: the longer that is, the smaller the step.
        let growth = match after {
            after if after > self.timeout / 2 => -self.size / 10.0,
            after if after > self.timeout / 4 && has_waited => -0.5,
            after if after < self.timeout / 10 && is_full => 1.0,
            after if after < self.timeout / 3 && is_full && !has_waited => 0.5,
            _ => 0.0,
        };
        self.size = (self.size + growth).clamp(1.0, limit.max(1) as f64);
    }

    /// An event was not answered in time.
    pub(crate) fn timed_out(&mut self) {
        if !self.is_fixed {
            self.size = (self.size / 2.0).max(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);
    const LIMIT: usize = 1000;

    /// A processor that works on `at_once` events, and its queue.
    struct Bench {
        window: Window,
        now: Duration,
        /// When each event was delivered, and how many there were then.
        queue: VecDeque<(Duration, usize)>,
        /// When each place at the processor is free.
        free: Vec<Duration>,
        timeouts: usize,
        largest: usize,
    }

    impl Bench {
        fn new(at_once: usize) -> Self {
            Self {
                window: Window::new(TIMEOUT),
                now: Duration::ZERO,
                queue: VecDeque::new(),
                free: vec![Duration::ZERO; at_once],
                timeouts: 0,
                largest: 0,
            }
        }

        /// Answers `events` events, each of which takes as long as `takes` says, and returns in what time.
        fn run(&mut self, events: usize, takes: impl Fn(usize) -> Duration) -> Duration {
            let start = self.now;
            let mut ends = std::collections::BinaryHeap::new();
            for event in 0..events {
                while self.queue.len() < self.window.size(LIMIT) {
                    let among = self.queue.len() + 1;
                    self.queue.push_back((self.now, among));
                    let place = self.free.iter_mut().min().unwrap();
                    *place = (*place).max(self.now) + takes(event);
                    ends.push(std::cmp::Reverse(*place));
                }
                self.largest = self.largest.max(self.queue.len());
                self.now = ends.pop().unwrap().0;
                let (delivered, among) = self.queue.pop_front().unwrap();
                let after = self.now - delivered;
                if after > TIMEOUT {
                    self.timeouts += 1;
                    self.window.timed_out();
                }
                self.window.answered(after, among, self.queue.len(), LIMIT);
            }
            self.now += ends.pop().map_or(Duration::ZERO, |last| last.0.saturating_sub(self.now));
            self.queue.clear();
            self.now - start
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn it_starts_at_two_and_doubles_with_each_round_of_fast_answers() {
        let mut window = Window::new(TIMEOUT);
        for round in 0..8 {
            let size = window.size(LIMIT);
            assert_eq!(size, 2 << round);
            (0..size).for_each(|_| window.answered(ms(1), size, LIMIT, LIMIT));
        }
    }

    #[test]
    fn it_does_not_grow_while_it_is_not_full() {
        let mut window = Window::new(TIMEOUT);
        window.answered(ms(1), 2, 1, LIMIT);
        window.answered(ms(1), 3, 2, LIMIT);
        (0..100).for_each(|_| window.answered(ms(1), 1, 0, LIMIT));
        assert_eq!(window.size(LIMIT), 4);
    }

    #[test]
    fn a_slow_processor_that_takes_one_event_after_the_other_causes_no_time_out() {
        for takes in [1, 100, 500, 900, 1_000, 1_100, 2_000, 2_600, 3_000, 3_300, 3_400, 5_000, 9_900] {
            let mut bench = Bench::new(1);
            bench.run(500, |_| ms(takes));
            // The second event of all may be late if the first takes more than half of the time.
            assert_eq!(bench.timeouts, usize::from(2 * takes > 10_000), "{takes} ms");
            // Nor has it a longer queue than keeps it busy.
            assert!(bench.largest <= (2_000 / takes).max(3) as usize, "{takes} ms: {}", bench.largest);
        }
    }

    #[test]
    fn a_processor_that_takes_long_and_many_at_once_is_given_many() {
        for takes in [100, 1_000, 3_000] {
            let mut bench = Bench::new(LIMIT);
            let time = bench.run(30_000, |_| ms(takes));
            assert_eq!((bench.timeouts, bench.largest), (0, LIMIT), "{takes} ms");
            assert!(time < 100 * ms(takes), "{takes} ms: {time:?}");
        }
    }

    #[test]
    fn a_processor_that_takes_long_and_some_at_once_is_kept_busy_without_a_time_out() {
        for takes in [500, 1_000, 2_000, 3_000] {
            let mut bench = Bench::new(10);
            let time = bench.run(2_000, |_| ms(takes));
            assert_eq!(bench.timeouts, 0, "{takes} ms");
            assert!(time < 260 * ms(takes), "{takes} ms: {time:?}");
        }
    }

    #[test]
    fn it_recovers_after_a_stall() {
        let mut bench = Bench::new(1);
        bench.run(10_000, |_| ms(1));
        assert!(bench.largest > 500);
        // One event blocks everything for longer than an event has.
        bench.run(2_000, |event| if event == 0 { ms(15_000) } else { ms(1) });
        assert!(bench.timeouts > 0);
        bench.largest = 0;
        bench.run(10_000, |_| ms(1));
        assert!(bench.largest > 500);
    }

    #[test]
    fn it_gives_way_when_the_processor_slows_down() {
        let mut bench = Bench::new(1);
        bench.run(10_000, |_| ms(1));
        assert_eq!(bench.window.size(LIMIT), LIMIT);
        // The queue takes less time than an event has, and yet more than it should.
        bench.run(3_000, |_| ms(4));
        assert_eq!(bench.timeouts, 0);
        assert!((500..=630).contains(&bench.window.size(LIMIT)));
        // The queue takes longer than an event has.
        bench.run(3_000, |_| ms(1_000));
        assert!(bench.window.size(LIMIT) <= 3);
        bench.timeouts = 0;
        bench.run(100, |_| ms(1_000));
        assert_eq!(bench.timeouts, 0);
    }

    #[test]
    fn it_is_at_least_one_and_at_most_the_limit() {
        let mut window = Window::new(TIMEOUT);
        (0..50).for_each(|_| window.timed_out());
        (0..50).for_each(|_| window.answered(TIMEOUT, 1, 0, 0));
        assert_eq!((window.size(0), window.size(LIMIT)), (1, 1));
        (0..50).for_each(|_| window.answered(ms(1), 1, 100, 10));
        assert_eq!((window.size(10), window.size(LIMIT), window.size(3)), (10, 10, 3));
    }

    #[test]
    fn for_partition_keys_it_is_what_the_application_says_whatever_the_answers() {
        let mut conf = WorkerConf { concurrency: Concurrency::Key(32), ..WorkerConf::default() };
        conf.batch_timeout = TIMEOUT;
        let mut window = Window::of(&conf);
        assert_eq!((window.size(LIMIT), window.size(8)), (32, 8));
        (0..50).for_each(|_| window.timed_out());
        (0..50).for_each(|_| window.answered(TIMEOUT, 9, 9, 8));
        (0..50).for_each(|_| window.answered(ms(1), 32, 32, LIMIT));
        assert_eq!((window.size(LIMIT), window.size(8)), (32, 8));
    }

    #[test]
    fn a_lower_limit_is_where_it_starts_from() {
        let mut window = Window::new(TIMEOUT);
        (0..4096).for_each(|_| window.answered(ms(1), 1, 4096, 4096));
        window.answered(TIMEOUT, 100, 100, 10);
        assert_eq!(window.size(4096), 9);
    }
}
