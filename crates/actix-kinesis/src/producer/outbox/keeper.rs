//! The task of an outbox: between the senders, the disk and the producer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use actix::Recipient;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::backlog::Backlog;
use super::disk::{Disk, Finished, Step, Turn};
use super::error::{OutboxError, OutboxReason};
use super::outcome::{Accepted, OutboxOutcome, OutboxStatus, OutboxStopped, Parked};
use super::room::Room;
use super::store::{Entry, Kept, StoreError};
use crate::producer::{KinesisProducer, MessageId, Outcome, SendReason};

/// Commands that are taken up in one go.
const TAKEN: usize = 1_024;
/// Events that are read in one go.
const READ: usize = 1_000;
/// How long after the deadline of a stop the disk may take to note what was sent.
const GRACE: Duration = Duration::from_secs(5);

/// What the handles of an outbox ask of its task.
#[derive(Debug)]
pub(super) enum Command {
    Accept { kept: Kept, done: oneshot::Sender<Result<Accepted, OutboxError>> },
    List { after: u64, limit: usize, done: oneshot::Sender<Result<Vec<Parked>, Arc<StoreError>>> },
    Retry { number: u64, done: oneshot::Sender<bool> },
    Discard { number: u64, done: oneshot::Sender<bool> },
    Stop { deadline: Instant, done: oneshot::Sender<OutboxStopped> },
}

/// What the task shows of itself, and when the first in line was accepted.
pub(super) type Board = Arc<Mutex<(OutboxStatus, Option<SystemTime>)>>;

/// An event that the producer is through with.
struct Done {
    number: u64,
    message_id: MessageId,
    accepted: SystemTime,
    outcome: Outcome,
}

/// The task of an outbox.
pub(super) struct Keeper {
    producer: KinesisProducer,
    room: Arc<Room>,
    board: Board,
    outcomes: Option<Recipient<OutboxOutcome>>,
    disk: Disk,
    backlog: Backlog,
    parked: BTreeMap<u64, Entry>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    next_number: u64,
    accepted: u64,
    sent: u64,
    stop: Option<Stop>,
}

struct Stop {
    deadline: Instant,
    sent_before: u64,
    done: Vec<oneshot::Sender<OutboxStopped>>,
}

impl Keeper {
    pub(super) fn new(
        producer: KinesisProducer,
        room: Arc<Room>,
        board: Board,
        outcomes: Option<Recipient<OutboxOutcome>>,
        disk: Disk,
        backlog: Backlog,
        entries: Vec<Entry>,
    ) -> Self {
        let mut keeper = Self {
            producer,
            room,
            board,
            outcomes,
            disk,
            backlog,
            parked: BTreeMap::new(),
            under_way: FuturesUnordered::new(),
            next_number: entries.last().map_or(1, |last| last.number + 1),
            accepted: 0,
            sent: 0,
            stop: None,
        };
        let stream: Arc<str> = keeper.producer.conf.stream_name.as_str().into();
        for mut entry in entries {
            entry.stream.get_or_insert_with(|| Arc::clone(&stream));
            keeper.room.found(entry.bytes);
            match entry.parked {
                Some(_) => drop(keeper.parked.insert(entry.number, entry)),
                None => keeper.backlog.add(&entry),
            }
        }
        keeper.show();
        keeper
    }

    /// Runs until the outbox is stopped or all its handles are gone.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut taken = Vec::with_capacity(TAKEN);
        loop {
            let now = Instant::now();
            self.disk.ease(now);
            self.read_next();
            self.disk.turn(now);
            self.show();
            let is_through = self.disk.is_idle() && self.backlog.is_empty();
            if self.stop.as_ref().is_some_and(|stop| is_through || stop.deadline <= now) {
                break;
            }
            let deadline = self.stop.as_ref().map(|stop| stop.deadline);
            let wake = [deadline, self.disk.wake_at()].into_iter().flatten().min();
            let alarm = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                count = commands.recv_many(&mut taken, TAKEN) => {
                    if count == 0 {
                        // Nobody is left who could ask for more.
                        self.stop_by(now, None);
                    }
                    taken.drain(..).for_each(|command| self.take(command));
                }
                finished = self.disk.finished() => match finished {
                    Some(finished) => self.finished(finished),
                    None => return,
                },
                Some(done) = self.under_way.next(), if !self.under_way.is_empty() => {
                    self.done(done);
                    while let Some(Some(done)) = self.under_way.next().now_or_never() {
                        self.done(done);
                    }
                }
                () = alarm => {}
            }
        }
        self.wind_up(commands).await;
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Accept { kept, done } => match self.disk.error() {
                // The next turn shows whether the disk can be used again.
                Some(error) => refuse(&self.room, kept, done, OutboxReason::Store(Arc::clone(error))),
                None => {
                    let number = self.new_number();
                    self.disk.push(Step::Accept { number, kept, done });
                }
            },
            Command::List { after, limit, done } => {
                let numbers = self.parked.range(after.saturating_add(1)..).map(|(number, _)| *number);
                let numbers = numbers.take(limit).collect();
                self.disk.push(Step::List { numbers, done });
            }
            Command::Retry { number, done } => match self.parked.remove(&number) {
                Some(entry) => {
                    let entry = Entry { number: self.new_number(), parked: None, ..entry };
                    self.disk.push(Step::Retry { from: number, entry, done });
                }
                None => drop(done.send(false)),
            },
            Command::Discard { number, done } => match self.parked.remove(&number) {
                Some(entry) => self.disk.push(Step::Discard { entry, done }),
                None => drop(done.send(false)),
            },
            Command::Stop { deadline, done } => self.stop_by(deadline, Some(done)),
        }
    }

    fn stop_by(&mut self, deadline: Instant, done: Option<oneshot::Sender<OutboxStopped>>) {
        self.room.close(OutboxReason::Stopped);
        let sent_before = self.sent;
        let stop = self.stop.get_or_insert(Stop { deadline, sent_before, done: Vec::new() });
        stop.deadline = stop.deadline.min(deadline);
        stop.done.extend(done);
    }

    /// Lets the disk read the events that are to be sent next.
    fn read_next(&mut self) {
        while self.disk.error().is_none()
            && self.disk.queued() < READ
            && let Some(number) = self.backlog.next()
        {
            self.disk.push(Step::Read { number });
        }
    }

    fn finished(&mut self, finished: Finished) {
        let Turn { steps, failed } = self.disk.back(finished, Instant::now());
        match failed {
            Some(error) => self.failed(steps.into_iter().map(|(step, _)| step), &error),
            None => steps.into_iter().for_each(|(step, read)| self.made(step, read)),
        }
    }

    fn made(&mut self, step: Step, read: Vec<Option<Kept>>) {
        match step {
            Step::Accept { number, kept, done } => {
                self.room.saved(kept.bytes(), true);
                self.accepted += 1;
                self.backlog.add(&Entry::of(number, &kept));
                // A sender that no longer listens has an event that is sent.
                let _ = done.send(Ok(Accepted { message_id: kept.message_id }));
            }
            Step::Remove { number } => {
                self.backlog.settled(number).into_iter().for_each(|bytes| self.room.give_back(bytes));
            }
            Step::Park { parked } => {
                self.backlog.settled(parked.number);
                let kept = Kept {
                    message_id: parked.message_id.clone(),
                    event: parked.event.clone(),
                    accepted: parked.accepted,
                };
                let entry = Entry::of(parked.number, &kept);
                let entry = Entry { parked: Some(Arc::clone(&parked.reason)), ..entry };
                self.parked.insert(parked.number, entry);
                self.tell(OutboxOutcome::Parked(parked));
            }
            Step::Retry { entry, done, .. } => {
                self.backlog.add(&entry);
                let _ = done.send(true);
            }
            Step::Discard { entry, done } => {
                self.room.give_back(entry.bytes);
                let _ = done.send(true);
            }
            Step::List { numbers, done } => {
                let parked = numbers.into_iter().zip(read).filter_map(|(number, kept)| {
                    let reason = self.parked.get(&number)?.parked.clone()?;
                    let Kept { message_id, event, accepted } = kept?;
                    Some(Parked { number, message_id, event, accepted, reason })
                });
                let _ = done.send(Ok(parked.collect()));
            }
            Step::Read { number } => match read.into_iter().flatten().next() {
                Some(kept) => self.hand_on(number, kept),
                None => {
                    tracing::error!(number, "an event that was accepted is no longer in the outbox");
                    self.backlog.settled(number).into_iter().for_each(|bytes| self.room.give_back(bytes));
                }
            },
        }
    }

    /// What was not done is done later, except for what somebody can be told of.
    fn failed(&mut self, steps: impl Iterator<Item = Step>, error: &Arc<StoreError>) {
        let mut again = Vec::new();
        for step in steps {
            match step {
                Step::Accept { number, kept, done } => {
                    refuse(&self.room, kept, done, OutboxReason::Store(Arc::clone(error)));
                    again.push(Step::Remove { number });
                }
                Step::List { done, .. } => drop(done.send(Err(Arc::clone(error)))),
                step => again.push(step),
            }
        }
        // What came meanwhile would be the next to try the disk, for all others that come.
        for step in self.disk.drain() {
            match step {
                Step::Accept { kept, done, .. } => {
                    refuse(&self.room, kept, done, OutboxReason::Store(Arc::clone(error)));
                }
                step => again.push(step),
            }
        }
        self.disk.push_first(again);
    }

    fn hand_on(&mut self, number: u64, kept: Kept) {
        let Kept { message_id, event, accepted } = kept;
        let sending = self.producer.send(event);
        self.under_way
            .push(Box::pin(async move { Done { number, message_id, accepted, outcome: sending.await } }));
    }

    fn done(&mut self, done: Done) {
        let Done { number, message_id, accepted, outcome } = done;
        let error = match outcome {
            Ok(result) => {
                self.sent += 1;
                self.tell(OutboxOutcome::Sent { message_id, result });
                return self.disk.push(Step::Remove { number });
            }
            Err(error) => error,
        };
        match error.reason {
            SendReason::Refused(_) | SendReason::Invalid(_) => {
                let reason: Arc<str> = error.reason.to_string().into();
                tracing::error!(%message_id, %reason, "an event is parked in the outbox");
                let parked = Parked { number, message_id, event: error.event, accepted, reason };
                self.disk.push(Step::Park { parked });
            }
            // It stays on the disk.
            SendReason::Stopped(_) if self.stop.is_some() => {}
            reason => {
                tracing::error!(%reason, "the producer of an outbox gave an event back: the outbox ends");
                self.room.close(OutboxReason::Ended(reason.to_string().into()));
                self.stop_by(Instant::now(), None);
            }
        }
    }

    fn tell(&self, outcome: OutboxOutcome) {
        self.outcomes.iter().for_each(|recipient| recipient.do_send(outcome.clone()));
    }

    /// Ends the producer, notes what it has sent, and gives back what has not come to the disk.
    async fn wind_up(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        self.room.close(OutboxReason::Stopped);
        self.producer.stop(Duration::ZERO).await;
        while let Some(done) = self.under_way.next().await {
            self.done(done);
        }
        let until = Instant::now() + GRACE;
        self.disk.hurry(Instant::now());
        while !self.disk.is_idle() {
            self.disk.turn(Instant::now());
            match timeout_at(until, self.disk.finished()).await {
                Ok(Some(finished)) => self.finished(finished),
                _ => break,
            }
            if self.disk.error().is_some() {
                break;
            }
        }
        for step in self.disk.drain() {
            if let Step::Accept { kept, done, .. } = step {
                refuse(&self.room, kept, done, OutboxReason::Stopped);
            }
        }
        self.show();
        let (left, parked) = (self.backlog.len(), self.parked.len() as u64);
        commands.close();
        let mut waiting = self.stop.take();
        while let Ok(command) = commands.try_recv() {
            match command {
                Command::Accept { kept, done } => refuse(&self.room, kept, done, OutboxReason::Stopped),
                Command::Stop { done, .. } => waiting.as_mut().map_or((), |stop| stop.done.push(done)),
                _ => {}
            }
        }
        self.disk.close().await;
        if let Some(stop) = waiting {
            let stopped = OutboxStopped { sent: self.sent - stop.sent_before, left, parked };
            for done in stop.done {
                // Whoever asked may have gone.
                let _ = done.send(stopped);
            }
        }
    }

    fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn show(&self) {
        let status = OutboxStatus {
            accepted: self.accepted,
            sent: self.sent,
            waiting: self.backlog.len(),
            under_way: self.backlog.under_way(),
            parked: self.parked.len() as u64,
            disk_error: self.disk.error().map(ToString::to_string),
            ..OutboxStatus::default()
        };
        *self.board.lock().unwrap_or_else(PoisonError::into_inner) = (status, self.backlog.oldest());
    }
}

/// Gives an event back.
fn refuse(
    room: &Room,
    kept: Kept,
    done: oneshot::Sender<Result<Accepted, OutboxError>>,
    reason: OutboxReason,
) {
    room.saved(kept.bytes(), false);
    // A sender that no longer listens does not care.
    let _ = done.send(Err(OutboxError::new(kept.event, reason)));
}
