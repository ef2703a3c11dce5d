//! The end of an outbox.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::{Command, Keeper, refuse};
use crate::producer::outbox::disk::Step;
use crate::producer::outbox::error::OutboxReason;
use crate::producer::outbox::outcome::OutboxStopped;
use crate::producer::outbox::store::StoreError;

/// How long after the deadline of a stop the disk may take to note what was sent.
const GRACE: Duration = Duration::from_secs(5);

pub(super) struct Stop {
    pub(super) deadline: Instant,
    sent_before: u64,
    done: Vec<oneshot::Sender<OutboxStopped>>,
}

impl Keeper {
    pub(super) fn stop_by(&mut self, deadline: Instant, done: Option<oneshot::Sender<OutboxStopped>>) {
        self.room.close(OutboxReason::Stopped);
        let sent_before = self.sent;
        let stop = self.stop.get_or_insert(Stop { deadline, sent_before, done: Vec::new() });
        stop.deadline = stop.deadline.min(deadline);
        stop.done.extend(done);
    }

    /// Ends the producer, notes what it has sent, and gives back what has not come to the disk.
    pub(super) async fn wind_up(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
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
            if self.disk.cannot_write().is_some() {
                break;
            }
        }
        self.give_back();
        self.show();
        commands.close();
        let mut waiting = self.stop.take();
        // Until all that was handed over before the close is answered.
        while let Some(command) = commands.recv().await {
            match command {
                Command::Accept { kept, answers } => refuse(&self.room, kept, answers, OutboxReason::Stopped),
                Command::Stop { done, .. } => waiting.as_mut().map_or((), |stop| stop.done.push(done)),
                _ => {}
            }
        }
        if let Some(stop) = waiting {
            let stopped = OutboxStopped {
                sent: self.sent - stop.sent_before,
                left: self.backlog.len() + self.unnoted,
                parked: self.parked.len() as u64,
                unreadable: self.unreadable.len() as u64,
            };
            self.disk.close().await;
            for done in stop.done {
                // Whoever asked may have gone.
                let _ = done.send(stopped);
            }
        }
    }

    /// Gives back what has not come to the disk, and what may or may not have.
    fn give_back(&mut self) {
        let late = "it did not answer in time: the event may be kept, and sent by the next start";
        let late = Arc::new(StoreError::failed(Path::new("the store"), late));
        let (begun, waiting) = (self.disk.give_up(), self.disk.drain());
        let begun = begun.into_iter().map(|step| (step, OutboxReason::Store(Arc::clone(&late))));
        for (step, reason) in begun.chain(waiting.into_iter().map(|step| (step, OutboxReason::Stopped))) {
            if let Step::Accept { kept, answers, .. } = step {
                refuse(&self.room, kept, answers, reason);
            }
        }
    }
}
