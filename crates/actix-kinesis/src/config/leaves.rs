//! A section as the list of what is written in it: one leaf for each key, by its path in the section.

use std::collections::BTreeMap;

use config::{Value, ValueKind};

/// What is written at one place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    /// The full path of the key, from the root.
    pub(super) path: String,
    /// The file, or what else it comes from.
    pub(super) origin: Option<String>,
    /// What stands there.
    pub(super) value: LeafValue,
}

/// What stands at a key that is no section with keys in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LeafValue {
    /// `null`: as if nothing had been written here or below.
    Null,
    /// Any scalar, as it is written.
    Text(String),
    /// A list.
    List,
    /// A section without keys.
    EmptySection,
}

/// The leaves of a section by their path in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Leaves(pub(super) BTreeMap<String, Leaf>);

impl Leaves {
    /// The leaves of `section`, which stands at `path`. In the result their keys begin with `prefix`.
    pub(super) fn of(section: &Value, path: &str, prefix: &str) -> Self {
        let mut leaves = Self::default();
        if let ValueKind::Table(table) = &section.kind {
            for (key, value) in table {
                leaves.add(value, join(path, key), join(prefix, key));
            }
        }
        leaves
    }

    fn add(&mut self, value: &Value, path: String, key: String) {
        let leaf = match &value.kind {
            ValueKind::Table(table) if !table.is_empty() => {
                for (name, value) in table {
                    self.add(value, join(&path, name), join(&key, name));
                }
                return;
            }
            ValueKind::Table(_) => LeafValue::EmptySection,
            ValueKind::Array(_) => LeafValue::List,
            ValueKind::Nil => LeafValue::Null,
            scalar => LeafValue::Text(scalar.to_string()),
        };
        self.0.insert(key, Leaf { path, origin: value.origin().map(str::to_owned), value: leaf });
    }

    /// These leaves where they are written, `lower` elsewhere. What is null here hides what is there: a key, or a
    /// whole section.
    pub(super) fn over(&self, lower: &Self) -> Self {
        let hidden = |key: &str| {
            self.0.iter().any(|(upper, leaf)| {
                leaf.value != LeafValue::EmptySection
                    && key.strip_prefix(upper.as_str()).is_some_and(|rest| rest.starts_with('.'))
            })
        };
        let mut merged: BTreeMap<_, _> = lower
            .0
            .iter()
            .filter(|(key, _)| !hidden(key))
            .map(|(key, leaf)| (key.clone(), leaf.clone()))
            .collect();
        merged.extend(self.0.clone());
        Self(merged)
    }
}

/// The path of `key` in the section at `path`, in quotes where HOCON needs them.
pub(super) fn join(path: &str, key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let key = if !key.is_empty() && key.bytes().all(plain) { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}
