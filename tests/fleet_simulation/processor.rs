//! The event processors of a process, good and bad.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Context, Handler, ResponseFuture};
use actix_kinesis::consumer::{
    ConsumerShutdown, ConsumerWorkerFailure, EventHandle, EventProcessed, ProcessEvent,
};
use tokio::time::{Instant, sleep};

use crate::schedule::{Temper, within};

/// A time in which one event in so many is processed badly.
#[derive(Debug)]
struct Mood {
    until: Instant,
    temper: Temper,
    one_in: u32,
    chance: fastrand::Rng,
}

/// How the events of a process are processed.
#[derive(Debug, Clone)]
pub(crate) struct Moods(Arc<Mutex<(Vec<Mood>, fastrand::Rng)>>);

impl Moods {
    pub(crate) fn new(chance: fastrand::Rng) -> Self {
        Self(Arc::new(Mutex::new((Vec::new(), chance))))
    }

    pub(crate) fn begin(&self, time: Duration, temper: Temper, one_in: u32, chance: fastrand::Rng) {
        self.0.lock().unwrap().0.push(Mood { until: Instant::now() + time, temper, one_in, chance });
    }

    pub(crate) fn end(&self) {
        self.0.lock().unwrap().0.clear();
    }

    fn temper(&self) -> Option<Temper> {
        let (moods, _) = &mut *self.0.lock().unwrap();
        moods.retain(|mood| mood.until > Instant::now());
        moods.iter_mut().find_map(|mood| (mood.chance.u32(0..mood.one_in) == 0).then_some(mood.temper))
    }

    fn some_time(&self, below: Duration) -> Duration {
        within(&mut self.0.lock().unwrap().1, below)
    }
}

/// The processor of one shard.
pub(crate) struct Clerk {
    moods: Moods,
    /// What is never answered.
    stuck: Vec<EventHandle>,
}

impl Clerk {
    pub(crate) fn new(moods: Moods) -> Self {
        Self { moods, stuck: Vec::new() }
    }
}

impl Actor for Clerk {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Clerk {
    type Result = ResponseFuture<EventProcessed>;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        let quick = self.moods.some_time(Duration::from_millis(30));
        let long = self.moods.some_time(Duration::from_millis(2_500));
        let after = |time: Duration, answer: EventProcessed| -> ResponseFuture<EventProcessed> {
            Box::pin(async move {
                sleep(time).await;
                answer
            })
        };
        let through = |handle: EventHandle, time: Duration, answer: EventProcessed| {
            actix::spawn(async move {
                sleep(time).await;
                handle.answer(answer);
            });
        };
        let later = || after(Duration::ZERO, EventProcessed::Later);
        match self.moods.temper() {
            None if quick.is_zero() => after(quick, EventProcessed::Skipped),
            None => after(quick, EventProcessed::Processed),
            Some(Temper::Slow) => after(long, EventProcessed::Processed),
            Some(Temper::Stuck) => {
                self.stuck.push(message.answer_later());
                later()
            }
            Some(Temper::Failing) => after(quick, EventProcessed::failed("as planned")),
            Some(Temper::Panicking) => panic!("{}", crate::PLANNED_PANIC),
            Some(Temper::Late) => {
                through(message.answer_later(), long, EventProcessed::Processed);
                later()
            }
            Some(Temper::Twice) => {
                through(message.answer_later(), quick, EventProcessed::failed("as planned"));
                through(message.answer_later(), long, EventProcessed::Processed);
                later()
            }
            Some(Temper::Dropping) => {
                drop(message.answer_later());
                later()
            }
        }
    }
}

impl Handler<ConsumerWorkerFailure> for Clerk {
    type Result = ();

    fn handle(&mut self, _: ConsumerWorkerFailure, _: &mut Self::Context) {}
}

impl Handler<ConsumerShutdown> for Clerk {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}
