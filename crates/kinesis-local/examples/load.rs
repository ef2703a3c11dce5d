//! Measures how many records a second go into `kinesis-local` and out of it at the same time, over the wire.
//!
//! ```sh
//! cargo build --release -p kinesis-local --bins --example load
//! target/release/examples/load
//! ```
//!
//! It starts the program in a process of its own, once for JSON and once for CBOR, puts records with PutRecords and
//! reads every shard with GetRecords meanwhile. The client is a plain HTTP/1.1 client that sends requests made
//! beforehand and reads every reply in full, each payload decoded. It is cheaper than an SDK, which signs and checks
//! more, so that the figures tell of the server rather than of a client.

use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ciborium::Value;
use clap::{Parser, ValueEnum};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

type Failure = Box<dyn Error + Send + Sync>;

const STREAM: &str = "load";
/// Records in a PutRecords call, the most that the service takes.
const BATCH: u64 = 500;
/// Records in a GetRecords call, the most that the service gives.
const PAGE: u64 = 10_000;
/// How often a shard is read that has no full page: five times a second, as the service allows.
const POLL: Duration = Duration::from_millis(200);
/// Requests that are made beforehand and sent again and again.
const REQUESTS: usize = 32;
/// Ticks per second in `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

/// Measures kinesis-local under load: records in and out at the same time, in JSON and in CBOR.
#[derive(Debug, Clone, Parser)]
struct Arguments {
    /// A server that runs already, such as http://127.0.0.1:4567; without it, one is started for each form
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The program to start; by default the one that was built beside this one
    #[arg(long, value_name = "FILE", conflicts_with = "endpoint")]
    server: Option<PathBuf>,
    /// One more argument for the program that is started; may be given several times
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    with: Vec<String>,
    /// The form of requests and replies; both by default
    #[arg(long, value_enum)]
    form: Vec<Form>,
    /// Records to put
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000_000)]
    records: u64,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    payload: usize,
    /// Shards of the stream
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    shards: u32,
    /// PutRecords calls at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    producers: u64,
    /// Records to put per second; as many as there can be by default
    #[arg(long, value_name = "NUMBER")]
    rate: Option<u32>,
    /// Gives up after so many seconds for each form
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    patience: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Json,
    Cbor,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = Arguments::parse();
    if arguments.form.is_empty() {
        arguments.form = vec![Form::Json, Form::Cbor];
    }
    for form in arguments.form.clone() {
        let server = Server::start(&arguments)?;
        timeout(Duration::from_secs(arguments.patience), measure(&arguments, form, &server)).await??;
    }
    Ok(())
}

/// Puts and reads, then tells the figures.
async fn measure(arguments: &Arguments, form: Form, server: &Server) -> Result<(), Failure> {
    let wire = Wire::new(&server.url, form);
    let stream = serde_json::json!({ "StreamName": STREAM, "ShardCount": arguments.shards });
    wire.call_plain("CreateStream", &stream).await?;
    let requests: Arc<[Bytes]> = (0..REQUESTS).map(|_| put_records(form, arguments.payload)).collect();
    let calls = arguments.records.div_ceil(BATCH);
    let all = calls * BATCH;
    let (next, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (server_before, client_before) = (server.cpu(), cpu(std::process::id()));
    let start = Instant::now();

    let mut producers = JoinSet::new();
    for _ in 0..arguments.producers {
        let (wire, requests, next) = (wire.clone(), requests.clone(), next.clone());
        let pause = arguments.rate.map(|rate| BATCH as f64 / f64::from(rate.max(1)));
        producers.spawn(async move {
            loop {
                let call = next.fetch_add(1, Ordering::Relaxed);
                if call >= calls {
                    return Ok::<_, Failure>(());
                }
                if let Some(pause) = pause {
                    sleep_until(start + Duration::from_secs_f64(pause * call as f64)).await;
                }
                let request = requests[call as usize % requests.len()].clone();
                let reply: PutReply = wire.call("PutRecords", request).await?;
                if reply.failed_record_count > 0 || reply.records.len() as u64 != BATCH {
                    return Err("not all records of a call were taken".into());
                }
            }
        });
    }
    let mut readers = JoinSet::new();
    for shard in 0..arguments.shards {
        let (wire, seen, payload) = (wire.clone(), seen.clone(), arguments.payload);
        readers.spawn(async move { read(&wire, shard, payload, all, &seen).await });
    }
    while let Some(producer) = producers.join_next().await {
        producer??;
    }
    let put = start.elapsed().as_secs_f64();
    while let Some(reader) = readers.join_next().await {
        reader??;
    }
    let read = start.elapsed().as_secs_f64();

    println!("{form:?}: {all} records of {} bytes, {} shards", arguments.payload, arguments.shards);
    println!("  in      {:>9.0} records/s for {put:.2} s", all as f64 / put);
    println!("  out     {:>9.0} records/s for {read:.2} s", all as f64 / read);
    let per_million = |seconds: f64| seconds * 1e6 / all as f64;
    if let (Some(before), Some(after)) = (server_before, server.cpu()) {
        let cpu = after - before;
        println!("  server  {cpu:>9.2} s of CPU, {:.2} s per million in and out", per_million(cpu));
    }
    if let (Some(before), Some(after)) = (client_before, cpu(std::process::id())) {
        println!(
            "  client  {:>9.2} s of CPU, {:.2} s per million",
            after - before,
            per_million(after - before)
        );
    }
    if let Some(kib) = server.peak_kib() {
        println!("  server  {:>9} MiB resident at the peak", kib / 1024);
    }
    Ok(())
}

/// Reads a shard until all records of the stream are read by all readers together.
async fn read(wire: &Wire, shard: u32, payload: usize, all: u64, seen: &AtomicU64) -> Result<(), Failure> {
    let position = serde_json::json!({
        "StreamName": STREAM,
        "ShardId": format!("shardId-{shard:012}"),
        "ShardIteratorType": "TRIM_HORIZON",
    });
    let reply: IteratorReply = wire.call("GetShardIterator", wire.write(&position)?).await?;
    let mut iterator = reply.shard_iterator;
    let mut last = String::new();
    while seen.load(Ordering::Relaxed) < all {
        let begin = Instant::now();
        let request = serde_json::json!({ "ShardIterator": iterator, "Limit": PAGE });
        let page: Page = wire.call("GetRecords", wire.write(&request)?).await?;
        for record in &page.records {
            // All have the same number of digits.
            if record.sequence_number <= last || record.data.0 != payload {
                return Err("a record is out of order or not as it was put".into());
            }
            last.clone_from(&record.sequence_number);
        }
        let count = page.records.len() as u64;
        seen.fetch_add(count, Ordering::Relaxed);
        iterator = page.next_shard_iterator;
        if count < PAGE {
            sleep_until(begin + POLL).await;
        }
    }
    Ok(())
}

/// A server in a process of its own, ended with this.
struct Server {
    url: String,
    process: Option<Child>,
}

impl Server {
    fn start(arguments: &Arguments) -> Result<Self, Failure> {
        if let Some(url) = &arguments.endpoint {
            return Ok(Self { url: url.clone(), process: None });
        }
        let beside = || {
            let example = std::env::current_exe()?;
            let target = example.ancestors().nth(2).ok_or("this program is nowhere")?;
            Ok::<_, Failure>(target.join("kinesis-local"))
        };
        let path = arguments.server.clone().map_or_else(beside, Ok)?;
        let mut process = Command::new(&path)
            .args(&arguments.with)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", path.display()))?;
        let out = process.stdout.take().ok_or("the program has no output")?;
        let mut server = Self { url: String::new(), process: Some(process) };
        for line in BufReader::new(out).lines() {
            let line = line?;
            if let Some(url) = line.strip_prefix("Kinesis:") {
                server.url = url.trim().to_owned();
            }
            if line.starts_with("AWS CLI:") {
                return Ok(server);
            }
        }
        Err("the program ended before it said where it is".into())
    }

    /// Seconds of CPU that it has used.
    fn cpu(&self) -> Option<f64> {
        cpu(self.process.as_ref()?.id())
    }

    fn peak_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.as_ref()?.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Seconds of CPU that a process has used; none where there is no `/proc`.
fn cpu(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may have blanks; the times are the 14th and 15th field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

/// Calls the server in one form.
#[derive(Clone)]
struct Wire {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
    form: Form,
}

impl Wire {
    fn new(url: &str, form: Form) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), url: url.to_owned(), form }
    }

    fn write(&self, value: &impl Serialize) -> Result<Bytes, Failure> {
        let mut bytes = Vec::new();
        match self.form {
            Form::Json => serde_json::to_writer(&mut bytes, value)?,
            Form::Cbor => ciborium::into_writer(value, &mut bytes)?,
        }
        Ok(bytes.into())
    }

    async fn send(&self, operation: &str, body: Bytes) -> Result<Bytes, Failure> {
        let form = match self.form {
            Form::Json => "json",
            Form::Cbor => "cbor",
        };
        let request = Request::post(&self.url)
            .header("Content-Type", format!("application/x-amz-{form}-1.1"))
            .header("X-Amz-Target", format!("Kinesis_20131202.{operation}"))
            .body(Full::new(body))?;
        let response = self.client.request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        match status.is_success() {
            true => Ok(body),
            false => Err(format!("{operation}: {status} {}", String::from_utf8_lossy(&body)).into()),
        }
    }

    /// A call without a reply.
    async fn call_plain(&self, operation: &str, request: &impl Serialize) -> Result<(), Failure> {
        self.send(operation, self.write(request)?).await.map(drop)
    }

    async fn call<R: DeserializeOwned>(&self, operation: &str, request: Bytes) -> Result<R, Failure> {
        let reply = self.send(operation, request).await?;
        match self.form {
            Form::Json => Ok(serde_json::from_slice(&reply)?),
            Form::Cbor => Ok(ciborium::from_reader(&reply[..])?),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct IteratorReply {
    shard_iterator: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutReply {
    failed_record_count: u64,
    records: Vec<Place>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(dead_code, reason = "read as a client would, to count what it costs")]
struct Place {
    shard_id: String,
    sequence_number: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    records: Vec<Record>,
    next_shard_iterator: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Record {
    sequence_number: String,
    data: Payload,
}

/// The length of a payload, which is decoded first.
#[derive(Debug)]
struct Payload(usize);

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Payload;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a payload")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Payload, E> {
                STANDARD.decode(text).map(|bytes| Payload(bytes.len())).map_err(E::custom)
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Payload, E> {
                Ok(Payload(bytes.len()))
            }
        }
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_str(Read),
            false => deserializer.deserialize_byte_buf(Read),
        }
    }
}

/// A request of PutRecords with payloads and partition keys by chance.
fn put_records(form: Form, payload: usize) -> Bytes {
    let record = |_| {
        let data: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(payload).collect();
        let key = fastrand::u32(..).to_string();
        match form {
            Form::Json => Value::Map(vec![
                (Value::from("Data"), Value::from(STANDARD.encode(data))),
                (Value::from("PartitionKey"), Value::from(key)),
            ]),
            Form::Cbor => Value::Map(vec![
                (Value::from("Data"), Value::from(data)),
                (Value::from("PartitionKey"), Value::from(key)),
            ]),
        }
    };
    let request = Value::Map(vec![
        (Value::from("StreamName"), Value::from(STREAM)),
        (Value::from("Records"), Value::Array((0..BATCH).map(record).collect())),
    ]);
    let mut bytes = Vec::new();
    let written = match form {
        Form::Json => serde_json::to_writer(&mut bytes, &request).map_err(|error| error.to_string()),
        Form::Cbor => ciborium::into_writer(&request, &mut bytes).map_err(|error| error.to_string()),
    };
    assert_eq!(written, Ok(()), "writing to memory does not fail");
    bytes.into()
}
