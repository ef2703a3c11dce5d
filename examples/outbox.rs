//! Sends that survive a crash: keeps the lines of stdin, `key<TAB>payload` each with an explicit hash key in a third column if
//! need be, in an outbox, and prints the number of each line, from 0, when it is on the disk. From then on it will be sent,
//! by this process or the next one. A line that is no event is told by its number and not kept.
//!
//! ```sh
//! printf 'customer-7\torder 1\n' |
//!     cargo run --features outbox --example outbox -- --config application.conf --producer orders
//! ```
//!
//! The producer's section has to name a directory: `outbox { path = /var/lib/orders/outbox }`.
//!
//! At the end of stdin it sends what it can for a minute. Exit code: 0 when all was sent, 1 when something is left or was
//! not accepted, 2 for a wrong argument or configuration, or when the outbox cannot be opened.

#[path = "put/event.rs"]
mod event;

use std::error::Error;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use actix_kinesis::config::KinesisConfig;
use actix_kinesis::producer::outbox::Outbox;
use clap::Parser;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

const MISCONFIGURED: u8 = 2;

/// Lines that wait for the disk at once.
const UNDER_WAY: usize = 1_000;
const STOP: Duration = Duration::from_secs(60);

/// Keeps lines of `key<TAB>payload[<TAB>explicit hash key]` from stdin on the disk until they are sent, and prints the number of each that is kept
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
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let is_terminal = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(is_terminal).init();
    let outbox = match open(Arguments::parse()).await {
        Ok(outbox) => outbox,
        Err(error) => {
            eprintln!("outbox: {error}");
            return ExitCode::from(MISCONFIGURED);
        }
    };
    let refused = accept_all(&outbox).await;
    let stopped = outbox.stop(STOP).await;
    eprintln!(
        "{} sent since the end of stdin, {} left, {} parked",
        stopped.sent, stopped.left, stopped.parked
    );
    match refused {
        Ok(0) if stopped.left == 0 && stopped.parked == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("outbox: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn open(arguments: Arguments) -> Result<Outbox, Box<dyn Error>> {
    let config = KinesisConfig::load(arguments.config)?;
    Ok(Outbox::open(config.producer(&arguments.producer)?).await?)
}

/// Hands over all lines. Returns how many were not accepted.
async fn accept_all(outbox: &Outbox) -> io::Result<u64> {
    let mut lines = read();
    let mut under_way = FuturesOrdered::new();
    let (mut number, mut refused, mut is_open) = (0_u64, 0, true);
    while is_open || !under_way.is_empty() {
        tokio::select! {
            Some((number, error)) = under_way.next() => match error {
                None => writeln!(io::stdout().lock(), "{number}")?,
                Some(error) => {
                    eprintln!("outbox: line {number}: {error}");
                    refused += 1;
                }
            },
            line = lines.recv(), if is_open && under_way.len() < UNDER_WAY => match line {
                None => is_open = false,
                // What waits for the disk is still told.
                Some(Err(error)) => {
                    eprintln!("outbox: stdin cannot be read any more: {error}");
                    refused += 1;
                    is_open = false;
                }
                Some(Ok(line)) => {
                    match event::parse(&line) {
                        Ok(event) => {
                            let (line, accepting) = (number, outbox.send(event));
                            under_way.push_back(async move { (line, accepting.await.err()) });
                        }
                        Err(error) => {
                            eprintln!("outbox: line {number}: {error}");
                            refused += 1;
                        }
                    }
                    number += 1;
                }
            },
        }
    }
    Ok(refused)
}

/// Stdin, read on a thread of its own, since it may block for ever.
fn read() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(UNDER_WAY);
    std::thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}
