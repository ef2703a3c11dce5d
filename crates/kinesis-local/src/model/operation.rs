//! The operations that are served.

use std::fmt;

/// An operation of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Operation {
    CreateStream,
    DecreaseStreamRetentionPeriod,
    DeleteStream,
    DescribeStream,
    DescribeStreamSummary,
    GetRecords,
    GetShardIterator,
    IncreaseStreamRetentionPeriod,
    ListShards,
    ListStreams,
    MergeShards,
    PutRecord,
    PutRecords,
    SplitShard,
    UpdateMaxRecordSize,
    UpdateShardCount,
    UpdateStreamRecordDistributionStrategy,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::CreateStream,
        Self::DecreaseStreamRetentionPeriod,
        Self::DeleteStream,
        Self::DescribeStream,
        Self::DescribeStreamSummary,
        Self::GetRecords,
        Self::GetShardIterator,
        Self::IncreaseStreamRetentionPeriod,
        Self::ListShards,
        Self::ListStreams,
        Self::MergeShards,
        Self::PutRecord,
        Self::PutRecords,
        Self::SplitShard,
        Self::UpdateMaxRecordSize,
        Self::UpdateShardCount,
        Self::UpdateStreamRecordDistributionStrategy,
    ];

    /// The service's name of the operation.
    pub fn name(self) -> &'static str {
        match self {
            Self::CreateStream => "CreateStream",
            Self::DecreaseStreamRetentionPeriod => "DecreaseStreamRetentionPeriod",
            Self::DeleteStream => "DeleteStream",
            Self::DescribeStream => "DescribeStream",
            Self::DescribeStreamSummary => "DescribeStreamSummary",
            Self::GetRecords => "GetRecords",
            Self::GetShardIterator => "GetShardIterator",
            Self::IncreaseStreamRetentionPeriod => "IncreaseStreamRetentionPeriod",
            Self::ListShards => "ListShards",
            Self::ListStreams => "ListStreams",
            Self::MergeShards => "MergeShards",
            Self::PutRecord => "PutRecord",
            Self::PutRecords => "PutRecords",
            Self::SplitShard => "SplitShard",
            Self::UpdateMaxRecordSize => "UpdateMaxRecordSize",
            Self::UpdateShardCount => "UpdateShardCount",
            Self::UpdateStreamRecordDistributionStrategy => "UpdateStreamRecordDistributionStrategy",
        }
    }

    /// The operation with this name, if it is served.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
