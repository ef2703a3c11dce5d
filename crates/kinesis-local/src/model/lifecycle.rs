//! What makes, changes and removes a stream, its shards aside.

use std::collections::BTreeMap;

use super::error::{KinesisError, within};
use super::operation::Operation;
use super::reshard::{MAX_SHARDS, uniform_ranges};
use super::service::Kinesis;
use super::stream::{RecordDistribution, Stream, StreamMode, StreamStatus};
use super::tags::check_tags;
use super::target::{StreamTarget, check_stream_name, stream_arn};
use super::time::Timestamp;

/// The shortest retention: a day.
pub const MIN_RETENTION_HOURS: u32 = 24;
/// The longest retention: 365 days.
pub const MAX_RETENTION_HOURS: u32 = 8_760;

/// Streams that may be CREATING at a time, under limits.
pub const MAX_CREATING_STREAMS: usize = 5;

/// A call of CreateStream.
#[derive(Debug, Clone, Default)]
pub struct CreateStreamRequest {
    /// 1 to 128 of `a-z A-Z 0-9 _ . -`.
    pub stream_name: String,
    /// 1 to [`MAX_SHARDS`]. A stream of mode [`StreamMode::OnDemand`] may leave it open and gets four.
    pub shard_count: Option<u32>,
    /// Who decides on the number of shards.
    pub mode: StreamMode,
    /// What decides to which shard a record goes. Only a stream of mode [`StreamMode::OnDemand`] can leave it
    /// to the service.
    pub distribution: RecordDistribution,
    /// The greatest record with its partition key: 1024 KiB by default, up to 10240.
    pub max_record_kib: Option<u32>,
    /// Its first tags.
    pub tags: BTreeMap<String, String>,
}

impl Kinesis {
    /// Creates a stream with shards of about the same size.
    ///
    /// # Errors
    /// `ResourceInUseException` if there is one of that name, `ValidationException` for arguments out of
    /// range; under limits `LimitExceededException` for too many calls, streams or shards.
    pub fn create_stream(
        &mut self,
        request: CreateStreamRequest,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        let name = &request.stream_name;
        check_stream_name(name)?;
        let count = match (request.shard_count, request.mode) {
            (Some(count), _) => within(count, "shardCount", 1..=MAX_SHARDS)?,
            (None, StreamMode::OnDemand) => 4,
            (None, StreamMode::Provisioned) => return Err(KinesisError::missing("shardCount")),
        };
        let max_record_kib = check_max_record(request.max_record_kib.unwrap_or(1024))?;
        check_distribution(request.mode, request.distribution)?;
        check_tags(&request.tags)?;
        self.admit(Operation::CreateStream, now)?;
        self.forget_if_gone(name, now);
        if !self.streams.contains_key(name) {
            self.check_account(request.mode, 1, count, now)?;
            self.check_creating(now)?;
        }
        let account = &self.settings.account;
        if self.streams.contains_key(name) {
            return Err(KinesisError::ResourceInUse(format!(
                "Stream {name} under account {account} already exists."
            )));
        }
        let arn = stream_arn(&self.settings.region, account, name);
        let mut stream = Stream::new(name, arn, account, request.mode, self.least_epoch, now);
        stream.max_record_kib = max_record_kib;
        stream.distribution = request.distribution;
        stream.labels.tags = request.tags;
        for range in uniform_ranges(count) {
            stream.add_shard(range, &[], now);
        }
        stream.begin(StreamStatus::Creating, now, self.settings.transition);
        self.streams.insert(name.clone(), stream);
        Ok(())
    }

    /// Under limits, refuses a stream while others are being created.
    fn check_creating(&self, now: Timestamp) -> Result<(), KinesisError> {
        let creating = self.streams.values().filter(|stream| stream.status(now) == StreamStatus::Creating);
        if !self.settings.limits || creating.count() < MAX_CREATING_STREAMS {
            return Ok(());
        }
        Err(KinesisError::LimitExceeded(format!(
            "{MAX_CREATING_STREAMS} streams under account {} are in state CREATING, which is the limit.",
            self.settings.account
        )))
    }

    /// Deletes a stream with everything in it. One with consumers is not deleted.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` if it has consumers.
    pub fn delete_stream(&mut self, target: &StreamTarget, now: Timestamp) -> Result<(), KinesisError> {
        self.admit(Operation::DeleteStream, now)?;
        let stream = self.any_stream(target, now)?;
        if !stream.consumers.is_empty() {
            return Err(KinesisError::ResourceInUse(format!(
                "Stream {} under account {} has registered consumers: deregister them first, or set \
                 EnforceConsumerDeletion.",
                stream.name, stream.account
            )));
        }
        self.delete(target, now)
    }

    /// Deletes a stream with everything in it and its consumers, as DeleteStream does when told
    /// `EnforceConsumerDeletion`. Subscriptions end at once.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream.
    pub fn delete_stream_and_consumers(
        &mut self,
        target: &StreamTarget,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        self.admit(Operation::DeleteStream, now)?;
        self.delete(target, now)
    }

    fn delete(&mut self, target: &StreamTarget, now: Timestamp) -> Result<(), KinesisError> {
        let transition = self.settings.transition;
        let stream = self.any_stream(target, now)?;
        if stream.status(now) != StreamStatus::Deleting {
            stream.begin(StreamStatus::Deleting, now, transition);
            let (name, least) = (stream.name.clone(), stream.highest_epoch() + 1);
            // Here and not when the stream is found to be gone, which may be seen by a call that is not kept.
            self.least_epoch = self.least_epoch.max(least);
            self.subscriptions.wake_stream(&name);
        }
        Ok(())
    }

    /// Keeps records longer, up to [`MAX_RETENTION_HOURS`].
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is not active,
    /// `InvalidArgumentException` for a retention that is out of range or shorter than it is.
    pub fn increase_stream_retention_period(
        &mut self,
        target: &StreamTarget,
        hours: u32,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        self.admit_for_stream(Operation::IncreaseStreamRetentionPeriod, target, now)?;
        self.set_retention(target, hours, now, |old| hours >= old)
    }

    /// Keeps records for a shorter time, down to [`MIN_RETENTION_HOURS`]. What is older by then is gone at
    /// once.
    ///
    /// # Errors
    /// As [`Kinesis::increase_stream_retention_period`], for a retention longer than it is.
    pub fn decrease_stream_retention_period(
        &mut self,
        target: &StreamTarget,
        hours: u32,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        self.admit_for_stream(Operation::DecreaseStreamRetentionPeriod, target, now)?;
        self.set_retention(target, hours, now, |old| hours <= old)
    }

    fn set_retention(
        &mut self,
        target: &StreamTarget,
        hours: u32,
        now: Timestamp,
        fits: impl FnOnce(u32) -> bool,
    ) -> Result<(), KinesisError> {
        let transition = self.settings.transition;
        let stream = self.any_stream(target, now)?;
        stream.check_active(now)?;
        if !(MIN_RETENTION_HOURS..=MAX_RETENTION_HOURS).contains(&hours) || !fits(stream.retention_hours) {
            return Err(KinesisError::InvalidArgument(format!(
                "The retention period of stream {} is {} hours and cannot become {hours} hours by this \
                 operation; it lies between {MIN_RETENTION_HOURS} and {MAX_RETENTION_HOURS} hours.",
                stream.name, stream.retention_hours
            )));
        }
        // What is past the old horizon is gone, even if nobody has looked since.
        let horizon = stream.horizon(now);
        stream.shards.values_mut().for_each(|shard| shard.trim(horizon));
        stream.retention_hours = hours;
        stream.begin(StreamStatus::Updating, now, transition);
        Ok(())
    }

    /// Sets the greatest record that the stream takes, 1024 to 10240 KiB with its partition key.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is not active,
    /// `ValidationException` out of range.
    pub fn update_max_record_size(
        &mut self,
        target: &StreamTarget,
        kib: u32,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        let kib = check_max_record(kib)?;
        self.admit_for_stream(Operation::UpdateMaxRecordSize, target, now)?;
        let transition = self.settings.transition;
        let stream = self.any_stream(target, now)?;
        stream.check_active(now)?;
        stream.max_record_kib = kib;
        stream.begin(StreamStatus::Updating, now, transition);
        Ok(())
    }

    /// Sets what decides to which shard a record goes, from the next record on.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is not active,
    /// `InvalidArgumentException` if its mode does not allow the strategy.
    pub fn update_stream_record_distribution_strategy(
        &mut self,
        target: &StreamTarget,
        distribution: RecordDistribution,
        now: Timestamp,
    ) -> Result<(), KinesisError> {
        self.admit_for_stream(Operation::UpdateStreamRecordDistributionStrategy, target, now)?;
        let stream = self.any_stream(target, now)?;
        stream.check_active(now)?;
        check_distribution(stream.mode, distribution)?;
        stream.distribution = distribution;
        Ok(())
    }
}

fn check_distribution(mode: StreamMode, distribution: RecordDistribution) -> Result<(), KinesisError> {
    if (mode, distribution) == (StreamMode::Provisioned, RecordDistribution::Auto) {
        return Err(KinesisError::InvalidArgument(
            "Only a stream of mode ON_DEMAND takes the record distribution strategy AUTO.".to_owned(),
        ));
    }
    Ok(())
}

fn check_max_record(kib: u32) -> Result<u32, KinesisError> {
    within(kib, "maxRecordSizeInKiB", 1024..=10_240)
}
