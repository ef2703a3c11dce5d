//! JSON and CBOR, by content type.

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::cbor;
use super::parameters::Parameters;
use crate::model::KinesisError;

/// How a client writes its request, and reads the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `application/x-amz-json-1.1`
    Json,
    /// `application/x-amz-cbor-1.1`
    Cbor,
}

impl Form {
    /// The form of a request. What is not CBOR is taken for JSON.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        match kind.starts_with(b"application/x-amz-cbor") {
            true => Self::Cbor,
            false => Self::Json,
        }
    }

    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/x-amz-json-1.1",
            Self::Cbor => "application/x-amz-cbor-1.1",
        })
    }

    /// What a request says.
    ///
    /// # Errors
    /// [`KinesisError::Serialization`] for what is not of the form.
    pub(crate) fn parse(self, body: &[u8]) -> Result<Parameters, KinesisError> {
        match self {
            Self::Json => Parameters::parse(body),
            Self::Cbor => Parameters::parse_cbor(body),
        }
    }

    /// A request in JSON.
    ///
    /// # Errors
    /// As [`Form::parse`].
    pub(crate) fn json(self, body: &Bytes) -> Result<Bytes, KinesisError> {
        match self {
            Self::Json => Ok(body.clone()),
            Self::Cbor => match cbor::to_json(body) {
                Ok(json) => Ok(json.into()),
                Err(error) => Err(KinesisError::Serialization(error.to_string())),
            },
        }
    }

    /// A reply from its JSON. An empty one stays empty.
    pub(crate) fn write(self, json: String) -> Bytes {
        match self {
            Self::Cbor if !json.is_empty() => match cbor::from_json(&json) {
                Ok(cbor) => cbor.into(),
                // A fault may make what it wants of a reply.
                Err(error) => {
                    tracing::debug!(%error, "a reply that is not JSON");
                    json.into()
                }
            },
            _ => json.into(),
        }
    }
}
