//! Sending an event again that failed for a reason that passes.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::producer::{Attempt, KinesisProducer, Outcome, Sending};

/// How long events are sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resend {
    Never,
    /// As long as this has not gone by since the event was given.
    Within(Duration),
    ForEver,
}

impl Resend {
    /// Whether the next send, after `pause`, is in time.
    fn allows(self, since: Instant, pause: Duration) -> bool {
        match self {
            Self::Never => false,
            Self::Within(limit) => since.elapsed().saturating_add(pause) <= limit,
            Self::ForEver => true,
        }
    }
}

/// The outcome of an event that is being sent: that of its last send, with the calls of all.
///
/// When `given_up` resolves, it is not sent again any more.
pub(super) async fn outcome(
    sending: Sending,
    producer: KinesisProducer,
    resend: Resend,
    random: fastrand::Rng,
    given_up: impl Future<Output = ()>,
) -> Outcome {
    let began = Instant::now();
    let pauses = producer.conf().retry_backoff;
    let mut backoff = Backoff::new(pauses.min, pauses.max, random);
    let mut given_up = std::pin::pin!(given_up);
    let mut calls = Calls { began, resent: began, earlier: Vec::new() };
    let mut sending = sending;
    loop {
        let mut failed = match sending.await {
            Ok(mut stored) => {
                stored.attempts = calls.with(stored.attempts);
                return Ok(stored);
            }
            Err(failed) => failed,
        };
        failed.attempts = calls.with(failed.attempts.into_vec()).into();
        let pause = backoff.next_pause();
        if !failed.reason.passes() || !resend.allows(began, pause) {
            return Err(failed);
        }
        tokio::select! {
            biased;
            () = &mut given_up => return Err(failed),
            () = sleep(pause) => {}
        }
        tracing::debug!(event = ?failed.event, reason = %failed.reason, "an event is sent again");
        calls.resent = Instant::now();
        calls.earlier = failed.attempts.into_vec();
        sending = producer.send(failed.event);
    }
}

/// The calls that were made with an event before its last send: some of them may have stored it.
struct Calls {
    began: Instant,
    resent: Instant,
    earlier: Vec<Attempt>,
}

impl Calls {
    /// Puts them before those of the last send, the first and the newest of too many.
    fn with(&mut self, later: Vec<Attempt>) -> Vec<Attempt> {
        let mut all = std::mem::take(&mut self.earlier);
        let before: Duration = all.iter().map(|call| call.delay + call.duration).sum();
        let first = all.len();
        all.extend(later);
        if let Some(call) = all.get_mut(first) {
            call.delay += (self.resent - self.began).saturating_sub(before);
        }
        let too_many = all.len().saturating_sub(Attempt::KEPT);
        if too_many > 0 {
            let mut left_out: Vec<_> = all.drain(1..=too_many).collect();
            while let Some(before) = left_out.pop() {
                all[1].follow(&before);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::producer::AttemptError;

    const MS: Duration = Duration::from_millis(1);

    fn calls(delays: impl IntoIterator<Item = u32>) -> Vec<Attempt> {
        let call = |delay| Attempt::new(delay * MS, MS, None);
        delays.into_iter().map(call).collect()
    }

    fn before(earlier: Vec<Attempt>, resent: u32) -> Calls {
        let began = Instant::now();
        Calls { began, resent: began + resent * MS, earlier }
    }

    #[tokio::test]
    async fn calls_of_all_sends_are_told_with_the_time_between_them() {
        // The first two were over after 32 ms, and the event was sent again 100 ms after it was given.
        assert_eq!(before(calls([10, 20]), 100).with(calls([5, 6])), calls([10, 20, 73, 6]));
        assert_eq!(before(Vec::new(), 0).with(calls([5])), calls([5]));
        assert_eq!(before(calls([5]), 50).with(Vec::new()), calls([5]));
        assert_eq!(before(Vec::new(), 50).with(Vec::new()), Vec::new());
    }

    #[tokio::test]
    async fn of_too_many_calls_the_first_and_the_newest_are_kept_and_the_time_stays_whole() {
        let all = before(calls(1..=15), 200).with(calls(16..=30));
        assert_eq!(all.len(), Attempt::KEPT);
        assert_eq!((&all[0], &all[19]), (&calls([1])[0], &calls([30])[0]));
        let whole: Duration = all.iter().map(|call| call.delay + call.duration).sum();
        // 200 ms to the second send, and what its calls took.
        assert_eq!(whole, (200 + (16..=30).sum::<u32>() + 15) * MS);
        assert_eq!(Attempt::calls(&all), 30);
    }

    #[tokio::test]
    async fn a_lost_reply_is_known_although_its_call_is_left_out() {
        for lost in [0, 1, 5, 14] {
            let mut earlier = calls(1..=15);
            let (code, message) = ("Unavailable".to_owned(), "no reply".to_owned());
            earlier[lost].error = Some(Arc::new(AttemptError { code, message, may_be_stored: true }));
            let mut all = before(earlier, 200).with(calls(16..=30));
            assert!(Attempt::may_be_stored(&all), "{lost}");
            // Nor is it forgotten in the sends to come.
            for _ in 0..3 {
                all = before(all, 900).with(calls(1..=20));
            }
            assert!(Attempt::may_be_stored(&all), "{lost}");
            assert_eq!((all.len(), Attempt::calls(&all)), (Attempt::KEPT, 90));
        }
        assert!(!Attempt::may_be_stored(&before(calls(1..=15), 200).with(calls(16..=30))));
    }
}
