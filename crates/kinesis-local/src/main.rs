//! Kinesis and DynamoDB on 127.0.0.1 until ctrl-c or SIGTERM.

use std::error::Error;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use kinesis_local::LocalAws;
use kinesis_local::faults::Fault;
use kinesis_local::model::Settings;
use kinesis_local::model::reshard::MAX_SHARDS;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Kinesis and DynamoDB on 127.0.0.1, in memory unless a directory is given.
///
/// What it does goes to standard error, as much as RUST_LOG asks for (for example
/// RUST_LOG=kinesis_local=debug for a line per call). Payloads are never logged.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The port of Kinesis; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    kinesis_port: u16,
    /// The port of DynamoDB; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    dynamodb_port: u16,
    /// The address to listen on; on any other than 127.0.0.1, whoever can reach this machine is let in
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST.into())]
    host: IpAddr,
    /// Also serve both services under TLS on this port; 0 for any that is free
    #[arg(long, value_name = "PORT")]
    tls_port: Option<u16>,
    /// Where to write the certificate that clients under TLS have to trust, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_port")]
    tls_cert_out: Option<PathBuf>,
    /// A directory to keep streams and tables in; without it, everything is gone at the end
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Memory for the records of all streams, in MiB; when it is full, the oldest records of the biggest shards go,
    /// never those of the newest put
    #[arg(long, value_name = "MIB", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..))]
    max_memory: u32,
    /// Keep the service's limits on reads and writes of each shard and on calls of the control plane
    #[arg(long)]
    limits: bool,
    /// Faults to set at the start: a JSON file with one fault or an array of faults
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// The seed of faults that strike by chance
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// A stream to create at the start, with its number of shards, unless it is in the directory, where it stays as
    /// it is; may be given several times
    #[arg(long, value_name = "NAME:SHARDS", value_parser = parse_stream)]
    stream: Vec<StreamArgument>,
}

#[derive(Debug, Clone)]
struct StreamArgument {
    name: String,
    shards: u32,
}

fn parse_stream(text: &str) -> Result<StreamArgument, String> {
    let (name, shards) = text.split_once(':').ok_or("a stream is given as NAME:SHARDS, such as flights:4")?;
    match shards.parse() {
        Ok(shards @ 1..=MAX_SHARDS) => Ok(StreamArgument { name: name.to_owned(), shards }),
        _ => Err(format!("{shards:?} is no number of shards: it must be a number from 1 to {MAX_SHARDS}")),
    }
}

/// dynoxide tells whole requests and replies at the level of a trace, whatever else was asked for.
fn tells_no_payload(event: &Metadata<'_>) -> bool {
    *event.level() != Level::TRACE || !event.target().starts_with("dynoxide")
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,dynoxide=error"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).finish();
    log.with(filter_fn(tells_no_payload)).init();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes = std::iter::successors(error.source(), |error| (*error).source());
            let causes: String = causes.map(|cause| format!(": {cause}")).collect();
            // Nobody may be there to read it; the exit code tells the same.
            let _ = writeln!(io::stderr(), "error: {error}{causes}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut builder =
        LocalAws::builder().kinesis_port(arguments.kinesis_port).dynamodb_port(arguments.dynamodb_port);
    builder = builder.host(arguments.host).seed(arguments.seed);
    let max_stored_bytes = (arguments.max_memory as usize).saturating_mul(1 << 20);
    builder =
        builder.settings(Settings { max_stored_bytes, limits: arguments.limits, ..Settings::default() });
    if let Some(port) = arguments.tls_port {
        builder = builder.tls_port(port);
    }
    if let Some(directory) = &arguments.data {
        builder = builder.data(directory);
    }
    if let Some(path) = &arguments.faults {
        for fault in read_faults(path)? {
            builder = builder.fault(fault);
        }
    }
    for stream in &arguments.stream {
        builder = builder.stream(&stream.name, stream.shards);
    }
    let stop = stop_signal()?;
    let aws = builder.start().await?;
    if let (Some(path), Some(certificate)) = (&arguments.tls_cert_out, aws.certificate()) {
        std::fs::write(path, certificate)
            .map_err(|error| format!("cannot write the certificate to {}: {error}", path.display()))?;
    }
    introduce(&aws, &arguments.stream)?;
    stop.await;
    tracing::info!("stopping");
    aws.stop().await;
    Ok(())
}

fn read_faults(path: &Path) -> Result<Vec<Fault>, Box<dyn Error>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    Ok(Fault::all_from_json(&text).map_err(|error| format!("{shown}: {error}"))?)
}

/// Says where the services are and how to point a client at them.
fn introduce(aws: &LocalAws, streams: &[StreamArgument]) -> Result<(), Box<dyn Error>> {
    let (kinesis, dynamodb) = (aws.kinesis_url(), aws.dynamodb_url());
    let region = aws.with_model(|model, _| model.settings().region.clone());
    let mut out = io::stdout().lock();
    writeln!(out, "Kinesis:  {kinesis}")?;
    writeln!(out, "DynamoDB: {dynamodb}")?;
    if let Some(url) = aws.tls_url() {
        writeln!(out, "TLS:      {url} for both")?;
    }
    for StreamArgument { name, shards: wanted } in streams {
        let shards = aws.shards(name)?.iter().filter(|shard| shard.ending_sequence.is_none()).count();
        writeln!(out, "Stream:   {name} with {shards} shard{}", if shards == 1 { "" } else { "s" })?;
        if shards != *wanted as usize {
            tracing::warn!(
                "{name} stays as it is in the directory, with {shards} open shards and not {wanted}"
            );
        }
    }
    writeln!(
        out,
        "AWS SDK:  export AWS_ENDPOINT_URL_KINESIS={kinesis} AWS_ENDPOINT_URL_DYNAMODB={dynamodb} \
         AWS_REGION={region} AWS_DEFAULT_REGION={region} AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test"
    )?;
    writeln!(out, "AWS CLI:  aws --endpoint-url {kinesis} kinesis list-streams")?;
    Ok(out.flush()?)
}

/// Resolves when the process is told to stop. The signals are caught from the call on.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Resolves when the process is told to stop.
#[cfg(not(unix))]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "cannot wait for ctrl-c");
        }
    })
}
