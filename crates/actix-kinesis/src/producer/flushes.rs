//! What flushes wait for: the records that came before them.
//!
//! Records are counted by epochs, which the flushes part: however many flushes wait, the end of a record costs the same.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc;

use super::outcome::Flushed;

/// The records of a pipeline and the flushes that wait for some of them.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    /// That of the records which come now.
    epoch: u64,
    /// The epochs that have records, or that a flush waits for.
    epochs: BTreeMap<u64, Epoch>,
    /// In their order.
    waiting: VecDeque<Flush>,
    outstanding: u64,
    totals: Flushed,
    /// Of all epochs that flushes have waited for to the end.
    through: Flushed,
}

#[derive(Debug, Default)]
struct Epoch {
    outstanding: u64,
    settled: Flushed,
}

#[derive(Debug)]
struct Flush {
    /// Records of earlier epochs are waited for.
    before: u64,
    /// What had become of records before.
    since: Flushed,
    done: mpsc::UnboundedSender<Flushed>,
}

impl Flushes {
    /// A record has come. Returns its epoch.
    pub(crate) fn accepted(&mut self) -> u64 {
        self.outstanding += 1;
        self.epochs.entry(self.epoch).or_default().outstanding += 1;
        self.epoch
    }

    /// The outcome of a record of this epoch is known.
    pub(crate) fn settled(&mut self, epoch: u64, is_sent: bool) {
        let one = if is_sent { Flushed { sent: 1, failed: 0 } } else { Flushed { sent: 0, failed: 1 } };
        self.outstanding -= 1;
        self.totals += one;
        let epoch = self.epochs.entry(epoch).or_default();
        epoch.outstanding -= 1;
        epoch.settled += one;
        while let Some(flush) = self.waiting.front() {
            while let Some(first) = self.epochs.first_entry().filter(|first| *first.key() < flush.before) {
                if first.get().outstanding > 0 {
                    return;
                }
                self.through += first.remove().settled;
            }
            let Flushed { sent, failed } = self.through;
            let flushed = Flushed { sent: sent - flush.since.sent, failed: failed - flush.since.failed };
            // Whoever asked may have gone.
            let _ = flush.done.send(flushed);
            self.waiting.pop_front();
        }
    }

    /// Reports to `done` when the outcome of each record that has come is known.
    pub(crate) fn flush(&mut self, done: mpsc::UnboundedSender<Flushed>) {
        if self.outstanding == 0 {
            let _ = done.send(Flushed::default());
            return;
        }
        self.epoch += 1;
        self.waiting.push_back(Flush { before: self.epoch, since: self.totals, done });
    }

    /// Records of epochs before this one are waited for, and due at once.
    pub(crate) fn before(&self) -> u64 {
        self.waiting.back().map_or(0, |flush| flush.before)
    }

    /// Records whose outcome is not known yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// What has become of records since the start.
    pub(crate) fn totals(&self) -> Flushed {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flush(flushes: &mut Flushes) -> mpsc::UnboundedReceiver<Flushed> {
        let (done, flushed) = mpsc::unbounded_channel();
        flushes.flush(done);
        flushed
    }

    #[test]
    fn each_flush_tells_of_what_came_before_and_had_no_outcome_yet() {
        let mut flushes = Flushes::default();
        let old = flushes.accepted();
        assert_eq!(flushes.accepted(), old);
        flushes.settled(old, false);
        let mut first = flush(&mut flushes);
        let new = flushes.accepted();
        flushes.settled(new, true);
        let mut second = flush(&mut flushes);
        assert_eq!(flushes.accepted(), new + 1);
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        flushes.settled(old, true);
        assert_eq!(first.try_recv(), Ok(Flushed { sent: 1, failed: 0 }));
        assert_eq!(second.try_recv(), Ok(Flushed { sent: 1, failed: 0 }));
        assert_eq!((flushes.before(), flushes.outstanding()), (0, 1));
        assert_eq!(flushes.totals(), Flushed { sent: 2, failed: 1 });
    }

    #[test]
    fn nothing_is_kept_of_flushes_that_are_through() {
        let mut flushes = Flushes::default();
        for _ in 0..1_000 {
            let epoch = flushes.accepted();
            let mut flushed = flush(&mut flushes);
            flushes.settled(epoch, true);
            assert_eq!(flushed.try_recv(), Ok(Flushed { sent: 1, failed: 0 }));
            assert_eq!(flush(&mut flushes).try_recv(), Ok(Flushed::default()));
        }
        assert!(flushes.epochs.is_empty() && flushes.waiting.is_empty());
    }
}
