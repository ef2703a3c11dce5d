//! What became of a shard's events before this process began to read it.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::ops::RangeInclusive;

use kinesis_record::Position;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::dead_letter::DeadLetters;
use super::emitter::{EmitError, Emitter};
use super::ends::{Ends, Lost};
use crate::consumer::Offered;
use crate::stream::Queue;

/// Where an event ended that is still behind the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Emitted,
    Dead,
}

pub(super) struct Before {
    /// In order.
    emitted: Vec<RangeInclusive<Position>>,
    /// Letters are put before their batch is emitted, which may then not happen.
    dead: BTreeSet<Position>,
}

impl Before {
    /// Asks the emitter and the dead letters, until both answer.
    pub(super) async fn ask<T, E, D>(ends: &Ends<E, D>, first: &Offered, queue: &Queue) -> Result<Self, Lost>
    where
        E: Emitter<T>,
        D: DeadLetters,
    {
        let (shard, checkpoint) = (first.shard(), first.checkpoint());
        let asking = async {
            // What is redriven meanwhile is emitted before its letter is deleted, and so is not missed by both.
            let dead = answered(ends, || ends.dead_letters.kept(shard, &checkpoint)).await;
            let emitted = answered(ends, || ends.emitter.emitted(shard, &checkpoint)).await;
            (emitted, dead)
        };
        let (emitted, dead) = tokio::select! {
            answers = asking => answers,
            () = first.until_lost() => return Err(Lost),
            () = poll_fn(|cx| queue.poll_gone(cx)) => return Err(Lost),
        };
        let before = Self { emitted: joined(emitted), dead: dead.into_iter().collect() };
        debug!(ranges = before.emitted.len(), dead = before.dead.len(), "ended before");
        Ok(before)
    }

    /// Where the event ended. One with a letter in an emitted range is not emitted.
    pub(super) fn fate(&self, position: &Position) -> Option<Fate> {
        if self.dead.contains(position) {
            return Some(Fate::Dead);
        }
        let behind = self.emitted.partition_point(|range| range.start() <= position);
        self.emitted[..behind].last().filter(|range| range.contains(position)).map(|_| Fate::Emitted)
    }
}

/// What is answered, however long it takes.
async fn answered<E, D, A, F>(ends: &Ends<E, D>, ask: impl Fn() -> F) -> A
where
    F: Future<Output = Result<A, EmitError>>,
{
    let mut backoff = ends.backoff();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => {
                warn!(%error, "what became of the shard's events before cannot be told, trying again");
                sleep(backoff.next_pause()).await;
            }
        }
    }
}

/// The ranges in order, those that overlap in one.
fn joined(mut ranges: Vec<RangeInclusive<Position>>) -> Vec<RangeInclusive<Position>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by(|one, other| one.start().cmp(other.start()));
    let mut joined: Vec<RangeInclusive<Position>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start() <= last.end() => {
                if range.end() > last.end() {
                    *last = last.start().clone()..=range.end().clone();
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u128) -> Position {
        Position::new(number.into(), 0)
    }

    #[test]
    fn ranges_that_overlap_touch_or_hold_each_other_are_one_and_others_are_apart() {
        let ranges = [(5, 9), (1, 6), (2, 3), (9, 9), (20, 30), (12, 11), (25, 28), (30, 31)];
        let joined = joined(ranges.map(|(first, last)| at(first)..=at(last)).to_vec());
        assert_eq!(joined, [at(1)..=at(9), at(20)..=at(31)]);
    }

    #[test]
    fn an_event_with_a_letter_is_dead_whether_or_not_its_batch_was_emitted() {
        let before = Before { emitted: vec![at(1)..=at(4)], dead: [at(2), at(6)].into() };
        let fates = [1, 2, 4, 5, 6].map(|number| before.fate(&at(number)));
        assert_eq!(
            fates,
            [Some(Fate::Emitted), Some(Fate::Dead), Some(Fate::Emitted), None, Some(Fate::Dead)]
        );
    }
}
