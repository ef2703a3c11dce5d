//! The task of a sink: waits for the outcome of each element and applies the policy.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use futures::task::AtomicWaker;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, watch};

use super::door::Load;
use super::error::SinkError;
use super::resend::{self, Resend};
use crate::producer::{Flushed, KinesisProducer, Outcome, ProducerEvent, SendError, SendReason, Sending};

/// What is done about an element that fails.
#[derive(Clone)]
pub(super) struct Policy {
    pub(super) skips: bool,
    pub(super) resend: Resend,
    pub(super) report: Option<Report>,
}

/// Who gets the elements that failed.
pub(super) type Report = Arc<dyn Fn(SendError) + Send + Sync>;

impl Policy {
    fn is_fatal(&self, reason: &SendReason) -> bool {
        // Without a producer each element to come would fail, and be skipped.
        !self.skips || matches!(reason, SendReason::Stopped(_) | SendReason::Died)
    }
}

/// What senders of a run get to see of its course.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    Open,
    /// Nothing more is taken.
    Closed,
    /// Nothing more is taken or sent again.
    Failed,
    Ended(Result<Flushed, SinkError>),
}

impl Phase {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// One run of a sink, from its start to its end, in the hand of whoever gives it elements. Dropping it closes the run as
/// one that was not finished.
#[derive(Debug)]
pub(super) struct Run {
    producer: KinesisProducer,
    shared: Arc<Shared>,
    elements: mpsc::UnboundedSender<Element>,
}

struct Shared {
    state: Mutex<State>,
    phase: watch::Sender<Phase>,
    /// The state has changed by something else than an outcome.
    changed: Notify,
    /// Of the sink, for the next outcome.
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    given: u64,
    under_way: Load,
    counts: Flushed,
    failure: Option<(u64, SendError)>,
    /// Whether an element was asked for that is yet to come.
    is_reserved: bool,
    is_closed: bool,
    is_dropped: bool,
}

impl State {
    /// Whether all outcomes are known that there will be.
    fn is_over(&self) -> bool {
        let takes_more = self.is_reserved || !(self.is_closed || self.is_dropped || self.failure.is_some());
        self.under_way.events == 0 && !takes_more
    }

    fn end(&self) -> Result<Flushed, SinkError> {
        let counts = self.counts;
        match &self.failure {
            Some((index, cause)) => {
                Err(SinkError::Failed { index: *index, cause: Box::new(cause.clone()), counts })
            }
            None if self.is_closed => Ok(counts),
            None => Err(SinkError::Dropped { counts }),
        }
    }
}

struct Element {
    index: u64,
    load: Load,
    sending: Sending,
    /// Its place in the queue that it came through.
    place: Option<Place>,
}

/// A place in a queue: one event of so many, and its bytes.
pub(super) type Place = [OwnedSemaphorePermit; 2];

impl Run {
    /// Starts the task. At the end of the run, it stops the producer if that is asked for.
    pub(super) fn start(
        producer: KinesisProducer,
        policy: Policy,
        random: fastrand::Rng,
        stops_producer: bool,
    ) -> Result<Self, SinkError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| SinkError::NoRuntime)?;
        let (elements, given) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            phase: watch::Sender::new(Phase::Open),
            changed: Notify::new(),
            waker: AtomicWaker::new(),
        });
        let task =
            Task { producer: producer.clone(), policy, random, shared: Arc::clone(&shared), stops_producer };
        runtime.spawn(task.run(given));
        Ok(Self { producer, shared, elements })
    }

    /// Sends an element, which may wait for the producer's room.
    pub(super) fn give(&self, event: ProducerEvent, place: Option<Place>) -> Result<(), ProducerEvent> {
        let load = Load::of(&event);
        let mut state = self.shared.lock();
        let takes_it = state.is_reserved || (state.failure.is_none() && !state.is_closed);
        if !takes_it || matches!(*self.shared.phase.borrow(), Phase::Ended(_)) {
            return Err(event);
        }
        state.is_reserved = false;
        let index = state.given;
        state.given += 1;
        state.under_way.add(load);
        drop(state);
        let sending = self.producer.send(event);
        // Without the task, the run has ended as one that died.
        let _ = self.elements.send(Element { index, load, sending, place });
        Ok(())
    }

    /// Takes no more.
    pub(super) fn close(&self) {
        self.shared.takes_no_more(|state| state.is_closed = true);
    }

    /// Makes the run wait for an element, whatever happens meanwhile. False if nothing is taken any more.
    pub(super) fn reserve(&self) -> bool {
        let mut state = self.shared.lock();
        state.is_reserved = self.shared.phase.borrow().is_open();
        state.is_reserved
    }

    /// Lets the run wait no more for the element that was asked for.
    pub(super) fn unreserve(&self) {
        if std::mem::take(&mut self.shared.lock().is_reserved) {
            self.shared.changed.notify_one();
        }
    }

    /// What is under way, and the phase that goes with it.
    pub(super) fn look(&self) -> (Load, Phase) {
        let state = self.shared.lock();
        (state.under_way, self.shared.phase.borrow().clone())
    }

    pub(super) fn counts(&self) -> Flushed {
        self.shared.lock().counts
    }

    pub(super) fn is_open(&self) -> bool {
        self.shared.phase.borrow().is_open()
    }

    pub(super) fn phases(&self) -> watch::Receiver<Phase> {
        self.shared.phase.subscribe()
    }

    pub(super) fn producer(&self) -> &KinesisProducer {
        &self.producer
    }

    /// Who is woken at the next outcome. There is one at a time.
    pub(super) fn waker(&self) -> &AtomicWaker {
        &self.shared.waker
    }

    pub(super) fn finished(&self) -> impl Future<Output = Result<Flushed, SinkError>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            let mut phases = shared.phase.subscribe();
            let ended = phases.wait_for(|phase| matches!(phase, Phase::Ended(_))).await;
            match ended.map(|phase| phase.clone()) {
                Ok(Phase::Ended(end)) => end,
                _ => Err(SinkError::Died { counts: shared.lock().counts }),
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.shared.takes_no_more(|state| state.is_dropped = true);
    }
}

impl Shared {
    /// Phases only go forward.
    fn advance(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            let stays = matches!((&*phase, &next), (Phase::Ended(_), _) | (Phase::Failed, Phase::Closed));
            if !stays {
                *phase = next;
            }
            !stays
        });
    }

    fn takes_no_more(&self, because: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        because(&mut state);
        state.is_reserved = false;
        self.advance(Phase::Closed);
        drop(state);
        self.changed.notify_one();
    }

    fn ended(&self, end: Result<Flushed, SinkError>) {
        self.advance(Phase::Ended(end));
        self.waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &*self.lock()).finish_non_exhaustive()
    }
}

struct Task {
    producer: KinesisProducer,
    policy: Policy,
    random: fastrand::Rng,
    shared: Arc<Shared>,
    stops_producer: bool,
}

impl Task {
    async fn run(mut self, mut given: mpsc::UnboundedReceiver<Element>) {
        let mut under_way = FuturesUnordered::new();
        let mut is_open = true;
        while !self.shared.lock().is_over() {
            tokio::select! {
                Some(element) = given.recv() => under_way.push(self.outcome(element)),
                Some((index, load, outcome, place)) = under_way.next() => {
                    self.settle(index, load, outcome);
                    drop(place);
                }
                () = self.shared.changed.notified() => {
                    if is_open && !self.shared.phase.borrow().is_open() {
                        is_open = false;
                        // Nothing comes that could go with what waits. It is told at the first poll, and its end is that
                        // of the outcomes.
                        let _ = self.producer.flush().now_or_never();
                    }
                }
            }
        }
        if self.stops_producer {
            // Nothing of the sink is under way, but others may have sent by the same producer.
            self.producer.stop(self.producer.conf().record_ttl).await;
            self.stops_producer = false;
        }
        let end = self.shared.lock().end();
        self.shared.ended(end);
    }

    fn outcome(
        &mut self,
        element: Element,
    ) -> impl Future<Output = (u64, Load, Outcome, Option<Place>)> + use<> {
        let Element { index, load, sending, place } = element;
        let mut phases = self.shared.phase.subscribe();
        let given_up = async move {
            let _ = phases.wait_for(|phase| matches!(phase, Phase::Failed)).await;
        };
        let (producer, random) = (self.producer.clone(), self.random.fork());
        let outcome = resend::outcome(sending, producer, self.policy.resend, random, given_up);
        async move { (index, load, outcome.await, place) }
    }

    fn settle(&self, index: u64, load: Load, outcome: Outcome) {
        let failed = outcome.err();
        if let (Some(error), Some(report)) = (&failed, &self.policy.report) {
            report(error.clone());
        }
        let mut state = self.shared.lock();
        state.under_way.remove(load);
        match failed {
            None => state.counts.sent += 1,
            Some(error) => {
                state.counts.failed += 1;
                if state.failure.is_none() && self.policy.is_fatal(&error.reason) {
                    state.failure = Some((index, error));
                    self.shared.advance(Phase::Failed);
                }
            }
        }
        drop(state);
        self.shared.waker.wake();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.stops_producer {
            // After a panic. It is told at the first poll.
            let _ = self.producer.stop(self.producer.conf().record_ttl).now_or_never();
        }
        let counts = self.shared.lock().counts;
        // Without effect on a run that has its end.
        self.shared.ended(Err(SinkError::Died { counts }));
    }
}
