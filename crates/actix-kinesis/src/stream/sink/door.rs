//! When a producer has room for one more element.

use std::fmt;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::producer::{KinesisProducer, ProducerEvent};

/// Elements that wait for their outcome, and their payloads and partition keys in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) events: u64,
    pub(super) bytes: u64,
}

impl Load {
    pub(super) fn of(event: &ProducerEvent) -> Self {
        Self { events: 1, bytes: event.size() as u64 }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.events += other.events;
        self.bytes += other.bytes;
    }

    pub(super) fn remove(&mut self, other: Self) {
        self.events = self.events.saturating_sub(other.events);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// The door of a producer, as one of its senders stands before it.
pub(super) struct Door {
    producer: KinesisProducer,
    room: Option<BoxFuture<'static, ()>>,
}

impl Door {
    pub(super) fn new(producer: KinesisProducer) -> Self {
        Self { producer, room: None }
    }

    pub(super) fn producer(&self) -> &KinesisProducer {
        &self.producer
    }

    /// Whether a sender with so much under way may send one more. Whoever asks has to ask again when that has become
    /// less.
    pub(super) fn poll_open(&mut self, own: Load, context: &mut Context<'_>) -> Poll<()> {
        // Who waits for room is given none to keep, and may find it taken each time: one event always stands in the line itself.
        if own.events == 0 {
            self.room = None;
            return Poll::Ready(());
        }
        // Elements that pause before they are sent again have no room of the producer.
        let conf = self.producer.conf();
        if own.events >= conf.max_outstanding_requests || own.bytes >= conf.max_outstanding_bytes {
            return Poll::Pending;
        }
        if self.room.is_none() && self.producer.room().now_or_never().is_some() {
            return Poll::Ready(());
        }
        let producer = &self.producer;
        let room = self.room.get_or_insert_with(|| {
            let producer = producer.clone();
            async move { producer.room().await }.boxed()
        });
        ready!(room.poll_unpin(context));
        self.room = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("waits_for_room", &self.room.is_some()).finish_non_exhaustive()
    }
}
