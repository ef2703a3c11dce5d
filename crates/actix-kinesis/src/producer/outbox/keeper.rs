//! The task of an outbox: between the senders, the disk and the producer.

mod end;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use actix::Recipient;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::backlog::Backlog;
use super::disk::{Disk, Ended, Finished, Look, Removal, Step};
use super::error::{OutboxError, OutboxReason};
use super::outcome::{Accepted, OutboxOutcome, OutboxStatus, OutboxStopped, Parked};
use super::room::Room;
use super::store::{Contents, Entry, Kept, Row, StoreError, Unreadable};
use crate::producer::{KinesisProducer, MessageId, Outcome, SendReason};
use end::Stop;

/// Commands that are taken up in one go.
const TAKEN: usize = 1_024;
/// Events that are read in one go.
const READ: usize = 1_000;

/// What the handles of an outbox ask of its task.
#[derive(Debug)]
pub(super) enum Command {
    Accept { kept: Kept, answers: Answers },
    List { after: u64, limit: usize, done: oneshot::Sender<Result<Vec<Parked>, Arc<StoreError>>> },
    Unreadable { after: u64, limit: usize, done: oneshot::Sender<Vec<Unreadable>> },
    Retry { number: u64, done: oneshot::Sender<bool> },
    Discard { number: u64, done: oneshot::Sender<bool> },
    Stop { deadline: Instant, done: oneshot::Sender<OutboxStopped> },
}

/// Who waits for what becomes of an event. What is dropped unanswered is kept if it was accepted.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) accepted: oneshot::Sender<Result<Accepted, OutboxError>>,
    pub(super) outcome: Option<oneshot::Sender<Outcome>>,
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
    unreadable: BTreeMap<u64, Unreadable>,
    /// Who waits for the outcomes of events, by their numbers.
    listeners: HashMap<u64, oneshot::Sender<Outcome>>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    next_number: u64,
    accepted: u64,
    sent: u64,
    /// Sent, and not yet taken out.
    unnoted: u64,
    stop: Option<Stop>,
}

impl Keeper {
    pub(super) fn new(
        producer: KinesisProducer,
        room: Arc<Room>,
        board: Board,
        outcomes: Option<Recipient<OutboxOutcome>>,
        disk: Disk,
        backlog: Backlog,
        Contents { entries, unreadable }: Contents,
    ) -> Self {
        let numbers =
            entries.last().map(|it| it.number).into_iter().chain(unreadable.last().map(|it| it.number));
        let mut keeper = Self {
            producer,
            room,
            board,
            outcomes,
            disk,
            backlog,
            parked: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            listeners: HashMap::new(),
            under_way: FuturesUnordered::new(),
            next_number: numbers.max().map_or(1, |last| last.saturating_add(1)),
            accepted: 0,
            sent: 0,
            unnoted: 0,
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
        for unreadable in unreadable {
            keeper.room.found(unreadable.bytes);
            keeper.set_aside(unreadable);
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
            Command::Accept { kept, answers } => match self.disk.cannot_write() {
                // The next turn shows whether the disk can be used again.
                Some(error) => refuse(&self.room, kept, answers, OutboxReason::Store(Arc::clone(error))),
                None => {
                    let number = self.new_number();
                    self.disk.push(Step::Accept { number, kept, answers });
                }
            },
            Command::List { after, limit, done } => {
                let numbers = self.parked.range(after.saturating_add(1)..).map(|(number, _)| *number);
                let numbers = numbers.take(limit).collect();
                self.disk.look(Look::List { numbers, done });
            }
            Command::Unreadable { after, limit, done } => {
                let unreadable = self.unreadable.range(after.saturating_add(1)..).map(|(_, it)| it.clone());
                let _ = done.send(unreadable.take(limit).collect());
            }
            Command::Retry { number, done } => match self.parked.remove(&number) {
                Some(entry) => {
                    let entry = Entry { number: self.new_number(), parked: None, ..entry };
                    self.disk.push(Step::Retry { from: number, entry, done });
                }
                None => drop(done.send(false)),
            },
            Command::Discard { number, done } => {
                let parked = self.parked.remove(&number).map(|it| it.bytes);
                match parked.or_else(|| self.unreadable.remove(&number).map(|it| it.bytes)) {
                    Some(bytes) => self.disk.push(Step::Discard { number, bytes, done }),
                    None => drop(done.send(false)),
                }
            }
            Command::Stop { deadline, done } => self.stop_by(deadline, Some(done)),
        }
    }

    /// Lets the disk read the events that are to be sent next.
    fn read_next(&mut self) {
        while self.disk.cannot_read().is_none()
            && self.disk.looks() < READ
            && let Some(number) = self.backlog.next()
        {
            self.disk.look(Look::Read { number });
        }
    }

    fn finished(&mut self, finished: Finished) {
        let Ended { steps, removals, written, looks } = self.disk.back(finished, Instant::now());
        match written {
            Ok(()) => {
                let made: Vec<_> = steps.into_iter().map(|step| self.made(step)).collect();
                for bytes in removals.into_iter().filter_map(|removal| removal.bytes) {
                    self.unnoted -= 1;
                    self.room.give_back(bytes);
                }
                // Whoever is told finds it in the status.
                self.show();
                made.into_iter().for_each(|step| self.answer(step));
            }
            Err(error) => self.unwritten(steps, removals, &error),
        }
        looks.into_iter().for_each(|(look, rows)| self.found(look, rows));
    }

    /// Counts what is on the disk now. Gives the step back, to be answered.
    fn made(&mut self, mut step: Step) -> Step {
        match &mut step {
            Step::Accept { number, kept, answers } => {
                self.room.saved(kept.bytes(), true);
                self.accepted += 1;
                self.backlog.add(&Entry::of(*number, kept));
                answers.outcome.take().map(|listener| self.listeners.insert(*number, listener));
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
            }
            Step::Retry { entry, .. } => self.backlog.add(entry),
            Step::Discard { bytes, .. } => self.room.give_back(*bytes),
        }
        step
    }

    fn answer(&self, step: Step) {
        match step {
            // A sender that no longer listens has an event that is sent.
            Step::Accept { kept, answers, .. } => {
                let _ = answers.accepted.send(Ok(Accepted { message_id: kept.message_id }));
            }
            Step::Park { parked } => self.tell(OutboxOutcome::Parked(parked)),
            Step::Retry { done, .. } | Step::Discard { done, .. } => drop(done.send(true)),
        }
    }

    /// What could not be written is written later, except for what somebody can be told of.
    fn unwritten(&mut self, steps: Vec<Step>, mut removals: Vec<Removal>, error: &Arc<StoreError>) {
        let mut again = Vec::new();
        let reason = || OutboxReason::Store(Arc::clone(error));
        for step in steps {
            match step {
                Step::Accept { number, kept, answers } => {
                    refuse(&self.room, kept, answers, reason());
                    removals.push(Removal { number, bytes: None });
                }
                step => again.push(step),
            }
        }
        // What came meanwhile would be the next to try the disk, for all others that come.
        for step in self.disk.drain() {
            match step {
                Step::Accept { kept, answers, .. } => refuse(&self.room, kept, answers, reason()),
                step => again.push(step),
            }
        }
        self.disk.again(again, removals);
    }

    fn found(&mut self, look: Look, rows: Vec<Row>) {
        match look {
            Look::Read { number } => {
                let problem = match rows.into_iter().next() {
                    Some(Row::Kept(kept)) => return self.hand_on(number, kept),
                    Some(Row::Unreadable(problem)) => problem,
                    Some(Row::Missing) | None => format!("row {number} is missing").into(),
                };
                let bytes = self.backlog.settled(number).unwrap_or_default();
                self.set_aside(Unreadable { number, bytes, problem });
            }
            Look::List { numbers, done } => {
                let mut parked = Vec::new();
                for (number, row) in numbers.into_iter().zip(rows) {
                    let Some(entry) = self.parked.get(&number) else { continue };
                    match row {
                        Row::Kept(Kept { message_id, event, accepted }) => {
                            let reason = entry.parked.clone().unwrap_or_default();
                            parked.push(Parked { number, message_id, event, accepted, reason });
                        }
                        Row::Unreadable(problem) => {
                            let bytes = entry.bytes;
                            self.parked.remove(&number);
                            self.set_aside(Unreadable { number, bytes, problem });
                        }
                        Row::Missing => {}
                    }
                }
                let _ = done.send(Ok(parked));
            }
        }
    }

    /// Nobody can send it: those behind it go on.
    fn set_aside(&mut self, unreadable: Unreadable) {
        let Unreadable { number, problem, .. } = &unreadable;
        tracing::error!(number, %problem, "an event that was accepted cannot be read; it stays in the outbox");
        self.tell(OutboxOutcome::Unreadable(unreadable.clone()));
        self.listeners.remove(&unreadable.number);
        self.unreadable.insert(unreadable.number, unreadable);
    }

    fn hand_on(&mut self, number: u64, kept: Kept) {
        let Kept { message_id, event, accepted } = kept;
        let sending = self.producer.send(event);
        self.under_way
            .push(Box::pin(async move { Done { number, message_id, accepted, outcome: sending.await } }));
    }

    fn done(&mut self, done: Done) {
        let Done { number, message_id, accepted, outcome } = done;
        let is_last = outcome.as_ref().err().is_none_or(|error| is_refused(&error.reason));
        if is_last && let Some(listener) = self.listeners.remove(&number) {
            // It may listen no longer.
            let _ = listener.send(outcome.clone());
        }
        let error = match outcome {
            Ok(result) => {
                self.sent += 1;
                self.tell(OutboxOutcome::Sent { message_id, result });
                // It makes room for others at once: that it is sent may be noted much later, on a disk that fails.
                let bytes = self.backlog.settled(number);
                self.unnoted += u64::from(bytes.is_some());
                return self.disk.remove(Removal { number, bytes });
            }
            Err(error) => error,
        };
        match &error.reason {
            reason if is_refused(reason) => {
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

    fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn show(&self) {
        let status = OutboxStatus {
            accepted: self.accepted,
            sent: self.sent,
            waiting: self.backlog.len() + self.unnoted,
            under_way: self.backlog.under_way(),
            unnoted: self.unnoted,
            parked: self.parked.len() as u64,
            unreadable: self.unreadable.len() as u64,
            disk_error: self.disk.cannot_write().or(self.disk.cannot_read()).map(ToString::to_string),
            ..OutboxStatus::default()
        };
        *self.board.lock().unwrap_or_else(PoisonError::into_inner) = (status, self.backlog.oldest());
    }
}

/// Whether the event itself is the cause, so that it is of no use to try again.
fn is_refused(reason: &SendReason) -> bool {
    matches!(reason, SendReason::Refused(_) | SendReason::Invalid(_))
}

/// Gives an event back.
fn refuse(room: &Room, kept: Kept, answers: Answers, reason: OutboxReason) {
    room.saved(kept.bytes(), false);
    // A sender that no longer listens does not care.
    let _ = answers.accepted.send(Err(OutboxError::new(kept.event, reason)));
}
