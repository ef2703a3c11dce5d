//! A processor that notes what it gets.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Context, Handler};
use actix_kinesis::consumer::{
    ConsumerNotice, ConsumerShutdown, ConsumerWorkerFailure, EventHandle, EventProcessed, ProcessEvent,
};
use tokio::sync::watch;

/// A delivery as a processor noted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) shard: String,
    pub(crate) sequence: String,
    pub(crate) sub_sequence: i64,
    pub(crate) key: String,
    pub(crate) payload: String,
    pub(crate) attempt: u32,
}

/// What processors and notices have told.
#[derive(Debug, Default, Clone)]
pub(crate) struct Noted {
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) failures: Vec<ConsumerWorkerFailure>,
    pub(crate) shutdowns: Vec<ConsumerShutdown>,
    pub(crate) notices: Vec<ConsumerNotice>,
}

impl Noted {
    pub(crate) fn payloads(&self) -> Vec<&str> {
        self.deliveries.iter().map(|delivery| delivery.payload.as_str()).collect()
    }

    /// The first deliveries of each key, in order.
    pub(crate) fn first_by_key(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut seen = HashSet::new();
        let mut by_key: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for delivery in &self.deliveries {
            let position = (&delivery.shard, &delivery.sequence, delivery.sub_sequence);
            if seen.insert(position) {
                by_key.entry(&delivery.key).or_default().push(&delivery.payload);
            }
        }
        by_key
    }
}

/// Where processors note what they get, and tests wait for it.
#[derive(Debug, Clone)]
pub(crate) struct Notes {
    noted: Arc<watch::Sender<Noted>>,
    patience: Duration,
}

impl Notes {
    /// Nothing is waited for longer than `patience`.
    pub(crate) fn waiting(patience: Duration) -> Self {
        Self { noted: Arc::new(watch::channel(Noted::default()).0), patience }
    }

    pub(crate) fn note(&self, note: impl FnOnce(&mut Noted)) {
        self.noted.send_modify(note);
    }

    /// Waits until what is noted is as wanted.
    pub(crate) async fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Noted) -> bool) -> Noted {
        let mut noted = self.noted.subscribe();
        let found = tokio::time::timeout(self.patience, noted.wait_for(|noted| is_so(noted))).await;
        match found {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!("waited in vain for {what}; deliveries: {}", self.now().deliveries.len()),
        }
    }

    pub(crate) fn now(&self) -> Noted {
        self.noted.borrow().clone()
    }
}

/// The handles of events that are not answered yet.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Vec<EventHandle>>>);

impl Held {
    /// Keeps the event's handle.
    pub(crate) fn hold(&self, message: &ProcessEvent) -> EventProcessed {
        self.0.lock().unwrap().push(message.answer_later());
        EventProcessed::Later
    }

    /// The handles kept since the last time.
    pub(crate) fn take(&self) -> Vec<EventHandle> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

type Answer = dyn Fn(&ProcessEvent) -> EventProcessed + Send + Sync;

/// A processor that notes what it gets and answers as it is told.
#[derive(Clone)]
pub(crate) struct Recorder {
    notes: Notes,
    answer: Arc<Answer>,
}

impl Recorder {
    pub(crate) fn new(notes: &Notes) -> Self {
        Self::answering(notes, |_| EventProcessed::Processed)
    }

    pub(crate) fn answering(
        notes: &Notes,
        answer: impl Fn(&ProcessEvent) -> EventProcessed + Send + Sync + 'static,
    ) -> Self {
        Self { notes: notes.clone(), answer: Arc::new(answer) }
    }

    /// Leaves every event to be answered through its handle.
    pub(crate) fn holding(notes: &Notes) -> (Self, Held) {
        let held = Held::default();
        let recorder = Self::answering(notes, {
            let held = held.clone();
            move |message| held.hold(message)
        });
        (recorder, held)
    }

    pub(crate) fn note(&self, message: &ProcessEvent) {
        let event = &message.event;
        let delivery = Delivery {
            shard: event.shard().to_string(),
            sequence: event.position().sequence.to_string(),
            sub_sequence: event.position().sub_sequence,
            key: event.partition_key().unwrap_or_default().to_owned(),
            payload: String::from_utf8_lossy(event.payload()).into_owned(),
            attempt: message.attempt,
        };
        self.notes.note(|noted| noted.deliveries.push(delivery));
    }
}

impl Actor for Recorder {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Recorder {
    type Result = EventProcessed;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        self.note(&message);
        (self.answer)(&message)
    }
}

impl Handler<ConsumerWorkerFailure> for Recorder {
    type Result = ();

    fn handle(&mut self, failure: ConsumerWorkerFailure, _: &mut Self::Context) {
        self.notes.note(|noted| noted.failures.push(failure));
    }
}

impl Handler<ConsumerShutdown> for Recorder {
    type Result = ();

    fn handle(&mut self, shutdown: ConsumerShutdown, _: &mut Self::Context) {
        self.notes.note(|noted| noted.shutdowns.push(shutdown));
    }
}

impl Handler<ConsumerNotice> for Recorder {
    type Result = ();

    fn handle(&mut self, notice: ConsumerNotice, _: &mut Self::Context) {
        self.notes.note(|noted| noted.notices.push(notice));
    }
}
