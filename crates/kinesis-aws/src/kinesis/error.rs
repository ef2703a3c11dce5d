//! Failed calls to Kinesis, by what the caller can do about them.

use std::error::Error;
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use kinesis_lease::{StreamError, StreamErrorKind};

use crate::failure::{Cause, Failure, sentence};

/// A call, for the text of its error.
pub(crate) struct Call<'a> {
    pub(crate) operation: &'static str,
    pub(crate) stream: &'a str,
    pub(crate) shard: Option<&'a str>,
    pub(crate) place: &'a str,
    /// The time that the call has.
    pub(crate) limit: Option<Duration>,
}

impl Call<'_> {
    /// The error of a call that the SDK reports as failed. `hidden`, an iterator, is kept out of the text.
    pub(crate) fn failed<E>(&self, error: &SdkError<E, HttpResponse>, hidden: Option<&str>) -> StreamError
    where
        E: Error + ProvideErrorMetadata + 'static,
    {
        let failure = Failure::of(error, self.limit, hidden);
        let kind = kind(&failure);
        let advice = failure
            .advice(&format!("kinesis:{}", self.operation))
            .or_else(|| advice(self.operation, kind).map(str::to_owned));
        StreamError {
            kind,
            message: sentence(&self.to_string(), self.place, &failure.text, advice.as_deref()),
        }
    }

    /// The error of a call whose reply breaks the service's rules. `holds` completes "the reply holds ...".
    pub(crate) fn unreadable(&self, holds: &str) -> StreamError {
        let why = format!("the reply holds {holds}");
        StreamError {
            kind: StreamErrorKind::Unavailable,
            message: sentence(&self.to_string(), self.place, &why, None),
        }
    }
}

impl std::fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.shard {
            Some(shard) => write!(f, "{} for {shard} of the stream {:?}", self.operation, self.stream),
            None => write!(f, "{} of the stream {:?}", self.operation, self.stream),
        }
    }
}

fn kind(failure: &Failure) -> StreamErrorKind {
    if failure.is_throttled() {
        return StreamErrorKind::Throttled;
    }
    if failure.is_denied() {
        return StreamErrorKind::Denied;
    }
    match &failure.cause {
        Cause::Refused(code) => match code.as_str() {
            "ExpiredIteratorException" => StreamErrorKind::ExpiredIterator,
            "ResourceNotFoundException" => StreamErrorKind::NotFound,
            "InvalidArgumentException" | "SerializationException" | "ValidationException" => {
                StreamErrorKind::InvalidArgument
            }
            code if code.starts_with("KMS") => StreamErrorKind::Encryption,
            _ => StreamErrorKind::Unavailable,
        },
        Cause::Request => StreamErrorKind::InvalidArgument,
        _ => StreamErrorKind::Unavailable,
    }
}

fn advice(operation: &str, kind: StreamErrorKind) -> Option<&'static str> {
    let puts = operation == "PutRecords";
    match kind {
        StreamErrorKind::Throttled if puts => Some("if it goes on, send less or add shards"),
        StreamErrorKind::Throttled => Some("if it goes on, read less often or add shards"),
        StreamErrorKind::ExpiredIterator => Some("a new iterator is needed"),
        StreamErrorKind::NotFound => Some("check the stream's name, the region and the account"),
        StreamErrorKind::InvalidArgument if puts => {
            Some("check that no record is larger than the stream allows")
        }
        StreamErrorKind::InvalidArgument => Some("check the position to start from"),
        StreamErrorKind::Encryption if puts => {
            Some("check that the stream's KMS key is enabled, and allow kms:GenerateDataKey with it")
        }
        StreamErrorKind::Encryption => {
            Some("check that the stream's KMS key is enabled, and allow kms:Decrypt with it")
        }
        StreamErrorKind::Denied | StreamErrorKind::Unavailable => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_gets_other_advice_than_a_reader() {
        for kind in
            [StreamErrorKind::Throttled, StreamErrorKind::InvalidArgument, StreamErrorKind::Encryption]
        {
            let (put, get) = (advice("PutRecords", kind).unwrap(), advice("GetRecords", kind).unwrap());
            for word in ["read", "position", "kms:Decrypt"] {
                assert!(!put.contains(word), "{put}");
            }
            assert_ne!(put, get);
        }
        assert!(advice("PutRecords", StreamErrorKind::Encryption).unwrap().contains("kms:GenerateDataKey"));
    }
}
