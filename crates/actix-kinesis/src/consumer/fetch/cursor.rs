//! Where in a shard reading goes on.

use std::time::{Duration, SystemTime};

use kinesis_lease::stream::{RecordsPage, ShardIterator, StartAt};
use kinesis_record::{Checkpoint, Position, SequenceNumber, Shard};

use crate::consumer::clock::Clock;

/// If an iterator for `LATEST` is lost before it brought a record, reading goes on this long before it was opened,
/// so that nothing is missed if the clocks of host and service differ by less.
const LATEST_MARGIN: Duration = Duration::from_secs(60);

/// How often in a row the service must refuse a place before that is believed.
const REFUSALS: u32 = 4;

/// The service refuses a position that is not older than the oldest record of the shard: it has not expired, and what
/// has been processed up to it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misplaced {
    pub(crate) position: SequenceNumber,
    pub(crate) oldest: SequenceNumber,
}

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
    /// How often in a row the place was refused.
    refusals: u32,
    /// Whether reading goes on at the oldest record, since the stored position was refused.
    has_fallen_back: bool,
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
        Self { start, resumed, refusals: 0, has_fallen_back: false, iterator: None, severed: false, clock }
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
        self.refusals = 0;
        self.iterator = Some(iterator.clone());
        iterator
    }

    /// The iterator is of no use any more.
    pub(super) fn close(&mut self) {
        self.iterator = None;
    }

    /// Moves behind a page. Returns what is to be told of a gap between the stored position and the first record.
    ///
    /// # Errors
    /// The stored position was refused, and does not lie before the first record: the cursor stays where it is.
    pub(super) fn advance(&mut self, page: &RecordsPage) -> Result<Option<String>, Misplaced> {
        let mut gap = None;
        if let (Some(first), Some(resumed)) = (page.records.first(), &self.resumed) {
            let oldest = &first.sequence;
            if resumed < oldest {
                gap = Some(format!(
                    "the record at the stored position {resumed} is gone; reading goes on at {oldest}"
                ));
            } else if self.has_fallen_back {
                return Err(Misplaced { position: resumed.clone(), oldest: oldest.clone() });
            }
            self.resumed = None;
        }
        if let Some(last) = page.records.last() {
            self.start = StartAt::After(last.sequence.clone());
        }
        self.iterator.clone_from(&page.next);
        self.severed = page.next.is_none();
        Ok(gap)
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

    /// Whether the place is the very end of a closed shard.
    pub(super) fn is_at_the_end_of(&self, shard: &Shard) -> bool {
        match (&self.start, &shard.ending_sequence) {
            (StartAt::At(place) | StartAt::After(place), Some(end)) => place == end,
            _ => false,
        }
    }

    /// The service does not know the place of a record. If it says so again and again, reading goes on at the oldest
    /// record, provided that this one is behind the place.
    pub(super) fn refused(&mut self) {
        self.refusals += 1;
        if let (REFUSALS.., StartAt::At(place) | StartAt::After(place)) = (self.refusals, &self.start) {
            self.resumed = Some(place.clone());
            self.has_fallen_back = true;
            self.start = StartAt::TrimHorizon;
        }
    }
}
