//! A run of failures to read a shard: how long to pause, and what to log.

use std::time::Duration;

use kinesis_lease::stream::{StreamError, StreamErrorKind};
use kinesis_record::ShardId;
use tracing::{debug, error, info, warn};

use crate::backoff::Backoff;

const MIN_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Ends with the first success. A single failure is not worth a line; from the second on there is one warning, and
/// one error as soon as somebody must act, whatever else fails in between.
#[derive(Debug)]
pub(super) struct Episode {
    shard: ShardId,
    backoff: Backoff,
    told: Told,
}

/// The gravest line that the episode has logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    Warning,
    Error,
}

impl Episode {
    pub(super) fn new(shard: ShardId, random: fastrand::Rng) -> Self {
        Self { shard, backoff: Backoff::new(MIN_PAUSE, MAX_PAUSE, random), told: Told::Nothing }
    }

    /// Takes a failure, and gives the pause until the next attempt.
    pub(super) fn failed(&mut self, failure: &StreamError) -> Duration {
        let told = self.tell(failure.kind);
        let (shard, failures) = (&self.shard, self.backoff.failures() + 1);
        match told {
            Told::Error => {
                error!(%shard, error = %failure, "the shard cannot be read until somebody acts, trying again");
            }
            Told::Warning => warn!(%shard, error = %failure, "reading fails, trying again"),
            Told::Nothing => debug!(%shard, error = %failure, failures, "reading fails, trying again"),
        }
        self.backoff.next_pause()
    }

    /// Reading works again.
    pub(super) fn end(self) {
        if self.told > Told::Nothing {
            info!(shard = %self.shard, failures = self.backoff.failures(), "reading again");
        }
    }

    fn tell(&mut self, kind: StreamErrorKind) -> Told {
        let gravity = match kind {
            StreamErrorKind::Encryption | StreamErrorKind::Denied | StreamErrorKind::NotFound => Told::Error,
            StreamErrorKind::Throttled
            | StreamErrorKind::ExpiredIterator
            | StreamErrorKind::InvalidArgument
            | StreamErrorKind::Unavailable => Told::Warning,
        };
        if self.backoff.failures() == 0 || gravity <= self.told {
            return Told::Nothing;
        }
        self.told = gravity;
        gravity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StreamErrorKind::{Denied, Encryption, ExpiredIterator, NotFound, Throttled, Unavailable};
    use Told::{Error, Nothing, Warning};

    fn told(kinds: &[StreamErrorKind]) -> Vec<Told> {
        let mut episode = Episode::new("shardId-000000000000".into(), fastrand::Rng::with_seed(1));
        let tell = |kind: &StreamErrorKind| {
            let told = episode.tell(*kind);
            episode.backoff.next_pause();
            told
        };
        kinds.iter().map(tell).collect()
    }

    #[test]
    fn a_single_failure_is_not_told() {
        for kind in [Throttled, ExpiredIterator, Unavailable, Denied] {
            assert_eq!(told(&[kind]), [Nothing]);
        }
    }

    #[test]
    fn passing_failures_are_told_once_by_a_warning() {
        let failures = [ExpiredIterator, Throttled, Unavailable, Throttled, Unavailable];
        assert_eq!(told(&failures), [Nothing, Warning, Nothing, Nothing, Nothing]);
    }

    #[test]
    fn what_needs_a_person_is_told_once_by_an_error_and_needs_no_warning_after() {
        assert_eq!(told(&[Denied, Denied, Denied, Throttled]), [Nothing, Error, Nothing, Nothing]);
    }

    #[test]
    fn what_needs_a_person_is_told_however_the_episode_began() {
        let failures = [Throttled, Throttled, Unavailable, Encryption, Throttled, NotFound];
        assert_eq!(told(&failures), [Nothing, Warning, Nothing, Error, Nothing, Nothing]);
    }
}
