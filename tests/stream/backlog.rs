//! What a slow taker costs in memory, beside Kinesis in a process of its own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use actix_kinesis::config::{ConsumerConf, ProducerConf};
use actix_kinesis::producer::{KinesisProducer, ProducerEvent};
use actix_kinesis::stream::Source;
use futures::TryStreamExt;

use crate::support::with_credentials;

const MIB: u64 = 1 << 20;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where cargo builds the programs: beside the folder of the tests.
fn kinesis_local() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("kinesis-local")
}

/// The memory of this process that is in use, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024 / MIB
}

/// ```sh
/// cargo build -p kinesis-local --bins
/// cargo test --test stream slow_taker -- --ignored --nocapture
/// ```
#[actix::test]
#[ignore = "two minutes: cargo build -p kinesis-local --bins; cargo test --test stream slow_taker -- --ignored --nocapture"]
async fn what_a_slow_taker_of_a_gibibyte_on_eight_shards_holds() {
    let mut server = Command::new(kinesis_local())
        .args(["--kinesis-port", "0", "--dynamodb-port", "0", "--stream", "backlog:8"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let _server = Server(server);
    let export = lines.find(|line| line.as_ref().unwrap().contains("export")).unwrap().unwrap();
    let url = |name: &str| {
        let value = export.split_whitespace().find_map(|word| word.strip_prefix(&format!("{name}=")));
        Some(value.unwrap_or_else(|| panic!("no {name} in {export}")).to_owned())
    };
    let mut producing = ProducerConf::new("backlog");
    producing.aws.region = Some("us-east-1".to_owned());
    producing.aws.kinesis_endpoint = url("AWS_ENDPOINT_URL_KINESIS");
    producing.aws.dynamodb_endpoint = url("AWS_ENDPOINT_URL_DYNAMODB");
    let mut conf = ConsumerConf::new("slow", "backlog");
    conf.aws = producing.aws.clone();
    conf.worker.max_bytes = 64 * MIB;
    producing.rate_limit = 100_000;
    producing.aggregation.enabled = false;
    let producer =
        KinesisProducer::builder(producing).credentials(crate::support::credentials()).start().await.unwrap();
    let payload = bytes::Bytes::from(vec![7; 100 << 10]);
    for number in 0..10_000 {
        producer.room().await;
        let sending = producer.send(ProducerEvent::new(format!("key-{number}"), payload.clone()));
        actix::spawn(async move { sending.await.unwrap() });
    }
    assert!(producer.flush().await.is_clean());
    drop(payload);
    producer.stop(Duration::from_secs(10)).await;

    let before = resident();
    let (mut most, start) = (before, Instant::now());
    let mut source = Source::start_with(conf, with_credentials).unwrap();
    let mut last = std::collections::HashMap::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for taken in 1..=10_000u64 {
        ticks.tick().await;
        let event = source.try_next().await.unwrap().unwrap();
        let position = event.value().position().clone();
        let earlier = last.insert(event.value().shard().clone(), position.clone());
        assert!(earlier.is_none_or(|earlier| earlier < position));
        event.commit();
        most = most.max(resident());
        if taken.is_multiple_of(1_000) {
            println!(
                "{taken} taken after {:?}: {} MiB, {before} before, {most} at most",
                start.elapsed(),
                resident()
            );
        }
    }
    assert!(source.stop().await.unwrap().is_clean());
}
