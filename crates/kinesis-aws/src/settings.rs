//! What an application can say about its access to AWS.

use std::fmt;
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;

/// Region, credentials, endpoints and time limits. What is left out is found as the AWS tools find it.
#[derive(Clone)]
pub struct AwsSettings {
    /// The region, such as `eu-west-1`.
    ///
    /// Left out, it is that of the environment (`AWS_REGION`, `AWS_DEFAULT_REGION`), of the profile, or of the EC2
    /// instance, in this order. Where both services have endpoints outside of AWS and no region is named, it is
    /// `us-east-1`: an emulator does not look at it, and asking an instance's metadata would cost seconds.
    pub region: Option<String>,
    /// The profile in `~/.aws/config` and `~/.aws/credentials` whose credentials and region are used.
    ///
    /// Named here, it is used even if the environment holds credentials. Left out, the default chain decides: the
    /// environment, the profile in `AWS_PROFILE`, a web identity (EKS), the container (ECS, EKS) and the EC2
    /// instance, in this order.
    pub profile: Option<String>,
    /// A provider of credentials to use in place of the profile and the default chain.
    pub credentials: Option<SharedCredentialsProvider>,
    /// The endpoint of all services, STS included, in place of those of AWS, as `AWS_ENDPOINT_URL` sets it.
    pub endpoint_url: Option<String>,
    /// The endpoint of Kinesis; goes before `endpoint_url`.
    pub kinesis_endpoint: Option<String>,
    /// The endpoint of DynamoDB; goes before `endpoint_url`.
    pub dynamodb_endpoint: Option<String>,
    /// The role to assume, with the credentials that are found otherwise.
    pub role_arn: Option<String>,
    /// The name of the session under that role, as CloudTrail shows it. Left out, it is `actix-kinesis`.
    pub role_session_name: Option<String>,
    /// The external id that the role asks for.
    pub external_id: Option<String>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long one call may take, the connection and the credentials included. Writes to the lease table have a
    /// shorter limit of their own.
    pub request_timeout: Duration,
}

impl Default for AwsSettings {
    /// Nothing said; 3 s for a connection, 30 s for a call.
    fn default() -> Self {
        Self {
            region: None,
            profile: None,
            credentials: None,
            endpoint_url: None,
            kinesis_endpoint: None,
            dynamodb_endpoint: None,
            role_arn: None,
            role_session_name: None,
            external_id: None,
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// A provider of credentials may show them in its own `Debug`, so that it is left out.
impl fmt::Debug for AwsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |present: bool| present.then_some("<hidden>");
        f.debug_struct("AwsSettings")
            .field("region", &self.region)
            .field("profile", &self.profile)
            .field("credentials", &hidden(self.credentials.is_some()))
            .field("endpoint_url", &self.endpoint_url)
            .field("kinesis_endpoint", &self.kinesis_endpoint)
            .field("dynamodb_endpoint", &self.dynamodb_endpoint)
            .field("role_arn", &self.role_arn)
            .field("role_session_name", &self.role_session_name)
            .field("external_id", &hidden(self.external_id.is_some()))
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .finish()
    }
}
