//! The leaves of a consumer's or producer's section, read into its typed settings.

use super::checks::Checks;
use super::consumer::ConsumerConf;
use super::error::ConfigError;
use super::keys::{self, Visit};
use super::kinds::{Kind, quoted};
use super::leaves::{Leaf, LeafValue, Leaves};
use super::nearest::nearest;
use super::producer::ProducerConf;
use super::reactive;

/// Reads `leaves`, a consumer's section at `path` merged over its defaults. Whatever is wrong goes to `problems`; the settings
/// keep the default there.
pub(super) fn read(
    application: &str,
    leaves: &Leaves,
    path: &str,
    problems: &mut Vec<ConfigError>,
) -> ConsumerConf {
    let mut conf = ConsumerConf::new(application, "stream-name");
    let mut reader = Reader { leaves, path, problems };
    keys::consumer(&mut conf, &mut reader);
    reader.refuse_all(Checks::of(&conf));
    conf
}

/// The same for a producer's section.
pub(super) fn read_producer(leaves: &Leaves, path: &str, problems: &mut Vec<ConfigError>) -> ProducerConf {
    let mut conf = ProducerConf::new("stream-name");
    let mut reader = Reader { leaves, path, problems };
    keys::producer(&mut conf, &mut reader);
    reader.refuse_all(Checks::of_producer(&conf));
    conf
}

struct Reader<'a> {
    leaves: &'a Leaves,
    path: &'a str,
    problems: &'a mut Vec<ConfigError>,
}

impl Reader<'_> {
    /// Tells of values that are not allowed where they are written.
    fn refuse_all(&mut self, problems: Vec<ConfigError>) {
        for problem in problems {
            if let ConfigError::Value { key, found, allowed, .. } = problem
                && key != "application-name"
            {
                self.refuse(&key, found, allowed);
            }
        }
    }

    fn refuse(&mut self, key: &str, found: String, allowed: String) {
        let written = self.leaves.0.get(key).filter(|leaf| leaf.origin.is_some());
        let (key, origin) = match (written, self.written_in(key)) {
            (Some(leaf), _) => (leaf.path.clone(), leaf.origin.clone()),
            (None, Some(leaf)) => {
                let section = leaf.path.rsplit_once('.').map_or(leaf.path.as_str(), |(section, _)| section);
                (section.to_owned(), leaf.origin.clone())
            }
            (None, None) => (format!("{}.{key}", self.path), None),
        };
        self.problems.push(ConfigError::Value { key, origin, found, allowed });
    }

    /// Something in a section that is no built-in default; rather the consumer's own than what it inherits.
    fn written_in(&self, section: &str) -> Option<&Leaf> {
        let inside = |key: &str| key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'));
        let leaves = self.leaves.0.iter().filter(|(key, leaf)| inside(key) && leaf.origin.is_some());
        leaves.map(|(_, leaf)| leaf).max_by_key(|leaf| leaf.path.starts_with(self.path))
    }

    /// The value of `key`, if it has one that is not null.
    fn value<K: Kind>(&mut self, key: &str, kind: &K) -> Option<K::Value> {
        let text = match &self.leaves.0.get(key)?.value {
            LeafValue::Null => return None,
            LeafValue::Text(text) => text,
            LeafValue::List => {
                self.refuse(key, "a list".to_owned(), kind.allowed());
                return None;
            }
            LeafValue::EmptySection => {
                self.refuse(key, "a section".to_owned(), kind.allowed());
                return None;
            }
        };
        let value = kind.parse(text);
        if value.is_none() {
            self.refuse(key, quoted(text), kind.allowed());
        }
        value
    }
}

impl Visit for Reader<'_> {
    fn required<K: Kind>(&mut self, key: &'static str, field: &mut K::Value, kind: K) {
        if let Some(value) = self.value(key, &kind) {
            *field = value;
        }
    }

    fn optional<K: Kind>(&mut self, key: &'static str, field: &mut Option<K::Value>, kind: K) {
        if let Some(value) = self.value(key, &kind) {
            *field = Some(value);
        }
    }

    fn missing(&mut self, key: &'static str, allowed: String) {
        let leaf = self.leaves.0.get(key);
        if leaf.is_none_or(|leaf| leaf.value == LeafValue::Null) {
            self.problems.push(ConfigError::Missing { key: format!("{}.{key}", self.path), allowed });
        }
    }
}

/// The leaves of a section, without its defaults, that are none of the `known` keys and mean nothing.
pub(super) fn unknown_keys(
    leaves: &Leaves,
    path: &str,
    known: &[&'static str],
    problems: &mut Vec<ConfigError>,
) {
    let reactive: Vec<_> = reactive::keys().collect();
    let keys = || known.iter().copied().chain(reactive.iter().map(String::as_str));
    let sections = || keys().filter_map(|key| Some(key.rsplit_once('.')?.0));
    for (key, leaf) in leaves.0.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        let is_section =
            keys().any(|known| known.strip_prefix(key.as_str()).is_some_and(|it| it.starts_with('.')));
        let Leaf { path: key_path, origin, value } = leaf.clone();
        match value {
            LeafValue::Null | LeafValue::EmptySection if is_section => {}
            LeafValue::Text(text) if is_section => problems.push(ConfigError::Value {
                key: key_path,
                origin,
                found: quoted(&text),
                allowed: "a section in { }".to_owned(),
            }),
            _ => {
                let nearest =
                    nearest(key, keys().chain(sections())).map(|nearest| format!("{path}.{nearest}"));
                problems.push(ConfigError::UnknownKey { key: key_path, origin, nearest });
            }
        }
    }
}

/// All keys of a consumer's section.
pub(super) fn consumer_keys() -> Vec<&'static str> {
    let mut keys = Keys::default();
    keys::consumer(&mut ConsumerConf::new("", ""), &mut keys);
    keys.0
}

/// All keys of a producer's section.
pub(super) fn producer_keys() -> Vec<&'static str> {
    let mut keys = Keys::default();
    keys::producer(&mut ProducerConf::new(""), &mut keys);
    keys.0
}

/// All keys of a named section, which may be both a consumer's and a producer's.
pub(super) fn known_keys() -> Vec<&'static str> {
    let of_consumers = consumer_keys();
    let of_producers = producer_keys().into_iter().filter(|key| !of_consumers.contains(key));
    of_consumers.iter().copied().chain(of_producers).collect()
}

#[derive(Default)]
struct Keys(Vec<&'static str>);

impl Visit for Keys {
    fn required<K: Kind>(&mut self, key: &'static str, _: &mut K::Value, _: K) {
        self.0.push(key);
    }

    fn optional<K: Kind>(&mut self, key: &'static str, _: &mut Option<K::Value>, _: K) {
        self.0.push(key);
    }
}
