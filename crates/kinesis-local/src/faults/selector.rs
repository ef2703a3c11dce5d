//! Which calls are meant.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::call::Call;

/// One of the two services. Some operations, such as GetRecords, are in both: DynamoDB has streams, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Kinesis Data Streams.
    Kinesis,
    /// DynamoDB with its streams.
    DynamoDb,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kinesis => "Kinesis",
            Self::DynamoDb => "DynamoDB",
        })
    }
}

/// Calls by what they are about. What is not named may be anything.
///
/// A call is about what its request tells: a GetRecords call about the stream and the shard of its iterator, a
/// PutRecord call about a stream, not about the shard that the record will go to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Selector {
    /// The operation, such as `GetRecords`.
    #[serde(rename = "on", default, skip_serializing_if = "Option::is_none")]
    pub(super) operation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<Service>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shard: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) table: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

impl Selector {
    /// All calls of both services.
    pub fn any() -> Self {
        Self::default()
    }

    /// The calls of an operation, such as `GetRecords`.
    pub fn on(operation: &str) -> Self {
        Self { operation: Some(operation.to_owned()), ..Self::default() }
    }

    /// Only calls to this service.
    pub fn service(self, service: Service) -> Self {
        Self { service: Some(service), ..self }
    }

    /// Only calls about this stream, by its name.
    pub fn stream(self, name: &str) -> Self {
        Self { stream: Some(name.to_owned()), ..self }
    }

    /// Only calls about this shard, by its id.
    pub fn shard(self, id: &str) -> Self {
        Self { shard: Some(id.to_owned()), ..self }
    }

    /// Only calls about this table of DynamoDB, by its name.
    pub fn table(self, name: &str) -> Self {
        Self { table: Some(name.to_owned()), ..self }
    }

    /// Only calls about the item with this key, such as a lease: one that has the text or number in its key.
    /// For PutItem, any attribute of the item counts, as a request does not tell which one is the key.
    pub fn key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    pub(crate) fn matches(&self, call: &Call) -> bool {
        let fits = |wanted: &Option<String>, have: &[String]| {
            wanted.as_ref().is_none_or(|wanted| have.contains(wanted))
        };
        self.operation.as_ref().is_none_or(|operation| *operation == call.operation)
            && self.service.is_none_or(|service| service == call.service)
            && self.stream.as_ref().is_none_or(|stream| call.stream.as_ref() == Some(stream))
            && fits(&self.shard, &call.shards)
            && fits(&self.table, &call.tables)
            && fits(&self.key, &call.keys)
    }
}
