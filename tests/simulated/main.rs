//! The whole library, actors included, on one thread under tokio's paused clock: hours pass in moments.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

mod bounds;
mod faults;
mod parting;
#[path = "../support/recorder.rs"]
mod recorder;
mod time;
mod world;

use std::time::Duration;

use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{EventProcessors, KinesisConsumer, Placement, World};

use recorder::Notes;
use world::STREAM;

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

/// Lets simulated time pass.
async fn pass(time: Duration) {
    tokio::time::advance(Duration::ZERO).await;
    tokio::time::timeout(time, std::future::pending::<()>()).await.unwrap_err();
}
