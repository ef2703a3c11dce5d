//! Kinesis and DynamoDB on loopback in one process, for trying out and for tests
