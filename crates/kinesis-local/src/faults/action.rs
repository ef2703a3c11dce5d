//! What a fault does to a call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::Call;
use super::selector::Service;
use crate::model::KinesisError;

/// What a fault does to a call that it strikes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Action {
    /// Nothing: the fault only counts.
    #[default]
    Observe,
    /// The call is served so much later.
    #[serde(rename = "delay_ms", with = "super::form::millis")]
    Delay(Duration),
    /// The call is refused and not applied.
    Error(Refusal),
    /// The call is refused because the shard or the table has no throughput left, in the service's words.
    Throttle,
    /// The request is read and never answered; the connection stays open.
    Hang,
    /// The connection is reset as soon as the request is read; the call is not applied.
    Reset,
    /// The call is applied and refused all the same.
    ErrorAfter(Refusal),
    /// The call is applied, then the connection is closed without a reply.
    LoseReply,
    /// The call is applied, then the connection is closed in the middle of the reply's body.
    HalfBody,
    /// The call is applied and half of the reply's body sent; the rest never comes, and the connection stays
    /// open.
    StallBody,
    /// A JSON merge patch (RFC 7396) on the reply: members are set, or removed by null.
    Merge(Value),
    /// The reply is changed by a function.
    #[serde(skip)]
    Rewrite(Rewrite),
    /// GetRecords refuses iterators that are older than this, as expired.
    #[serde(rename = "expire_iterators_ms", with = "super::form::millis")]
    ExpireIterators(Duration),
    /// GetRecords gives no records and an iterator for the same place.
    EmptyPage,
    /// ListShards and DescribeStream answer as if nothing had changed since the fault was added. Only
    /// ListShards calls whose filter is AT_LATEST show shards again that were closed since, if the filter
    /// leaves them out.
    StaleShards,
    /// ListShards and DescribeStream leave these shards out.
    HideShards(Vec<String>),
    /// ListShards and DescribeStream give so many shards, the first ones, as if there were no more.
    FirstShards(usize),
    /// PutRecords refuses some records, which are not stored.
    FailRecords {
        /// The places of the records in the request, from 0. A place that a request does not have is passed
        /// over.
        places: Vec<usize>,
        /// The `ErrorCode` of each.
        #[serde(default)]
        code: RecordFailure,
        /// The `ErrorMessage` of each.
        #[serde(default = "rate_exceeded")]
        message: String,
    },
}

/// Why PutRecords refuses a single record: all that the service has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RecordFailure {
    /// `ProvisionedThroughputExceededException`
    #[default]
    #[serde(rename = "ProvisionedThroughputExceededException")]
    ThroughputExceeded,
    /// `InternalFailure`
    InternalFailure,
}

impl RecordFailure {
    pub(super) fn failure(self, message: String) -> KinesisError {
        match self {
            Self::ThroughputExceeded => KinesisError::ProvisionedThroughputExceeded(message),
            Self::InternalFailure => KinesisError::InternalFailure(message),
        }
    }
}

fn rate_exceeded() -> String {
    "Rate exceeded for shard.".to_owned()
}

impl Action {
    pub(super) fn fail_records(places: Vec<usize>) -> Self {
        Self::FailRecords { places, code: RecordFailure::default(), message: rate_exceeded() }
    }

    /// The operations of Kinesis that this can be done to; none if it can be done to any call.
    pub(super) fn operations(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::ExpireIterators(_) | Self::EmptyPage => Some(&["GetRecords"]),
            Self::StaleShards | Self::HideShards(_) | Self::FirstShards(_) => {
                Some(&["ListShards", "DescribeStream"])
            }
            Self::FailRecords { .. } => Some(&["PutRecords"]),
            _ => None,
        }
    }

    /// Whether this can be done to such a call at all.
    pub(super) fn suits(&self, call: &Call) -> bool {
        self.operations().is_none_or(|operations| {
            call.service == Service::Kinesis && operations.contains(&call.operation.as_str())
        })
    }
}

/// An error reply.
///
/// `"InternalFailure".into()` is one with the code's usual status and a message of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Refusal {
    pub(crate) code: String,
    pub(crate) status: u16,
    pub(crate) message: String,
}

impl Refusal {
    /// An error with this code, such as `ProvisionedThroughputExceededException`. Its HTTP status is 500 for a
    /// code of the service's own trouble, 503 for `ServiceUnavailable`, else 400.
    pub fn new(code: &str) -> Self {
        let status = match code {
            "InternalFailure" | "InternalServerError" | "InternalFailureException" => 500,
            "ServiceUnavailable" | "ServiceUnavailableException" | "SlowDown" => 503,
            _ => 400,
        };
        let message = format!("{code}, because a fault asks for it.");
        Self { code: code.to_owned(), status, message }
    }

    /// With another HTTP status, 200 to 999.
    pub fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// With another message.
    pub fn message(self, message: &str) -> Self {
        Self { message: message.to_owned(), ..self }
    }
}

impl From<&str> for Refusal {
    fn from(code: &str) -> Self {
        Self::new(code)
    }
}

impl From<String> for Refusal {
    fn from(code: String) -> Self {
        Self::new(&code)
    }
}

/// A function that changes a reply.
#[derive(Clone)]
pub struct Rewrite(pub(super) Arc<dyn Fn(&mut Value) + Send + Sync>);

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rewrite")
    }
}

impl PartialEq for Rewrite {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
