//! The outbox of a producer: sends that survive a crash.
//!
//! An event that is handed to an [`Outbox`] is *accepted* when it is on the disk. From then on it is sent in the
//! background, for as long as it takes, and taken out when its stream has acknowledged it. It needs the feature `outbox`
//! and a directory, `outbox.path` in the producer's settings:
//!
//! ```no_run
//! use actix_kinesis::config::KinesisConfig;
//! use actix_kinesis::producer::ProducerEvent;
//! use actix_kinesis::producer::outbox::Outbox;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = KinesisConfig::load("application.conf")?;
//! let outbox = Outbox::open(config.producer("orders")?).await?;
//! outbox.send(ProducerEvent::new("customer-7", "order 1")).await?;
//! println!("order 1 will be sent, whatever happens to this process");
//! outbox.stop(std::time::Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//! - **Nothing accepted is lost** when the process is killed or the power fails, at any moment: an acceptance follows an
//!   fsync, and an event is taken out only after the service has acknowledged it. Many events that wait at once share
//!   an fsync. A disk that loses what it has confirmed breaks the promise.
//! - **At least once.** An event is stored twice if the reply of the service was lost, or if the process ended after
//!   the acknowledgement and before that was noted on the disk.
//! - **Order.** The events of a partition key reach their stream in the order in which they were handed over, across
//!   restarts too: they are read from the disk in this order, and go through a producer with
//!   `ordering = partition-key`, which has one Kinesis record of a key under way and never gives one up for a later one.
//!   That is the order in which each is stored for the first time; a copy may come behind later ones: `1 2 1 3`. A
//!   parked event is the exception: those behind it go on, and when it is sent after all it goes behind them.
//! - **Its stream** is settled by its name when an event is accepted. Another `stream-name` at a later start is for later
//!   events: those of before still go to the former stream, beside the others. A stream that is deleted and created again
//!   under its name gets what was not yet sent. One that does not come again keeps its events waiting for ever.
//! - **For ever.** While a stream cannot be reached, throttles, does not exist, or lacks a permission or a key, its
//!   events wait and are tried again with the pauses of `retry-backoff`; nothing else is held up. `record-ttl`,
//!   `fail-if-throttled` and `ordering` have no effect on an outbox.
//! - **Parked.** An event that the service refuses for what it is, such as one that is larger than the stream allows, is
//!   kept aside: counted, logged, and told to the recipient of [`OutboxBuilder::outcomes`]. [`Outbox::parked`] shows
//!   it, [`Outbox::retry`] sends it again under a new number, [`Outbox::discard`] takes it out.
//! - **Unreadable.** An event that cannot be read from the disk stays there as it is: counted, logged with its number, its
//!   file and the cause, and told in the same way. Those behind it go on. [`Outbox::unreadable`] shows it,
//!   [`Outbox::discard`] takes it out, and each start tries again.
//! - **Bounds.** `outbox.max-events` and `outbox.max-bytes` bound what is kept, parked and unreadable events included. Beyond
//!   them, and when more than `max-outstanding-requests` or `max-outstanding-bytes` wait for the disk, events are refused as
//!   [`OutboxReason::Full`], or wait with [`Outbox::send_timeout`]. In memory are the events that are on their way to
//!   the disk or to the service, and of each that waits its number, size and time, by partition key.
//! - **Refused is refused.** An invalid event, or one that the disk does not take, comes back whole with its
//!   [`OutboxError`] and is not sent, unless the process ends before the disk is usable again: whether the disk had it
//!   cannot be told then.
//!
//! # The disk
//! - **Full, read-only or failing**: events are refused with [`OutboxReason::Store`], and the disk is tried again after a
//!   pause of 100 ms to 5 s. What was accepted before is sent meanwhile, as long as it can be read. It keeps its place until
//!   that can be noted, and is sent again if the process ends before: [`OutboxStatus::unnoted`] counts it. A directory that
//!   cannot be written to at the start is an error of [`Outbox::open`].
//!   Taking events out needs free space, too: an outbox that has filled its own disk takes none out until there is some, and
//!   sends everything again at each start. Keep `outbox.max-bytes` well below what the disk has.
//! - **Damaged**: each event has a checksum, which is looked at whenever it is read. A file that is cut short, or not what
//!   was written, is an error that names it, at the start or when the damage is met. Nothing is repaired by guessing.
//! - **Time to open**: after a clean end a few milliseconds, and a look at the entry of each event. After a kill, a power
//!   cut or a failure to write, the checksums of all that is kept are checked, which reads it once: some one or two seconds
//!   for a GiB that the system has in memory, or as long as the disk takes to read it.
//! - **In use**: a second outbox in the same directory is refused, in the same process or another.
//! - The file grows to what was once kept, and keeps its size when the events are gone: the room is used again. With
//!   events of 100 to 20,000 bytes it took some half again as much as is counted of them, and grew no further when it
//!   was emptied and filled again.
//!
//! # The end
//! [`Outbox::stop`] takes no more events and sends what it can until the deadline. The rest stays on the disk for the
//! next start, and is counted in its answer. When all handles are dropped, the outbox ends as by a stop without time.
//!
//! | file | holds |
//! |---|---|
//! | `outcome`, `error` | what an application is told |
//! | `actor` | [`OutboxActor`] |
//! | `builder` | [`OutboxBuilder`] |
//! | `room` | how much is kept |
//! | `keeper` | the task between the senders, the disk and the producer, and its end |
//! | `backlog` | which events are sent next |
//! | `disk` | the store behind a queue, on threads for blocking work |
//! | `store`, `file`, `row` | [`OutboxStore`], and the one in a directory |

mod actor;
mod backlog;
mod builder;
mod disk;
mod error;
mod file;
mod keeper;
mod outcome;
mod room;
mod row;
mod store;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::{InvalidEvent, MessageId, Outcome, ProducerEvent, SendError, SendReason, far_away};
use crate::config::ProducerConf;
use keeper::{Answers, Board, Command};
use room::Room;

pub use actor::{OutboxActor, SendDurably, StopOutbox};
pub use builder::OutboxBuilder;
pub use error::{OutboxError, OutboxOpenError, OutboxReason};
pub use file::FileStore;
pub use outcome::{Accepted, OutboxOutcome, OutboxStatus, OutboxStopped, Parked};
pub use store::{Change, Contents, Entry, Kept, OutboxStore, Row, StoreError, Unreadable};

/// Keeps events on the disk until they are sent; see the [module](self). Cloning gives another handle of the same outbox.
#[derive(Debug, Clone)]
pub struct Outbox {
    commands: mpsc::UnboundedSender<Command>,
    room: Arc<Room>,
    board: Board,
    conf: Arc<ProducerConf>,
}

impl Outbox {
    /// Opens the outbox in the directory `outbox.path` and begins to send what is in it.
    ///
    /// # Errors
    /// When the directory is in use, damaged or cannot be written to, or its producer cannot be started.
    pub async fn open(conf: ProducerConf) -> Result<Self, OutboxOpenError> {
        Self::builder(conf).open().await
    }

    /// Opens an outbox with more said about it.
    pub fn builder(conf: ProducerConf) -> OutboxBuilder {
        OutboxBuilder::new(conf)
    }

    /// Accepts an event. It takes its place behind the events that were handed over before by the time that this returns;
    /// the future resolves when it is on the disk. Dropping the future does not take it back.
    ///
    /// # Errors
    /// With the event: it is [invalid](OutboxReason::Invalid), there is no [room](OutboxReason::Full), the
    /// [disk](OutboxReason::Store) does not take it, or the outbox does not run.
    pub fn send(
        &self,
        event: ProducerEvent,
    ) -> impl Future<Output = Result<Accepted, OutboxError>> + Send + use<> {
        self.send_with_id(event, MessageId::random())
    }

    /// As [`send`](Self::send), with an id of the sender's choice for its outcome.
    pub fn send_with_id(
        &self,
        event: ProducerEvent,
        message_id: MessageId,
    ) -> impl Future<Output = Result<Accepted, OutboxError>> + Send + use<> {
        self.submit(event, message_id, None)
    }

    /// As [`send_with_id`](Self::send_with_id), and resolves with what became of it, as a producer does.
    fn deliver(
        &self,
        event: ProducerEvent,
        message_id: MessageId,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let (listener, outcome) = oneshot::channel();
        let whole = event.clone();
        let accepting = self.submit(event, message_id, Some(listener));
        async move {
            if let Err(OutboxError { event, reason }) = accepting.await {
                return Err(SendError::new(event, reason.into()));
            }
            match outcome.await {
                Ok(outcome) => outcome.map_err(|error| SendError { event: whole, ..error }),
                Err(_) => Err(SendError::new(whole, SendReason::Kept)),
            }
        }
    }

    fn submit(
        &self,
        event: ProducerEvent,
        message_id: MessageId,
        outcome: Option<oneshot::Sender<Outcome>>,
    ) -> impl Future<Output = Result<Accepted, OutboxError>> + Send + use<> {
        let kept = self.kept(&event, message_id);
        let taken = self.check(&kept).and_then(|()| self.room.take(kept.bytes()));
        let handed_over = match taken {
            Ok(()) => Ok(self.hand_over(kept, event, outcome)),
            Err(reason) => Err(OutboxError::new(event, reason)),
        };
        async move { handed_over?.await }
    }

    /// As [`send_with_id`](Self::send_with_id), waiting at most `wait` for room. It takes its place when there is room.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`OutboxReason::Full`] if no room came in time.
    pub async fn send_timeout(
        &self,
        event: ProducerEvent,
        message_id: MessageId,
        wait: Duration,
    ) -> Result<Accepted, OutboxError> {
        let kept = self.kept(&event, message_id);
        if let Err(reason) = self.check(&kept) {
            return Err(OutboxError::new(event, reason));
        }
        let deadline = Instant::now().checked_add(wait).unwrap_or_else(far_away);
        loop {
            let mut freed = pin!(self.room.freed());
            freed.as_mut().enable();
            match self.room.take(kept.bytes()) {
                Ok(()) => return self.hand_over(kept, event, None).await,
                Err(OutboxReason::Full) if timeout_at(deadline, freed).await.is_ok() => {}
                Err(reason) => return Err(OutboxError::new(event, reason)),
            }
        }
    }

    /// The first `limit` parked events whose numbers are above `after`, which is 0 for all.
    ///
    /// # Errors
    /// When the disk cannot be read, or the outbox does not run.
    pub async fn parked(&self, after: u64, limit: usize) -> Result<Vec<Parked>, OutboxReason> {
        let (done, parked) = oneshot::channel();
        self.command(Command::List { after, limit, done });
        parked.await.map_err(|_| self.reason())?.map_err(OutboxReason::Store)
    }

    /// Sends a parked event after all, under a new number and behind all others of its key. False if none is parked under this
    /// number.
    ///
    /// # Errors
    /// When the outbox does not run.
    pub async fn retry(&self, number: u64) -> Result<bool, OutboxReason> {
        let (done, retried) = oneshot::channel();
        self.command(Command::Retry { number, done });
        retried.await.map_err(|_| self.reason())
    }

    /// The first `limit` events that cannot be read whose numbers are above `after`, which is 0 for all.
    ///
    /// # Errors
    /// When the outbox does not run.
    pub async fn unreadable(&self, after: u64, limit: usize) -> Result<Vec<Unreadable>, OutboxReason> {
        let (done, unreadable) = oneshot::channel();
        self.command(Command::Unreadable { after, limit, done });
        unreadable.await.map_err(|_| self.reason())
    }

    /// Takes out an event that is parked or cannot be read. It is lost then. False if there is none under this number.
    ///
    /// # Errors
    /// When the outbox does not run.
    pub async fn discard(&self, number: u64) -> Result<bool, OutboxReason> {
        let (done, discarded) = oneshot::channel();
        self.command(Command::Discard { number, done });
        discarded.await.map_err(|_| self.reason())
    }

    /// How it is doing. An event counts before its sender is told that it is accepted.
    pub fn status(&self) -> OutboxStatus {
        let (status, oldest) = self.board.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let age = |since: SystemTime| since.elapsed().unwrap_or_default();
        OutboxStatus { bytes: self.room.kept().bytes, oldest: oldest.map(age), ..status }
    }

    /// Stops for all handles: takes no more events, sends what it can until the deadline, and leaves the rest on the
    /// disk. Noting there what was sent may take some seconds more if the disk is slow. A stop of an outbox that has
    /// ended resolves at once, with nothing.
    pub async fn stop(&self, within: Duration) -> OutboxStopped {
        self.room.close(OutboxReason::Stopped);
        let deadline = Instant::now().checked_add(within).unwrap_or_else(far_away);
        let (done, stopped) = oneshot::channel();
        self.command(Command::Stop { deadline, done });
        stopped.await.unwrap_or_default()
    }

    /// Resolves when the disk keeps up: at once, but for the time that many events wait for it.
    async fn eased(&self) {
        loop {
            let mut freed = pin!(self.room.freed());
            freed.as_mut().enable();
            if !self.is_behind() {
                return;
            }
            freed.await;
        }
    }

    fn is_behind(&self) -> bool {
        self.room.is_behind(self.conf.max_record_size)
    }

    /// What is kept of an event: with the name of its stream, for that of the configuration may be another at the next
    /// start.
    fn kept(&self, event: &ProducerEvent, message_id: MessageId) -> Kept {
        let mut event = event.clone();
        event.stream.get_or_insert_with(|| self.conf.stream_name.as_str().into());
        Kept { message_id, event, accepted: SystemTime::now() }
    }

    fn check(&self, kept: &Kept) -> Result<(), OutboxReason> {
        let (bytes, max) = (kept.bytes(), self.conf.outbox.max_bytes);
        let checked = match kept.event.check(self.conf.max_record_size) {
            Ok(()) if bytes > max => Err(InvalidEvent::TooLargeToKeep { bytes, max }),
            checked => checked,
        };
        checked.map_err(|invalid| OutboxReason::Invalid(Arc::new(invalid)))
    }

    /// Hands over an event that has room. As `event` it comes back.
    fn hand_over(
        &self,
        kept: Kept,
        event: ProducerEvent,
        outcome: Option<oneshot::Sender<Outcome>>,
    ) -> impl Future<Output = Result<Accepted, OutboxError>> + Send + use<> {
        let room = Arc::clone(&self.room);
        let (done, accepted) = oneshot::channel();
        self.command(Command::Accept { kept, answers: Answers { accepted: done, outcome } });
        async move {
            match accepted.await {
                Ok(accepted) => accepted.map_err(|error| OutboxError::new(event, error.reason)),
                // The runtime of the outbox shuts down.
                Err(_) => Err(OutboxError::new(event, room.closed().unwrap_or(OutboxReason::Stopped))),
            }
        }
    }

    fn command(&self, command: Command) {
        // Without the task, what is to answer is dropped, which tells as much.
        let _ = self.commands.send(command);
    }

    fn reason(&self) -> OutboxReason {
        self.room.closed().unwrap_or(OutboxReason::Stopped)
    }
}
