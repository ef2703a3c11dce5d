//! The whole library, actors included, on one thread under tokio's paused clock: hours pass in moments.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

mod answers;
mod bounds;
mod concurrency;
mod faults;
mod fleet;
mod journal;
#[path = "../support/logs.rs"]
mod logs;
mod operations;
mod panics;
mod parting;
mod pipelines;
mod positions;
#[path = "../support/recorder.rs"]
mod recorder;
mod reshard;
mod rows;
mod status;
mod storms;
mod streams;
mod time;
#[allow(dead_code, unused_imports, reason = "each of the tests uses a part of it")]
#[path = "../support/world/mod.rs"]
mod world;

use std::time::Duration;

use actix::Actor;
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{EventProcessors, KinesisConsumer, Placement, World};

use recorder::{Notes, Recorder};
use world::STREAM;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn new_notes() -> Notes {
    Notes::waiting(24 * HOUR)
}

/// The defaults of the library, on a simulated stream.
fn conf() -> ConsumerConf {
    ConsumerConf::new("test", STREAM)
}

fn start(conf: ConsumerConf, world: World, processors: impl Into<EventProcessors>) -> KinesisConsumer {
    KinesisConsumer::builder(conf, processors)
        .world(world)
        .placement(Placement::CurrentThread)
        .seed(1)
        .start()
        .unwrap()
}

/// A consumer whose processor also notes what happens to it.
fn start_noting(conf: ConsumerConf, world: World, recorder: Recorder) -> KinesisConsumer {
    let recorder = recorder.start();
    KinesisConsumer::builder(conf, recorder.clone())
        .notices(recorder.recipient())
        .world(world)
        .placement(Placement::CurrentThread)
        .seed(1)
        .start()
        .unwrap()
}

/// Lets simulated time pass.
async fn pass(time: Duration) {
    tokio::time::advance(Duration::ZERO).await;
    tokio::time::timeout(time, std::future::pending::<()>()).await.unwrap_err();
}
