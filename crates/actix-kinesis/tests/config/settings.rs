//! What a configuration says: settings, merging over the defaults, and what is refused.

use std::time::{Duration, SystemTime};

use crate::SECOND;
use crate::support::{assert_tells, load, load_in, orders, refusal, refused, with_orders};
use actix_kinesis::config::{Concurrency, ConsumerConf, FailurePolicy, InitialPosition, Ordering};

#[test]
fn a_consumer_needs_no_more_than_its_streams_name() {
    assert_eq!(orders(""), ConsumerConf::new("billing", "orders"));
}

#[test]
fn every_setting_can_be_written() {
    let conf = orders(
        r#"aws {
             region = eu-west-1, profile = prod, endpoint-url = "http://localhost:1"
             kinesis-endpoint = "http://localhost:2", dynamodb-endpoint = "http://localhost:3"
             role-arn = "arn:aws:iam::123456789012:role/reader", role-session-name = billing, external-id = x1
             connect-timeout = 1s, request-timeout = 2s
           }
           initial-position = at-timestamp
           initial-timestamp = "2026-05-01T00:00:00Z"
           worker {
             batch-timeout = 5s, failed-message-retries = 3, failure-tolerance-percentage = 0.5
             failure-policy = stop-shard, concurrency = key(32), restart-backoff { min = 2s, max = 5 minutes }, max-restarts = 10
             graceful-shutdown-hook = yes, shutdown-timeout = 40s, max-in-flight-events = 100
             max-bytes = 2MiB, arbiters = 4
           }
           checkpointer { interval = 10s, backoff { min = 1s, max = 1m } }
           lease { table-name = leases, worker-id = 007, failover-time = 30s, shard-sync-interval = 2m, max-leases = 5 }
           polling { max-records = 500, idle-time = 250ms }"#,
    );
    assert_eq!(conf.aws.region.as_deref(), Some("eu-west-1"));
    assert_eq!(conf.aws.profile.as_deref(), Some("prod"));
    assert_eq!(conf.aws.endpoint_url.as_deref(), Some("http://localhost:1"));
    assert_eq!(conf.aws.kinesis_endpoint.as_deref(), Some("http://localhost:2"));
    assert_eq!(conf.aws.dynamodb_endpoint.as_deref(), Some("http://localhost:3"));
    assert_eq!(conf.aws.role_arn.as_deref(), Some("arn:aws:iam::123456789012:role/reader"));
    assert_eq!(conf.aws.role_session_name.as_deref(), Some("billing"));
    assert_eq!(conf.aws.external_id.as_deref(), Some("x1"));
    assert_eq!((conf.aws.connect_timeout, conf.aws.request_timeout), (SECOND, 2 * SECOND));
    let instant = SystemTime::UNIX_EPOCH + Duration::from_secs(1_777_593_600);
    assert_eq!(conf.initial_position, InitialPosition::AtTimestamp(instant));
    assert_eq!(conf.worker.batch_timeout, 5 * SECOND);
    assert_eq!(conf.worker.failed_message_retries, 3);
    assert_eq!(conf.worker.failure_tolerance_percentage, 0.5);
    assert_eq!(conf.worker.failure_policy, FailurePolicy::StopShard);
    assert_eq!(conf.worker.concurrency, Concurrency::Key(32));
    assert_eq!(
        (conf.worker.restart_backoff.min, conf.worker.restart_backoff.max),
        (2 * SECOND, 300 * SECOND)
    );
    assert_eq!(conf.worker.max_restarts, Some(10));
    assert!(conf.worker.graceful_shutdown_hook);
    assert_eq!(conf.worker.shutdown_timeout, 40 * SECOND);
    assert_eq!(conf.worker.max_in_flight_events, 100);
    assert_eq!(conf.worker.max_bytes, 2 << 20);
    assert_eq!(conf.worker.arbiters, 4);
    assert_eq!(conf.checkpointer.interval, 10 * SECOND);
    assert_eq!((conf.checkpointer.backoff.min, conf.checkpointer.backoff.max), (SECOND, 60 * SECOND));
    assert_eq!(conf.table_name(), "leases");
    assert_eq!(conf.lease.worker_id.as_deref(), Some("007"));
    assert_eq!(conf.lease.failover_time, 30 * SECOND);
    assert_eq!(conf.lease.shard_sync_interval, 120 * SECOND);
    assert_eq!(conf.lease.max_leases, Some(5));
    assert_eq!(conf.polling.max_records, 500);
    assert_eq!(conf.polling.idle_time, Duration::from_millis(250));
}

#[test]
fn consumers_are_merged_over_the_defaults_key_by_key() {
    let config = load(
        r#"kinesis {
             application-name = billing
             aws { region = eu-west-1, profile = all, request-timeout = 20s }
             default-consumer {
               aws { profile = consumers, connect-timeout = 1s }
               worker { batch-timeout = 5s, max-restarts = 3 }
             }
             orders { stream-name = orders, worker.failed-message-retries = 0, aws.profile = orders }
             "my.stream" {
               stream-name = my.stream
               worker { batch-timeout = null, max-restarts = null }
               aws.region = null
             }
             third { stream-name = third, worker = null, aws = null }
           }"#,
    )
    .unwrap();
    assert_eq!(config.consumer_names().collect::<Vec<_>>(), ["my.stream", "orders", "third"]);
    let orders = config.consumer("orders").unwrap();
    assert_eq!((orders.worker.batch_timeout, orders.worker.max_restarts), (5 * SECOND, Some(3)));
    assert_eq!(orders.worker.failed_message_retries, 0);
    assert_eq!(
        (orders.aws.region.as_deref(), orders.aws.profile.as_deref()),
        (Some("eu-west-1"), Some("orders"))
    );
    assert_eq!((orders.aws.connect_timeout, orders.aws.request_timeout), (SECOND, 20 * SECOND));
    let dotted = config.consumer("my.stream").unwrap();
    assert_eq!(dotted.table_name(), "billing-my.stream");
    assert_eq!((dotted.worker.batch_timeout, dotted.worker.max_restarts), (10 * SECOND, None));
    assert_eq!((dotted.aws.region.as_deref(), dotted.aws.profile.as_deref()), (None, Some("consumers")));
    let third = config.consumer("third").unwrap();
    assert_eq!(third, ConsumerConf::new("billing", "third"));
}

#[test]
fn an_unknown_consumer_is_answered_with_the_known_ones() {
    let config = load(
        "kinesis { application-name = a, orders.stream-name = o, payments.stream-name = p, spare.worker {}
         out { stream-name = s, kpl.RateLimit = 100 } }",
    )
    .unwrap();
    let error = |name: &str| config.consumer(name).unwrap_err().to_string();
    assert_tells(
        &error("order"),
        &["kinesis.order:", "did you mean orders?", "known consumers: orders, payments"],
    );
    assert_tells(&error("spare"), &["no stream-name"]);
    assert_tells(&error("out"), &["a producer's"]);
}

#[test]
fn an_unknown_producer_is_answered_with_the_known_ones() {
    let config = load(
        "kinesis { application-name = a, both.stream-name = b, out { stream-name = s, ordering = none }
         in { stream-name = s, worker.batch-timeout = 5s } }",
    )
    .unwrap();
    let error = |name: &str| config.producer(name).unwrap_err().to_string();
    assert_tells(&error("bot"), &["kinesis.bot:", "did you mean both?", "known producers: both, out"]);
    assert_tells(&error("in"), &["a consumer's"]);
}

#[test]
fn a_producer_lies_over_its_defaults_and_those_of_aws() {
    let config = load(
        "kinesis { application-name = a, aws { region = eu-west-1, profile = all }
         default-producer { record-ttl = 10s, aws.profile = producers, aggregation.max-size = 1KiB }
         out { stream-name = s, record-ttl = 1 minute, rate-limit = 100, aggregation.enabled = off
           aggregation.max-size = null }
         both { stream-name = b, ordering = partition-key, worker.batch-timeout = 5s } }",
    )
    .unwrap();
    let out = config.producer("out").unwrap();
    assert_eq!((out.record_ttl, out.rate_limit), (60 * SECOND, 100));
    assert_eq!((out.aggregation.enabled, out.aggregation.max_size), (false, 51_200));
    assert_eq!(
        (out.aws.region.as_deref(), out.aws.profile.as_deref()),
        (Some("eu-west-1"), Some("producers"))
    );
    let both = config.producer("both").unwrap();
    assert_eq!((both.record_ttl, both.ordering), (10 * SECOND, Ordering::PartitionKey));
    assert_eq!(config.consumer("both").unwrap().worker.batch_timeout, 5 * SECOND);
}

#[test]
fn settings_of_a_producer_are_checked_with_their_path() {
    for (line, parts) in [
        ("record-ttl = 99ms", ["kinesis.orders.record-ttl", "100ms to 36500d"]),
        ("record-ttl = 10", ["kinesis.orders.record-ttl", "with its unit"]),
        ("max-outstanding-requests = 0", ["kinesis.orders.max-outstanding-requests", "1 to 10000000"]),
        ("collection.max-count = 501", ["kinesis.orders.collection.max-count", "1 to 500"]),
        ("collection.max-size = 11MiB", ["kinesis.orders.collection.max-size", "51KiB to 10MiB"]),
        ("aggregation.max-size = 63", ["kinesis.orders.aggregation.max-size", "64B to 10MiB"]),
        ("max-record-size = 11MiB", ["kinesis.orders.max-record-size", "64B to 10MiB"]),
        ("rate-limit = 0", ["kinesis.orders.rate-limit", "1 to 1000000"]),
        ("ordering = key", ["kinesis.orders.ordering", "partition-key"]),
        ("retry-backoff { min = 2s, max = 1s }", ["kinesis.orders.retry-backoff", "not above max"]),
        ("aggregation.max-sise = 1KiB", ["did you mean", "kinesis.orders.aggregation.max-size"]),
    ] {
        assert_tells(&refusal(line), &parts);
    }
    assert_tells(
        &refused("kinesis { application-name = a, default-producer.rate-limit = 0 }"),
        &["kinesis.default-producer.rate-limit"],
    );
    assert_tells(
        &refused("kinesis { application-name = a, default-producer.worker.batch-timeout = 1s }"),
        &["kinesis.default-producer.worker.batch-timeout", "unknown key"],
    );
    let warned = load(&with_orders("record-ttl = 5s")).unwrap();
    assert_tells(&warned.warnings()[0], &["kinesis.orders: record-ttl is 5s", "request-timeout"]);
}

#[test]
fn the_application_must_have_a_name() {
    assert_tells(
        &refused("kinesis { orders { stream-name = orders } }"),
        &["kinesis.application-name", "missing"],
    );
    assert_tells(
        &refused("kinesis { application-name = \"\" }"),
        &["kinesis.application-name", "an empty text"],
    );
    assert_tells(&refused(""), &["kinesis.application-name"]);
}

#[test]
fn misspelt_keys_are_refused_wherever_they_stand_with_the_nearest_known_key() {
    let error = refused(
        "kinesis {
           application-name = a
           aws.regoin = x
           aplication-nam = b
           batch-timeout = 5s
           default-consumer { worker.batch-timout = 5s }
           nobody-uses-this { stream-name = s, polling.maxrecords = 5, initial-positon = latest, lease.x.y = 1
             batch-timeout = 1s, wroker {} }
         }",
    );
    assert_tells(
        &error,
        &[
            "kinesis.aws.regoin (in the configuration text): unknown key; did you mean kinesis.aws.region?",
            "kinesis.aplication-nam (in the configuration text): unknown key; did you mean kinesis.application-name?",
            "kinesis.batch-timeout (in the configuration text): unknown key; did you mean \
             kinesis.default-consumer.worker.batch-timeout?",
            "kinesis.default-consumer.worker.batch-timout (in the configuration text): unknown key; did you mean \
             kinesis.default-consumer.worker.batch-timeout?",
            "kinesis.nobody-uses-this.polling.maxrecords",
            "did you mean kinesis.nobody-uses-this.polling.max-records?",
            "did you mean kinesis.nobody-uses-this.initial-position?",
            "kinesis.nobody-uses-this.lease.x.y (in the configuration text): unknown key",
            "did you mean kinesis.nobody-uses-this.worker.batch-timeout?",
            "kinesis.nobody-uses-this.wroker",
            "did you mean kinesis.nobody-uses-this.worker?",
            "9 problems",
        ],
    );
}

#[test]
fn a_section_that_nothing_uses_is_named_in_a_warning() {
    let config = load("kinesis { application-name = a, orders.stream-name = orders, else.x = 5 }").unwrap();
    let [unused] = config.warnings() else { panic!("{:?}", config.warnings()) };
    assert_tells(unused, &["kinesis.else has no stream-name", "used by nothing"]);
}

#[test]
fn a_misspelt_section_is_refused_with_the_right_name() {
    for (text, right) in [
        ("default-consumr.worker.batch-timeout = 5s", "kinesis.default-consumer?"),
        ("worker.batch-timeout = 5s", "kinesis.default-consumer.worker?"),
        ("orders.stream-nam = orders", "kinesis.orders.stream-name?"),
        ("orders.streamName = orders", "kinesis.orders.stream-name?"),
    ] {
        let error = load(&format!("kinesis {{ application-name = a, {text} }}")).unwrap_err();
        assert_tells(&error.to_string(), &["unknown key", &format!("did you mean {right}")]);
    }
}

#[test]
fn a_section_is_no_value_and_a_value_no_section() {
    assert_tells(&refusal("worker = 5"), &["kinesis.orders.worker", "found \"5\"", "a section"]);
    assert_tells(
        &refusal("polling.max-records = [5]"),
        &["kinesis.orders.polling.max-records", "found a list"],
    );
    assert_tells(
        &refusal("polling.max-records {}"),
        &["kinesis.orders.polling.max-records", "found a section"],
    );
    assert_tells(&refused("kinesis { application-name = a, aws = x }"), &["kinesis.aws", "a section"]);
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    let cases = [
        ("polling.max-records = 0", "a whole number, 1 to 10000"),
        ("polling.max-records = 10001", "a whole number, 1 to 10000"),
        ("polling.max-records = 10.5", "a whole number, 1 to 10000"),
        ("polling.max-records = many", "a whole number, 1 to 10000"),
        ("polling.idle-time = 199ms", "200ms to 1h"),
        ("worker.batch-timeout = 0s", "1ms to 1d"),
        ("worker.batch-timeout = -5s", "1ms to 1d"),
        ("worker.batch-timeout = 10", "a duration with its unit, 1ms to 1d"),
        ("worker.failed-message-retries = 1001", "0 to 1000"),
        ("worker.failed-message-retries = -1", "0 to 1000"),
        ("worker.failure-tolerance-percentage = 101", "0 to 100"),
        ("worker.failure-tolerance-percentage = -0.1", "0 to 100"),
        ("worker.failure-tolerance-percentage = NaN", "0 to 100"),
        ("worker.failure-policy = ignore", "restart-shard, skip, stop-shard, stop-consumer"),
        ("worker.concurrency = key(10001)", "none, shard, key(n) with n from 1 to 10000"),
        ("worker.restart-backoff.min = 2m", "a min that is not above max"),
        ("worker.max-restarts = -1", "0 to 4294967295"),
        ("worker.graceful-shutdown-hook = 1", "true or false"),
        ("worker.max-in-flight-events = 0", "1 to 1000000"),
        ("worker.max-in-flight-events = -1", "1 to 1000000"),
        ("worker.max-in-flight-events = 1000001", "1 to 1000000"),
        ("worker.max-bytes = 1MB", "1MiB to 1TiB"),
        ("worker.max-bytes = -1", "1MiB to 1TiB"),
        ("worker.arbiters = 65", "1 to 64"),
        ("checkpointer.interval = 2h", "1ms to 1h"),
        ("checkpointer.backoff.max = 100ms", "a min that is not above max"),
        ("lease.failover-time = 0s", "1s to 10m"),
        ("lease.failover-time = 999ms", "1s to 10m"),
        ("lease.max-leases = 0", "1 to 4294967295"),
        ("lease.table-name = ab", "3 to 255 of the characters"),
        ("lease.worker-id = \" \"", "not empty"),
        ("stream-name = \"a b\"", "1 to 128 of the characters"),
        ("stream-name = \"\"", "1 to 128 of the characters"),
        ("aws.endpoint-url = http://localhost", "in quotes"),
        ("aws.region = \"\"", "not empty"),
        ("aws.connect-timeout = 6m", "100ms to 5m"),
        ("initial-position = TRIM_HORIZON", "trim-horizon, latest, at-timestamp"),
    ];
    for (line, allowed) in cases {
        let key = line
            .split(' ')
            .next()
            .unwrap_or_default()
            .replace("backoff.min", "backoff")
            .replace("backoff.max", "backoff");
        let error = refusal(line);
        assert_tells(&error, &[&format!("kinesis.orders.{key}"), "found ", allowed]);
        assert!(!error.contains("problems"), "{error}");
    }
}

#[test]
fn a_wrong_default_is_told_once_and_under_its_own_path() {
    let error = refused(
        "kinesis { application-name = a, default-consumer.worker.arbiters = 0
         x.stream-name = x, y { stream-name = y, polling.max-records = 0 } }",
    );
    assert_tells(
        &error,
        &["2 problems", "kinesis.default-consumer.worker.arbiters", "kinesis.y.polling.max-records"],
    );
}

#[test]
fn numbers_and_flags_may_be_written_as_hocon_allows() {
    let conf = orders(
        "polling.max-records = 150.0, worker.failed-message-retries = \"2\", worker.max-bytes = 1e7
         worker.graceful-shutdown-hook = on, lease.max-leases = 1e3",
    );
    assert_eq!((conf.polling.max_records, conf.worker.failed_message_retries), (150, 2));
    assert_eq!((conf.worker.max_bytes, conf.lease.max_leases), (10_000_000, Some(1000)));
    assert!(conf.worker.graceful_shutdown_hook);
    assert_eq!(orders("stream-name = 123").stream_name, "123");
}

#[test]
fn the_concurrency_is_a_word_with_or_without_a_number() {
    for (text, concurrency) in [
        ("none", Concurrency::None),
        ("shard", Concurrency::Shard),
        ("key(1)", Concurrency::Key(1)),
        ("\"key(10000)\"", Concurrency::Key(10_000)),
        ("key( 8 )", Concurrency::Key(8)),
        ("null", Concurrency::None),
    ] {
        assert_eq!(orders(&format!("worker.concurrency = {text}")).worker.concurrency, concurrency, "{text}");
    }
    for text in
        ["key", "32", "Shard", "key()", "key(-1)", "key(1.5)", "key(32", "shard(2)", "key(0)", "[key(2)]"]
    {
        let parts =
            ["kinesis.orders.worker.concurrency", "found ", "none, shard, key(n) with n from 1 to 10000"];
        assert_tells(&refusal(&format!("worker.concurrency = {text}")), &parts);
    }
    let environment = [("KINESIS__ORDERS__WORKER__CONCURRENCY", "key(16)")];
    let config = load_in(&with_orders("worker.concurrency = shard"), &environment).unwrap();
    assert_eq!(config.consumer("orders").unwrap().worker.concurrency, Concurrency::Key(16));

    let mut conf = ConsumerConf::new("billing", "orders");
    conf.worker.concurrency = Concurrency::Key(0);
    let error = conf.validate().unwrap_err().to_string();
    assert_tells(&error, &["worker.concurrency: found key(0); allowed: none, shard, key(n)"]);
}

#[test]
fn an_instant_to_start_from_needs_its_offset() {
    let start = |timestamp: &str| format!("initial-position = at-timestamp\ninitial-timestamp = {timestamp}");
    let utc = orders(&start("\"2026-05-01T00:00:00Z\"")).initial_position;
    assert_eq!(orders(&start("\"2026-05-01T05:45:00+05:45\"")).initial_position, utc);
    for timestamp in ["\"2026-05-01T00:00:00\"", "1777593600", "1777593600000", "\"\"", "tomorrow"] {
        assert_tells(
            &refusal(&start(timestamp)),
            &["kinesis.orders.initial-timestamp", "RFC 3339", "offset"],
        );
    }
    for missing in ["initial-position = at-timestamp", &start("null"), &start("${?UNSET}")] {
        assert_tells(&refusal(missing), &["kinesis.orders.initial-timestamp: missing", "at-timestamp needs"]);
    }
    let unused = load(&with_orders("initial-timestamp = \"2026-05-01T00:00:00Z\"")).unwrap();
    assert_tells(&unused.warnings().join("\n"), &["kinesis.orders.initial-timestamp has no effect"]);
}

#[test]
fn a_short_shutdown_is_worth_a_warning() {
    let config = load(&with_orders("worker { batch-timeout = 10s, failed-message-retries = 2 }")).unwrap();
    let [warning] = config.warnings() else { panic!("{:?}", config.warnings()) };
    assert_tells(warning, &["kinesis.orders: worker.shutdown-timeout is 25s", "3 deliveries = 30s"]);
}

#[test]
fn consumers_that_share_a_lease_table_are_named_in_a_warning() {
    let text = |second: &str| {
        format!(
            "kinesis {{ application-name = a, aws.region = eu-west-1, x.stream-name = s
             y {{ stream-name = s, {second} }} }}"
        )
    };
    let config = load(&text("")).unwrap();
    assert_tells(&config.warnings().join("\n"), &["kinesis.x and kinesis.y have one lease table, a-s"]);
    for apart in ["lease.table-name = other", "aws.region = us-east-1"] {
        assert!(load(&text(apart)).unwrap().warnings().is_empty(), "{apart}");
    }
}

#[test]
fn typed_settings_are_checked_as_written_ones_are() {
    let mut conf = ConsumerConf::new("billing", "orders");
    assert!(conf.validate().is_ok());
    assert!(conf.warnings().is_empty());
    conf.worker.arbiters = 0;
    conf.lease.failover_time = Duration::from_millis(10);
    conf.aws.endpoint_url = Some("localhost".to_owned());
    let error = conf.validate().unwrap_err().to_string();
    assert_tells(&error, &["3 problems", "worker.arbiters: found 0; allowed: a whole number, 1 to 64"]);
    assert_tells(&error, &["lease.failover-time: found 10ms", "aws.endpoint-url: found \"localhost\""]);
    let unnamed = ConsumerConf::new("", "").validate().unwrap_err().to_string();
    assert_tells(&unnamed, &["application-name: found an empty text", "stream-name: found an empty text"]);
    let long = ConsumerConf::new("a".repeat(200), "b".repeat(100)).validate().unwrap_err().to_string();
    assert_tells(&long, &["lease.table-name", "3 to 255"]);
}
