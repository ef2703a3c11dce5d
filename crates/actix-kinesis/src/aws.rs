//! From the configuration to the clients of AWS.

use aws_credential_types::provider::SharedCredentialsProvider;
use kinesis_aws::AwsSettings;

use crate::config::AwsConf;

/// What a section `aws` says, and the credentials of the program if it has some.
pub(crate) fn settings(conf: &AwsConf, credentials: Option<SharedCredentialsProvider>) -> AwsSettings {
    AwsSettings {
        region: conf.region.clone(),
        profile: conf.profile.clone(),
        credentials,
        endpoint_url: conf.endpoint_url.clone(),
        kinesis_endpoint: conf.kinesis_endpoint.clone(),
        dynamodb_endpoint: conf.dynamodb_endpoint.clone(),
        role_arn: conf.role_arn.clone(),
        role_session_name: conf.role_session_name.clone(),
        external_id: conf.external_id.clone(),
        connect_timeout: conf.connect_timeout,
        request_timeout: conf.request_timeout,
    }
}
