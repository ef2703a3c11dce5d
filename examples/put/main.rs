//! Sends the lines of stdin, `key<TAB>payload` each with an explicit hash key in a third column if need be, and prints a
//! JSON line for each outcome. Progress goes to stderr.
//!
//! ```sh
//! printf 'customer-7\torder 1\n' | cargo run --example put -- --config application.conf --producer orders
//! ```
//!
//! A line of output has `unix_ms`, `event` (`put`, `put-failed`, `put-refused`), `message_id` (the number of the input line,
//! from 0), `ok`, `shard`, `seq`, `sub` (null if the event was not packed with others), `pk`, `attempts` (how many) and
//! `error`, and if it has failed `may_be_stored`. Lines come in the order of the outcomes. To the example `check` they are
//! the list of what must be delivered.
//!
//! Exit code: 0 when all were sent, 1 when some were not, 2 for a wrong argument or configuration.
//!
//! | file | holds |
//! |---|---|
//! | `event` | the lines of input |
//! | `line` | the lines of output |

mod event;
mod line;

use std::error::Error;
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_kinesis::config::{KinesisConfig, ProducerConf};
use actix_kinesis::producer::{KinesisProducer, Outcome};
use clap::Parser;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

const FAILED: u8 = 1;
const MISCONFIGURED: u8 = 2;

/// Input lines that are read ahead.
const READ_AHEAD: usize = 4_096;
const PROGRESS: Duration = Duration::from_secs(1);
const STOP: Duration = Duration::from_secs(60);

/// Sends lines of `key<TAB>payload[<TAB>explicit hash key]` from stdin to a stream and prints a JSON line for each
#[derive(Debug, Parser)]
struct Arguments {
    /// The HOCON file with the producer's settings
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The producer's name in that file
    #[arg(long, value_name = "NAME")]
    producer: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let is_terminal = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(is_terminal).init();
    let producer = match load(arguments) {
        Ok(conf) => KinesisProducer::start(conf).await.map_err(Into::into),
        Err(error) => Err(error),
    };
    let producer = match producer {
        Ok(producer) => producer,
        Err(error) => {
            eprintln!("put: {error}");
            return ExitCode::from(MISCONFIGURED);
        }
    };
    match run(&producer).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("put: {failed} events were not sent");
            ExitCode::from(FAILED)
        }
        Err(error) => {
            eprintln!("put: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn load(arguments: Arguments) -> Result<ProducerConf, Box<dyn Error>> {
    Ok(KinesisConfig::load(arguments.config)?.producer(&arguments.producer)?)
}

/// Sends all lines. Returns how many were not sent.
async fn run(producer: &KinesisProducer) -> io::Result<u64> {
    let mut lines = read();
    let mut output = BufWriter::new(io::stdout());
    let mut under_way = FuturesUnordered::new();
    let (mut progress, mut is_open, mut number) = (Progress::new(), true, 0_u64);
    let mut ticks = tokio::time::interval(PROGRESS);
    while is_open || !under_way.is_empty() {
        tokio::select! {
            biased;
            Some((number, key, outcome)) = under_way.next(), if !under_way.is_empty() => {
                progress.count(&outcome);
                let key: Arc<str> = key;
                line::write(&mut output, number, &key, &outcome)?;
            }
            line = async { producer.room().await; lines.recv().await }, if is_open => match line {
                None => is_open = false,
                // What is under way still has its outcome told.
                Some(Err(error)) => {
                    eprintln!("put: stdin cannot be read any more: {error}");
                    progress.failed += 1;
                    is_open = false;
                }
                Some(Ok(text)) => {
                    match event::parse(&text) {
                        Ok(event) => {
                            let key = Arc::clone(&event.partition_key);
                            let (sending, number) = (producer.send(event), number);
                            under_way.push(async move { (number, key, sending.await) });
                        }
                        Err(error) => {
                            progress.failed += 1;
                            line::write_refused(&mut output, number, &error)?;
                        }
                    }
                    number += 1;
                }
            },
            _ = ticks.tick() => {
                progress.show(number, under_way.len());
                output.flush()?;
            }
        }
    }
    output.flush()?;
    producer.stop(STOP).await;
    progress.show(number, 0);
    Ok(progress.failed)
}

/// Stdin, read on a thread of its own, since it may block for ever.
fn read() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

struct Progress {
    begin: Instant,
    sent: u64,
    failed: u64,
}

impl Progress {
    fn new() -> Self {
        Self { begin: Instant::now(), sent: 0, failed: 0 }
    }

    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Ok(_) => self.sent += 1,
            Err(_) => self.failed += 1,
        }
    }

    fn show(&self, read: u64, under_way: usize) {
        let Self { begin, sent, failed } = self;
        let seconds = begin.elapsed().as_secs_f64();
        let rate = *sent as f64 / seconds.max(0.001);
        eprintln!(
            "{seconds:.1} s: {read} read, {sent} sent, {failed} failed, {under_way} under way, {rate:.0}/s"
        );
    }
}
