//! EnableEnhancedMonitoring and DisableEnhancedMonitoring. The flags are kept; nothing is measured.

use std::collections::BTreeSet;

use super::error::KinesisError;
use super::operation::Operation;
use super::service::Kinesis;
use super::target::StreamTarget;
use super::time::Timestamp;

/// The metrics of a shard by the service's names, in their order.
pub const SHARD_METRICS: [&str; 7] = [
    "IncomingBytes",
    "IncomingRecords",
    "IteratorAgeMilliseconds",
    "OutgoingBytes",
    "OutgoingRecords",
    "ReadProvisionedThroughputExceeded",
    "WriteProvisionedThroughputExceeded",
];

/// The answer to EnableEnhancedMonitoring and DisableEnhancedMonitoring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnhancedMonitoringResponse {
    /// The stream.
    pub stream_name: String,
    /// Its ARN.
    pub stream_arn: String,
    /// The metrics before the call.
    pub current: Vec<&'static str>,
    /// The metrics after it.
    pub desired: Vec<&'static str>,
}

impl Kinesis {
    /// Measures more of each shard. `ALL` stands for everything there is.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is not active,
    /// `ValidationException` without metrics or for one that does not exist.
    pub fn enable_enhanced_monitoring(
        &mut self,
        target: &StreamTarget,
        metrics: &[String],
        now: Timestamp,
    ) -> Result<EnhancedMonitoringResponse, KinesisError> {
        self.admit_for_stream(Operation::EnableEnhancedMonitoring, target, now)?;
        self.change_metrics(target, metrics, now, |known, metrics| known | metrics)
    }

    /// Measures less of each shard. `ALL` stands for everything there is.
    ///
    /// # Errors
    /// As [`Kinesis::enable_enhanced_monitoring`].
    pub fn disable_enhanced_monitoring(
        &mut self,
        target: &StreamTarget,
        metrics: &[String],
        now: Timestamp,
    ) -> Result<EnhancedMonitoringResponse, KinesisError> {
        self.admit_for_stream(Operation::DisableEnhancedMonitoring, target, now)?;
        self.change_metrics(target, metrics, now, |known, metrics| known - metrics)
    }

    fn change_metrics(
        &mut self,
        target: &StreamTarget,
        metrics: &[String],
        now: Timestamp,
        change: impl FnOnce(&BTreeSet<&'static str>, &BTreeSet<&'static str>) -> BTreeSet<&'static str>,
    ) -> Result<EnhancedMonitoringResponse, KinesisError> {
        let metrics = parse(metrics)?;
        let stream = self.any_stream(target, now)?;
        stream.check_active(now)?;
        let desired = change(&stream.metrics, &metrics);
        let current = std::mem::replace(&mut stream.metrics, desired.clone());
        Ok(EnhancedMonitoringResponse {
            stream_name: stream.name.clone(),
            stream_arn: stream.arn.clone(),
            current: current.into_iter().collect(),
            desired: desired.into_iter().collect(),
        })
    }
}

fn parse(names: &[String]) -> Result<BTreeSet<&'static str>, KinesisError> {
    if !(1..=SHARD_METRICS.len()).contains(&names.len()) {
        let rule = format!("Member must have length between 1 and {}", SHARD_METRICS.len());
        let shown = format_args!("[{} metrics]", names.len());
        return Err(KinesisError::constraint(shown, "shardLevelMetrics", &rule));
    }
    let mut metrics = BTreeSet::new();
    for name in names {
        match SHARD_METRICS.iter().find(|metric| *metric == name) {
            Some(metric) => drop(metrics.insert(*metric)),
            None if name == "ALL" => metrics.extend(SHARD_METRICS),
            None => {
                let rule = format!("Member must satisfy enum value set: [{}, ALL]", SHARD_METRICS.join(", "));
                return Err(KinesisError::constraint(name, "shardLevelMetrics", &rule));
            }
        }
    }
    Ok(metrics)
}
