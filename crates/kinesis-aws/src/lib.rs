//! Kinesis calls and the DynamoDB lease store on the AWS SDK
