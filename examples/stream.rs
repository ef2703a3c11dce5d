//! A stream as a stream: flights are counted by airline, in a loop.
//!
//! ```sh
//! cargo run --example stream
//! ```

mod flights;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use actix_kinesis::stream::Source;
use futures::TryStreamExt;

#[actix::main]
async fn main() -> ExitCode {
    flights::exit(run().await)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let (_aws, all, conf) = flights::stream(None).await?;
    // In an application: Kinesis::load("application.conf")?.source("flights")?
    let mut source = Source::start_with(conf, flights::with_credentials)?;

    let mut by_airline: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen = 0;
    while let Some(event) = source.try_next().await? {
        let airline = event.value().partition_key().unwrap_or_default().to_owned();
        *by_airline.entry(airline).or_default() += 1;
        event.commit();
        seen += 1;
        if seen == all {
            break;
        }
    }
    let stopped = source.stop().await?;

    for (airline, flights) in by_airline {
        println!("{airline} {flights:>6}");
    }
    println!("{seen} flights; the last checkpoints are stored: {}", stopped.is_clean());
    Ok(())
}
