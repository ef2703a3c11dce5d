//! Configurations written for reactive-kinesis.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::SECOND;
use crate::support::{assert_tells, load, load_in, orders, refusal, refused, with_orders};
use actix_kinesis::config::{ConfigLoader, InitialPosition, KinesisConfig, ProducerConf};

fn journal() -> KinesisConfig {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reactive-application.conf");
    ConfigLoader::file(file).environment([("", ""); 0]).load().unwrap()
}

#[test]
fn a_whole_application_conf_loads_as_it_is() {
    let config = journal();
    assert_eq!(config.application_name(), "Journal");
    assert_eq!(config.consumer_names().collect::<Vec<_>>(), ["entries", "replay"]);
    let conf = config.consumer("entries").unwrap();
    assert_eq!(conf.stream_name, "journal-entries");
    assert_eq!(conf.initial_position, InitialPosition::Latest);
    assert_eq!(conf.worker.batch_timeout, 15 * SECOND);
    assert_eq!(conf.worker.failed_message_retries, 2);
    assert_eq!(conf.worker.failure_tolerance_percentage, 1.5);
    assert!(conf.worker.graceful_shutdown_hook);
    assert_eq!(conf.worker.shutdown_timeout, 45 * SECOND);
    assert_eq!(conf.checkpointer.interval, 5 * SECOND);
    assert_eq!((conf.checkpointer.backoff.min, conf.checkpointer.backoff.max), (3 * SECOND, 30 * SECOND));
    assert_eq!(conf.table_name(), "journal-leases");
    assert_eq!(conf.lease.worker_id.as_deref(), Some("007"));
    assert_eq!(conf.lease.failover_time, 20 * SECOND);
    assert_eq!(conf.lease.shard_sync_interval, 30 * SECOND);
    assert_eq!((conf.lease.max_leases, conf.lease.max_steals), (Some(2_147_483_647), Some(1)));
    assert_eq!(conf.polling.max_records, 1000);
    assert_eq!(conf.polling.idle_time, Duration::from_millis(500));
    assert_eq!(conf.aws.region.as_deref(), Some("eu-west-1"));
    assert_eq!(conf.aws.kinesis_endpoint.as_deref(), Some("https://localhost:4568"));
    assert_eq!(conf.aws.dynamodb_endpoint.as_deref(), Some("http://localhost:4569"));

    let replay = config.consumer("replay").unwrap();
    assert_eq!(replay.table_name(), "Journal-journal-replay");
    assert_eq!(replay.aws.region.as_deref(), Some("eu-central-1"));
    assert_eq!(replay.worker.batch_timeout, 20 * SECOND);
    let instant = SystemTime::UNIX_EPOCH + Duration::from_secs(1_777_593_600);
    assert_eq!(replay.initial_position, InitialPosition::AtTimestamp(instant));

    assert_eq!(config.producer_names().collect::<Vec<_>>(), ["summaries"]);
    let mut summaries = ProducerConf::new("journal-summaries");
    summaries.aws.region = Some("eu-west-1".to_owned());
    summaries.aws.connect_timeout = 6 * SECOND;
    assert_eq!(config.producer("summaries").unwrap(), summaries);
}

#[test]
fn keys_without_a_meaning_are_named_in_a_warning_each_and_secrets_never() {
    let config = journal();
    let warnings = config.warnings();
    let meaningless = [
        "kinesis.akka",
        "kinesis.default-consumer.akka.dispatcher",
        "kinesis.default-consumer.kcl.dataFetchingStrategy",
        "kinesis.entries.checkpointer.notificationDelayMillis",
        "kinesis.entries.kcl.AWSCredentialsProviderDynamoDB",
        "kinesis.entries.kcl.dataFetchingStrategy",
        "kinesis.entries.kcl.shardSyncStrategyType",
        "kinesis.entries.kcl.cleanupLeasesUponShardCompletion",
        "kinesis.entries.kcl.validateSequenceNumberBeforeCheckpointing",
        "kinesis.entries.kcl.callProcessRecordsEvenForEmptyRecordList",
        "kinesis.entries.kcl.parentShardPollIntervalMillis",
        "kinesis.entries.kcl.taskBackoffTimeMillis",
        "kinesis.entries.kcl.metricsBufferTimeMillis",
        "kinesis.entries.kcl.metricsMaxQueueSize",
        "kinesis.entries.kcl.metricsLevel",
        "kinesis.entries.kcl.metricsEnabledDimensions",
        "kinesis.entries.kcl.maxLeaseRenewalThreads",
        "kinesis.entries.kcl.initialLeaseTableReadCapacity",
        "kinesis.entries.kcl.initialLeaseTableWriteCapacity",
        "kinesis.entries.kcl.skipShardSyncAtStartupIfLeasesExist",
        "kinesis.entries.kcl.userAgent",
        "kinesis.entries.kcl.retryGetRecordsInSeconds",
        "kinesis.entries.kcl.maxGetRecordsThreadPool",
        "kinesis.entries.kcl.maxPendingProcessRecordsInput",
        "kinesis.entries.kcl.maxCacheByteSize",
        "kinesis.entries.kcl.maxRecordsCount",
        "kinesis.entries.kcl.idleMillisBetweenCalls",
        "kinesis.entries.kcl.logWarningForTaskAfterMillis",
        "kinesis.entries.kcl.ignoreUnexpectedChildShards",
        "kinesis.entries.kcl.listShardsBackoffTimeInMillis",
        "kinesis.entries.kcl.maxListShardsRetryAttempts",
        "kinesis.entries.kcl.timeoutInSeconds",
        "kinesis.entries.kcl.shutdownGraceMillis",
        "kinesis.default-producer.akka.dispatcher",
        "kinesis.summaries.akka.dispatcher",
        "kinesis.summaries.akka.throttling-retry-millis",
        "kinesis.summaries.kpl.CredentialsRefreshDelay",
        "kinesis.summaries.kpl.CloudwatchPort",
        "kinesis.summaries.kpl.EnableCoreDumps",
        "kinesis.summaries.kpl.LogLevel",
        "kinesis.summaries.kpl.MinConnections",
        "kinesis.summaries.kpl.MetricsGranularity",
        "kinesis.summaries.kpl.MetricsLevel",
        "kinesis.summaries.kpl.MetricsNamespace",
        "kinesis.summaries.kpl.MetricsUploadDelay",
        "kinesis.summaries.kpl.ThreadingModel",
        "kinesis.summaries.kpl.ThreadPoolSize",
    ];
    for key in meaningless {
        let named = warnings.iter().filter(|warning| warning.starts_with(&format!("{key} (in "))).count();
        assert_eq!(named, 1, "{key}: {warnings:#?}");
    }
    let others: Vec<_> = warnings.iter().filter(|it| !it.contains("has no effect: ")).collect();
    assert_eq!(warnings.len() - others.len(), meaningless.len(), "{warnings:#?}");
    // A shutdown of 25 s, and twice a batch of 20 s.
    let [replay] = others.as_slice() else { panic!("{others:?}") };
    assert_tells(replay, &["kinesis.replay: worker.shutdown-timeout is 25s"]);
    assert!(warnings.iter().all(|warning| !warning.contains("AKID") && !warning.contains("do-not-show")));
}

#[test]
fn warnings_are_logged() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let config = tracing::subscriber::with_default(subscriber, journal);
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(logged.lines().count(), config.warnings().len());
    assert_tells(&logged, &["WARN", "kinesis.entries.kcl.userAgent"]);
}

#[test]
fn a_bare_number_has_the_unit_of_its_key() {
    let failover = |text: &str| orders(&format!("kcl.failoverTimeMillis = {text}")).lease.failover_time;
    let spans = [
        ("10000", 10),
        ("\"10000\"", 10),
        ("1e4", 10),
        ("10s", 10),
        ("10 seconds", 10),
        ("10m", 600),
        ("2000.0", 2),
    ];
    for (text, seconds) in spans {
        assert_eq!(failover(text), seconds * SECOND, "{text}");
    }
    let batch = |text: &str| orders(&format!("worker.batchTimeoutSeconds = {text}")).worker.batch_timeout;
    let spans = [
        ("2", 2000),
        ("2000ms", 2000),
        ("\"2\"", 2000),
        ("2m", 120_000),
        ("1.5", 1500),
        ("1 day", 86_400_000),
    ];
    for (text, millis) in spans {
        assert_eq!(batch(text), Duration::from_millis(millis), "{text}");
    }
}

#[test]
fn a_duration_out_of_range_is_refused_as_it_was_understood() {
    for (text, found) in [
        ("10", "10ms"),
        ("\"10\"", "10ms"),
        ("0.5s", "500ms"),
        ("1d", "1d"),
        ("-5", "\"-5ms\""),
        ("-5s", "\"-5s\""),
        ("0", "0s"),
        ("\"\"", "an empty text"),
        ("soon", "\"soon\""),
    ] {
        let error = refusal(&format!("kcl.failoverTimeMillis = {text}"));
        let place = "kinesis.orders.lease.failover-time (in the configuration text, written as \
                     kinesis.orders.kcl.failoverTimeMillis)";
        assert_tells(&error, &[place, &format!("found {found};"), "1s to 10m"]);
    }
}

#[test]
fn a_misspelt_key_is_refused_with_the_nearest() {
    for (wrong, right) in [
        ("kcl.initialPositonInStream = LATEST", "kcl.initialPositionInStream"),
        ("kcl.failOverTimeMillis = 10000", "kcl.failoverTimeMillis"),
        ("kcl.fetcher.maxRecord = 5", "kcl.maxRecords"),
        ("worker.batchTimeoutSecond = 5", "worker.batchTimeoutSeconds"),
        ("worker.BatchTimeoutSeconds = 5", "worker.batchTimeoutSeconds"),
        ("checkpointer.intervalMilis = 5", "checkpointer.intervalMillis"),
        ("akka.dispatchr = x", "akka.dispatcher"),
        ("failoverTimeMillis = 10000", "kcl.failoverTimeMillis"),
    ] {
        let key = wrong.split(' ').next().unwrap_or_default();
        assert_tells(
            &refusal(wrong),
            &[
                &format!("kinesis.orders.{key} "),
                "unknown key",
                &format!("did you mean kinesis.orders.{right}?"),
            ],
        );
    }
}

#[test]
fn the_first_letter_of_a_kcl_key_may_have_either_case() {
    assert_eq!(orders("kcl.TableName = leases").table_name(), "leases");
    assert_eq!(orders("kcl.tableName = leases").table_name(), "leases");
    assert_eq!(orders("kcl.MaxRecords = 5").polling.max_records, 5);
    assert_tells(
        &refusal("kcl { tableName = one1, TableName = two2 }"),
        &["kinesis.orders.kcl.TableName", "two names"],
    );
}

#[test]
fn a_key_and_its_counterpart_in_one_section_are_refused() {
    for (key, reactive, value, reactive_value) in [
        ("worker.batch-timeout", "worker.batchTimeoutSeconds", "10s", "20"),
        ("lease.worker-id", "kcl.workerId", "a", "b"),
        ("initial-position", "kcl.initialPositionInStream", "latest", "LATEST"),
        ("checkpointer.backoff.min", "checkpointer.backoffMillis", "1s", "1000"),
    ] {
        let error = refusal(&format!("{key} = {value}\n {reactive} = {reactive_value}"));
        assert_tells(&error, &[&format!("kinesis.orders.{key} and kinesis.orders.{reactive}"), "remove one"]);
    }
}

#[test]
fn sections_and_layers_may_use_either_language() {
    let text = "kinesis { application-name = a, default-consumer.worker.batchTimeoutSeconds = 20
                default-consumer.kcl.maxRecords = 50
                x { stream-name = x, worker.batch-timeout = 3s }, y { stream-name = y, polling.max-records = null }
                z { stream-name = z, kcl.maxRecords = null } }";
    let config = ConfigLoader::text(text)
        .environment([("KINESIS__X__POLLING__MAX_RECORDS", "60")])
        .overrides("kinesis.y.worker.batchTimeoutSeconds = 4")
        .load()
        .unwrap();
    let [x, y, z] = ["x", "y", "z"].map(|name| config.consumer(name).unwrap());
    assert_eq!((x.worker.batch_timeout, x.polling.max_records), (3 * SECOND, 60));
    assert_eq!((y.worker.batch_timeout, y.polling.max_records), (4 * SECOND, 10_000));
    assert_eq!((z.worker.batch_timeout, z.polling.max_records), (20 * SECOND, 10_000));
}

#[test]
fn a_timestamp_replaces_the_position_and_is_in_seconds() {
    let at = |seconds| InitialPosition::AtTimestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let both =
        "kcl { initialPositionInStream = TRIM_HORIZON, timestampAtInitialPositionInStream = 1000000000 }";
    let config = load(&with_orders(both)).unwrap();
    assert_eq!(config.consumer("orders").unwrap().initial_position, at(1_000_000_000));
    assert_tells(
        &config.warnings().join("\n"),
        &["kinesis.orders.kcl.timestampAtInitialPositionInStream", "replaces"],
    );
    let named = "kcl { initialPositionInStream = AT_TIMESTAMP, timestampAtInitialPositionInStream = 5 }";
    assert_eq!(load(&with_orders(named)).unwrap().warnings().len(), 0);
    assert_eq!(orders(named).initial_position, at(5));
    for wrong in ["1777593600000", "2026-05-01", "\"\"", "1.5"] {
        let error = refusal(&format!("kcl.timestampAtInitialPositionInStream = {wrong}"));
        assert_tells(
            &error,
            &["kinesis.orders.kcl.timestampAtInitialPositionInStream", "seconds, not milliseconds"],
        );
    }
    let missing = refusal("kcl.initialPositionInStream = AT_TIMESTAMP");
    assert_tells(&missing, &["kinesis.orders.initial-timestamp: missing"]);
    let wrong = refusal("kcl.initialPositionInStream = latest");
    assert_tells(&wrong, &["kinesis.orders.kcl.initialPositionInStream", "TRIM_HORIZON, LATEST"]);
}

#[test]
fn a_default_timestamp_yields_to_a_position_of_the_consumer() {
    let config = load(
        "kinesis { application-name = a, default-consumer.kcl.timestampAtInitialPositionInStream = 5
         x { stream-name = x, kcl.initialPositionInStream = LATEST } }",
    )
    .unwrap();
    assert_eq!(config.consumer("x").unwrap().initial_position, InitialPosition::Latest);
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
}

#[test]
fn a_checkpoint_pause_may_be_longer_than_the_longest_default() {
    let conf = orders("checkpointer.backoffMillis = 45000");
    assert_eq!((conf.checkpointer.backoff.min, conf.checkpointer.backoff.max), (45 * SECOND, 45 * SECOND));
    let conf = orders("checkpointer { backoffMillis = 45000, backoff.max = 1m }");
    assert_eq!((conf.checkpointer.backoff.min, conf.checkpointer.backoff.max), (45 * SECOND, 60 * SECOND));
}

#[test]
fn metrics_dimensions_may_be_a_text_or_a_list() {
    for dimensions in ["Operation,ShardId", "[\"Operation\"]"] {
        let text = with_orders("kcl.metricsEnabledDimensions = ${?DIMS}");
        let config = load_in(&text, &[("DIMS", dimensions)]).unwrap();
        assert_tells(&config.warnings().join("\n"), &["kinesis.orders.kcl.metricsEnabledDimensions"]);
    }
    assert_eq!(load(&with_orders("kcl.metricsEnabledDimensions = [Operation]")).unwrap().warnings().len(), 1);
    assert_eq!(load(&with_orders("kcl.metricsEnabledDimensions = ${?DIMS}")).unwrap().warnings().len(), 0);
}

#[test]
fn a_section_may_serve_a_consumer_and_a_producer() {
    let conf = orders("kcl.maxRecords = 5\n kpl.RateLimit = 100\n akka.max-outstanding-requests = 10");
    assert_eq!(conf.polling.max_records, 5);
    let producer = producer("kcl.regionName = eu-west-1\n kpl.Region = eu-west-1\n kpl.RateLimit = 100");
    assert_eq!((producer.rate_limit, producer.aws.region.as_deref()), (100, Some("eu-west-1")));
    let producers = load(
        "kinesis { application-name = a, default-producer { kpl.AggregationEnabled = \"no\" }
         out { stream-name = s, akka { max-outstanding-requests = 10, throttling-retry-millis = 100 } } }",
    )
    .unwrap();
    assert_eq!(producers.consumer_names().count(), 0);
    let out = producers.producer("out").unwrap();
    assert_eq!((out.max_outstanding_requests, out.aggregation.enabled), (10, false));
    let [unused] = producers.warnings() else { panic!("{:?}", producers.warnings()) };
    assert_tells(unused, &["kinesis.out.akka.throttling-retry-millis", "nothing is polled"]);
}

fn producer(lines: &str) -> ProducerConf {
    load(&with_orders(lines)).and_then(|config| config.producer("orders")).unwrap()
}

#[test]
fn settings_of_the_kpl_are_those_of_a_producer() {
    let conf = producer(
        "akka.max-outstanding-requests = 700
         kpl { AggregationEnabled = false, AggregationMaxCount = 10, aggregationMaxSize = 1000, CollectionMaxCount = 50
           CollectionMaxSize = 60000, ConnectTimeout = 2000, FailIfThrottled = true, KinesisEndpoint = localhost
           KinesisPort = 4567, MaxConnections = 8, MaxUserRecordSize = 2097152, RateLimit = 90.0
           RecordMaxBufferedTime = 250, RecordTtl = 60000, Region = eu-central-1, RequestTimeout = 9000 }",
    );
    let mut expected = ProducerConf::new("orders");
    expected.max_outstanding_requests = 700;
    expected.aggregation.enabled = false;
    (expected.aggregation.max_count, expected.aggregation.max_size) = (10, 1000);
    (expected.collection.max_count, expected.collection.max_size) = (50, 60_000);
    expected.aws.connect_timeout = 2 * SECOND;
    expected.aws.kinesis_endpoint = Some("https://localhost:4567".to_owned());
    expected.aws.region = Some("eu-central-1".to_owned());
    expected.fail_if_throttled = true;
    expected.max_in_flight_calls = 8;
    expected.max_record_size = 2 << 20;
    expected.rate_limit = 90;
    expected.record_max_buffered_time = Duration::from_millis(250);
    (expected.record_ttl, expected.request_timeout) = (60 * SECOND, 9 * SECOND);
    assert_eq!(conf, expected);
}

#[test]
fn an_endless_time_to_live_is_one_and_one_that_is_too_short_is_refused() {
    let century = Duration::from_secs(36_500 * 24 * 60 * 60);
    for endless in ["9223372036854775807", "9.3e18", "1000000 d"] {
        assert_eq!(producer(&format!("kpl.RecordTtl = {endless}")).record_ttl, century, "{endless}");
    }
    for short in ["0", "99"] {
        let refusal = refusal(&format!("kpl.RecordTtl = {short}"));
        assert_tells(&refusal, &["written as kinesis.orders.kpl.RecordTtl", "100ms to 36500d"]);
    }
}

#[test]
fn certificates_are_checked_and_a_port_needs_its_host() {
    let warnings = |line: &str| load(&with_orders(line)).unwrap().warnings().to_vec();
    assert!(warnings("kpl.VerifyCertificate = true").is_empty());
    assert_tells(&warnings("kpl.VerifyCertificate = false")[0], &["kpl.VerifyCertificate", "SSL_CERT_FILE"]);
    assert_tells(&warnings("kpl.KinesisPort = 4567")[0], &["kpl.KinesisPort", "without KinesisEndpoint"]);
}

#[test]
fn values_are_checked_under_the_name_they_were_written_with() {
    for (line, written, allowed) in [
        ("kcl.maxRecords = 0", "kinesis.orders.kcl.maxRecords", "1 to 10000"),
        ("kcl.maxRecords = 10001", "kinesis.orders.kcl.maxRecords", "1 to 10000"),
        ("kcl.maxRecords = \"\"", "kinesis.orders.kcl.maxRecords", "1 to 10000"),
        ("kcl.regionName = \"\"", "kinesis.orders.kcl.regionName", "not empty"),
        (
            "worker.failureTolerancePercentage = 101",
            "kinesis.orders.worker.failureTolerancePercentage",
            "0 to 100",
        ),
        (
            "worker.gracefulShutdownHook = maybe",
            "kinesis.orders.worker.gracefulShutdownHook",
            "true or false",
        ),
    ] {
        assert_tells(&refusal(line), &[&format!("written as {}", written), allowed]);
    }
    assert_tells(
        &refused("kinesis { application-name = a, default-consumer.kcl.maxRecords = 0 }"),
        &["kcl.maxRecords"],
    );
}
