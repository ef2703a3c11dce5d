//! How often each operation was called, and about what.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::faults::{Call, Selector, Service};

/// Kinds of calls that are told apart; more are counted by their operation alone.
const MAX_KINDS: usize = 10_000;

/// What a call was about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Kind {
    service: Service,
    operation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shards: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<String>,
}

impl Kind {
    fn of(call: &Call) -> Self {
        let Call { service, operation, stream, shards, tables, .. } = call.clone();
        Self { service, operation, stream, shards, tables }
    }

    fn as_call(&self) -> Call {
        let Self { service, operation, stream, shards, tables } = self.clone();
        Call { service, operation, stream, shards, tables, keys: Vec::new(), iterator_issued: None }
    }
}

/// A counter per kind of call. Calls that were refused count too.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<BTreeMap<Kind, u64>>);

impl Calls {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<Kind, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, call: &Call) {
        let mut kind = Kind::of(call);
        let mut counts = self.counts();
        if counts.len() >= MAX_KINDS && !counts.contains_key(&kind) {
            kind = Kind { stream: None, shards: Vec::new(), tables: Vec::new(), ..kind };
        }
        *counts.entry(kind).or_default() += 1;
    }

    pub(crate) fn of(&self, selector: &Selector) -> u64 {
        self.list(selector).iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn list(&self, selector: &Selector) -> Vec<(Kind, u64)> {
        let counts = self.counts();
        let chosen = counts.iter().filter(|(kind, _)| selector.matches(&kind.as_call()));
        chosen.map(|(kind, count)| (kind.clone(), *count)).collect()
    }

    pub(crate) fn reset(&self) {
        self.counts().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_what_they_are_about() {
        let calls = Calls::default();
        for stream in ["flights", "trains", "flights"] {
            let body = format!(r#"{{"StreamName": "{stream}"}}"#);
            calls.count(&Call::kinesis("ListShards", body.as_bytes()));
        }
        calls.count(&Call::dynamodb("Scan", br#"{"TableName": "leases"}"#));
        assert_eq!(calls.of(&Selector::on("ListShards")), 3);
        assert_eq!(calls.of(&Selector::any().stream("flights")), 2);
        assert_eq!(calls.of(&Selector::any().table("leases")), 1);
        assert_eq!(calls.list(&Selector::any()).len(), 3);
        calls.reset();
        assert_eq!(calls.of(&Selector::any()), 0);
    }

    #[test]
    fn memory_stays_bounded_whatever_is_called() {
        let calls = Calls::default();
        for number in 0..MAX_KINDS + 100 {
            let body = format!(r#"{{"StreamName": "{number}"}}"#);
            calls.count(&Call::kinesis("ListShards", body.as_bytes()));
        }
        assert_eq!(calls.of(&Selector::on("ListShards")), MAX_KINDS as u64 + 100);
        assert_eq!(calls.list(&Selector::any()).len(), MAX_KINDS + 1);
    }
}
