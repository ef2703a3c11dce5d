//! Where in a shard reading goes on.

use std::time::{Duration, SystemTime};

use kinesis_lease::stream::{RecordsPage, ShardIterator, StartAt};
use kinesis_record::{Checkpoint, Position, SequenceNumber, Shard};

use crate::consumer::clock::Clock;

/// If an iterator for `LATEST` is lost before it brought a record, reading goes on this long before it was opened,
/// so that nothing is missed if the clocks of host and service differ by less.
const LATEST_MARGIN: Duration = Duration::from_secs(60);

/// The place in a shard: an iterator, or where to open one.
///
/// An instant in the future is waited for, by the host's clock; records that arrive before it are not read. If that
/// clock is ahead of the service's, the service refuses the instant until it has come there, too, and is asked again.
/// Thus a wrong clock costs time and no record.
#[derive(Debug)]
pub(crate) struct Cursor {
    start: StartAt,
    /// The stored position that reading starts at, until the first record has been seen.
    resumed: Option<SequenceNumber>,
    iterator: Option<ShardIterator>,
    /// Whether the last reply had no iterator to go on with.
    severed: bool,
    clock: Clock,
}

impl Cursor {
    /// Behind `checkpoint`. `initial_timestamp` is what `AT_TIMESTAMP` stands for; without it that is the oldest
    /// record. `latest_since` is what `LATEST` stands for, if the shard has been started at it before. `clock` tells when
    /// an instant has come.
    pub(crate) fn new(
        checkpoint: &Checkpoint,
        initial_timestamp: Option<SystemTime>,
        latest_since: Option<SystemTime>,
        clock: Clock,
    ) -> Self {
        let start = match checkpoint {
            Checkpoint::AtTimestamp => initial_timestamp.map_or(StartAt::TrimHorizon, StartAt::Timestamp),
            Checkpoint::Latest => latest_since.map_or(StartAt::Latest, StartAt::Timestamp),
            Checkpoint::TrimHorizon | Checkpoint::ShardEnd => StartAt::TrimHorizon,
            Checkpoint::At(Position { sequence, .. }) => StartAt::At(sequence.clone()),
        };
        let resumed = checkpoint.position().map(|position| position.sequence.clone());
        Self { start, resumed, iterator: None, severed: false, clock }
    }

    pub(super) fn iterator(&self) -> Option<&ShardIterator> {
        self.iterator.as_ref()
    }

    /// Where to open an iterator.
    pub(super) fn start(&self) -> &StartAt {
        &self.start
    }

    /// How long it is until an iterator may be opened, if the instant to start at has not come.
    pub(super) fn too_early(&self) -> Option<Duration> {
        match self.start {
            StartAt::Timestamp(instant) => instant.duration_since(self.clock.now()).ok(),
            _ => None,
        }
    }

    pub(super) fn opened(&mut self, iterator: ShardIterator) -> ShardIterator {
        if self.start == StartAt::Latest {
            self.start = StartAt::Timestamp(self.clock.now() - LATEST_MARGIN);
        }
        self.iterator = Some(iterator.clone());
        iterator
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
        self.severed = page.next.is_none();
        gap
    }

    /// Whether the reply before had no iterator to go on with.
    pub(super) fn was_severed(&self) -> bool {
        self.severed
    }

    /// The stored position, as long as no record has shown whether its own is still there.
    pub(super) fn unseen(&self) -> Option<&SequenceNumber> {
        self.resumed.as_ref()
    }

    /// Whether the place is at or behind a certain record.
    pub(super) fn is_at_a_record(&self) -> bool {
        matches!(self.start, StartAt::At(_) | StartAt::After(_))
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
    pub(super) fn fall_back(&mut self) -> Option<StartAt> {
        if !self.is_at_a_record() {
            return None;
        }
        self.resumed = None;
        Some(std::mem::replace(&mut self.start, StartAt::TrimHorizon))
    }
}
