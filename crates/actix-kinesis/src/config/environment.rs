//! Environment variables as a layer over the file: `KINESIS__ORDERS__WORKER__MAX_BYTES` is
//! `kinesis.orders.worker.max-bytes`.

use std::collections::{BTreeMap, HashMap};

use config::{Map, Source, Value, ValueKind};

const PREFIX: &str = "KINESIS__";

/// The variables of the process that are Unicode.
pub(super) fn of_process() -> HashMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The layer.
#[derive(Debug, Clone)]
pub(super) struct Overrides {
    kinesis: Value,
}

impl Overrides {
    /// The overrides in `environment`, for a file that has `sections` at the level of `kinesis`.
    pub(super) fn of(environment: &HashMap<String, String>, sections: &[String]) -> Self {
        let mut kinesis = Value::new(None, Map::<String, Value>::new());
        // In order, so that KINESIS__A__B is always put into KINESIS__A and never the other way round.
        for (name, text) in environment.iter().collect::<BTreeMap<_, _>>() {
            let Some(rest) = name.strip_prefix(PREFIX).filter(|rest| !rest.is_empty()) else { continue };
            let mut path: Vec<_> =
                rest.split("__").map(|segment| segment.to_lowercase().replace('_', "-")).collect();
            // A section may have a name that no variable can spell, such as "clickStream" or "my.stream".
            if let Some(section) = path.first_mut()
                && let Some(known) =
                    sections.iter().find(|known| spelt_as_variable(known) == spelt_as_variable(section))
            {
                *section = known.clone();
            }
            let origin = format!("the environment variable {name}");
            set(&mut kinesis, &path, Value::new(Some(&origin), text.as_str()));
        }
        Self { kinesis }
    }
}

fn spelt_as_variable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

fn set(section: &mut Value, path: &[String], value: Value) {
    let Some((key, rest)) = path.split_first() else {
        *section = value;
        return;
    };
    if !matches!(section.kind, ValueKind::Table(_)) {
        *section = Value::new(None, Map::<String, Value>::new());
    }
    if let ValueKind::Table(table) = &mut section.kind {
        set(table.entry(key.clone()).or_insert_with(|| Value::new(None, ValueKind::Nil)), rest, value);
    }
}

impl Source for Overrides {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        Ok(Map::from([("kinesis".to_owned(), self.kinesis.clone())]))
    }
}
