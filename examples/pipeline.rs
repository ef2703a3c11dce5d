//! Flights through a pipeline into files of JSON lines, each flight in one of them, whatever happens:
//!
//! ```sh
//! cargo run --example pipeline --features object-store -- target/flights
//! ```
//!
//! Kill it with `kill -9` at any time, and run it again with the same folder. It then waits until the leases of the process that
//! was killed expire, which takes the `failover-time`, 10 s by default. What was not taken for a flight is in `dead`.
//!
//! Into a bucket of S3, with the region and the keys of the environment; for another server than Amazon's, `AWS_ENDPOINT` is its
//! URL, and `AWS_ALLOW_HTTP=true` lets that be in clear. The folder keeps the stream then.
//!
//! ```sh
//! cargo run --example pipeline --features s3 -- target/flights my-bucket
//! ```

mod flights;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use actix_kinesis::consumer::ConsumerEvent;
use actix_kinesis::pipeline::{Gather, ObjectDeadLetters, ObjectEmitter, Pipeline};
use flights::CARRIER;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt};
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
async fn main() -> ExitCode {
    flights::exit(run().await)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: pipeline FOLDER [BUCKET]")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let store: Arc<dyn ObjectStore> = match arguments.next() {
        Some(bucket) => self::bucket(&bucket)?,
        None => Arc::new(LocalFileSystem::new_with_prefix(folder)?),
    };
    let (_aws, all, conf) = flights::stream(Some(&folder.join("aws"))).await?;

    let failover_time = conf.lease.failover_time;
    let pipeline = Pipeline::decode(Flight::decode)
        .transform(async |flight: Flight| serde_json::to_string(&flight).map(|line| [line]))
        .gather(Gather::records(1_000).with_time(Duration::from_millis(500)))
        .start_with(
            conf,
            ObjectEmitter::new(Arc::clone(&store), "flights"),
            ObjectDeadLetters::new(Arc::clone(&store), "dead"),
            flights::with_credentials,
        )?;

    let mut status = pipeline.consumer().watch();
    let begun = status.wait_for(|status| !status.shards.is_empty());
    if tokio::time::timeout(Duration::from_secs(1), begun).await.is_err() {
        println!("waiting for the leases: those of a process that was killed expire after {failover_time:?}");
    }
    let mut counted = HashMap::new();
    let (mut written, mut dead) = (0, 0);
    let mut ended = Box::pin(pipeline.finished());
    while written + dead < all {
        tokio::select! {
            ended = &mut ended => return ended.map(drop).map_err(Into::into),
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
        }
        (written, dead) = count(&*store, &mut counted).await?;
        println!("{written} of {all} flights are in {store}, {dead} are dead letters");
    }
    pipeline.stop().await?;
    println!("this run: {:?}", pipeline.counts());
    Ok(())
}

#[cfg(feature = "s3")]
fn bucket(name: &str) -> Result<Arc<dyn ObjectStore>, Box<dyn Error>> {
    Ok(Arc::new(object_store::aws::AmazonS3Builder::from_env().with_bucket_name(name).build()?))
}

#[cfg(not(feature = "s3"))]
fn bucket(_: &str) -> Result<Arc<dyn ObjectStore>, Box<dyn Error>> {
    Err("for a bucket, build it with --features s3".into())
}

/// How many flights and how many dead letters there are. An object is whole when it is listed, and is read once.
async fn count(
    store: &dyn ObjectStore,
    counted: &mut HashMap<object_store::path::Path, usize>,
) -> Result<(usize, usize), Box<dyn Error>> {
    for object in store.list(Some(&"flights".into())).try_collect::<Vec<_>>().await? {
        if let Entry::Vacant(uncounted) = counted.entry(object.location) {
            let lines = store.get(uncounted.key()).await?.bytes().await?;
            uncounted.insert(lines.iter().filter(|byte| **byte == b'\n').count());
        }
    }
    let dead: Vec<_> = store.list(Some(&"dead".into())).try_collect().await?;
    Ok((counted.values().sum(), dead.len()))
}
