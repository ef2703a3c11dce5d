//! A consumer for tests and for people who debug a stream: one JSON line on stdout for each delivery, answer and checkpoint
//! and for whatever happens to the consumer and its shards. Logs go to stderr, as much as `RUST_LOG` asks for.
//!
//! ```sh
//! cargo run --example probe -- --config application.conf --consumer flights > worker-1.jsonl
//! ```
//!
//! The example `check` finds out from the lines of all processes of a fleet whether it did what it should. A line is
//! written before the consumer goes on: whoever does not read stdout stops it, leases included.
//!
//! Exit code: 0 after a clean stop, 2 for a wrong argument, configuration or policy, 3 when the stop was not clean, 4
//! when the consumer failed.
//!
//! | file | holds |
//! |---|---|
//! | `output` | the lines |
//! | `policy` | how deliveries are answered, from a file that may change |
//! | `processor` | the event processor of a shard |
//! | `observed` | what they tell |

mod observed;
mod output;
mod policy;
mod processor;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use actix_kinesis::config::{ConsumerConf, KinesisConfig};
use actix_kinesis::consumer::{ConsumerError, KinesisConsumer, Stopped};
use actix_kinesis_test::check::Event;
use clap::Parser;
use tracing_subscriber::EnvFilter;

use output::Output;
use policy::Policies;
use processor::Probes;

const CLEAN: u8 = 0;
const MISCONFIGURED: u8 = 2;
const NOT_CLEAN: u8 = 3;
const FAILED: u8 = 4;

/// Consumes a stream and prints a JSON line for everything that happens, until ctrl-c or SIGTERM
#[derive(Debug, Parser)]
#[command(after_help = "\
Exit code: 0 after a clean stop, 2 for a wrong argument, configuration or policy, 3 when the stop was not clean, \
4 when the consumer failed.

The policy is a JSON object and is read again when its file changes. Each key is optional:
  ack         \"all\" (the default), or \"none\": never answer, save what fail_on asks for
  delay_ms    wait before each answer, without holding up other events
  hold_after  after so many answers of this process, never answer again
  fail_on     answer that processing failed if the payload contains this text
  panic_on    panic if the payload contains this text
  block_on    block the shard's thread if the payload contains this text,
  block_ms    and for how long (default 1000)")]
struct Arguments {
    /// The HOCON file with the consumer's settings
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The consumer's name in that file
    #[arg(long, value_name = "NAME")]
    consumer: String,
    /// The name to own leases by; it goes before the one in the file
    #[arg(long, value_name = "ID")]
    worker_id: Option<String>,
    /// A JSON file that says how to answer; without it, every event is answered as processed
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

#[actix::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let is_terminal = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(is_terminal).init();
    let code = match set_up(arguments) {
        Ok((conf, policies)) => run(conf, policies).await,
        Err(error) => {
            eprintln!("probe: {error}");
            MISCONFIGURED
        }
    };
    ExitCode::from(code)
}

fn set_up(arguments: Arguments) -> Result<(ConsumerConf, Policies), Box<dyn Error>> {
    let mut conf = KinesisConfig::load(arguments.config)?.consumer(&arguments.consumer)?;
    conf.worker.graceful_shutdown_hook = true;
    if arguments.worker_id.is_some() {
        conf.lease.worker_id = arguments.worker_id;
    }
    conf.validate()?;
    Ok((conf, Policies::load(arguments.policy)?))
}

async fn run(conf: ConsumerConf, policies: Policies) -> u8 {
    let output = Arc::new(Output::new());
    let probes = Probes::new(Arc::clone(&output), policies, conf.worker.batch_timeout);
    let told = Arc::clone(&output);
    let consumer = KinesisConsumer::builder(conf, probes.per_shard())
        .observer(move |observation| observed::write(&told, &observation))
        .start();
    let consumer = match consumer {
        Ok(consumer) => consumer,
        Err(error) => return exit_code(&Err(error)),
    };
    output.set_worker(consumer.worker_id().to_string());
    actix::spawn(tell_load(consumer.clone(), Arc::clone(&output)));
    let ended = tokio::select! {
        ended = consumer.finished() => ended,
        error = output.broken() => {
            tracing::error!(%error, "nobody reads the lines any more, stopping");
            let _ = consumer.stop().await;
            return NOT_CLEAN;
        }
    };
    exit_code(&ended)
}

/// About once a second, as long as there is a load.
async fn tell_load(consumer: KinesisConsumer, output: Arc<Output>) {
    let mut status = consumer.watch();
    while status.changed().await.is_ok() {
        let load = Event::load(&status.borrow_and_update());
        if !matches!(load, Event::Load { bytes: 0, .. }) {
            output.tell(&load);
        }
    }
}

fn exit_code(ended: &Result<Stopped, ConsumerError>) -> u8 {
    match ended {
        Ok(stopped) if stopped.is_clean() => CLEAN,
        Ok(stopped) => {
            eprintln!("probe: the stop was not clean: {stopped:?}");
            NOT_CLEAN
        }
        // What cannot be used of regions, profiles and endpoints is a matter of configuration, too.
        Err(error @ (ConsumerError::Config(_) | ConsumerError::Aws(_))) => {
            eprintln!("probe: {error}");
            MISCONFIGURED
        }
        Err(error) => {
            eprintln!("probe: the consumer failed: {error}");
            FAILED
        }
    }
}
