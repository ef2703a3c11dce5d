//! Which shard takes which hash key, as far as it is known.

use std::collections::HashMap;
use std::time::Duration;

use kinesis_lease::{StreamError, StreamErrorKind};
use kinesis_record::{HashRange, Shard, ShardId};
use tokio::time::Instant;

use crate::backoff::Backoff;

/// The pauses between lists that fail, or that show nothing new.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A list that was good for so long makes the pauses short again: what contradicts it is another change.
const QUIET: Duration = Duration::from_secs(60);

/// A shard as a list showed it. Its id alone does not tell it: those of a stream that was deleted and created again under
/// its name are the same, with other ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) id: ShardId,
    pub(crate) range: HashRange,
}

/// The list of shards: when it has to be asked for, and what the last one said. It is used while a newer one is on its
/// way.
#[derive(Debug)]
pub(crate) struct ShardMap {
    ranges: HashMap<ShardId, HashRange>,
    open: Vec<Target>,
    listing: Listing,
    /// When the list was asked for that is known.
    known_since: Option<Instant>,
    /// How long the first list is waited for.
    patience: Duration,
    has_failed: bool,
    backoff: Backoff,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Listing {
    /// The list is good, as far as anybody knows.
    Known,
    /// It has to be asked for then.
    Wanted { at: Instant },
    /// The reply to a call that began then is on its way. `outdated` if something was seen since that the reply may not
    /// show, `void` if it may be about a stream that is gone.
    UnderWay { since: Instant, outdated: bool, void: bool },
}

impl ShardMap {
    /// A map that knows nothing yet. Nothing is held back for the first list when its call has taken longer than
    /// `patience`: a list may have many pages.
    pub(crate) fn new(now: Instant, patience: Duration, random: fastrand::Rng) -> Self {
        Self {
            ranges: HashMap::new(),
            open: Vec::new(),
            listing: Listing::Wanted { at: now },
            known_since: None,
            patience,
            has_failed: false,
            backoff: Backoff::new(MIN_PAUSE, MAX_PAUSE, random),
        }
    }

    /// Whether a call is due. The caller makes it.
    pub(crate) fn asks(&mut self, now: Instant) -> bool {
        if self.patience_ends().is_some_and(|end| end <= now) {
            self.has_failed = true;
        }
        let is_due = matches!(self.listing, Listing::Wanted { at } if at <= now);
        if is_due {
            self.listing = Listing::UnderWay { since: now, outdated: false, void: false };
        }
        is_due
    }

    /// When to ask again whether a call is due.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        match self.listing {
            Listing::Wanted { at } => Some(at),
            _ => self.patience_ends(),
        }
    }

    /// When the first list has taken too long.
    fn patience_ends(&self) -> Option<Instant> {
        match self.listing {
            Listing::UnderWay { since, .. } if self.is_awaited() => Some(since + self.patience),
            _ => None,
        }
    }

    /// The call's reply. True if the open shards are others than before.
    pub(crate) fn listed(&mut self, reply: Result<Vec<Shard>, StreamError>, now: Instant) -> bool {
        let Listing::UnderWay { since, outdated, void } = self.listing else { return false };
        let shards = match reply {
            Ok(shards) => shards,
            Err(error) => {
                if self.known_since.is_some() {
                    tracing::warn!(%error, "the shards cannot be listed; the list before is used meanwhile");
                } else {
                    tracing::warn!(
                        %error,
                        "the shards cannot be listed: until they are, events are not aggregated, and go as fast as the \
                         shards take that show in replies"
                    );
                }
                self.has_failed = true;
                self.listing = Listing::Wanted { at: now + self.backoff.next_pause() };
                return error.kind == StreamErrorKind::NotFound && self.gone(now);
            }
        };
        if void {
            self.listing = Listing::Wanted { at: now + self.backoff.next_pause() };
            return false;
        }
        self.has_failed = false;
        self.known_since = Some(since);
        self.listing = Listing::Known;
        let mut open: Vec<_> = shards
            .iter()
            .filter(|shard| shard.is_open())
            .map(|shard| Target { id: shard.id.clone(), range: shard.hash_range })
            .collect();
        open.sort_by_key(|target| (target.range.end, target.range.start));
        self.ranges = shards.into_iter().map(|shard| (shard.id, shard.hash_range)).collect();
        let is_new = open != self.open;
        if is_new {
            self.backoff.reset();
        }
        self.open = open;
        if outdated {
            self.listing = Listing::Wanted { at: now + self.backoff.next_pause() };
        }
        is_new
    }

    /// A call that began at `began` showed that the list is wrong. A newer list, or one that is asked for already, may be
    /// right.
    pub(crate) fn contradicted(&mut self, began: Instant, now: Instant) {
        match &mut self.listing {
            Listing::Known if self.known_since.is_none_or(|since| since <= began) => self.want(now),
            Listing::UnderWay { since, outdated, .. } if *since <= began => *outdated = true,
            _ => {}
        }
    }

    /// The stream is not there. One that comes back is another: its shards may have the same ids and other ranges, so that
    /// nothing is known of it. True if there were open shards.
    pub(crate) fn gone(&mut self, now: Instant) -> bool {
        match &mut self.listing {
            Listing::Known => self.want(now),
            Listing::UnderWay { void, .. } => *void = true,
            Listing::Wanted { .. } => {}
        }
        self.known_since = None;
        self.has_failed = true;
        self.ranges.clear();
        !std::mem::take(&mut self.open).is_empty()
    }

    fn want(&mut self, now: Instant) {
        if self.known_since.is_some_and(|since| since + QUIET <= now) {
            self.backoff.reset();
        }
        // The first list after a change comes at once. One that changes nothing is not asked for again and again.
        let pause = if self.backoff.failures() == 0 { Duration::ZERO } else { self.backoff.next_pause() };
        if pause.is_zero() {
            self.backoff.next_pause();
        }
        self.listing = Listing::Wanted { at: now + pause };
    }

    /// Whether there was a list.
    pub(crate) fn has_list(&self) -> bool {
        self.known_since.is_some()
    }

    /// Whether no list is on its way or has to be asked for.
    pub(crate) fn is_known(&self) -> bool {
        self.listing == Listing::Known
    }

    /// Whether nothing is known yet and the first reply is worth waiting for.
    pub(crate) fn is_awaited(&self) -> bool {
        self.known_since.is_none() && !self.has_failed
    }

    /// The open shards, by the ends of their ranges.
    pub(crate) fn open(&self) -> &[Target] {
        &self.open
    }

    /// The range of a shard, open or closed.
    pub(crate) fn range(&self, shard: &ShardId) -> Option<HashRange> {
        self.ranges.get(shard).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::producer::testing::{shard, stream_error};

    const SECOND: Duration = Duration::from_secs(1);

    fn known(now: Instant) -> ShardMap {
        let mut map = ShardMap::new(now, SECOND, fastrand::Rng::with_seed(1));
        assert!(map.is_awaited() && map.asks(now) && !map.asks(now));
        assert!(map.listed(Ok(vec![shard(1, 50, 99), shard(0, 0, 49)]), now));
        map
    }

    #[test]
    fn open_shards_are_sorted_by_range_and_closed_ones_keep_theirs() {
        let now = Instant::now();
        let mut map = known(now);
        map.contradicted(now + SECOND, now + SECOND);
        assert!(map.asks(now + SECOND));
        let mut closed = shard(0, 0, 49);
        closed.ending_sequence = Some(7.into());
        assert!(
            map.listed(Ok(vec![closed, shard(1, 50, 99), shard(3, 25, 49), shard(2, 0, 24)]), now + SECOND)
        );
        let open: Vec<_> = map.open().iter().map(|target| target.id.as_str().to_owned()).collect();
        assert_eq!(open, ["shardId-2", "shardId-3", "shardId-1"]);
        assert_eq!(map.range(&"shardId-0".into()), Some(shard(0, 0, 49).hash_range));
    }

    #[test]
    fn a_contradiction_from_before_the_list_is_no_news() {
        let now = Instant::now();
        let mut map = known(now + SECOND);
        map.contradicted(now, now + 2 * SECOND);
        assert_eq!(map.wake_at(), None);
        map.contradicted(now + 2 * SECOND, now + 2 * SECOND);
        assert_eq!(map.wake_at(), Some(now + 2 * SECOND));
    }

    #[test]
    fn lists_that_show_nothing_new_are_asked_for_with_growing_pauses() {
        let mut now = Instant::now();
        let mut map = known(now);
        let mut pauses = Vec::new();
        for _ in 0..4 {
            now += SECOND;
            map.contradicted(now, now);
            let at = map.wake_at().unwrap();
            pauses.push(at - now);
            now = at;
            assert!(map.asks(now));
            assert!(!map.listed(Ok(vec![shard(0, 0, 49), shard(1, 50, 99)]), now));
        }
        assert_eq!(pauses[0], Duration::ZERO);
        assert!(pauses[1] >= SECOND / 2 && pauses[3] > 2 * pauses[1], "{pauses:?}");
    }

    #[test]
    fn after_a_quiet_time_a_list_is_asked_for_at_once_again() {
        let mut now = Instant::now();
        let mut map = known(now);
        for _ in 0..8 {
            map.contradicted(now, now);
            now = map.wake_at().unwrap();
            assert!(map.asks(now));
            assert!(!map.listed(Ok(vec![shard(0, 0, 49), shard(1, 50, 99)]), now));
        }
        let soon = now + MAX_PAUSE;
        map.contradicted(soon, soon);
        now = map.wake_at().unwrap();
        assert!(now > soon + MAX_PAUSE / 3, "the pauses have grown");
        assert!(map.asks(now) && !map.listed(Ok(vec![shard(0, 0, 49), shard(1, 50, 99)]), now));
        now += QUIET;
        map.contradicted(now, now);
        assert_eq!(map.wake_at(), Some(now));
    }

    #[test]
    fn a_list_that_fails_is_asked_for_again_and_the_old_one_is_used() {
        let now = Instant::now();
        let mut map = known(now);
        map.contradicted(now + SECOND, now + SECOND);
        assert!(map.asks(now + SECOND));
        assert!(!map.listed(Err(stream_error()), now + SECOND));
        assert_eq!(map.open().len(), 2);
        assert!(map.wake_at().is_some_and(|at| at > now + SECOND && at <= now + 3 * SECOND));
    }

    #[test]
    fn of_a_stream_that_is_gone_nothing_is_known_until_it_is_listed_again() {
        let now = Instant::now();
        let mut map = known(now);
        assert!(map.gone(now + SECOND) && !map.gone(now + SECOND));
        assert!(!map.has_list() && !map.is_awaited() && map.open().is_empty());
        assert_eq!(map.range(&"shardId-0".into()), None);
        assert!(map.asks(now + SECOND));
        // The reply may be about the stream before.
        assert!(!map.gone(now + SECOND));
        assert!(!map.listed(Ok(vec![shard(0, 0, 49), shard(1, 50, 99)]), now + SECOND));
        assert!(!map.has_list());
        let at = map.wake_at().unwrap();
        assert!(map.asks(at) && map.listed(Ok(vec![shard(0, 0, 99)]), at));
        // A list can tell it as well.
        map.contradicted(at, at);
        let at = map.wake_at().unwrap();
        let gone = StreamError { kind: StreamErrorKind::NotFound, message: "it is gone".to_owned() };
        assert!(map.asks(at) && map.listed(Err(gone), at));
        assert!(!map.has_list() && map.wake_at().is_some());
    }

    #[test]
    fn the_first_list_is_used_when_it_comes_though_it_was_waited_for_in_vain() {
        let now = Instant::now();
        let mut map = ShardMap::new(now, SECOND, fastrand::Rng::with_seed(1));
        assert!(map.asks(now) && map.is_awaited());
        assert_eq!(map.wake_at(), Some(now + SECOND));
        assert!(!map.asks(now + SECOND) && !map.is_awaited());
        assert_eq!(map.wake_at(), None);
        assert!(map.listed(Ok(vec![shard(0, 0, 99)]), now + 60 * SECOND));
        assert!(map.has_list());
    }

    #[test]
    fn what_is_seen_while_a_list_is_under_way_makes_it_outdated() {
        let now = Instant::now();
        let mut map = ShardMap::new(now, SECOND, fastrand::Rng::with_seed(1));
        assert!(map.asks(now));
        map.contradicted(now + SECOND, now + SECOND);
        assert!(map.listed(Ok(vec![shard(0, 0, 99)]), now + SECOND));
        assert!(map.wake_at().is_some());
    }
}
