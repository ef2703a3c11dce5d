//! Amazon Kinesis Data Streams as actors
