//! One after the other, of those that have a key in common.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::sync::oneshot;

/// For each key the end of the last one that has begun.
pub(super) struct Turns<K> {
    last: HashMap<K, oneshot::Receiver<()>>,
    /// Those that have ended are forgotten when there are so many.
    tidy_at: usize,
}

/// A place behind the one before it of the same key. The next one's turn comes when this is dropped.
pub(super) struct Turn {
    before: Option<oneshot::Receiver<()>>,
    _done: oneshot::Sender<()>,
}

const TIDY_AT: usize = 32;

impl<K: Eq + Hash> Turns<K> {
    pub(super) fn new() -> Self {
        Self { last: HashMap::new(), tidy_at: TIDY_AT }
    }

    pub(super) fn next(&mut self, key: K) -> Turn {
        let (done, until_done) = oneshot::channel();
        let before = self.last.insert(key, until_done);
        if self.last.len() >= self.tidy_at {
            // Of those that have ended the sender is gone.
            self.last
                .retain(|_, until_done| until_done.try_recv() == Err(oneshot::error::TryRecvError::Empty));
            self.tidy_at = TIDY_AT.max(2 * self.last.len());
        }
        Turn { before, _done: done }
    }
}

impl Turn {
    /// Waits until it is this one's turn.
    pub(super) async fn come(&mut self) {
        if let Some(before) = self.before.take() {
            // It never sends anything: the other end is dropped.
            let _ = before.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn those_of_a_key_come_one_after_the_other_and_others_at_once() {
        let mut turns = Turns::new();
        let (mut first, mut second, mut third) = (turns.next("a"), turns.next("a"), turns.next("b"));
        first.come().await;
        third.come().await;
        assert!(second.come().now_or_never().is_none());
        drop(first);
        assert!(second.come().now_or_never().is_some());
    }

    #[tokio::test]
    async fn keys_are_forgotten_with_their_last() {
        let mut turns = Turns::new();
        let kept = turns.next(0);
        (1..10_000).for_each(|key| drop(turns.next(key)));
        assert!(turns.last.len() <= TIDY_AT && turns.last.contains_key(&0));
        drop(kept);
    }
}
