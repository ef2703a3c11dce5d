//! Why a producer cannot be started.

use std::sync::Arc;

use kinesis_aws::AwsError;

use crate::config::ConfigError;

/// Why a producer could not start.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProducerError {
    /// The settings are impossible.
    #[error(transparent)]
    Config(Arc<ConfigError>),
    /// `start` was called outside of a tokio runtime, so that there is nowhere for the producer's task.
    #[error("a producer can only be started inside a tokio runtime, for instance under #[actix::main]")]
    NoRuntime,
    /// The settings ask for an outbox, which a producer by itself does not have.
    #[error(
        "outbox.path is set, and the producer is started without an outbox: start it with Outbox::open (feature outbox \
         of the crate), or leave the key out"
    )]
    Outbox,
    /// AWS could not be set up.
    #[error(transparent)]
    Aws(Arc<AwsError>),
}

impl From<ConfigError> for ProducerError {
    fn from(error: ConfigError) -> Self {
        Self::Config(Arc::new(error))
    }
}

impl From<AwsError> for ProducerError {
    fn from(error: AwsError) -> Self {
        Self::Aws(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ProducerConf;
    use crate::producer::KinesisProducer;

    #[tokio::test]
    async fn a_producer_by_itself_refuses_the_settings_of_an_outbox() {
        let mut conf = ProducerConf::new("orders");
        conf.outbox.path = Some("outbox".to_owned());
        let refused = KinesisProducer::start(conf).await.unwrap_err();
        assert!(matches!(refused, ProducerError::Outbox), "{refused}");
        assert!(refused.to_string().contains("feature outbox"), "{refused}");
    }
}
