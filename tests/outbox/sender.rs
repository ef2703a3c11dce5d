//! An application that hands numbers over, and begins again where acceptances end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::process::Process;

/// No condition of these tests takes longer, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Sends the numbers of each key in order.
pub(crate) struct Sender {
    keys: usize,
    /// The digits of a payload.
    digits: usize,
    /// How many lines are without an acceptance at once.
    most_under_way: usize,
    /// The next number of each key.
    next: BTreeMap<String, usize>,
    accepted: BTreeMap<String, usize>,
    /// The lines that the process was given and has not accepted.
    under_way: BTreeMap<u64, (String, usize)>,
    lines: u64,
}

impl Sender {
    pub(crate) fn new(keys: usize) -> Self {
        let (next, accepted, under_way) = Default::default();
        Self { keys, digits: 1, most_under_way: 400, next, accepted, under_way, lines: 0 }
    }

    /// With payloads of so many bytes.
    pub(crate) fn with_digits(self, digits: usize) -> Self {
        Self { digits, ..self }
    }

    /// With so many lines at once, which one write to the disk may hold.
    pub(crate) fn with_most_under_way(self, most_under_way: usize) -> Self {
        Self { most_under_way, ..self }
    }

    /// How many numbers of each key were accepted.
    pub(crate) fn accepted(&self) -> BTreeMap<String, usize> {
        self.accepted.clone()
    }

    /// Hands lines over for so long, or until the process takes no more.
    pub(crate) fn feed(&mut self, process: &mut Process, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time && self.step(process) {}
    }

    /// Hands lines over until it is so, by the process and the number of lines accepted.
    pub(crate) fn feed_until(&mut self, process: &mut Process, is_so: impl Fn(&Process, usize) -> bool) {
        let begin = Instant::now();
        while !is_so(process, self.accepted.values().sum()) && self.step(process) {
            assert!(begin.elapsed() < PATIENCE, "waited in vain, {} lines under way", self.under_way.len());
        }
    }

    pub(crate) fn accept(&mut self, line: u64) {
        let (key, number) = self.under_way.remove(&line).unwrap();
        let accepted = self.accepted.entry(key).or_insert(0);
        assert_eq!(number, *accepted, "a key was accepted out of order");
        *accepted += 1;
    }

    /// What was not accepted is handed over again, to another process.
    pub(crate) fn restart(&mut self) {
        self.under_way.clear();
        self.next = self.accepted.clone();
        self.lines = 0;
    }

    fn step(&mut self, process: &mut Process) -> bool {
        let accepted: Vec<u64> = process.accepted().collect();
        accepted.into_iter().for_each(|line| self.accept(line));
        if self.under_way.len() >= self.most_under_way {
            std::thread::sleep(Duration::from_millis(1));
            return true;
        }
        let key = format!("key-{}", fastrand::usize(..self.keys));
        let number = self.next.entry(key.clone()).or_insert(0);
        let line = format!("{key}\t{number:0>width$}", width = self.digits);
        if !process.write(&line) {
            return false;
        }
        self.under_way.insert(self.lines, (key, *number));
        *number += 1;
        self.lines += 1;
        true
    }
}
