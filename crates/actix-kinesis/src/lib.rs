//! Amazon Kinesis Data Streams as actors

pub mod config;
pub mod consumer;

pub use aws_credential_types::provider::SharedCredentialsProvider;
