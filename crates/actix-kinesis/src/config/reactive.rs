//! The keys of reactive-kinesis, translated: an `application.conf` written for it loads as it is. What its names mean
//! here, or why they mean nothing, is written in this module alone.
//!
//! Names are matched as reactive-kinesis, the KCL and the KPL match them: exactly, but for the first letter of a `kcl` or
//! `kpl` key, which may be upper or lower case. A bare number has the unit in which its name ends, or milliseconds in
//! `kpl`; a value with a unit of its own has that one.

use std::fmt;

use config::{Map, Value, ValueKind};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::error::ConfigError;
use super::kinds::quoted;
use super::leaves::join;

type Table = Map<String, Value>;

/// What became of the keys that were translated.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) warnings: Vec<String>,
    pub(super) problems: Vec<ConfigError>,
}

/// What a key of reactive-kinesis means.
#[derive(Clone, Copy)]
enum Meaning {
    /// The same as this key.
    Same(&'static str),
    /// The same as this key, a bare number being seconds.
    Seconds(&'static str),
    /// The same as this key, a bare number being milliseconds.
    Millis(&'static str),
    /// The pause after a failed checkpoint, there always the same.
    CheckpointPause,
    /// The host of a service, https if it says nothing else.
    Endpoint(&'static str),
    /// `TRIM_HORIZON` or `LATEST`.
    Position,
    /// Seconds since 1970 to start from.
    Timestamp,
    /// The same as this key, a bare number being milliseconds, of which the KPL takes more than there is time.
    EndlessMillis(&'static str),
    /// The port of the service whose host is another key.
    Port,
    /// Whether certificates are checked.
    Verify,
    /// A class that finds credentials. Its arguments may be secrets, so that it is never shown.
    Credentials,
    /// Nothing, and why.
    Nothing(&'static str),
}

use Meaning::{
    CheckpointPause, Credentials, EndlessMillis, Endpoint, Millis, Nothing, Port, Position, Same, Seconds,
    Timestamp, Verify,
};

const DISPATCHER: Meaning =
    Nothing("there are no dispatchers: a consumer's worker.arbiters is its number of threads");
const METRICS: Meaning = Nothing("no metrics are sent to CloudWatch");
const FETCHING: Meaning = Nothing("records are always fetched ahead, as far as worker.max-bytes allows");
const RETRIES: Meaning = Nothing("the pauses between calls are chosen by themselves");
const THREADS: Meaning = Nothing("calls are asynchronous and need no threads");
const NEVER_EFFECTIVE: Meaning = Nothing("it has no effect in reactive-kinesis either");
const BUILT_IN: Meaning = Nothing("this is not for choice here");

const NATIVE: Meaning = Nothing("there is no native process");
const PROXY: Meaning = Nothing("the SDK finds proxies in the environment");

const AKKA: &[(&str, Meaning)] = &[
    ("dispatcher", DISPATCHER),
    ("max-outstanding-requests", Same("max-outstanding-requests")),
    (
        "throttling-retry-millis",
        Nothing("nothing is polled: events are taken again as soon as there is room"),
    ),
];

const WORKER: &[(&str, Meaning)] = &[
    ("batchTimeoutSeconds", Seconds("worker.batch-timeout")),
    ("failedMessageRetries", Same("worker.failed-message-retries")),
    ("failureTolerancePercentage", Same("worker.failure-tolerance-percentage")),
    ("gracefulShutdownHook", Same("worker.graceful-shutdown-hook")),
    ("shutdownTimeoutSeconds", Seconds("worker.shutdown-timeout")),
];

const CHECKPOINTER: &[(&str, Meaning)] = &[
    ("backoffMillis", CheckpointPause),
    ("intervalMillis", Millis("checkpointer.interval")),
    ("notificationDelayMillis", Nothing("a checkpoint is written as soon as checkpointer.interval allows")),
];

const KCL: &[(&str, Meaning)] = &[
    ("AWSCredentialsProvider", Credentials),
    ("AWSCredentialsProviderCloudWatch", Credentials),
    ("AWSCredentialsProviderDynamoDB", Credentials),
    ("applicationName", Nothing("kinesis.application-name is the name")),
    (
        "callProcessRecordsEvenForEmptyRecordList",
        Nothing("events are delivered one by one, never an empty batch"),
    ),
    ("cleanupLeasesUponShardCompletion", Nothing("leases of finished shards are always cleaned up")),
    ("dataFetchingStrategy", FETCHING),
    ("dynamoDBEndpoint", Endpoint("aws.dynamodb-endpoint")),
    ("failoverTimeMillis", Millis("lease.failover-time")),
    ("idleMillisBetweenCalls", Nothing("polling.idle-time is the only pause between calls")),
    ("idleTimeBetweenReadsInMillis", Millis("polling.idle-time")),
    ("ignoreUnexpectedChildShards", BUILT_IN),
    ("initialLeaseTableReadCapacity", Nothing("a lease table is created with on-demand capacity")),
    ("initialLeaseTableWriteCapacity", Nothing("a lease table is created with on-demand capacity")),
    ("initialPositionInStream", Position),
    ("kinesisEndpoint", Endpoint("aws.kinesis-endpoint")),
    ("listShardsBackoffTimeInMillis", RETRIES),
    ("logWarningForTaskAfterMillis", BUILT_IN),
    ("maxCacheByteSize", FETCHING),
    ("maxGetRecordsThreadPool", THREADS),
    ("maxLeaseRenewalThreads", THREADS),
    ("maxLeasesForWorker", Same("lease.max-leases")),
    ("maxLeasesToStealAtOneTime", Same("lease.max-steals")),
    ("maxListShardsRetryAttempts", RETRIES),
    ("maxPendingProcessRecordsInput", FETCHING),
    ("maxRecords", Same("polling.max-records")),
    ("maxRecordsCount", FETCHING),
    ("metricsBufferTimeMillis", METRICS),
    ("metricsEnabledDimensions", METRICS),
    ("metricsLevel", METRICS),
    ("metricsMaxQueueSize", METRICS),
    ("parentShardPollIntervalMillis", Nothing("a child shard starts as soon as its parents are finished")),
    ("regionName", Same("aws.region")),
    ("retryGetRecordsInSeconds", RETRIES),
    ("shardSyncIntervalMillis", Millis("lease.shard-sync-interval")),
    ("shardSyncStrategyType", NEVER_EFFECTIVE),
    ("shutdownGraceMillis", NEVER_EFFECTIVE),
    ("skipShardSyncAtStartupIfLeasesExist", BUILT_IN),
    ("streamName", Nothing("stream-name is the name")),
    ("tableName", Same("lease.table-name")),
    ("taskBackoffTimeMillis", RETRIES),
    ("timeoutInSeconds", NEVER_EFFECTIVE),
    ("timestampAtInitialPositionInStream", Timestamp),
    ("userAgent", BUILT_IN),
    ("validateSequenceNumberBeforeCheckpointing", Nothing("positions are checked without a call")),
    ("workerId", Same("lease.worker-id")),
];

const KPL: &[(&str, Meaning)] = &[
    ("AggregationEnabled", Same("aggregation.enabled")),
    ("AggregationMaxCount", Same("aggregation.max-count")),
    ("AggregationMaxSize", Same("aggregation.max-size")),
    ("CaCertFile", NATIVE),
    ("CaCertPath", NATIVE),
    ("CloudwatchEndpoint", METRICS),
    ("CloudwatchPort", METRICS),
    ("CollectionMaxCount", Same("collection.max-count")),
    ("CollectionMaxSize", Same("collection.max-size")),
    ("ConnectTimeout", Millis("aws.connect-timeout")),
    ("CredentialsRefreshDelay", Nothing("credentials are renewed when they expire")),
    ("DaemonHealthCheckTimeoutMs", NATIVE),
    ("EnableCoreDumps", NATIVE),
    ("EnableDaemonHealthCheck", NATIVE),
    ("EnableOldestFutureTracker", BUILT_IN),
    ("FailIfThrottled", Same("fail-if-throttled")),
    ("KinesisEndpoint", Endpoint("aws.kinesis-endpoint")),
    ("KinesisPort", Port),
    ("LogLevel", Nothing("the subscriber of the program decides what is logged")),
    ("MaxConnections", Same("max-in-flight-calls")),
    ("MaxUserRecordSize", Same("max-record-size")),
    ("MetricsGranularity", METRICS),
    ("MetricsLevel", METRICS),
    ("MetricsNamespace", METRICS),
    ("MetricsUploadDelay", METRICS),
    ("MinConnections", NEVER_EFFECTIVE),
    ("NativeExecutable", NATIVE),
    ("ProxyHost", PROXY),
    ("ProxyPassword", PROXY),
    ("ProxyPort", PROXY),
    ("ProxyUserName", PROXY),
    ("RateLimit", Same("rate-limit")),
    ("RecordMaxBufferedTime", Millis("record-max-buffered-time")),
    ("RecordTtl", EndlessMillis("record-ttl")),
    ("Region", Same("aws.region")),
    ("RequestTimeout", Millis("request-timeout")),
    ("ReturnUserRecordOnFailure", Nothing("a failed event always comes back")),
    ("TempDirectory", NATIVE),
    ("ThreadPoolSize", THREADS),
    ("ThreadingModel", THREADS),
    ("UserRecordTimeoutInMillis", Nothing("record-ttl bounds an event")),
    ("VerifyCertificate", Verify),
];

const GROUPS: [(&str, &[(&str, Meaning)]); 5] =
    [("akka", AKKA), ("worker", WORKER), ("checkpointer", CHECKPOINTER), ("kcl", KCL), ("kpl", KPL)];

/// The keys of a consumer or producer in reactive-kinesis, relative to its section.
pub(super) fn keys() -> impl Iterator<Item = String> {
    GROUPS.iter().flat_map(|(group, rules)| rules.iter().map(move |(key, _)| format!("{group}.{key}")))
}

/// Translates what is written at `kinesis`, all consumers and producers included. What no rule knows stays where it is.
pub(super) fn translate(kinesis: &mut Table, report: &mut Report) {
    if let Some(akka) = kinesis.remove("akka") {
        report
            .warnings
            .push(Place { path: "kinesis.akka".to_owned(), origin: origin(&akka) }.nothing(DISPATCHER));
    }
    let mut names: Vec<_> = kinesis.keys().filter(|name| *name != "aws").collect();
    names.sort();
    for name in names.into_iter().cloned().collect::<Vec<_>>() {
        if let Some(ValueKind::Table(section)) = kinesis.get_mut(&name).map(|section| &mut section.kind) {
            Translation { section, path: join("kinesis", &name), report }.run();
        }
    }
}

/// A key as it is written.
struct Place {
    path: String,
    origin: Option<String>,
}

impl Place {
    fn nothing(&self, meaning: Meaning) -> String {
        let why = if let Nothing(why) = meaning { why } else { "" };
        format!("{self} has no effect: {why}")
    }

    fn refuse(&self, found: &str, allowed: &str) -> ConfigError {
        ConfigError::Value {
            key: self.path.clone(),
            origin: self.origin.clone(),
            found: found.to_owned(),
            allowed: allowed.to_owned(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        self.origin.iter().try_for_each(|origin| write!(f, " (in {origin})"))
    }
}

struct Translation<'a> {
    section: &'a mut Table,
    path: String,
    report: &'a mut Report,
}

impl Translation<'_> {
    fn run(mut self) {
        for (group, rules) in GROUPS {
            for (key, meaning) in rules {
                for name in spellings(group, key) {
                    let Some(value) = self.take(group, &name) else { continue };
                    let path = join(&join(&self.path, group), &name);
                    let place = Place { path, origin: origin(&value) };
                    // For the KPL an empty text is none. And one section may say the same to it and to the KCL.
                    let is_told = group == "kpl" && (is_empty(&value) || self.says(*meaning, &value));
                    if !is_told {
                        self.apply(*meaning, &value, place);
                    }
                }
            }
            let emptied = |section: &Table| section.get(group).and_then(table).is_some_and(Map::is_empty);
            if ["akka", "kcl"].contains(&group) && emptied(self.section) {
                self.section.remove(group);
            }
        }
    }

    fn take(&mut self, group: &str, key: &str) -> Option<Value> {
        match &mut self.section.get_mut(group)?.kind {
            ValueKind::Table(group) => group.remove(key),
            _ => None,
        }
    }

    fn apply(&mut self, meaning: Meaning, value: &Value, place: Place) {
        let text = match &value.kind {
            ValueKind::Nil => None,
            ValueKind::Array(_) | ValueKind::Table(_) if !matches!(meaning, Nothing(_) | Credentials) => {
                return self.report.problems.push(place.refuse("a list or section", "a single value"));
            }
            any => Some(any.to_string()),
        };
        match (meaning, text) {
            (Nothing(_) | Credentials, None) => {}
            (Nothing(_), Some(_)) => self.report.warnings.push(place.nothing(meaning)),
            (Credentials, Some(class)) if is_default_provider(&class) => {}
            (Credentials, Some(_)) => self.report.warnings.push(format!(
                "{place} has no effect: credentials are found as the AWS SDK finds them, and aws.profile and \
                 aws.role-arn say which"
            )),
            (Same(key), text) => self.put(key, text, &place),
            (Seconds(key), text) => self.put(key, text.map(|text| with_unit(&text, "s")), &place),
            (Millis(key), text) => self.put(key, text.map(|text| with_unit(&text, "ms")), &place),
            (Endpoint(key), text) => self.put(key, text.map(with_scheme), &place),
            (CheckpointPause, text) => self.checkpoint_pause(text, &place),
            (Position, text) => self.position(text, &place),
            (Timestamp, text) => self.timestamp(text, &place),
            (EndlessMillis(key), text) => self.put(key, text.map(|text| endless(&text)), &place),
            (Port, text) => self.port(text, &place),
            (Verify, Some(text)) if text == "false" => self.report.warnings.push(format!(
                "{place} has no effect: certificates are always checked, SSL_CERT_FILE names more of them"
            )),
            (Verify, _) => {}
        }
    }

    /// Whether the key of this library has this value already.
    fn says(&self, meaning: Meaning, value: &Value) -> bool {
        let Same(key) = meaning else { return false };
        self.at(key).is_some_and(|known| known.kind.to_string() == value.kind.to_string())
    }

    /// Behind the host, which is translated before it.
    fn port(&mut self, text: Option<String>, place: &Place) {
        let Some(port) = text.filter(|port| port != "443") else { return };
        let Some(endpoint) = self.at("aws.kinesis-endpoint").map(|endpoint| endpoint.kind.to_string()) else {
            return self.report.warnings.push(format!("{place} has no effect without KinesisEndpoint"));
        };
        if let Some(ValueKind::Table(aws)) = self.section.get_mut("aws").map(|aws| &mut aws.kind) {
            aws.remove("kinesis-endpoint");
        }
        self.put("aws.kinesis-endpoint", Some(format!("{endpoint}:{port}")), place);
    }

    fn checkpoint_pause(&mut self, text: Option<String>, place: &Place) {
        let text = text.map(|text| with_unit(&text, "ms"));
        // There the pause never grows, so that it may be longer than the longest here.
        if !self.has("checkpointer.backoff.max") && text.as_deref().is_some_and(longer_than_default) {
            self.put("checkpointer.backoff.max", text.clone(), place);
        }
        self.put("checkpointer.backoff.min", text, place);
    }

    fn position(&mut self, text: Option<String>, place: &Place) {
        let position = match text.as_deref() {
            None => None,
            Some("TRIM_HORIZON") => Some("trim-horizon"),
            Some("LATEST") => Some("latest"),
            Some("AT_TIMESTAMP") => Some("at-timestamp"),
            Some(other) => {
                let allowed = "TRIM_HORIZON, LATEST, or AT_TIMESTAMP with timestampAtInitialPositionInStream";
                return self.report.problems.push(place.refuse(&quoted(other), allowed));
            }
        };
        self.put("initial-position", position.map(str::to_owned), place);
    }

    fn timestamp(&mut self, text: Option<String>, place: &Place) {
        let Some(text) = text else { return self.put("initial-timestamp", None, place) };
        let instant = text.parse().ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
        let Some(instant) = instant.and_then(|instant| instant.format(&Rfc3339).ok()) else {
            let allowed = "a whole number of seconds, not milliseconds, since 1970-01-01T00:00:00Z";
            return self.report.problems.push(place.refuse(&quoted(&text), allowed));
        };
        self.put("initial-timestamp", Some(instant), place);
        // In reactive-kinesis a position is always set, so that a timestamp can only be meant to replace it.
        let position = self.section.get("initial-position");
        if position.is_some_and(|position| position.kind.to_string() != "at-timestamp") {
            self.report.warnings.push(format!("{place} replaces the initial position of the same section"));
        }
        self.section.remove("initial-position");
        self.put("initial-position", Some("at-timestamp".to_owned()), place);
    }

    fn has(&self, key: &str) -> bool {
        self.at(key).is_some()
    }

    fn at(&self, key: &str) -> Option<&Value> {
        let mut segments = key.split('.');
        let first = segments.next().and_then(|segment| self.section.get(segment));
        let value = segments.fold(first, |value, segment| value.and_then(table)?.get(segment));
        value.filter(|value| value.kind != ValueKind::Nil)
    }

    fn put(&mut self, key: &'static str, text: Option<String>, place: &Place) {
        if self.has(key) {
            return self.report.problems.push(ConfigError::Twice {
                key: format!("{}.{key}", self.path),
                reactive_key: place.path.clone(),
                origin: place.origin.clone(),
            });
        }
        let origin = place.origin.as_deref().unwrap_or("the configuration");
        let origin = format!("{origin}, written as {}", place.path);
        let (mut section, mut rest) = (&mut *self.section, key);
        while let Some((group, key)) = rest.split_once('.') {
            let group = section.entry(group.to_owned()).or_insert_with(|| Value::new(None, Table::new()));
            if !matches!(group.kind, ValueKind::Table(_)) {
                *group = Value::new(None, Table::new());
            }
            let ValueKind::Table(table) = &mut group.kind else { return };
            (section, rest) = (table, key);
        }
        section.insert(rest.to_owned(), Value::new(Some(&origin), text));
    }
}

/// The names under which a key is found.
fn spellings(group: &str, key: &str) -> Vec<String> {
    let mut names = vec![key.to_owned()];
    if let Some(first) = key.chars().next().filter(|_| ["kcl", "kpl"].contains(&group)) {
        let other =
            if first.is_ascii_uppercase() { first.to_ascii_lowercase() } else { first.to_ascii_uppercase() };
        names.push(format!("{other}{}", key.get(1..).unwrap_or_default()));
    }
    names
}

fn table(value: &Value) -> Option<&Table> {
    match &value.kind {
        ValueKind::Table(table) => Some(table),
        _ => None,
    }
}

fn origin(value: &Value) -> Option<String> {
    value.origin().map(str::to_owned)
}

fn is_empty(value: &Value) -> bool {
    matches!(&value.kind, ValueKind::String(text) if text.is_empty())
}

fn is_default_provider(class: &str) -> bool {
    let name = class.rsplit('.').next().unwrap_or(class);
    ["DefaultAWSCredentialsProviderChain", "DefaultCredentialsProvider"].contains(&name)
}

/// A bare number with the unit of its key; anything else as it is.
fn with_unit(text: &str, unit: &str) -> String {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => format!("{number}{unit}"),
        _ => text.to_owned(),
    }
}

/// Milliseconds that may be more than there is time for: those are for ever.
fn endless(text: &str) -> String {
    use super::keys::CENTURY;
    use super::kinds::{Kind, Span, duration};
    use std::time::Duration;
    let text = with_unit(text, "ms");
    match text.strip_suffix("ms").and_then(|number| number.parse::<f64>().ok()) {
        Some(millis) if millis > CENTURY.as_millis() as f64 => duration(CENTURY),
        _ => match Span(Duration::ZERO..=Duration::MAX).parse(&text) {
            Some(long) if long > CENTURY => duration(CENTURY),
            _ => text,
        },
    }
}

fn with_scheme(endpoint: String) -> String {
    if endpoint.is_empty() || endpoint.contains("://") { endpoint } else { format!("https://{endpoint}") }
}

fn longer_than_default(pause: &str) -> bool {
    use super::consumer::CheckpointerConf;
    use super::kinds::{Kind, Span};
    use std::time::Duration;
    let pause = Span(Duration::ZERO..=Duration::MAX).parse(pause);
    pause.is_some_and(|pause| pause > CheckpointerConf::default().backoff.max)
}
