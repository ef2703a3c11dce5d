//! Every fault, on both services.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kinesis::primitives::Blob;
use kinesis_local::faults::{Fault, Refusal, Selector, Service};
use kinesis_local::{LocalAws, StartError};
use serde_json::json;

use super::dynamodb::create_leases;
use super::{dynamodb_client, kinesis_client};

/// How a call ended for its client.
#[derive(Debug, PartialEq)]
enum End {
    Served,
    Refused(u16, String, String),
    /// No reply, or half of one.
    Broken,
}

fn end<T, E: ProvideErrorMetadata>(
    result: Result<T, SdkError<E, aws_smithy_runtime_api::http::Response>>,
) -> End {
    match result {
        Ok(_) => End::Served,
        Err(SdkError::ServiceError(error)) => {
            let meta = error.err().meta();
            End::Refused(
                error.raw().status().as_u16(),
                meta.code().unwrap().to_owned(),
                meta.message().unwrap_or_default().to_owned(),
            )
        }
        Err(_) => End::Broken,
    }
}

struct World {
    aws: LocalAws,
    kinesis: aws_sdk_kinesis::Client,
    dynamodb: aws_sdk_dynamodb::Client,
}

impl World {
    async fn new() -> Self {
        let aws = LocalAws::builder().stream("flights", 1).start().await.unwrap();
        let (kinesis, dynamodb) = (kinesis_client(&aws), dynamodb_client(&aws));
        create_leases(&dynamodb).await;
        Self { aws, kinesis, dynamodb }
    }

    /// Writes to one of the services.
    async fn write(&self, service: Service) -> End {
        match service {
            Service::Kinesis => {
                let call = self.kinesis.put_record().stream_name("flights").partition_key("a");
                end(call.data(Blob::new("x")).send().await)
            }
            Service::DynamoDb => {
                let key = AttributeValue::S("shard".into());
                end(self.dynamodb.put_item().table_name("leases").item("leaseKey", key).send().await)
            }
        }
    }

    /// Whether something was written.
    async fn is_written(&self, service: Service) -> bool {
        match service {
            Service::Kinesis => !self.aws.records("flights").unwrap().is_empty(),
            Service::DynamoDb => self.dynamodb.scan().table_name("leases").send().await.unwrap().count() > 0,
        }
    }
}

fn write_to(service: Service) -> Fault {
    match service {
        Service::Kinesis => Fault::on("PutRecord").stream("flights"),
        Service::DynamoDb => Fault::on("PutItem").table("leases").key("shard"),
    }
}

/// What a fault does.
type Kind = fn(Fault) -> Fault;

const BOTH: [Service; 2] = [Service::Kinesis, Service::DynamoDb];

#[tokio::test]
async fn a_refused_call_is_not_applied_and_one_refused_afterwards_is() {
    for service in BOTH {
        let world = World::new().await;
        let refusal = Refusal::new("KMSThrottlingException").status(429).message("one at a time");
        let seen = End::Refused(429, "KMSThrottlingException".into(), "one at a time".into());
        let before = world.aws.faults().add(write_to(service).times(1).error(refusal.clone()));
        assert_eq!(world.write(service).await, seen, "{service}");
        assert!(!world.is_written(service).await, "{service}");

        let after = world.aws.faults().add(write_to(service).times(1).error_after(refusal));
        assert_eq!(world.write(service).await, seen, "{service}");
        assert!(world.is_written(service).await, "{service}");
        assert_eq!(world.write(service).await, End::Served, "{service}");
        assert_eq!((before.seen(), before.fired(), after.fired()), (3, 1, 1), "{service}");
    }
}

#[tokio::test]
async fn a_code_alone_has_its_usual_status() {
    for service in BOTH {
        let world = World::new().await;
        for (code, status) in
            [("InternalFailure", 500), ("ServiceUnavailable", 503), ("LimitExceededException", 400)]
        {
            world.aws.faults().add(write_to(service).times(1).error(code));
            let End::Refused(seen, name, _) = world.write(service).await else { panic!("{code}") };
            assert_eq!((seen, name.as_str()), (status, code), "{service}");
        }
    }
}

#[tokio::test]
async fn a_throttled_call_is_refused_in_the_words_of_its_service() {
    for (service, word) in
        [(Service::Kinesis, "Rate exceeded"), (Service::DynamoDb, "provisioned throughput")]
    {
        let world = World::new().await;
        world.aws.faults().add(Fault::on_any().service(service).throttle());
        let End::Refused(400, code, message) = world.write(service).await else { panic!("{service}") };
        assert_eq!(code, "ProvisionedThroughputExceededException");
        assert!(message.contains(word), "{message}");
        world.aws.faults().clear();
        assert!(!world.is_written(service).await);
    }
}

#[tokio::test]
async fn a_lost_reply_half_a_body_and_a_reset_are_no_replies() {
    let kinds: [(Kind, bool); 3] =
        [(Fault::reset, false), (Fault::lose_reply, true), (Fault::half_body, true)];
    for service in BOTH {
        for (kind, applied) in kinds {
            let world = World::new().await;
            let other = match service {
                Service::Kinesis => Service::DynamoDb,
                Service::DynamoDb => Service::Kinesis,
            };
            world.aws.faults().add(kind(write_to(service)));
            assert_eq!(world.write(service).await, End::Broken, "{service}");
            assert_eq!(world.is_written(service).await, applied, "{service}");
            assert_eq!(world.write(other).await, End::Served, "{service}");
            world.aws.faults().clear();
            assert_eq!(world.write(service).await, End::Served, "{service}");
        }
    }
}

#[tokio::test]
async fn a_call_that_hangs_or_stalls_ends_with_the_services() {
    for (service, kind) in BOTH
        .into_iter()
        .flat_map(|service| [(service, Fault::hang as Kind), (service, Fault::stall_body as Kind)])
    {
        let world = World::new().await;
        let applied = kind(Fault::on_any()) == Fault::on_any().stall_body();
        let fault = world.aws.faults().add(kind(write_to(service)));
        let (kinesis, dynamodb) = (world.kinesis.clone(), world.dynamodb.clone());
        let World { aws, .. } = world;
        let (told, hears) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let world = World { aws, kinesis, dynamodb };
            tokio::select! {
                end = world.write(service) => panic!("{end:?}"),
                _ = hears => {}
            }
            world
        });
        fault.until_fired(1).await;
        told.send(()).unwrap();
        let world = task.await.unwrap();
        assert_eq!(world.is_written(service).await, applied, "{service}");
        // What hangs does not hold up the end.
        tokio::time::timeout(Duration::from_secs(4), world.aws.stop()).await.unwrap();
    }
}

#[tokio::test]
async fn a_delayed_call_is_served_later() {
    for service in BOTH {
        let world = World::new().await;
        world.aws.faults().add(write_to(service).delay(Duration::from_millis(30)));
        world.aws.faults().add(write_to(service).delay(Duration::from_millis(30)));
        let start = Instant::now();
        assert_eq!(world.write(service).await, End::Served);
        assert!(start.elapsed() >= Duration::from_millis(60), "{service}");
    }
}

#[tokio::test]
async fn a_reply_is_changed_by_a_patch_and_by_a_function() {
    let world = World::new().await;
    let faults = world.aws.faults();
    faults.add(Fault::on("PutRecord").merge(json!({"ShardId": "elsewhere"})));
    faults.add(Fault::on("PutRecord").rewrite(|reply| reply["SequenceNumber"] = "5".into()));
    let put = world.kinesis.put_record().stream_name("flights").partition_key("a").data(Blob::new("x"));
    let put = put.send().await.unwrap();
    assert_eq!((put.shard_id(), put.sequence_number()), ("elsewhere", "5"));

    faults.add(Fault::on("Scan").merge(json!({"Count": 3, "ScannedCount": null})));
    faults.add(Fault::on("Scan").rewrite(|reply| reply["Items"] = json!([{"leaseKey": {"S": "ghost"}}])));
    let scan = world.dynamodb.scan().table_name("leases").send().await.unwrap();
    assert_eq!((scan.count(), scan.scanned_count()), (3, 0));
    assert_eq!(scan.items()[0]["leaseKey"], AttributeValue::S("ghost".into()));
}

#[tokio::test]
async fn a_fault_strikes_only_what_it_is_for() {
    let world = World::new().await;
    let faults = world.aws.faults();
    for other in [
        Fault::on("PutRecord").stream("trains"),
        Fault::on("PutItem").service(Service::DynamoDb).table("jobs"),
        Fault::on("GetRecords").shard("shardId-000000000000"),
        Fault::on("PutItem").table("jobs"),
        Fault::on("PutItem").key("another shard"),
        Fault::on("UpdateItem"),
    ] {
        faults.add(other.error("InternalFailure"));
    }
    for service in BOTH {
        assert_eq!(world.write(service).await, End::Served);
    }
    assert!(faults.list().iter().all(|fault| fault.seen == 0));
}

#[tokio::test]
async fn a_shard_is_struck_by_its_iterators() {
    let world = World::new().await;
    let [_, right] = world.aws.split("flights", "shardId-000000000000").unwrap();
    let fault =
        world.aws.faults().add(Fault::on("GetRecords").shard(right.as_str()).error("InternalFailure"));
    for shard in world.aws.shards("flights").unwrap() {
        let call = world.kinesis.get_shard_iterator().stream_name("flights").shard_id(shard.id.as_str());
        let iterator = call.shard_iterator_type("TRIM_HORIZON".into()).send().await.unwrap();
        let read = world.kinesis.get_records().set_shard_iterator(iterator.shard_iterator).send().await;
        assert_eq!(read.is_err(), shard.id == right, "{}", shard.id);
    }
    assert_eq!(fault.fired(), 1);
    let reads = Selector::on("GetRecords");
    assert_eq!(world.aws.calls_of(&reads), 3);
    assert_eq!(world.aws.calls_of(&reads.clone().shard(right.as_str())), 1);
    assert_eq!(world.aws.calls_of(&reads.stream("trains")), 0);
    assert_eq!(world.aws.calls("CreateTable"), 1);
    assert_eq!(world.aws.calls_of(&Selector::any().table("leases")), 1);
}

#[tokio::test]
async fn removed_faults_strike_no_more_and_keep_their_counts() {
    let world = World::new().await;
    let fault = world.aws.faults().add(Fault::on("PutRecord").error("InternalFailure"));
    assert!(matches!(world.write(Service::Kinesis).await, End::Refused(..)));
    fault.remove();
    assert_eq!(world.write(Service::Kinesis).await, End::Served);
    assert_eq!((fault.seen(), fault.fired()), (1, 1));
    assert!(world.aws.faults().list().is_empty());
    assert!(!world.aws.faults().remove(fault.id()));
}

#[tokio::test]
async fn the_same_seed_brings_the_same_faults() {
    let run = |seed| async move {
        let aws = LocalAws::builder().seed(seed).start().await.unwrap();
        let client = kinesis_client(&aws);
        aws.faults().add(Fault::on("ListStreams").chance(0.5).error("InternalFailure"));
        let mut ends = Vec::new();
        for _ in 0..64 {
            ends.push(client.list_streams().send().await.is_ok());
        }
        ends
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}

#[tokio::test]
#[should_panic(expected = "the nearest is GetRecords")]
async fn a_fault_that_could_never_strike_stops_the_test_that_adds_it() {
    LocalAws::start().await.unwrap().faults().add(Fault::on("GetRecord").throttle());
}

#[tokio::test]
async fn a_fault_that_could_never_strike_keeps_the_services_from_starting() {
    let builder = LocalAws::builder().fault(Fault::on("ListStreams").empty_page());
    let error = builder.start().await.unwrap_err();
    assert!(matches!(&error, StartError::Fault(why) if why.to_string().contains("GetRecords")), "{error:?}");
}
