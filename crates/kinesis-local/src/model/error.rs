//! How the service refuses a call.

/// An error of Kinesis, with the type name and the kind of message that the service sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KinesisError {
    /// A stream or shard does not exist, or does not serve this call in its state.
    #[error("ResourceNotFoundException: {0}")]
    ResourceNotFound(String),
    /// The stream exists already, or is in a state that does not allow the call.
    #[error("ResourceInUseException: {0}")]
    ResourceInUse(String),
    /// An argument that is well-formed and still wrong.
    #[error("InvalidArgumentException: {0}")]
    InvalidArgument(String),
    /// An argument that breaks the rules of the request's form: missing, too long, out of range.
    #[error("ValidationException: {0}")]
    Validation(String),
    /// A limit of the account or of an operation.
    #[error("LimitExceededException: {0}")]
    LimitExceeded(String),
    /// A shard has no throughput left for the call.
    #[error("ProvisionedThroughputExceededException: {0}")]
    ProvisionedThroughputExceeded(String),
    /// A shard iterator older than five minutes.
    #[error("ExpiredIteratorException: {0}")]
    ExpiredIterator(String),
    /// A paging token older than five minutes.
    #[error("ExpiredNextTokenException: {0}")]
    ExpiredNextToken(String),
    /// An operation that does not exist.
    #[error("UnknownOperationException: {0}")]
    UnknownOperation(String),
    /// A request that could not be read.
    #[error("SerializationException: {0}")]
    Serialization(String),
    /// A fault of the service itself.
    #[error("InternalFailure: {0}")]
    InternalFailure(String),
}

impl KinesisError {
    /// The service's name of the error's type, such as `ResourceNotFoundException`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ResourceNotFound(_) => "ResourceNotFoundException",
            Self::ResourceInUse(_) => "ResourceInUseException",
            Self::InvalidArgument(_) => "InvalidArgumentException",
            Self::Validation(_) => "ValidationException",
            Self::LimitExceeded(_) => "LimitExceededException",
            Self::ProvisionedThroughputExceeded(_) => "ProvisionedThroughputExceededException",
            Self::ExpiredIterator(_) => "ExpiredIteratorException",
            Self::ExpiredNextToken(_) => "ExpiredNextTokenException",
            Self::UnknownOperation(_) => "UnknownOperationException",
            Self::Serialization(_) => "SerializationException",
            Self::InternalFailure(_) => "InternalFailure",
        }
    }

    /// What went wrong, for a person.
    pub fn message(&self) -> &str {
        match self {
            Self::ResourceNotFound(message)
            | Self::ResourceInUse(message)
            | Self::InvalidArgument(message)
            | Self::Validation(message)
            | Self::LimitExceeded(message)
            | Self::ProvisionedThroughputExceeded(message)
            | Self::ExpiredIterator(message)
            | Self::ExpiredNextToken(message)
            | Self::UnknownOperation(message)
            | Self::Serialization(message)
            | Self::InternalFailure(message) => message,
        }
    }

    /// The HTTP status that carries the error: 500 for a fault of the service, else 400.
    pub fn status(&self) -> u16 {
        match self {
            Self::InternalFailure(_) => 500,
            _ => 400,
        }
    }

    /// `value` of the request's `member` breaks `rule`.
    pub(crate) fn constraint(value: impl std::fmt::Display, member: &str, rule: &str) -> Self {
        Self::Validation(format!(
            "1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint: {rule}"
        ))
    }

    /// A paging token is older than five minutes.
    pub(crate) fn expired_token() -> Self {
        Self::ExpiredNextToken("The NextToken has expired: it is good for 300 seconds.".to_owned())
    }

    /// The request lacks `member`.
    pub(crate) fn missing(member: &str) -> Self {
        Self::Validation(format!(
            "1 validation error detected: Value null at '{member}' failed to satisfy constraint: Member \
             must not be null"
        ))
    }
}

/// Checks that `value` of the request's `member` lies in `range`.
pub(crate) fn within(
    value: u32,
    member: &str,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, KinesisError> {
    if value < *range.start() {
        let rule = format!("Member must have value greater than or equal to {}", range.start());
        return Err(KinesisError::constraint(value, member, &rule));
    }
    if value > *range.end() {
        let rule = format!("Member must have value less than or equal to {}", range.end());
        return Err(KinesisError::constraint(value, member, &rule));
    }
    Ok(value)
}
