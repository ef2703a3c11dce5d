//! StartStreamEncryption and StopStreamEncryption. Nothing is encrypted here: streams and records say whether
//! the service would have.

use super::error::KinesisError;
use super::operation::Operation;
use super::service::Kinesis;
use super::stream::StreamStatus;
use super::target::StreamTarget;
use super::time::Timestamp;

/// Whether records are encrypted at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncryptionType {
    /// They are not.
    #[default]
    None,
    /// With a key of the Key Management Service.
    Kms,
}

impl EncryptionType {
    /// The service's name of the type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Kms => "KMS",
        }
    }
}

impl Kinesis {
    /// Encrypts the records that come from now on with a key, of which nothing is checked but that its id has
    /// 1 to 2048 characters.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is not active,
    /// `ValidationException` for an id out of range.
    pub fn start_stream_encryption(
        &mut self,
        target: &StreamTarget,
        key_id: &str,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        self.set_key(target, key_id, Operation::StartStreamEncryption, now)
    }

    /// Leaves the records that come from now on as they are. Those before stay encrypted.
    ///
    /// # Errors
    /// As [`Kinesis::start_stream_encryption`].
    pub fn stop_stream_encryption(
        &mut self,
        target: &StreamTarget,
        key_id: &str,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        self.set_key(target, key_id, Operation::StopStreamEncryption, now)
    }

    fn set_key(
        &mut self,
        target: &StreamTarget,
        key_id: &str,
        operation: Operation,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        if !(1..=2048).contains(&key_id.chars().count()) {
            let rule = "Member must have length between 1 and 2048";
            return Err(KinesisError::constraint(key_id, "keyId", rule));
        }
        let transition = self.settings.transition;
        self.admit_for_stream(operation, target, now)?;
        let stream = self.any_stream(target, now)?;
        stream.check_active(now)?;
        stream.key_id = (operation == Operation::StartStreamEncryption).then(|| key_id.to_owned());
        stream.begin(StreamStatus::Updating, now, transition);
        Ok(())
    }
}
