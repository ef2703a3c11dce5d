//! What concerns the account as a whole: DescribeLimits, and who decides on a stream's number of shards.

use super::error::KinesisError;
use super::operation::Operation;
use super::service::Kinesis;
use super::stream::{RecordDistribution, Stream, StreamMode, StreamStatus};
use super::target::StreamTarget;
use super::time::Timestamp;

/// Streams of mode [`StreamMode::OnDemand`] in one account, under limits.
pub const MAX_ON_DEMAND_STREAMS: u32 = 50;

/// The answer to DescribeLimits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeLimitsResponse {
    /// Open shards that the provisioned streams of the account may have.
    pub shard_limit: u32,
    /// Open shards that they have.
    pub open_shard_count: u32,
    /// Streams of mode [`StreamMode::OnDemand`].
    pub on_demand_stream_count: u32,
    /// How many of them there may be.
    pub on_demand_stream_count_limit: u32,
}

impl Kinesis {
    /// The limits of the account and what is used of them.
    ///
    /// # Errors
    /// `LimitExceededException` above one call per second, under limits.
    pub fn describe_limits(&mut self, now: Timestamp) -> Result<DescribeLimitsResponse, KinesisError> {
        self.admit(Operation::DescribeLimits, now)?;
        Ok(self.account_limits(now))
    }

    fn account_limits(&mut self, now: Timestamp) -> DescribeLimitsResponse {
        self.streams.retain(|_, stream| !stream.is_gone(now));
        let (on_demand, provisioned): (Vec<&Stream>, Vec<&Stream>) =
            self.streams.values().partition(|stream| stream.mode == StreamMode::OnDemand);
        DescribeLimitsResponse {
            shard_limit: self.settings.shard_limit,
            open_shard_count: provisioned.iter().map(|stream| stream.open_count() as u32).sum(),
            on_demand_stream_count: on_demand.len() as u32,
            on_demand_stream_count_limit: MAX_ON_DEMAND_STREAMS,
        }
    }

    /// Changes who decides on the number of shards. The shards stay as they are. A stream whose owner decides
    /// on them distributes records by their keys.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is not active;
    /// under limits `LimitExceededException` for a third change within 24 hours.
    pub fn update_stream_mode(
        &mut self,
        target: &StreamTarget,
        mode: StreamMode,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        let transition = self.settings.transition;
        self.admit_for_stream(Operation::UpdateStreamMode, target, now)?;
        let stream = self.any_stream(target, now)?;
        stream.check_active(now)?;
        if stream.mode != mode {
            stream.mode = mode;
            if mode == StreamMode::Provisioned {
                stream.distribution = RecordDistribution::default();
            }
            stream.begin(StreamStatus::Updating, now, transition);
        }
        Ok(())
    }

    /// Under limits, refuses shards or a stream above the limits of the account.
    pub(crate) fn check_account(
        &mut self,
        mode: StreamMode,
        new_streams: u32,
        new_shards: u32,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        if !self.settings.limits {
            return Ok(());
        }
        let limits = self.account_limits(now);
        let (account, region) = (&self.settings.account, &self.settings.region);
        match mode {
            StreamMode::OnDemand
                if limits.on_demand_stream_count + new_streams > limits.on_demand_stream_count_limit =>
            {
                Err(KinesisError::LimitExceeded(format!(
                    "This request would exceed the on-demand stream limit for the account {account} in \
                     {region}. Current on-demand stream count for the account: {}. Limit: {}.",
                    limits.on_demand_stream_count, limits.on_demand_stream_count_limit
                )))
            }
            StreamMode::Provisioned if limits.open_shard_count + new_shards > limits.shard_limit => {
                Err(KinesisError::LimitExceeded(format!(
                    "This request would exceed the shard limit for the account {account} in {region}. \
                     Current shard count for the account: {}. Limit: {}. Number of additional shards that \
                     would have resulted from this request: {new_shards}.",
                    limits.open_shard_count, limits.shard_limit
                )))
            }
            _ => Ok(()),
        }
    }
}
