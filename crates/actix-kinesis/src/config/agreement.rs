//! `reference.conf`, the typed settings and what the code knows of keys must say the same.

use std::collections::BTreeSet;

use config::{Source, ValueKind};

use super::consumer::{BackoffConf, CheckpointerConf, ConsumerConf, LeaseConf, PollingConf, WorkerConf};
use super::leaves::Leaves;
use super::producer::{AggregationConf, CollectionConf, OutboxConf, ProducerConf};
use super::source::{Hocon, REFERENCE};
use super::{AwsConf, reactive, reader};

const CONSUMER: &str = "default-consumer";
const PRODUCER: &str = "default-producer";

/// The leaves of `reference.conf` as a consumer or producer sees them.
fn reference(defaults: &str) -> Leaves {
    let layer = Hocon::reference().unwrap().collect().unwrap().remove("kinesis").unwrap();
    let ValueKind::Table(kinesis) = layer.kind else { panic!("no section") };
    let aws = Leaves::of(&kinesis["aws"], "kinesis.aws", "aws");
    Leaves::of(&kinesis[defaults], &format!("kinesis.{defaults}"), "").over(&aws)
}

#[test]
fn the_reference_has_every_key_and_no_other() {
    for (defaults, known) in [(CONSUMER, reader::consumer_keys()), (PRODUCER, reader::producer_keys())] {
        let mut written: BTreeSet<_> = reference(defaults).0.into_keys().collect();
        // The empty section of a consumer's own overrides.
        assert!(written.remove("aws"));
        let mut expected: BTreeSet<_> = known.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(expected.len(), known.len());
        assert!(expected.remove("stream-name"));
        assert_eq!(written, expected);
    }
}

#[test]
fn the_reference_has_the_typed_defaults() {
    let mut problems = Vec::new();
    let mut leaves = reference(CONSUMER);
    leaves.0.remove("aws");
    let read = reader::read("application", &leaves, "kinesis.default-consumer", &mut problems);
    assert_eq!(read, ConsumerConf::new("application", "stream-name"));
    let mut leaves = reference(PRODUCER);
    leaves.0.remove("aws");
    let read = reader::read_producer(&leaves, "kinesis.default-producer", &mut problems);
    assert_eq!(read, ProducerConf::new("stream-name"));
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn every_field_has_a_key() {
    // A new field does not compile here until its keys are counted.
    let ConsumerConf {
        application_name: _,
        stream_name: _,
        aws,
        initial_position: _,
        worker,
        checkpointer,
        lease,
        polling,
    } = ConsumerConf::new("application", "stream-name");
    let AwsConf {
        region: _,
        profile: _,
        endpoint_url: _,
        kinesis_endpoint: _,
        dynamodb_endpoint: _,
        role_arn: _,
        role_session_name: _,
        external_id: _,
        connect_timeout: _,
        request_timeout: _,
    } = aws;
    let WorkerConf {
        batch_timeout: _,
        failed_message_retries: _,
        failure_tolerance_percentage: _,
        failure_policy: _,
        concurrency: _,
        restart_backoff: BackoffConf { min: _, max: _ },
        max_restarts: _,
        graceful_shutdown_hook: _,
        shutdown_timeout: _,
        max_in_flight_events: _,
        max_bytes: _,
        arbiters: _,
    } = worker;
    let CheckpointerConf { interval: _, backoff: BackoffConf { min: _, max: _ } } = checkpointer;
    let LeaseConf {
        table_name: _,
        worker_id: _,
        failover_time: _,
        shard_sync_interval: _,
        max_leases: _,
        max_steals: _,
        hand_over_timeout: _,
    } = lease;
    let PollingConf { max_records: _, idle_time: _ } = polling;
    let (aws, worker, checkpointer, lease, polling) = (10, 13, 3, 7, 2);
    let stream_name_position_and_timestamp = 3;
    let fields = stream_name_position_and_timestamp + aws + worker + checkpointer + lease + polling;
    assert_eq!(reader::consumer_keys().len(), fields);

    let ProducerConf {
        stream_name: _,
        aws: _,
        ordering: _,
        record_ttl: _,
        record_max_buffered_time: _,
        max_record_size: _,
        max_outstanding_requests: _,
        max_outstanding_bytes: _,
        max_in_flight_calls: _,
        request_timeout: _,
        rate_limit: _,
        fail_if_throttled: _,
        retry_backoff: BackoffConf { min: _, max: _ },
        aggregation: AggregationConf { enabled: _, max_count: _, max_size: _ },
        collection: CollectionConf { max_count: _, max_size: _ },
        outbox: OutboxConf { path: _, max_bytes: _, max_events: _ },
    } = ProducerConf::new("stream-name");
    let (own, backoff, aggregation, collection, outbox) = (11, 2, 3, 2, 3);
    assert_eq!(reader::producer_keys().len(), own + aws + backoff + aggregation + collection + outbox);
}

#[test]
fn every_key_of_the_reference_has_a_comment_right_above() {
    let lines: Vec<_> = REFERENCE.lines().map(str::trim).collect();
    let mut keys = 0;
    for (above, line) in lines.iter().zip(&lines[1..]) {
        let is_comment = |line: &str| line.starts_with('#') || line.is_empty();
        if is_comment(line) || *line == "}" || line.starts_with("kinesis ") {
            continue;
        }
        keys += 1;
        assert!(above.starts_with('#') && above.len() > 2, "no comment above: {line}");
    }
    let (sections, sections_of_producers, aws) = (10, 6, 10);
    let written = reference(CONSUMER).0.len() - 1 + reference(PRODUCER).0.len() - 1 - aws;
    assert_eq!(keys, written + sections + sections_of_producers - 1);
}

#[test]
fn every_counterpart_that_the_reference_names_is_translated() {
    let reactive: BTreeSet<_> = reactive::keys().collect();
    let named = REFERENCE.split('(').skip(1).filter_map(|rest| rest.split([')', ',']).next());
    let named: Vec<_> = named
        .filter(|it| {
            ["akka.", "kcl.", "kpl.", "worker.", "checkpointer."].iter().any(|group| it.starts_with(group))
        })
        .collect();
    assert!(named.len() > 28, "{named:?}");
    for key in named {
        assert!(reactive.contains(key), "{key}");
    }
}
