//! What the producer costs: CPU seconds for a million records beside a bare loop on the SDK that makes the same
//! PutRecords calls, and how many records a second are aggregated. Kinesis is `kinesis-local`, in a process of its own.
//!
//! ```sh
//! cargo build --release -p kinesis-local --bin kinesis-local -p actix-kinesis --example producer_cost
//! target/release/kinesis-local --kinesis-port 4567 --dynamodb-port 8000 --stream cost:4 &
//! target/release/examples/producer_cost http://127.0.0.1:4567 200000
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use actix_kinesis::SharedCredentialsProvider;
use actix_kinesis::config::{Ordering, ProducerConf};
use actix_kinesis::producer::{KinesisProducer, ProducerEvent, Sending};
use aws_credential_types::Credentials;
use aws_sdk_kinesis::config::{BehaviorVersion, Region};
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use bytes::Bytes;
use futures::StreamExt;
use kinesis_record::aggregation::Aggregate;

const STREAM: &str = "cost";
const PAYLOAD: usize = 100;
const KEYS: usize = 1_000;
/// Records in a call, and calls at once, of the bare loop. The producer's are the same.
const CALL: usize = 500;
const CALLS: usize = 4;

type Failed = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let endpoint = arguments.next().ok_or("usage: producer_cost ENDPOINT RECORDS")?;
    let records: usize = arguments.next().ok_or("usage: producer_cost ENDPOINT RECORDS")?.parse()?;
    println!("{:24} {:>12} {:>24}", "", "records/s", "CPU s for a million");
    for _ in 0..3 {
        measure("SDK loop", records, bare(&endpoint, records)).await?;
        measure("producer, as they are", records, produce(conf(&endpoint, false), records)).await?;
        let mut ordered = conf(&endpoint, false);
        ordered.ordering = Ordering::PartitionKey;
        measure("the same, ordered", records, produce(ordered, records)).await?;
        measure("producer, aggregated", records, produce(conf(&endpoint, true), records)).await?;
        let alone = async {
            aggregate(records);
            Ok(())
        };
        measure("aggregation alone", records, alone).await?;
    }
    Ok(())
}

async fn measure(
    name: &str,
    records: usize,
    work: impl Future<Output = Result<(), Failed>>,
) -> Result<(), Failed> {
    let (begin, cpu) = (Instant::now(), cpu()?);
    work.await?;
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), self::cpu()? - cpu);
    println!("{name:24} {:12.0} {:24.2}", records as f64 / seconds, cpu * 1e6 / records as f64);
    Ok(())
}

/// The CPU seconds of this process.
fn cpu() -> Result<f64, Failed> {
    // In hundredths of a second, behind the name of the program, which may have spaces.
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').ok_or("no process table")?.1;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

fn key(index: usize) -> String {
    format!("key-{}", index % KEYS)
}

fn credentials() -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"))
}

async fn bare(endpoint: &str, records: usize) -> Result<(), Failed> {
    let conf = aws_sdk_kinesis::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(credentials())
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let client = aws_sdk_kinesis::Client::from_conf(conf);
    let payload = vec![b'x'; PAYLOAD];
    let calls = futures::stream::iter((0..records).step_by(CALL)).map(|first| {
        let (client, payload) = (client.clone(), payload.clone());
        async move {
            let entries = (first..records.min(first + CALL)).map(|index| {
                let entry = PutRecordsRequestEntry::builder().partition_key(key(index));
                entry.data(Blob::new(payload.clone())).build()
            });
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            let reply = client.put_records().stream_name(STREAM).set_records(Some(entries)).send().await?;
            match reply.failed_record_count {
                None | Some(0) => Ok::<_, Failed>(()),
                Some(failed) => Err(format!("{failed} records were refused").into()),
            }
        }
    });
    let mut calls = calls.buffer_unordered(CALLS);
    while let Some(done) = calls.next().await {
        done?;
    }
    Ok(())
}

fn conf(endpoint: &str, is_aggregated: bool) -> ProducerConf {
    let mut conf = ProducerConf::new(STREAM);
    conf.aws.region = Some("us-east-1".to_owned());
    conf.aws.kinesis_endpoint = Some(endpoint.to_owned());
    conf.aws.dynamodb_endpoint = Some(endpoint.to_owned());
    conf.aggregation.enabled = is_aggregated;
    conf.collection.max_count = CALL;
    conf.max_in_flight_calls = CALLS;
    conf.max_outstanding_requests = (2 * CALL * CALLS) as u64 * if is_aggregated { 100 } else { 1 };
    conf.rate_limit = 1_000_000;
    conf
}

async fn produce(conf: ProducerConf, records: usize) -> Result<(), Failed> {
    let producer = KinesisProducer::builder(conf).credentials(credentials()).start().await?;
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    let mut under_way: VecDeque<Sending> = VecDeque::new();
    for index in 0..records {
        producer.room().await;
        under_way.push_back(producer.send(ProducerEvent::new(key(index), payload.clone())));
        // Outcomes come almost in order, so that few are kept.
        while under_way.len() as u64 >= producer.conf().max_outstanding_requests {
            if let Some(oldest) = under_way.pop_front() {
                oldest.await?;
            }
        }
    }
    for sending in under_way {
        sending.await?;
    }
    producer.stop(Duration::from_secs(10)).await;
    Ok(())
}

/// Aggregates of 50 KiB.
fn aggregate(records: usize) {
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let mut aggregate = Aggregate::new();
    for index in 0..records {
        let key = &keys[index % KEYS];
        if aggregate.encoded_len_with(key, None, PAYLOAD) > 51_200 {
            std::hint::black_box(aggregate.encode());
            aggregate = Aggregate::new();
        }
        aggregate.push(key, None, payload.clone());
    }
    std::hint::black_box(aggregate.encode());
}
