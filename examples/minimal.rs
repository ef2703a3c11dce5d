//! What an application needs: an event processor, settings, and the start. Beside it, `kinesis-local` as it says itself:
//!
//! ```sh
//! cargo run -p kinesis-local -- --kinesis-port 4567 --dynamodb-port 8000 --stream flights:4
//! export AWS_ENDPOINT_URL_KINESIS=...        # the line that it prints
//! cargo run --example minimal
//! ```

use std::error::Error;

use actix::{Actor, Context, Handler};
use actix_kinesis::config::KinesisConfig;
use actix_kinesis::consumer::{
    ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, KinesisConsumer, ProcessEvent,
};

struct Flights;

impl Actor for Flights {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Flights {
    type Result = EventProcessed; // or a future of it: ResponseFuture<EventProcessed>

    fn handle(&mut self, ProcessEvent { event, .. }: ProcessEvent, _: &mut Self::Context) -> EventProcessed {
        println!("{} {:?}: {} bytes", event.shard(), event.partition_key(), event.payload().len());
        EventProcessed::Processed
    }
}

impl Handler<ConsumerWorkerFailure> for Flights {
    type Result = ();

    fn handle(&mut self, failure: ConsumerWorkerFailure, _: &mut Self::Context) {
        eprintln!("{}: {}, so {:?}", failure.shard, failure.cause, failure.decision);
    }
}

impl Handler<ConsumerShutdown> for Flights {
    type Result = ();

    fn handle(&mut self, ConsumerShutdown { shard, reason }: ConsumerShutdown, _: &mut Self::Context) {
        println!("{shard}: {reason}");
    }
}

#[actix::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    // In an application: KinesisConfig::load("application.conf")?
    let config: KinesisConfig = "kinesis { application-name = minimal, flights { stream-name = flights, \
                                 worker.graceful-shutdown-hook = true } }"
        .parse()?;
    let consumer = KinesisConsumer::start(config.consumer("flights")?, Flights.start())?;
    let stopped = consumer.finished().await?; // by ctrl-c or SIGTERM, or with an error
    if stopped.is_clean() { Ok(()) } else { Err(format!("not a clean stop: {stopped:?}").into()) }
}
