//! Every key of a consumer's and of a producer's section, once: its name, its field and what it allows. Reading a file, checking typed
//! settings and telling known keys from unknown ones all walk this list.

use std::time::{Duration, SystemTime};

use super::aws::AwsConf;
use super::consumer::{BackoffConf, ConsumerConf, FailurePolicy, InitialPosition, LeaseConf, WorkerConf};
use super::kinds::{AtOnce, Bytes, Choice, Flag, Instant, Kind, Name, Percentage, Span, Text, Url, Whole};
use super::producer::{Ordering, ProducerConf};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// As good as for ever.
pub(super) const CENTURY: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// The length of a stream's name, as Kinesis has it.
pub(super) const STREAM_NAME: Name = Name(1..=128);
/// The length of a table's name, as DynamoDB has it.
pub(super) const TABLE_NAME: Name = Name(3..=255);

/// What is done with each key.
pub(super) trait Visit {
    /// A setting that always has a value.
    fn required<K: Kind>(&mut self, key: &'static str, field: &mut K::Value, kind: K);

    /// A setting that may be null.
    fn optional<K: Kind>(&mut self, key: &'static str, field: &mut Option<K::Value>, kind: K);

    /// `key` should have a value, for another setting needs it.
    fn missing(&mut self, _key: &'static str, _allowed: String) {}

    /// Settings of the section `key` do not fit together.
    fn unfit(&mut self, _key: &'static str, _found: String, _allowed: String) {}
}

/// Visits all keys of a consumer.
pub(super) fn consumer(conf: &mut ConsumerConf, visit: &mut impl Visit) {
    visit.required("stream-name", &mut conf.stream_name, STREAM_NAME);
    aws(&mut conf.aws, visit);
    initial_position(&mut conf.initial_position, visit);
    worker(&mut conf.worker, visit);
    visit.required("checkpointer.interval", &mut conf.checkpointer.interval, Span(MILLISECOND..=HOUR));
    let keys = ["checkpointer.backoff.min", "checkpointer.backoff.max"];
    backoff("checkpointer.backoff", keys, &mut conf.checkpointer.backoff, visit);
    lease(&mut conf.lease, visit);
    visit.required("polling.max-records", &mut conf.polling.max_records, Whole(1..=10_000));
    visit.required("polling.idle-time", &mut conf.polling.idle_time, Span(200 * MILLISECOND..=HOUR));
}

/// Visits all keys of a producer.
pub(super) fn producer(conf: &mut ProducerConf, visit: &mut impl Visit) {
    const ORDERINGS: &[(&str, Ordering)] =
        &[("none", Ordering::None), ("partition-key", Ordering::PartitionKey)];
    visit.required("stream-name", &mut conf.stream_name, STREAM_NAME);
    aws(&mut conf.aws, visit);
    visit.required("ordering", &mut conf.ordering, Choice(ORDERINGS));
    visit.required("record-ttl", &mut conf.record_ttl, Span(100 * MILLISECOND..=CENTURY));
    let buffered = &mut conf.record_max_buffered_time;
    visit.required("record-max-buffered-time", buffered, Span(Duration::ZERO..=DAY));
    visit.required("max-record-size", &mut conf.max_record_size, Bytes(64..=10 * MIB));
    let outstanding = &mut conf.max_outstanding_requests;
    visit.required("max-outstanding-requests", outstanding, Whole(1..=10_000_000));
    visit.required("max-outstanding-bytes", &mut conf.max_outstanding_bytes, Bytes(MIB..=TIB));
    visit.required("max-in-flight-calls", &mut conf.max_in_flight_calls, Whole(1..=256));
    visit.required("request-timeout", &mut conf.request_timeout, Span(100 * MILLISECOND..=10 * MINUTE));
    visit.required("rate-limit", &mut conf.rate_limit, Whole(1..=1_000_000));
    visit.required("fail-if-throttled", &mut conf.fail_if_throttled, Flag);
    backoff("retry-backoff", ["retry-backoff.min", "retry-backoff.max"], &mut conf.retry_backoff, visit);
    let aggregation = &mut conf.aggregation;
    visit.required("aggregation.enabled", &mut aggregation.enabled, Flag);
    visit.required("aggregation.max-count", &mut aggregation.max_count, Whole(1..=u64::MAX));
    visit.required("aggregation.max-size", &mut aggregation.max_size, Bytes(64..=10 * MIB));
    visit.required("collection.max-count", &mut conf.collection.max_count, Whole(1..=500));
    visit.required("collection.max-size", &mut conf.collection.max_size, Bytes(52_224..=10 * MIB));
    visit.optional("outbox.path", &mut conf.outbox.path, Text);
    visit.required("outbox.max-bytes", &mut conf.outbox.max_bytes, Bytes(MIB..=TIB));
    visit.required("outbox.max-events", &mut conf.outbox.max_events, Whole(1..=100_000_000));
}

fn aws(conf: &mut AwsConf, visit: &mut impl Visit) {
    visit.optional("aws.region", &mut conf.region, Text);
    visit.optional("aws.profile", &mut conf.profile, Text);
    visit.optional("aws.endpoint-url", &mut conf.endpoint_url, Url);
    visit.optional("aws.kinesis-endpoint", &mut conf.kinesis_endpoint, Url);
    visit.optional("aws.dynamodb-endpoint", &mut conf.dynamodb_endpoint, Url);
    visit.optional("aws.role-arn", &mut conf.role_arn, Text);
    visit.optional("aws.role-session-name", &mut conf.role_session_name, Text);
    visit.optional("aws.external-id", &mut conf.external_id, Text);
    visit.required("aws.connect-timeout", &mut conf.connect_timeout, Span(100 * MILLISECOND..=5 * MINUTE));
    visit.required("aws.request-timeout", &mut conf.request_timeout, Span(100 * MILLISECOND..=10 * MINUTE));
}

#[derive(Clone, Copy, PartialEq)]
enum Start {
    TrimHorizon,
    Latest,
    AtTimestamp,
}

fn initial_position(position: &mut InitialPosition, visit: &mut impl Visit) {
    const STARTS: &[(&str, Start)] = &[
        ("trim-horizon", Start::TrimHorizon),
        ("latest", Start::Latest),
        ("at-timestamp", Start::AtTimestamp),
    ];
    let (mut start, mut instant): (Start, Option<SystemTime>) = match *position {
        InitialPosition::TrimHorizon => (Start::TrimHorizon, None),
        InitialPosition::Latest => (Start::Latest, None),
        InitialPosition::AtTimestamp(instant) => (Start::AtTimestamp, Some(instant)),
    };
    visit.required("initial-position", &mut start, Choice(STARTS));
    visit.optional("initial-timestamp", &mut instant, Instant);
    match (start, instant) {
        (Start::TrimHorizon, _) => *position = InitialPosition::TrimHorizon,
        (Start::Latest, _) => *position = InitialPosition::Latest,
        (Start::AtTimestamp, Some(instant)) => *position = InitialPosition::AtTimestamp(instant),
        (Start::AtTimestamp, None) => {
            let allowed = format!("initial-position = at-timestamp needs {}", Instant.allowed());
            visit.missing("initial-timestamp", allowed);
        }
    }
}

fn worker(conf: &mut WorkerConf, visit: &mut impl Visit) {
    const POLICIES: &[(&str, FailurePolicy)] = &[
        ("restart-shard", FailurePolicy::RestartShard),
        ("skip", FailurePolicy::Skip),
        ("stop-shard", FailurePolicy::StopShard),
        ("stop-consumer", FailurePolicy::StopConsumer),
    ];
    visit.required("worker.batch-timeout", &mut conf.batch_timeout, Span(MILLISECOND..=DAY));
    visit.required("worker.failed-message-retries", &mut conf.failed_message_retries, Whole(0..=1000));
    visit.required("worker.failure-tolerance-percentage", &mut conf.failure_tolerance_percentage, Percentage);
    visit.required("worker.failure-policy", &mut conf.failure_policy, Choice(POLICIES));
    visit.required("worker.concurrency", &mut conf.concurrency, AtOnce(1..=10_000));
    let keys = ["worker.restart-backoff.min", "worker.restart-backoff.max"];
    backoff("worker.restart-backoff", keys, &mut conf.restart_backoff, visit);
    visit.optional("worker.max-restarts", &mut conf.max_restarts, Whole(0..=u32::MAX));
    visit.required("worker.graceful-shutdown-hook", &mut conf.graceful_shutdown_hook, Flag);
    visit.required("worker.shutdown-timeout", &mut conf.shutdown_timeout, Span(MILLISECOND..=DAY));
    visit.required("worker.max-in-flight-events", &mut conf.max_in_flight_events, Whole(1..=1_000_000));
    visit.required("worker.max-bytes", &mut conf.max_bytes, Bytes(MIB..=TIB));
    visit.required("worker.arbiters", &mut conf.arbiters, Whole(1..=64));
}

fn backoff(
    section: &'static str,
    [min, max]: [&'static str; 2],
    conf: &mut BackoffConf,
    visit: &mut impl Visit,
) {
    let span = || Span(MILLISECOND..=HOUR);
    visit.required(min, &mut conf.min, span());
    visit.required(max, &mut conf.max, span());
    if conf.min > conf.max {
        let found = format!("min {}, max {}", span().show(&conf.min), span().show(&conf.max));
        visit.unfit(section, found, "a min that is not above max".to_owned());
    }
}

fn lease(conf: &mut LeaseConf, visit: &mut impl Visit) {
    visit.optional("lease.table-name", &mut conf.table_name, TABLE_NAME);
    visit.optional("lease.worker-id", &mut conf.worker_id, Text);
    visit.required("lease.failover-time", &mut conf.failover_time, Span(SECOND..=10 * MINUTE));
    visit.required("lease.shard-sync-interval", &mut conf.shard_sync_interval, Span(SECOND..=DAY));
    visit.optional("lease.max-leases", &mut conf.max_leases, Whole(1..=u32::MAX));
    visit.optional("lease.max-steals", &mut conf.max_steals, Whole(1..=u32::MAX));
    visit.required("lease.hand-over-timeout", &mut conf.hand_over_timeout, Span(SECOND..=10 * MINUTE));
}
