//! How a request names its stream.

use super::error::KinesisError;

/// A stream by its name, by its ARN, or by both if they agree.
///
/// `"flights".into()` names a stream; a text that starts with `arn:` is taken for an ARN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamTarget {
    /// The request's `StreamName`.
    pub name: Option<String>,
    /// The request's `StreamARN`.
    pub arn: Option<String>,
}

impl StreamTarget {
    /// Whether the request names no stream.
    pub fn is_empty(&self) -> bool {
        self.name.is_none() && self.arn.is_none()
    }

    /// The stream's name.
    ///
    /// # Errors
    /// [`KinesisError::InvalidArgument`] without a name and an ARN, with an ARN that is none of a stream's,
    /// or with the two at odds; [`KinesisError::Validation`] for a name that no stream can have.
    pub fn stream_name(&self) -> Result<&str, KinesisError> {
        let from_arn = self.arn.as_deref().map(name_in_arn).transpose()?;
        let name = match (self.name.as_deref(), from_arn) {
            (Some(name), Some(other)) if name != other => {
                return Err(KinesisError::InvalidArgument(format!(
                    "StreamName {name} and the stream {other} of StreamARN are not the same."
                )));
            }
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => {
                return Err(KinesisError::InvalidArgument(
                    "Either StreamName or StreamARN must be specified.".to_owned(),
                ));
            }
        };
        check_stream_name(name)?;
        Ok(name)
    }
}

impl From<&str> for StreamTarget {
    fn from(text: &str) -> Self {
        if text.starts_with("arn:") {
            Self { name: None, arn: Some(text.to_owned()) }
        } else {
            Self { name: Some(text.to_owned()), arn: None }
        }
    }
}

/// Checks the form of a stream's name: 1 to 128 of `a-z A-Z 0-9 _ . -`.
pub(crate) fn check_stream_name(name: &str) -> Result<(), KinesisError> {
    check_name(name, "streamName")
}

/// Checks the form of the name in `member`: 1 to 128 of `a-z A-Z 0-9 _ . -`.
pub(crate) fn check_name(name: &str, member: &str) -> Result<(), KinesisError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let rule = if name.is_empty() {
        "Member must have length greater than or equal to 1"
    } else if name.len() > 128 {
        "Member must have length less than or equal to 128"
    } else if !name.bytes().all(allowed) {
        "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
    } else {
        return Ok(());
    };
    Err(KinesisError::constraint(name, member, rule))
}

/// The ARN of a stream.
pub(crate) fn stream_arn(region: &str, account: &str, name: &str) -> String {
    format!("arn:aws:kinesis:{region}:{account}:stream/{name}")
}

/// The name in a stream's ARN. Region and account are not looked at: there is one of each here.
pub(crate) fn name_in_arn(arn: &str) -> Result<&str, KinesisError> {
    let mut parts = arn.splitn(6, ':');
    let prefix = [parts.next(), parts.next(), parts.next()];
    let name = parts.nth(2).and_then(|resource| resource.strip_prefix("stream/"));
    match (prefix, name) {
        ([Some("arn"), Some(partition), Some("kinesis")], Some(name)) if partition.starts_with("aws") => {
            Ok(name)
        }
        _ => {
            let rule =
                "Member must satisfy regular expression pattern: arn:aws.*:kinesis:.*:\\d{12}:stream/\\S+";
            Err(KinesisError::constraint(arn, "streamARN", rule))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:kinesis:eu-central-1:000000000000:stream/flights";

    #[test]
    fn a_stream_is_named_by_name_or_arn() {
        assert_eq!(StreamTarget::from("flights").stream_name(), Ok("flights"));
        assert_eq!(StreamTarget::from(ARN).stream_name(), Ok("flights"));
        let both = StreamTarget { name: Some("flights".into()), arn: Some(ARN.into()) };
        assert_eq!(both.stream_name(), Ok("flights"));
    }

    #[test]
    fn a_name_that_no_stream_can_have_is_refused() {
        let odd = StreamTarget { name: Some("trains".into()), arn: Some(ARN.into()) };
        assert!(odd.stream_name().is_err());
        assert!(StreamTarget::default().stream_name().is_err());
        for text in ["", "a b", "a/b", &"x".repeat(129), "arn:aws:sqs:r:0:stream/x", "arn:aws:kinesis:r:0:x"]
        {
            assert!(StreamTarget::from(text).stream_name().is_err(), "{text:?}");
        }
    }
}
