//! Flights through a pipeline into files of JSON lines, each flight in one of them, whatever happens:
//!
//! ```sh
//! cargo run --example pipeline --features object-store -- target/flights
//! ```
//!
//! Kill it with `kill -9` at any time, and run it again with the same folder. What was not taken for a flight is in `dead`.

mod flights;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix_kinesis::consumer::ConsumerEvent;
use actix_kinesis::pipeline::{Gather, ObjectDeadLetters, ObjectEmitter, Pipeline};
use flights::CARRIER;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use serde::Serialize;

#[derive(Serialize)]
struct Flight {
    airline: String,
    number: u32,
    origin: String,
    destination: String,
    departure_delay_minutes: Option<i32>,
}

impl Flight {
    fn decode(event: &ConsumerEvent) -> Result<Self, Box<dyn Error>> {
        let columns: Vec<&str> = std::str::from_utf8(event.payload())?.split(',').collect();
        let column = |index: usize| columns.get(index).copied().ok_or("a column is missing");
        Ok(Self {
            airline: column(CARRIER)?.to_owned(),
            number: column(10)?.parse()?,
            origin: column(12)?.to_owned(),
            destination: column(13)?.to_owned(),
            departure_delay_minutes: column(5)?.parse().ok(),
        })
    }
}

#[actix::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: pipeline FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let (_aws, all, conf) = flights::stream(Some(&folder.join("aws"))).await?;
    // For S3, with the feature `s3`: object_store::aws::AmazonS3Builder::from_env()
    let files: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder)?);

    let pipeline = Pipeline::decode(Flight::decode)
        .transform(async |flight: Flight| serde_json::to_string(&flight).map(|line| [line]))
        .gather(Gather::records(1_000).with_time(Duration::from_millis(500)))
        .start_with(
            conf,
            ObjectEmitter::new(Arc::clone(&files), "flights"),
            ObjectDeadLetters::new(Arc::clone(&files), "dead"),
            flights::with_credentials,
        )?;

    let lines = folder.join("flights");
    let mut written = 0;
    while written < all {
        tokio::time::sleep(Duration::from_millis(200)).await;
        written = count_lines(&lines);
        println!("{written} of {all} flights are in {}", lines.display());
    }
    pipeline.stop().await?;
    println!("this run: {:?}", pipeline.counts());
    Ok(())
}

fn count_lines(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_whole = |path: &Path| !path.to_string_lossy().contains('#');
    paths
        .map(|path| match path.is_dir() {
            true => count_lines(&path),
            false if is_whole(&path) => std::fs::read_to_string(&path).map_or(0, |text| text.lines().count()),
            false => 0,
        })
        .sum()
}
