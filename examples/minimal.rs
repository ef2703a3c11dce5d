//! What an application needs: an event processor, settings, and the start. To try it, run
//! `cargo run -p kinesis-local -- --stream flights:4` beside it and paste the `export` line that it prints.

use std::error::Error;

use actix::{Actor, Context, Handler};
use actix_kinesis::config::KinesisConfig;
use actix_kinesis::consumer::*;

const CONFIG: &str = "kinesis { application-name = minimal, flights { stream-name = flights, \
                      worker.graceful-shutdown-hook = true } }";

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

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

async fn run() -> Result<(), Box<dyn Error>> {
    let config: KinesisConfig = CONFIG.parse()?; // in an application: KinesisConfig::load("application.conf")?
    let consumer = KinesisConsumer::start(config.consumer("flights")?, Flights.start())?;
    let stopped = consumer.finished().await?; // by ctrl-c or SIGTERM, or with an error
    if stopped.is_clean() { Ok(()) } else { Err(format!("not a clean stop: {stopped:?}").into()) }
}

#[actix::main]
async fn main() {
    tracing_subscriber::fmt().init();
    if let Err(error) = run().await {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
