//! The departures of New York's airports in January 2013, a line each, on a stream of four shards. Kinesis and DynamoDB run inside
//! the process, on loopback; no account is used, and nothing of the AWS set-up of the machine.

use std::error::Error;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use actix_kinesis::SharedCredentialsProvider;
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::ConsumerBuilder;
use aws_credential_types::Credentials;
use flate2::read::GzDecoder;
use kinesis_local::LocalAws;
use tracing_subscriber::EnvFilter;

const STREAM: &str = "flights";

/// The airline's column.
pub(crate) const CARRIER: usize = 9;

/// Of the R package nycflights13 (CC0).
const FLIGHTS: &[u8] = include_bytes!("../data/flights-2013-01.csv.gz");

/// The stream with all flights in it, how many there are, and the settings of a consumer of it. What is in `folder`, streams and
/// leases, is there again at the next start, even after a kill.
///
/// From then on, what goes wrong is told on standard error.
pub(crate) async fn stream(folder: Option<&Path>) -> Result<(LocalAws, usize, ConsumerConf), Box<dyn Error>> {
    // The local DynamoDB tells of each refusal, which are part of how leases work.
    let filter = EnvFilter::new("warn,dynoxide=error");
    let stderr = std::io::stderr;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(stderr().is_terminal())
        .with_writer(stderr)
        .init();
    let mut aws = LocalAws::builder().stream(STREAM, 4);
    if let Some(folder) = folder {
        aws = aws.data(folder);
    }
    let aws = aws.start().await?;
    let mut lines = String::new();
    GzDecoder::new(FLIGHTS).read_to_string(&mut lines)?;
    let flights: Vec<&str> = lines.lines().skip(1).collect();
    for flight in flights.iter().skip(aws.records(STREAM)?.len()) {
        let airline = flight.split(',').nth(CARRIER).unwrap_or_default();
        aws.put(STREAM, airline, flight.to_string())?;
    }
    let mut conf = ConsumerConf::new("example", STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some(aws.kinesis_url());
    conf.aws.dynamodb_endpoint = Some(aws.dynamodb_url());
    Ok((aws, flights.len(), conf))
}

/// Credentials that the local services take.
pub(crate) fn with_credentials(consumer: ConsumerBuilder) -> ConsumerBuilder {
    consumer.credentials(SharedCredentialsProvider::new(Credentials::for_tests()))
}

/// How a program ends that may have failed, whose error is told to people.
pub(crate) fn exit(end: Result<(), Box<dyn Error>>) -> ExitCode {
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}
