//! Failed calls to the lease table, by whether they were applied and what the caller can do.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::types::TableStatus;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use kinesis_lease::StoreError;
use kinesis_record::ShardId;

use super::row;
use crate::failure::{Cause, Failure, sentence};

/// A call, for the text of its error.
pub(super) struct Call<'a> {
    pub(super) operation: &'static str,
    pub(super) table: &'a str,
    /// What the table is.
    pub(super) kind: &'static str,
    pub(super) shard: Option<&'a ShardId>,
    pub(super) place: &'a str,
    /// The time that the call has.
    pub(super) limit: Option<Duration>,
}

impl Call<'_> {
    /// The error of a call that the SDK reports as failed.
    pub(super) fn failed<E>(&self, error: &SdkError<E, HttpResponse>) -> StoreError
    where
        E: Error + ProvideErrorMetadata + 'static,
    {
        let failure = Failure::of(error, self.limit, None);
        let general = failure.advice(&format!("dynamodb:{}", self.operation));
        let says = |advice: &str| {
            let advice = general.as_deref().or(Some(advice).filter(|advice| !advice.is_empty()));
            self.sentence(&failure.text, advice)
        };
        if failure.is_throttled() {
            return StoreError::Throttled(says(
                "if it goes on, raise the table's capacity or bill it by request",
            ));
        }
        if failure.is_denied() {
            return StoreError::Refused(says(""));
        }
        match &failure.cause {
            Cause::Refused(code) => match code.as_str() {
                "ResourceNotFoundException" => {
                    StoreError::TableMissing(says("check the table's name, the region and the account"))
                }
                "ValidationException" => StoreError::Refused(says("check the table's name and key")),
                _ => StoreError::Unknown(says("")),
            },
            Cause::Request => StoreError::Refused(says("")),
            _ => StoreError::Unknown(says("")),
        }
    }

    /// The error of a call whose reply is not what the table should hold.
    pub(super) fn unreadable(&self, why: &str) -> StoreError {
        let why = format!("the row cannot be read as a lease: {why}");
        StoreError::Unreadable(self.sentence(&why, Some("mend the row, or delete it")))
    }

    /// The worker's row would be that of a lease.
    pub(super) fn misnamed(&self) -> StoreError {
        let why = "the worker id is the name of a shard, whose lease is there";
        StoreError::Refused(self.sentence(why, Some("give the worker another id")))
    }

    /// The table is another's.
    pub(super) fn foreign(&self) -> StoreError {
        let why = format!(
            "the table belongs to something else, as its key is not the text {} alone",
            row::LEASE_KEY
        );
        StoreError::Refused(self.sentence(&why, Some("give the application another name or lease table")))
    }

    /// The table is that of another stream.
    pub(super) fn other_stream(&self, found: &str, wanted: &str) -> StoreError {
        let why =
            format!("the table holds leases of the stream {found:?}, and this is the stream {wanted:?}");
        let advice =
            "give the application another name or lease table; if the stream was renamed, delete the table";
        StoreError::OtherStream(self.sentence(&why, Some(advice)))
    }

    /// The table is in a state that does not pass by itself.
    pub(super) fn unusable(&self, status: Option<&TableStatus>) -> StoreError {
        let status = status.map_or("unknown", TableStatus::as_str);
        StoreError::Refused(self.sentence(
            &format!("the status of the table is {status}"),
            Some("bring it back to ACTIVE, or use another table"),
        ))
    }

    /// The table did not become usable.
    pub(super) fn overdue(&self, limit: Duration) -> StoreError {
        StoreError::Unknown(self.sentence(&format!("the table is not active after {limit:?}"), None))
    }

    fn sentence(&self, why: &str, advice: Option<&str>) -> String {
        sentence(&self.to_string(), self.place, why, advice)
    }
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            Some(shard) => write!(f, "{} for {shard} in the {} {:?}", self.operation, self.kind, self.table),
            None => write!(f, "{} of the {} {:?}", self.operation, self.kind, self.table),
        }
    }
}
