//! Both services through the clients that an application uses.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cbor;
mod control;
mod dynamodb;
mod faults;
mod faults_of_kinesis;
mod kept;
mod kinesis;
mod managing;
mod raw;
mod subscribe;
mod tls;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_kinesis::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_http_client::Builder;
use kinesis_local::LocalAws;

fn kinesis_client(aws: &LocalAws) -> aws_sdk_kinesis::Client {
    let config = aws_sdk_kinesis::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .http_client(Builder::new().build_http())
        .endpoint_url(aws.kinesis_url())
        .build();
    aws_sdk_kinesis::Client::from_conf(config)
}

fn dynamodb_client(aws: &LocalAws) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .http_client(Builder::new().build_http())
        .endpoint_url(aws.dynamodb_url())
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}
