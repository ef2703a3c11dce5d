//! Flights through a pipeline into files of JSON lines, each flight in one of them, whatever happens:
//!
//! ```sh
//! cargo run --example pipeline --features object-store -- target/flights
//! ```
//!
//! Kill it with `kill -9` at any time, and run it again with the same folder. What was not taken for a flight is in `dead`.

mod flights;

use std::error::Error;
use std::path::{Path, PathBuf};
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
    let (mut written, mut dead) = (0, 0);
    while written + dead < all {
        tokio::time::sleep(Duration::from_millis(200)).await;
        (written, dead) = (count_lines(&lines), count_files(&folder.join("dead")));
        println!("{written} of {all} flights are in {}, {dead} are dead letters", lines.display());
    }
    pipeline.stop().await?;
    println!("this run: {:?}", pipeline.counts());
    Ok(())
}

fn count_lines(folder: &Path) -> usize {
    files(folder)
        .iter()
        .map(|file| std::fs::read_to_string(file).map_or(0, |text| text.lines().count()))
        .sum()
}

fn count_files(folder: &Path) -> usize {
    files(folder).len()
}

/// The files below a folder that are whole: one that is being written has a `#` in its name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let (folders, files): (Vec<_>, Vec<_>) =
        entries.map(|entry| entry.path()).partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| !path.to_string_lossy().contains('#'));
    files.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}
