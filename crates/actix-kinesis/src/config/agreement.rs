//! `reference.conf`, the typed settings and what the code knows of keys must say the same.

use std::collections::BTreeSet;

use config::{Source, ValueKind};

use super::consumer::{BackoffConf, CheckpointerConf, ConsumerConf, LeaseConf, PollingConf, WorkerConf};
use super::leaves::Leaves;
use super::source::{Hocon, REFERENCE};
use super::{AwsConf, reactive, reader};

/// The leaves of `reference.conf` as a consumer sees them.
fn reference() -> Leaves {
    let layer = Hocon::reference().unwrap().collect().unwrap().remove("kinesis").unwrap();
    let ValueKind::Table(kinesis) = layer.kind else { panic!("no section") };
    let aws = Leaves::of(&kinesis["aws"], "kinesis.aws", "aws");
    Leaves::of(&kinesis["default-consumer"], "kinesis.default-consumer", "").over(&aws)
}

#[test]
fn the_reference_has_every_key_and_no_other() {
    let mut written: BTreeSet<_> = reference().0.into_keys().collect();
    // The empty section of a consumer's own overrides.
    assert!(written.remove("aws"));
    let known = reader::known_keys();
    let mut expected: BTreeSet<_> = known.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(expected.len(), known.len());
    assert!(expected.remove("stream-name"));
    assert_eq!(written, expected);
}

#[test]
fn the_reference_has_the_typed_defaults() {
    let mut leaves = reference();
    leaves.0.remove("aws");
    let mut problems = Vec::new();
    let read = reader::read("application", &leaves, "kinesis.default-consumer", &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(read, ConsumerConf::new("application", "stream-name"));
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
    let (aws, worker, checkpointer, lease, polling) = (10, 12, 3, 7, 2);
    let stream_name_position_and_timestamp = 3;
    let fields = stream_name_position_and_timestamp + aws + worker + checkpointer + lease + polling;
    assert_eq!(reader::known_keys().len(), fields);
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
    let sections = 10;
    assert_eq!(keys, reference().0.len() - 1 + sections);
}

#[test]
fn every_counterpart_that_the_reference_names_is_translated() {
    let reactive: BTreeSet<_> = reactive::keys().collect();
    let named = REFERENCE.split('(').skip(1).filter_map(|rest| rest.split([')', ',']).next());
    let named: Vec<_> = named
        .filter(|it| ["kcl.", "worker.", "checkpointer."].iter().any(|group| it.starts_with(group)))
        .collect();
    assert!(named.len() > 15, "{named:?}");
    for key in named {
        assert!(reactive.contains(key), "{key}");
    }
}
