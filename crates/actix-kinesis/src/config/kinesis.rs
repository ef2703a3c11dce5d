//! The section `kinesis`: an application, its consumers and its producers.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use config::{Map, Value, ValueKind};

use super::consumer::{ConsumerConf, InitialPosition};
use super::error::ConfigError;
use super::kinds::{EMPTY, Kind, Text, quoted};
use super::leaves::{Leaf, LeafValue, Leaves, join};
use super::loader::ConfigLoader;
use super::nearest::nearest;
use super::producer::ProducerConf;
use super::reactive::Report;
use super::reader;

/// A loaded configuration: everything in it has been checked.
///
/// `text.parse::<KinesisConfig>()` loads a text as [`load`](Self::load) does a file.
#[derive(Debug, Clone)]
pub struct KinesisConfig {
    application_name: String,
    consumers: BTreeMap<String, ConsumerConf>,
    producers: BTreeMap<String, ProducerConf>,
    /// Named sections that are no consumer's, or no producer's, and why.
    others: BTreeMap<String, &'static str>,
    pub(super) warnings: Vec<String>,
}

impl KinesisConfig {
    /// Loads a HOCON file, with environment variables over it as [`ConfigLoader`] describes them.
    ///
    /// # Errors
    /// As for [`ConfigLoader::load`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        ConfigLoader::file(path.as_ref()).load()
    }

    /// `kinesis.application-name`.
    pub fn application_name(&self) -> &str {
        &self.application_name
    }

    /// The settings of the consumer in the section `kinesis.<name>`. A name with dots is asked for without quotes.
    ///
    /// # Errors
    /// [`ConfigError::UnknownConsumer`] names those that there are.
    pub fn consumer(&self, name: &str) -> Result<ConsumerConf, ConfigError> {
        self.consumers.get(name).cloned().ok_or_else(|| ConfigError::UnknownConsumer {
            name: name.to_owned(),
            reason: self.others.get(name).copied().unwrap_or("the configuration has no such section"),
            nearest: nearest(name, self.consumer_names()).map(str::to_owned),
            known: self.consumer_names().map(str::to_owned).collect(),
        })
    }

    /// The names of all consumers, sorted: of all named sections that have a `stream-name` and are not a producer's.
    pub fn consumer_names(&self) -> impl Iterator<Item = &str> {
        self.consumers.keys().map(String::as_str)
    }

    /// The settings of the producer in the section `kinesis.<name>`. A name with dots is asked for without quotes.
    ///
    /// # Errors
    /// [`ConfigError::UnknownProducer`] names those that there are.
    pub fn producer(&self, name: &str) -> Result<ProducerConf, ConfigError> {
        self.producers.get(name).cloned().ok_or_else(|| ConfigError::UnknownProducer {
            name: name.to_owned(),
            reason: self.others.get(name).copied().unwrap_or("the configuration has no such section"),
            nearest: nearest(name, self.producer_names()).map(str::to_owned),
            known: self.producer_names().map(str::to_owned).collect(),
        })
    }

    /// The names of all producers, sorted: of all named sections that have a `stream-name` and are not a consumer's.
    pub fn producer_names(&self) -> impl Iterator<Item = &str> {
        self.producers.keys().map(String::as_str)
    }

    /// What is allowed and yet unwise, or has no effect here. The loader has logged it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl FromStr for KinesisConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        ConfigLoader::text(text).load()
    }
}

const DEFAULTS: &str = "kinesis.default-consumer";
const PRODUCER_DEFAULTS: &str = "kinesis.default-producer";
/// Sections at the level of `kinesis` that are no consumer's or producer's.
const RESERVED: [&str; 3] = ["aws", "default-consumer", "default-producer"];

/// Reads the merged layers.
pub(super) fn read(root: &Value, report: &mut Report) -> KinesisConfig {
    let empty = Map::new();
    let kinesis = table(root).and_then(|root| root.get("kinesis")).and_then(table).unwrap_or(&empty);
    let mut config = KinesisConfig {
        application_name: application_name(kinesis, report),
        consumers: BTreeMap::new(),
        producers: BTreeMap::new(),
        others: BTreeMap::new(),
        warnings: Vec::new(),
    };
    let defaults = defaults(kinesis, report);
    let producer_defaults = producer_defaults(kinesis, report);
    let named: BTreeMap<_, _> =
        kinesis.iter().filter(|(name, _)| !RESERVED.contains(&name.as_str())).collect();
    for (name, value) in &named {
        let path = join("kinesis", name);
        match &value.kind {
            ValueKind::Table(section) if is_absent(section.get("stream-name")) => {
                config.others.insert((*name).clone(), "its section has no stream-name");
                match misspelt(name, &path, section, value) {
                    Some(problem) => report.problems.push(problem),
                    None => report.warnings.push(unused(name, &path, named.keys().map(|name| name.as_str()))),
                }
            }
            ValueKind::Table(section) => {
                let own = Leaves::of(value, &path, "");
                reader::unknown_keys(&own, &path, &reader::known_keys(), &mut report.problems);
                let role = role(section);
                match role {
                    Role::Consumer => config.others.insert((*name).clone(), "its section is a consumer's"),
                    Role::Producer => config.others.insert((*name).clone(), "its section is a producer's"),
                    Role::Both => None,
                };
                if role != Role::Producer {
                    let conf = consumer(&own, &path, &defaults, &config.application_name, report);
                    config.consumers.insert((*name).clone(), conf);
                }
                if role != Role::Consumer {
                    let conf = producer(&own, &path, &producer_defaults, report);
                    config.producers.insert((*name).clone(), conf);
                }
            }
            ValueKind::Nil => {}
            _ if *name == "application-name" => {}
            _ => report.problems.push(unknown(name, path, value)),
        }
    }
    report.warnings.extend(shared_tables(&config.consumers));
    config
}

/// Consumers on one lease table take each other's shards for their own.
fn shared_tables(consumers: &BTreeMap<String, ConsumerConf>) -> Vec<String> {
    let mut owners = BTreeMap::<_, Vec<_>>::new();
    for (name, conf) in consumers {
        let endpoint = conf.aws.dynamodb_endpoint.as_ref().or(conf.aws.endpoint_url.as_ref());
        let table = (conf.table_name(), &conf.aws.region, endpoint, &conf.aws.profile, &conf.aws.role_arn);
        owners.entry(table).or_default().push(join("kinesis", name));
    }
    let shared = owners.into_iter().filter(|(_, names)| names.len() > 1);
    shared
        .map(|((table, ..), names)| {
            format!(
                "{} have one lease table, {table}, and must not run at the same time: give each a lease.table-name",
                names.join(" and ")
            )
        })
        .collect()
}

fn application_name(kinesis: &Map<String, Value>, report: &mut Report) -> String {
    const KEY: &str = "kinesis.application-name";
    let value = kinesis.get("application-name").filter(|value| !is_absent(Some(value)));
    let Some(value) = value else {
        let allowed = "the name that all instances of the application share".to_owned();
        report.problems.push(ConfigError::Missing { key: KEY.to_owned(), allowed });
        return String::new();
    };
    let found = match &value.kind {
        ValueKind::Table(_) => "a section".to_owned(),
        ValueKind::Array(_) => "a list".to_owned(),
        scalar if Text.allows(&scalar.to_string()) => return scalar.to_string(),
        _ => EMPTY.to_owned(),
    };
    let origin = value.origin().map(str::to_owned);
    report.problems.push(ConfigError::Value { key: KEY.to_owned(), origin, found, allowed: Text.allowed() });
    String::new()
}

/// What every consumer starts from: `kinesis.aws` and `kinesis.default-consumer`. Checked by itself, so that its
/// problems are told once, also when no consumer uses it.
fn defaults(kinesis: &Map<String, Value>, report: &mut Report) -> Leaves {
    let section = |name| {
        let value = kinesis.get(name).filter(|value| !is_absent(Some(value)))?;
        (table(value).is_some()).then_some(value)
    };
    for name in RESERVED {
        let scalar = kinesis.get(name).filter(|value| !is_absent(Some(value)) && table(value).is_none());
        report.problems.extend(scalar.map(|value| ConfigError::Value {
            key: join("kinesis", name),
            origin: value.origin().map(str::to_owned),
            found: quoted(&value.kind.to_string()),
            allowed: "a section in { }".to_owned(),
        }));
    }
    let aws = section("aws").map(|aws| Leaves::of(aws, "kinesis.aws", "aws")).unwrap_or_default();
    let mut own = section("default-consumer").map(|own| Leaves::of(own, DEFAULTS, "")).unwrap_or_default();
    if let Some(Leaf { path, origin, .. }) = own.0.remove("stream-name") {
        let origin = origin.map(|origin| format!(" (in {origin})")).unwrap_or_default();
        report.warnings.push(format!("{path}{origin} has no effect: every consumer names its own stream"));
    }
    reader::unknown_keys(&aws, "kinesis", &reader::consumer_keys(), &mut report.problems);
    reader::unknown_keys(&own, DEFAULTS, &reader::consumer_keys(), &mut report.problems);
    let defaults = own.over(&aws);
    reader::read("application", &defaults, DEFAULTS, &mut report.problems);
    defaults
}

/// What every producer starts from: `kinesis.aws` and `kinesis.default-producer`, checked as for consumers.
fn producer_defaults(kinesis: &Map<String, Value>, report: &mut Report) -> Leaves {
    let section = |name| kinesis.get(name).filter(|value| table(value).is_some());
    let aws = section("aws").map(|aws| Leaves::of(aws, "kinesis.aws", "aws")).unwrap_or_default();
    let own = section("default-producer").map(|own| Leaves::of(own, PRODUCER_DEFAULTS, ""));
    let mut own = own.unwrap_or_default();
    if let Some(Leaf { path, origin, .. }) = own.0.remove("stream-name") {
        let origin = origin.map(|origin| format!(" (in {origin})")).unwrap_or_default();
        report.warnings.push(format!("{path}{origin} has no effect: every producer names its own stream"));
    }
    reader::unknown_keys(&own, PRODUCER_DEFAULTS, &reader::producer_keys(), &mut report.problems);
    let defaults = own.over(&aws);
    let mut problems = Vec::new();
    reader::read_producer(&defaults, PRODUCER_DEFAULTS, &mut problems);
    add_untold(problems, report);
    defaults
}

/// What a named section is for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    Consumer,
    Producer,
    Both,
}

/// By the keys that it has. One with a stream's name alone serves for both.
fn role(section: &Map<String, Value>) -> Role {
    let first = |key: &'static str| key.split('.').next().unwrap_or(key);
    let (of_consumers, of_producers) = (reader::consumer_keys(), reader::producer_keys());
    let has_one_of = |keys: &[&'static str], others: &[&'static str]| {
        let own = keys.iter().map(|key| first(key));
        own.filter(|key| !others.iter().any(|other| first(other) == *key))
            .any(|key| section.contains_key(key))
    };
    let of_consumer = has_one_of(&of_consumers, &of_producers) || section.contains_key("kcl");
    let of_producer = has_one_of(&of_producers, &of_consumers) || section.contains_key("kpl");
    match (of_consumer, of_producer) {
        (true, false) => Role::Consumer,
        (false, true) => Role::Producer,
        _ => Role::Both,
    }
}

/// Adds problems that are not those of the defaults, which have been told.
fn add_untold(problems: Vec<ConfigError>, report: &mut Report) {
    let told: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
    report.problems.extend(problems.into_iter().filter(|problem| !told.contains(&problem.to_string())));
}

fn producer(own: &Leaves, path: &str, defaults: &Leaves, report: &mut Report) -> ProducerConf {
    let mut problems = Vec::new();
    let conf = reader::read_producer(&own.over(defaults), path, &mut problems);
    add_untold(problems, report);
    report.warnings.extend(conf.warnings().into_iter().map(|warning| format!("{path}: {warning}")));
    conf
}

fn consumer(
    own: &Leaves,
    path: &str,
    defaults: &Leaves,
    application: &str,
    report: &mut Report,
) -> ConsumerConf {
    let mut problems = Vec::new();
    let conf = reader::read(application, &own.over(defaults), path, &mut problems);
    add_untold(problems, report);
    report.warnings.extend(conf.warnings().into_iter().map(|warning| format!("{path}: {warning}")));
    let timestamp = own.0.get("initial-timestamp").filter(|leaf| leaf.value != LeafValue::Null);
    if let Some(leaf) =
        timestamp.filter(|_| !matches!(conf.initial_position, InitialPosition::AtTimestamp(_)))
    {
        report.warnings.push(format!("{} has no effect: initial-position is not at-timestamp", leaf.path));
    }
    conf
}

/// A section without a stream's name, in which that is misspelt, or whose own name is.
fn misspelt(name: &str, path: &str, section: &Map<String, Value>, value: &Value) -> Option<ConfigError> {
    if let Some((key, value)) =
        section.iter().find(|(key, _)| nearest(key, ["stream-name", "streamName"]).is_some())
    {
        let origin = value.origin().map(str::to_owned);
        let nearest = Some(join(path, "stream-name"));
        return Some(ConfigError::UnknownKey { key: join(path, key), origin, nearest });
    }
    let in_group = |keys: Vec<&'static str>, old: &str| {
        name == old || keys.iter().any(|key| key.split_once('.').is_some_and(|(group, _)| group == name))
    };
    let misplaced = in_group(reader::consumer_keys(), "kcl").then(|| join(DEFAULTS, name));
    let misplaced =
        misplaced.or_else(|| in_group(reader::producer_keys(), "kpl").then(|| join(PRODUCER_DEFAULTS, name)));
    let nearest = misplaced.or_else(|| nearest(name, RESERVED).map(|nearest| join("kinesis", nearest)))?;
    let origin = value.origin().map(str::to_owned);
    Some(ConfigError::UnknownKey { key: path.to_owned(), origin, nearest: Some(nearest) })
}

/// A section that nothing can use.
fn unused<'a>(name: &str, path: &str, names: impl Iterator<Item = &'a str>) -> String {
    let nearest = nearest(name, names.filter(|other| *other != name)).map(|nearest| join("kinesis", nearest));
    let hint = nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    format!("{path} has no stream-name and is used by nothing, so that its keys are not even checked{hint}")
}

fn unknown(name: &str, path: String, value: &Value) -> ConfigError {
    let of_consumers = reader::consumer_keys().into_iter().map(|key| format!("default-consumer.{key}"));
    let of_producers = reader::producer_keys().into_iter().map(|key| format!("default-producer.{key}"));
    let defaults: Vec<_> = of_consumers.chain(of_producers).collect();
    let candidates =
        RESERVED.into_iter().chain(["application-name"]).chain(defaults.iter().map(String::as_str));
    let nearest = nearest(name, candidates).map(|nearest| format!("kinesis.{nearest}"));
    ConfigError::UnknownKey { key: path, origin: value.origin().map(str::to_owned), nearest }
}

fn table(value: &Value) -> Option<&Map<String, Value>> {
    match &value.kind {
        ValueKind::Table(table) => Some(table),
        _ => None,
    }
}

fn is_absent(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.kind == ValueKind::Nil)
}
