//! What went wrong with a call, as far as both services have it in common.

use std::error::Error;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_kinesis::operation::RequestId;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

/// A service's own message may be long and hold a whole request; this much of it, in characters, is shown.
const MESSAGE_LIMIT: usize = 400;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// The cause for people: error code, message and request id, or what happened to the connection.
    pub(crate) text: String,
}

/// The cause of a [`Failure`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The service refused the call with an error code.
    Refused(String),
    /// The service failed, or its reply cannot be read.
    Reply,
    /// The call took longer than it may.
    Timeout,
    /// The service was not reached, or the connection broke.
    Connection,
    /// There are no credentials. The call was not sent.
    Credentials,
    /// The request cannot be made from its arguments. The call was not sent.
    Request,
}

impl Failure {
    /// Reads an error of the SDK. `limit` is the time that the call had; `hidden` does not appear in the text.
    pub(crate) fn of<E>(
        error: &SdkError<E, HttpResponse>,
        limit: Option<Duration>,
        hidden: Option<&str>,
    ) -> Self
    where
        E: Error + ProvideErrorMetadata + 'static,
    {
        let (cause, mut text) = match error {
            SdkError::ServiceError(_) => refusal(error),
            SdkError::ResponseError(reply) => {
                let status = reply.raw().status().as_u16();
                let detail = io_error(error).map(|io| format!(": {io}")).unwrap_or_default();
                (Cause::Reply, format!("the reply (HTTP status {status}) cannot be read{detail}"))
            }
            SdkError::TimeoutError(_) => (Cause::Timeout, overdue(limit)),
            SdkError::DispatchFailure(failure) => match credentials_error(error) {
                Some(CredentialsError::ProviderTimedOut(_)) => {
                    (Cause::Timeout, "the source of the credentials did not answer in time".to_owned())
                }
                Some(credentials) => (Cause::Credentials, chain(credentials)),
                None => {
                    let cause = if failure.is_timeout() { Cause::Timeout } else { Cause::Connection };
                    (cause, failure.as_connector_error().map_or_else(|| chain(error), |inner| chain(inner)))
                }
            },
            SdkError::ConstructionFailure(_) => (Cause::Request, chain(error)),
            other => (Cause::Reply, chain(other)),
        };
        if let Some(hidden) = hidden.filter(|hidden| !hidden.is_empty()) {
            text = text.replace(hidden, "<hidden>");
        }
        if let Some(id) = error.request_id() {
            text = format!("{text} (request id {id})");
        }
        Self { cause, text }
    }

    /// The service's error code.
    pub(crate) fn code(&self) -> Option<&str> {
        match &self.cause {
            Cause::Refused(code) => Some(code),
            _ => None,
        }
    }

    /// Whether a limit of the service is exceeded.
    pub(crate) fn is_throttled(&self) -> bool {
        const CODES: [&str; 8] = [
            "KMSThrottlingException",
            "LimitExceededException",
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
            "SlowDown",
            "Throttling",
            "ThrottlingException",
            "TooManyRequestsException",
        ];
        self.code().is_some_and(|code| CODES.contains(&code))
    }

    /// Whether the credentials are missing, bad, or not enough.
    pub(crate) fn is_denied(&self) -> bool {
        const CODES: [&str; 13] = [
            "AccessDenied",
            "AccessDeniedException",
            "ExpiredToken",
            "ExpiredTokenException",
            "IncompleteSignature",
            "IncompleteSignatureException",
            "InvalidClientTokenId",
            "MissingAuthenticationToken",
            "MissingAuthenticationTokenException",
            "NotAuthorized",
            "OptInRequired",
            "UnrecognizedClient",
            "UnrecognizedClientException",
        ];
        self.cause == Cause::Credentials
            || self.blames_the_clock()
            || self.code().is_some_and(|code| CODES.contains(&code))
    }

    /// Whether the reason may be that this host's clock is wrong.
    fn blames_the_clock(&self) -> bool {
        const CODES: [&str; 6] = [
            "InvalidSignature",
            "InvalidSignatureException",
            "RequestExpired",
            "RequestInTheFuture",
            "RequestTimeTooSkewed",
            "SignatureDoesNotMatch",
        ];
        self.code().is_some_and(|code| CODES.contains(&code))
    }

    /// What a person can do about it, where that does not depend on the service. `action` is the IAM action.
    pub(crate) fn advice(&self, action: &str) -> Option<String> {
        if self.blames_the_clock() {
            return Some("check this host's clock, and then the secret access key".to_owned());
        }
        match &self.cause {
            Cause::Refused(code) if code.starts_with("ExpiredToken") => {
                Some("the credentials have expired, and their source has to renew them".to_owned())
            }
            Cause::Refused(code) if code.starts_with("AccessDenied") => {
                Some(format!("allow the action {action}"))
            }
            _ if self.is_denied() => {
                Some("check the credentials: the environment, the profile or the role".to_owned())
            }
            Cause::Connection if self.text.contains("UnknownIssuer") => Some(
                "install the root certificates (ca-certificates), or name them in SSL_CERT_FILE".to_owned(),
            ),
            Cause::Connection => Some("check the endpoint, the region and the network".to_owned()),
            _ => None,
        }
    }
}

/// The failure in one sentence or two, for people: what was tried, where, why it failed, and what to do.
pub(crate) fn sentence(what: &str, place: &str, why: &str, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{what} failed ({place}): {why}; {advice}"),
        None => format!("{what} failed ({place}): {why}"),
    }
}

fn refusal<E>(error: &SdkError<E, HttpResponse>) -> (Cause, String)
where
    E: Error + ProvideErrorMetadata + 'static,
{
    let status = error.raw_response().map_or(0, |response| response.status().as_u16());
    let Some(code) = error.code() else {
        return (Cause::Reply, format!("the service answered with HTTP status {status} and no error code"));
    };
    let message = error.message().map(shown).filter(|message| !message.is_empty());
    let text = message.map_or_else(|| code.to_owned(), |message| format!("{code}: {message}"));
    (Cause::Refused(code.to_owned()), text)
}

/// The part of a service's message that may be shown. A refused signature comes with the request that should have
/// been signed, session token included.
fn shown(message: &str) -> String {
    let message = message.split("The Canonical String").next().unwrap_or_default();
    message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MESSAGE_LIMIT).collect()
}

fn overdue(limit: Option<Duration>) -> String {
    match limit {
        Some(limit) => format!("no reply within {limit:?}"),
        None => "no reply in time".to_owned(),
    }
}

/// The texts of an error and of what it came from, without repetitions.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for source in sources(error).skip(1) {
        let next = source.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
    }
    text
}

fn sources<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn credentials_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CredentialsError> {
    sources(error).find_map(|source| source.downcast_ref())
}

fn io_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a std::io::Error> {
    sources(error).find_map(|source| source.downcast_ref())
}
