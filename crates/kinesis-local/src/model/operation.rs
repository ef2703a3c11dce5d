//! The operations that are served.

use std::fmt;

/// The operations, each named as the service names it.
macro_rules! operations {
    ($($name:ident,)*) => {
        /// An operation of the service.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs)]
        pub enum Operation {
            $($name,)*
        }

        impl Operation {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The service's name of the operation.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

operations! {
    AddTagsToStream,
    CreateStream,
    DecreaseStreamRetentionPeriod,
    DeleteResourcePolicy,
    DeleteStream,
    DeregisterStreamConsumer,
    DescribeAccountSettings,
    DescribeLimits,
    DescribeStream,
    DescribeStreamConsumer,
    DescribeStreamSummary,
    DisableEnhancedMonitoring,
    EnableEnhancedMonitoring,
    GetRecords,
    GetResourcePolicy,
    GetShardIterator,
    IncreaseStreamRetentionPeriod,
    ListShards,
    ListStreamConsumers,
    ListStreams,
    ListTagsForResource,
    ListTagsForStream,
    MergeShards,
    PutRecord,
    PutRecords,
    PutResourcePolicy,
    RegisterStreamConsumer,
    RemoveTagsFromStream,
    SplitShard,
    StartStreamEncryption,
    StopStreamEncryption,
    SubscribeToShard,
    TagResource,
    UntagResource,
    UpdateMaxRecordSize,
    UpdateShardCount,
    UpdateStreamMode,
    UpdateStreamRecordDistributionStrategy,
}

impl Operation {
    /// The operation with this name, if it is served.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name() == name)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
