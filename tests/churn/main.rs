//! A process that starts and stops consumers for ever. It is alone in its process, since what it counts (threads,
//! connections, memory) is the process's.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that fails panics")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Actor, Context, Handler};
use actix_kinesis::SharedCredentialsProvider;
use actix_kinesis::config::ConsumerConf;
use actix_kinesis::consumer::{
    ConsumerShutdown, ConsumerWorkerFailure, EventProcessed, KinesisConsumer, ProcessEvent,
};
use aws_credential_types::Credentials;
use kinesis_local::LocalAws;

const STREAM: &str = "orders";
const ROUNDS: usize = 200;
/// What is made once and kept, such as pools of threads, is there after so many rounds.
const SETTLED: usize = 10;
const MIB: u64 = 1024 * 1024;
/// No condition takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_mins(2);

struct Counting(Arc<AtomicUsize>);

impl Actor for Counting {
    type Context = Context<Self>;
}

impl Handler<ProcessEvent> for Counting {
    type Result = EventProcessed;

    fn handle(&mut self, _: ProcessEvent, _: &mut Self::Context) -> Self::Result {
        self.0.fetch_add(1, Ordering::SeqCst);
        EventProcessed::Processed
    }
}

impl Handler<ConsumerWorkerFailure> for Counting {
    type Result = ();

    fn handle(&mut self, failure: ConsumerWorkerFailure, _: &mut Self::Context) {
        panic!("{failure:?}");
    }
}

impl Handler<ConsumerShutdown> for Counting {
    type Result = ();

    fn handle(&mut self, _: ConsumerShutdown, _: &mut Self::Context) {}
}

/// What the process has of everything.
#[derive(Debug, Clone, Copy)]
struct Holdings {
    threads: u64,
    files: usize,
    tasks: usize,
    resident: u64,
}

impl Holdings {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let number = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        Self {
            threads: number("Threads:"),
            files: fs::read_dir("/proc/self/fd").unwrap().count(),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
            resident: 1024 * number("VmRSS:"),
        }
    }
}

/// Waits until a condition holds.
async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        let mut pause = tokio::time::interval(Duration::from_millis(2));
        while !is_so() {
            pause.tick().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain until {what}: {:?}", Holdings::now()));
}

#[actix::test]
#[cfg_attr(not(target_os = "linux"), ignore = "it reads /proc")]
async fn two_hundred_consumers_one_after_the_other_leave_no_thread_connection_task_or_memory_behind() {
    let aws = LocalAws::builder().stream(STREAM, 2).start().await.unwrap();
    let mut conf = ConsumerConf::new("test", STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some(aws.kinesis_url());
    conf.aws.dynamodb_endpoint = Some(aws.dynamodb_url());
    let credentials = SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"));
    let mut settled: Option<Holdings> = None;
    for round in 1..=ROUNDS {
        (0..10).for_each(|key| drop(aws.put(STREAM, &format!("key-{key}"), "x").unwrap()));
        let read = Arc::new(AtomicUsize::new(0));
        let consumer = KinesisConsumer::builder(conf.clone(), Counting(Arc::clone(&read)).start())
            .credentials(credentials.clone())
            .start()
            .unwrap();
        eventually("ten records are read", || read.load(Ordering::SeqCst) >= 10).await;
        let stopped = tokio::time::timeout(PATIENCE, consumer.stop()).await;
        assert!(stopped.expect("the stop never ends").unwrap().is_clean(), "round {round}");
        assert_eq!(read.load(Ordering::SeqCst), 10, "round {round}");
        drop(consumer);
        if let Some(settled) = settled {
            // Threads and connections end a moment after the stop.
            eventually("nothing is left behind", || {
                let now = Holdings::now();
                now.threads <= settled.threads && now.files <= settled.files && now.tasks <= settled.tasks
            })
            .await;
        } else if round == SETTLED {
            settled = Some(Holdings::now());
        }
    }
    let (settled, now) = (settled.unwrap(), Holdings::now());
    let grown = now.resident.saturating_sub(settled.resident);
    assert!(grown <= 24 * MIB, "{} KiB more after {ROUNDS} rounds than after {SETTLED}", grown / 1024);
}
