//! Each shard as two channels: a task counts the records that come out of one, and puts how far it is into the other.
//!
//! ```sh
//! cargo run --example channel
//! ```

mod flights;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_kinesis::stream::{Channels, Checkpoints, Records};

#[actix::main]
async fn main() -> ExitCode {
    flights::exit(run().await)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let (_aws, all, conf) = flights::stream(None).await?;
    // In an application: Kinesis::load("application.conf")?.channels("flights")?
    let mut channels = Channels::start_with(conf, flights::with_credentials)?;
    let consumer = channels.consumer().clone();

    let left = Arc::new(AtomicUsize::new(all));
    let mut shards = Vec::new();
    while let Some(shard) = channels.recv().await? {
        let (left, consumer) = (Arc::clone(&left), consumer.clone());
        shards.push(actix::spawn(async move {
            let (mut records, checkpoints) = shard.split();
            count(&mut records, &checkpoints, &left).await;
            // It has taken the last flight, or the consumer stops anyway. A shard whose records nobody takes would fail before.
            let stopped = consumer.stop().await;
            drop(records);
            stopped
        }));
    }
    for shard in shards {
        shard.await??;
    }
    println!("{all} flights; the last checkpoints are stored: {}", consumer.finished().await?.is_clean());
    Ok(())
}

/// Counts what comes of a shard, until nothing is left of the flights or of the shard.
async fn count(records: &mut Records, checkpoints: &Checkpoints, left: &AtomicUsize) {
    let (mut flights, mut bytes) = (0, 0);
    while let Some(record) = records.recv().await {
        flights += 1;
        bytes += record.event.payload().len();
        // Never waits; of many, the newest wins.
        checkpoints.put(record.position);
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            break;
        }
    }
    println!("{}: {flights:>6} flights of {bytes} bytes", records.shard());
}
