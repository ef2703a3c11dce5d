//! The departures of New York's airports in January 2013, through a stream of four shards, into a table per airline.
//!
//! ```sh
//! cargo run --example quickstart
//! ```
//!
//! Kinesis and DynamoDB run inside this process, on loopback. No account is used, and nothing of the AWS set-up of the
//! machine.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Message, MessageResponse};
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{
    ConsumerEvent, ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, KinesisConsumer, ProcessEvent,
};
use actix_kinesis::{Position, ShardId, SharedCredentialsProvider};
use aws_credential_types::Credentials;
use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::{BehaviorVersion, Region};
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use kinesis_local::LocalAws;
use tokio::time::{interval, sleep};
use tracing_subscriber::EnvFilter;

type Failure = Box<dyn Error>;

const STREAM: &str = "flights";
const REGION: &str = "us-east-1";

/// A line per flight, of the R package nycflights13 (CC0).
const FLIGHTS: &[u8] = include_bytes!("data/flights-2013-01.csv.gz");
// The columns that matter here.
const DEPARTURE_DELAY: usize = 5; // in minutes, negative if early, NA if the flight never left
const CARRIER: usize = 9;
const TAIL_NUMBER: usize = 11;

/// The event processor: an actor that counts flights.
#[derive(Default)]
struct Airlines {
    tally: Tally,
    /// Delivery is at least once: an event that was seen before must not count again. Shard and position name an event
    /// for all time.
    seen: HashSet<(ShardId, Position)>,
}

#[derive(Debug, Clone, Default, MessageResponse)]
struct Tally {
    flights: usize,
    carriers: BTreeMap<String, Carrier>,
    shards: BTreeMap<ShardId, usize>,
}

#[derive(Debug, Clone, Default)]
struct Carrier {
    flights: u32,
    departed: u32,
    late: u32,
    delay: i64,
}

impl Airlines {
    fn count(&mut self, event: &ConsumerEvent) -> Result<(), Failure> {
        let columns: Vec<_> = std::str::from_utf8(event.payload())?.split(',').collect();
        let column = |index: usize| columns.get(index).copied().ok_or("a column is missing");
        let carrier = column(CARRIER)?;
        let delay = match column(DEPARTURE_DELAY)? {
            "NA" => None,
            minutes => Some(minutes.parse::<i64>()?),
        };
        if self.seen.insert((event.shard().clone(), event.position().clone())) {
            self.tally.flights += 1;
            *self.tally.shards.entry(event.shard().clone()).or_default() += 1;
            let carrier = self.tally.carriers.entry(carrier.to_owned()).or_default();
            carrier.flights += 1;
            if let Some(minutes) = delay {
                carrier.departed += 1;
                carrier.late += u32::from(minutes > 15);
                carrier.delay += minutes;
            }
        }
        Ok(())
    }
}

impl Actor for Airlines {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Airlines {
    type Result = EventProcessed;

    fn handle(&mut self, message: ProcessEvent, _: &mut Self::Context) -> EventProcessed {
        self.count(&message.event).into()
    }
}

impl Handler<ConsumerWorkerFailure> for Airlines {
    type Result = ();

    fn handle(&mut self, failure: ConsumerWorkerFailure, _: &mut Self::Context) {
        eprintln!("{}: {}, {:?} follows", failure.shard, failure.cause, failure.decision);
    }
}

impl Handler<ConsumerShutdown> for Airlines {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

#[derive(Message)]
#[rtype(result = "Tally")]
struct GetTally;

impl Handler<GetTally> for Airlines {
    type Result = Tally;

    fn handle(&mut self, _: GetTally, _: &mut Self::Context) -> Tally {
        self.tally.clone()
    }
}

#[actix::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,dynoxide=error"));
    let is_terminal = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(is_terminal).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let aws = LocalAws::builder().stream(STREAM, 4).start().await?;
    let credentials = SharedCredentialsProvider::new(Credentials::for_tests());
    println!("Kinesis at {}, DynamoDB at {}", aws.kinesis_url(), aws.dynamodb_url());

    let mut conf = ConsumerConf::new("quickstart", STREAM);
    conf.aws.region = Some(REGION.to_owned());
    conf.aws.kinesis_endpoint = Some(aws.kinesis_url());
    conf.aws.dynamodb_endpoint = Some(aws.dynamodb_url());
    let airlines = Airlines::default().start();
    let consumer =
        KinesisConsumer::builder(conf, airlines.clone()).credentials(credentials.clone()).start()?;

    let mut flights = String::new();
    flate2::read::GzDecoder::new(FLIGHTS).read_to_string(&mut flights)?;
    let flights: Vec<&str> = flights.lines().skip(1).collect();
    let producer = client(&aws, credentials);
    let sent = Cell::new(0);
    let tally = tokio::select! {
        done = async { tokio::try_join!(send(&producer, &flights, &sent), watch(&airlines, flights.len(), &sent)) } => {
            done?.1
        }
        ended = consumer.finished() => return Err(format!("the consumer has ended early: {ended:?}").into()),
        () = sleep(Duration::from_secs(300)) => return Err("not done in five minutes".into()),
    };
    print(&tally);

    let stopped = consumer.stop().await?;
    aws.stop().await;
    if !stopped.is_clean() {
        return Err(format!("the consumer did not stop cleanly: {stopped:?}").into());
    }
    println!("\nStopped cleanly: everything is answered, stored and let go of.");
    Ok(())
}

fn client(aws: &LocalAws, credentials: SharedCredentialsProvider) -> Client {
    let config = aws_sdk_kinesis::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .region(Region::new(REGION))
        .endpoint_url(aws.kinesis_url())
        .credentials_provider(credentials)
        .build();
    Client::from_conf(config)
}

/// Sends all flights, as many per call as Kinesis takes. A call may refuse some of its records: these are sent again.
async fn send(kinesis: &Client, flights: &[&str], sent: &Cell<usize>) -> Result<(), Failure> {
    for flights in flights.chunks(500) {
        let mut records = flights.iter().map(|line| record(line)).collect::<Result<Vec<_>, _>>()?;
        while !records.is_empty() {
            let call = kinesis.put_records().stream_name(STREAM).set_records(Some(records.clone()));
            let response = call.send().await.map_err(aws_sdk_kinesis::Error::from)?;
            let mut results = response.records().iter();
            let before = records.len();
            records.retain(|_| results.next().is_none_or(|result| result.error_code().is_some()));
            sent.set(sent.get() + before - records.len());
            if !records.is_empty() {
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
    Ok(())
}

/// All flights of an aircraft go to one shard and stay in order. NA, the aircraft is not known, is a key like any other.
fn record(line: &str) -> Result<PutRecordsRequestEntry, Failure> {
    let key = line.split(',').nth(TAIL_NUMBER).ok_or("a flight has no tail number")?;
    Ok(PutRecordsRequestEntry::builder().partition_key(key).data(Blob::new(line)).build()?)
}

/// Shows how far it is until every flight is counted.
async fn watch(airlines: &Addr<Airlines>, flights: usize, sent: &Cell<usize>) -> Result<Tally, Failure> {
    let is_terminal = io::stdout().is_terminal();
    let mut ticks = interval(Duration::from_millis(100));
    let mut tick = 0_u64;
    loop {
        ticks.tick().await;
        let tally = airlines.send(GetTally).await?;
        let progress = format!("{flights} flights: {} sent, {} counted", sent.get(), tally.flights);
        let is_done = tally.flights == flights;
        match is_terminal {
            true => print!("\r{progress}{}", if is_done { "\n" } else { " " }),
            false if is_done || tick.is_multiple_of(10) => println!("{progress}"),
            false => {}
        }
        io::stdout().flush()?;
        if is_done {
            println!();
            return Ok(tally);
        }
        tick += 1;
    }
}

fn print(tally: &Tally) {
    println!("carrier  flights   late   mean delay");
    for (name, carrier) in &tally.carriers {
        let departed = f64::from(carrier.departed.max(1));
        let late = 100.0 * f64::from(carrier.late) / departed;
        let delay = carrier.delay as f64 / departed;
        println!("{name:<7} {:>8} {late:>5.1}% {delay:>8.1} min", carrier.flights);
    }
    println!("late: left more than 15 minutes after schedule; of the flights that left at all\n");
    for (shard, records) in &tally.shards {
        println!("{shard} {records:>8} records");
    }
}
