//! Where in a shard reading goes on.

use std::time::{Duration, SystemTime};

use kinesis_lease::stream::{ChildShard, RecordsPage, ShardIterator, StartAt};
use kinesis_record::{Checkpoint, Position, SequenceNumber, Shard};

/// If an iterator for `LATEST` is lost before it brought a record, reading goes on this long before it was opened,
/// so that nothing is missed if the clocks of host and service differ by less.
const LATEST_MARGIN: Duration = Duration::from_secs(60);

/// The place in a shard: an iterator, or where to open one.
#[derive(Debug)]
pub(crate) struct Cursor {
    start: StartAt,
    /// The stored position that reading starts at, until the first record has been seen.
    resumed: Option<SequenceNumber>,
    iterator: Option<ShardIterator>,
    /// The last record has been read; these shards came from this one.
    end: Option<Vec<ChildShard>>,
}

impl Cursor {
    /// Behind `checkpoint`. `initial_timestamp` is what `AT_TIMESTAMP` stands for; without it that is the oldest
    /// record.
    pub(crate) fn new(checkpoint: &Checkpoint, initial_timestamp: Option<SystemTime>) -> Self {
        let start = match checkpoint {
            Checkpoint::AtTimestamp => initial_timestamp.map_or(StartAt::TrimHorizon, StartAt::Timestamp),
            Checkpoint::Latest => StartAt::Latest,
            Checkpoint::TrimHorizon | Checkpoint::ShardEnd => StartAt::TrimHorizon,
            Checkpoint::At(Position { sequence, .. }) => StartAt::At(sequence.clone()),
        };
        let resumed = checkpoint.position().map(|position| position.sequence.clone());
        Self { start, resumed, iterator: None, end: None }
    }

    pub(super) fn iterator(&self) -> Option<&ShardIterator> {
        self.iterator.as_ref()
    }

    pub(super) fn start(&self) -> StartAt {
        match self.start {
            // The service refuses an instant that its clock has not reached.
            StartAt::Timestamp(instant) => StartAt::Timestamp(instant.min(SystemTime::now())),
            ref start => start.clone(),
        }
    }

    pub(super) fn opened(&mut self, iterator: ShardIterator) -> ShardIterator {
        if self.start == StartAt::Latest {
            self.start = StartAt::Timestamp(SystemTime::now() - LATEST_MARGIN);
        }
        self.iterator = Some(iterator.clone());
        iterator
    }

    /// There is nothing behind the page that was read last.
    pub(super) fn ends_with(&mut self, children: Vec<ChildShard>) {
        self.end = Some(children);
    }

    pub(super) fn end(&self) -> Option<Vec<ChildShard>> {
        self.end.clone()
    }

    /// The iterator is of no use any more.
    pub(super) fn close(&mut self) {
        self.iterator = None;
    }

    /// Moves behind a page. Returns what is to be told of a gap between the stored position and the first record.
    pub(super) fn advance(&mut self, page: &RecordsPage) -> Option<String> {
        let gap = page.records.first().and_then(|first| {
            let resumed = self.resumed.take()?;
            (resumed < first.sequence).then(|| {
                format!(
                    "the record at the stored position {resumed} is gone; reading goes on at {}",
                    first.sequence
                )
            })
        });
        if let Some(last) = page.records.last() {
            self.start = StartAt::After(last.sequence.clone());
        }
        self.iterator.clone_from(&page.next);
        gap
    }

    /// Whether the shard is closed and no record of it lies behind the place.
    pub(super) fn is_behind_the_last_record_of(&self, shard: &Shard) -> bool {
        match (&self.start, &shard.ending_sequence) {
            (StartAt::At(place) | StartAt::After(place), Some(end)) => place >= end,
            _ => false,
        }
    }

    /// The service does not know the place: from now on the oldest record, which is behind it if the place has
    /// expired. Returns the place, unless there was none to fall back from.
    pub(super) fn fall_back(&mut self) -> Option<SequenceNumber> {
        match std::mem::replace(&mut self.start, StartAt::TrimHorizon) {
            StartAt::At(place) | StartAt::After(place) => {
                self.resumed = None;
                Some(place)
            }
            start => {
                self.start = start;
                None
            }
        }
    }
}
