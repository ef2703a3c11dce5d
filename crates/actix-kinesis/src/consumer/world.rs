//! The outside world of a consumer: a stream and a lease table.

use std::sync::Arc;

use aws_credential_types::provider::SharedCredentialsProvider;
use kinesis_aws::{Clients, DynamoLeaseStore, KinesisStream};
use kinesis_lease::{LeaseStore, StreamApi};

use super::error::ConsumerError;
use crate::aws::settings;
use crate::config::ConsumerConf;

/// The outside world of a consumer.
#[derive(Debug, Clone)]
pub struct World {
    /// The stream.
    pub stream: Arc<dyn StreamApi>,
    /// The lease table.
    pub leases: Arc<dyn LeaseStore>,
}

impl World {
    /// The stream and the lease table in AWS that `conf` names, with its region, endpoints and role. Credentials are
    /// those of `credentials`, or of the SDK's default chain. No call is made to Kinesis or DynamoDB yet.
    ///
    /// # Errors
    /// When the settings are impossible, or name no region or profile that there is.
    pub async fn connect(
        conf: &ConsumerConf,
        credentials: Option<SharedCredentialsProvider>,
    ) -> Result<Self, ConsumerError> {
        conf.validate()?;
        // A renewal that takes longer than this would come too late to be tried again.
        let call_timeout = conf.aws.request_timeout.min(conf.lease.failover_time / 3);
        let clients = Clients::connect(&settings(&conf.aws, credentials)).await?;
        Ok(Self {
            stream: Arc::new(KinesisStream::new(&clients, &conf.stream_name)),
            leases: Arc::new(DynamoLeaseStore::new(
                &clients,
                &conf.table_name(),
                &conf.stream_name,
                call_timeout,
            )),
        })
    }
}
