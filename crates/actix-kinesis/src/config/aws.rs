//! Where the AWS services are, and as whom they are called.

use std::time::Duration;

/// How a consumer reaches Kinesis and DynamoDB: the section `aws`.
///
/// Everything left `None` is found out as the AWS SDK does it: environment, profile files, container and instance
/// metadata. Keys are never part of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsConf {
    /// `region`: the region of the stream and of the lease table. KCL: `regionName`.
    pub region: Option<String>,
    /// `profile`: the section of the AWS profile files to take credentials and region from.
    pub profile: Option<String>,
    /// `endpoint-url`: the address of every service, `http://` or `https://`; for emulators and proxies.
    pub endpoint_url: Option<String>,
    /// `kinesis-endpoint`: the address of Kinesis, before `endpoint_url`. KCL: `kinesisEndpoint`.
    pub kinesis_endpoint: Option<String>,
    /// `dynamodb-endpoint`: the address of DynamoDB, before `endpoint_url`. KCL: `dynamoDBEndpoint`.
    pub dynamodb_endpoint: Option<String>,
    /// `role-arn`: the role to assume with the credentials found.
    pub role_arn: Option<String>,
    /// `role-session-name`: the name of that session in CloudTrail. Of no effect without `role_arn`.
    pub role_session_name: Option<String>,
    /// `external-id`: the external id which that role may ask for. Of no effect without `role_arn`.
    pub external_id: Option<String>,
    /// `connect-timeout`: how long a connection may take to be made. 100 ms to 5 min; default 3 s.
    pub connect_timeout: Duration,
    /// `request-timeout`: how long one attempt of a call may take. 100 ms to 10 min; default 30 s.
    pub request_timeout: Duration,
}

impl Default for AwsConf {
    fn default() -> Self {
        Self {
            region: None,
            profile: None,
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
