//! Typed settings against what is allowed.

use super::consumer::ConsumerConf;
use super::error::ConfigError;
use super::keys::{self, TABLE_NAME, Visit};
use super::kinds::{Kind, Text};
use super::producer::ProducerConf;

/// Gathers what is not allowed. Keys are relative to the consumer's or producer's section.
#[derive(Default)]
pub(super) struct Checks {
    problems: Vec<ConfigError>,
}

impl Checks {
    /// What is not allowed in `conf`.
    pub(super) fn of(conf: &ConsumerConf) -> Vec<ConfigError> {
        let mut checks = Self::default();
        let mut copy = conf.clone();
        checks.required("application-name", &mut copy.application_name, Text);
        keys::consumer(&mut copy, &mut checks);
        if conf.lease.table_name.is_none() && checks.problems.is_empty() {
            checks.required("lease.table-name", &mut conf.table_name(), TABLE_NAME);
        }
        checks.problems
    }

    /// What is not allowed in `conf`.
    pub(super) fn of_producer(conf: &ProducerConf) -> Vec<ConfigError> {
        let mut checks = Self::default();
        keys::producer(&mut conf.clone(), &mut checks);
        checks.problems
    }
}

impl Visit for Checks {
    fn required<K: Kind>(&mut self, key: &'static str, field: &mut K::Value, kind: K) {
        if !kind.allows(field) {
            self.unfit(key, kind.show(field), kind.allowed());
        }
    }

    fn optional<K: Kind>(&mut self, key: &'static str, field: &mut Option<K::Value>, kind: K) {
        if let Some(value) = field {
            self.required(key, value, kind);
        }
    }

    fn unfit(&mut self, key: &'static str, found: String, allowed: String) {
        self.problems.push(ConfigError::Value { key: key.to_owned(), origin: None, found, allowed });
    }
}
