//! SplitShard, MergeShards and UpdateShardCount.

use kinesis_record::{HashKey, HashRange, ShardId};

use super::error::{KinesisError, within};
use super::operation::Operation;
use super::put::parse_hash_key;
use super::service::Kinesis;
use super::shard::ShardState;
use super::stream::{Stream, StreamMode, StreamStatus};
use super::target::StreamTarget;
use super::time::Timestamp;

/// Shards that a stream can be created with or brought to.
pub const MAX_SHARDS: u32 = 10_000;

/// A call of SplitShard.
#[derive(Debug, Clone)]
pub struct SplitShardRequest {
    /// The stream.
    pub stream: StreamTarget,
    /// The shard to split, which must be open.
    pub shard_to_split: ShardId,
    /// The first hash key of the second child: above the shard's second and below its last.
    pub new_starting_hash_key: String,
}

/// A call of MergeShards.
#[derive(Debug, Clone)]
pub struct MergeShardsRequest {
    /// The stream.
    pub stream: StreamTarget,
    /// The first shard, which must be open.
    pub shard_to_merge: ShardId,
    /// The second shard, which must be open and take the hash keys that follow those of the first.
    pub adjacent_shard_to_merge: ShardId,
}

/// A call of UpdateShardCount with uniform scaling, the only kind there is.
#[derive(Debug, Clone)]
pub struct UpdateShardCountRequest {
    /// The stream.
    pub stream: StreamTarget,
    /// How many open shards of about the same size the stream shall have: from half to double of what it has.
    pub target_shard_count: u32,
}

/// The answer to UpdateShardCount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateShardCountResponse {
    /// The stream.
    pub stream_name: String,
    /// Its ARN.
    pub stream_arn: String,
    /// Open shards before.
    pub current_shard_count: u32,
    /// Open shards now.
    pub target_shard_count: u32,
}

impl Kinesis {
    /// Closes a shard and opens two in its place. Gives their ids, which the service's own reply does not.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream or shard, `ResourceInUseException` while the stream
    /// is not active, `InvalidArgumentException` for a closed shard or a hash key that does not split it,
    /// `ValidationException` for a stream of mode [`StreamMode::OnDemand`]; under limits
    /// `LimitExceededException` for too many calls or shards.
    pub fn split_shard(
        &mut self,
        request: SplitShardRequest,
        now: Timestamp,
    ) -> Result<[ShardId; 2], KinesisError> {
        let key = parse_hash_key(&request.new_starting_hash_key, "newStartingHashKey")?;
        let mode = self.begin_reshard(Operation::SplitShard, &request.stream, now)?;
        self.check_account(mode, 0, 1, now)?;
        let transition = self.settings.transition;
        let stream = self.any_stream(&request.stream, now)?;
        let shard = open_shard(stream, &request.shard_to_split)?;
        let (number, range) = (shard.number, shard.range);
        // The rule of the service leaves each child two hash keys, though one would do.
        if key.0 <= range.start.0.saturating_add(1) || key >= range.end {
            return Err(KinesisError::InvalidArgument(format!(
                "NewStartingHashKey {key} used in SplitShard() on shard {} in stream {} under account {} \
                 is not both greater than one plus the shard's StartingHashKey {} and less than the \
                 shard's EndingHashKey {}.",
                shard.id, stream.name, stream.account, range.start, range.end
            )));
        }
        let children = stream.replace(&[number], &halves(range, key), now);
        stream.begin(StreamStatus::Updating, now, transition);
        let name = stream.name.clone();
        self.subscriptions.wake_stream(&name);
        match children[..] {
            [first, second] => Ok([first, second].map(super::shard::shard_id)),
            _ => Err(KinesisError::InternalFailure("A split did not give two shards.".to_owned())),
        }
    }

    /// Closes two shards and opens one in their place. Gives its id, which the service's own reply does not.
    ///
    /// # Errors
    /// As [`Kinesis::split_shard`]; `InvalidArgumentException` also for shards that are not neighbours in
    /// this order.
    pub fn merge_shards(
        &mut self,
        request: MergeShardsRequest,
        now: Timestamp,
    ) -> Result<ShardId, KinesisError> {
        self.begin_reshard(Operation::MergeShards, &request.stream, now)?;
        let transition = self.settings.transition;
        let stream = self.any_stream(&request.stream, now)?;
        let first = open_shard(stream, &request.shard_to_merge)?;
        let second = open_shard(stream, &request.adjacent_shard_to_merge)?;
        if !first.range.is_followed_by(&second.range) {
            return Err(KinesisError::InvalidArgument(format!(
                "Shards {} and {} in stream {} under account {} are not an adjacent pair of shards eligible \
                 for merging",
                first.id, second.id, stream.name, stream.account
            )));
        }
        let range = HashRange { start: first.range.start, end: second.range.end };
        let parents = [first.number, second.number];
        let children = stream.replace(&parents, &[range], now);
        stream.begin(StreamStatus::Updating, now, transition);
        let name = stream.name.clone();
        self.subscriptions.wake_stream(&name);
        match children[..] {
            [child] => Ok(super::shard::shard_id(child)),
            _ => Err(KinesisError::InternalFailure("A merge did not give one shard.".to_owned())),
        }
    }

    /// Splits and merges until the stream has so many open shards of about the same size. As with the
    /// service, some shards may be opened only to be closed again.
    ///
    /// # Errors
    /// As [`Kinesis::split_shard`]; `LimitExceededException` for more than double or less than half of the
    /// shards.
    pub fn update_shard_count(
        &mut self,
        request: UpdateShardCountRequest,
        now: Timestamp,
    ) -> Result<UpdateShardCountResponse, KinesisError> {
        let target = within(request.target_shard_count, "targetShardCount", 1..=MAX_SHARDS)?;
        let mode = self.begin_reshard(Operation::UpdateShardCount, &request.stream, now)?;
        let current = self.any_stream(&request.stream, now)?.open_count() as u32;
        if target > current * 2 || target * 2 < current {
            return Err(KinesisError::LimitExceeded(format!(
                "UpdateShardCount cannot go above double or below half of the open shards. Current open \
                 shard count: {current} Target shard count: {target}"
            )));
        }
        self.check_account(mode, 0, target.saturating_sub(current), now)?;
        self.scale_to(&request.stream, target, now)
    }

    /// Splits and merges as [`Kinesis::update_shard_count`] does. It stands for what the service does by
    /// itself to a stream of mode [`StreamMode::OnDemand`], which takes no other change of its shards; here
    /// the service never does so unasked. Any number of shards will do.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is not active,
    /// `ValidationException` for a number out of range.
    pub fn scale(&mut self, target: &StreamTarget, shards: u32, now: Timestamp) -> Result<(), KinesisError> {
        let shards = within(shards, "shards", 1..=MAX_SHARDS)?;
        self.any_stream(target, now)?.check_active(now)?;
        self.scale_to(target, shards, now).map(drop)
    }

    fn scale_to(
        &mut self,
        target: &StreamTarget,
        shards: u32,
        now: Timestamp,
    ) -> Result<UpdateShardCountResponse, KinesisError> {
        let transition = self.settings.transition;
        let stream = self.any_stream(target, now)?;
        let current = stream.open_count() as u32;
        scale(stream, shards, now);
        stream.begin(StreamStatus::Updating, now, transition);
        let response = UpdateShardCountResponse {
            stream_name: stream.name.clone(),
            stream_arn: stream.arn.clone(),
            current_shard_count: current,
            target_shard_count: shards,
        };
        self.subscriptions.wake_stream(&response.stream_name);
        Ok(response)
    }

    /// Refuses a change of shards unless the stream is active and its owner decides on them.
    fn begin_reshard(
        &mut self,
        operation: Operation,
        target: &StreamTarget,
        now: Timestamp,
    ) -> Result<StreamMode, KinesisError> {
        self.admit_for_stream(operation, target, now)?;
        let stream = self.any_stream(target, now)?;
        stream.check_provisioned()?;
        stream.check_active(now)?;
        Ok(stream.mode)
    }
}

fn open_shard<'a>(stream: &'a Stream, id: &ShardId) -> Result<&'a ShardState, KinesisError> {
    let shard = stream.shard(id)?;
    if shard.is_open() {
        return Ok(shard);
    }
    Err(KinesisError::InvalidArgument(format!(
        "Shard {id} in stream {} under account {} has already been merged or split, and thus is not \
         eligible for merging or splitting.",
        stream.name, stream.account
    )))
}

/// The range in two, of which the second starts at `key`, which is not the first of the range.
fn halves(range: HashRange, key: HashKey) -> [HashRange; 2] {
    [HashRange { end: HashKey(key.0.saturating_sub(1)), ..range }, HashRange { start: key, ..range }]
}

/// All hash keys in `count` ranges of the same size; the last also takes what a division leaves over.
pub(crate) fn uniform_ranges(count: u32) -> Vec<HashRange> {
    let count = u128::from(count.max(1));
    let size = u128::MAX / count + u128::from(u128::MAX % count == count - 1 && count > 1);
    let start = |index: u128| HashKey(index * size);
    (0..count)
        .map(|index| {
            let end = if index + 1 == count { HashKey::MAX } else { HashKey(start(index + 1).0 - 1) };
            HashRange { start: start(index), end }
        })
        .collect()
}

/// Brings the open shards to `count` uniform ranges: splits where a new range starts inside of a shard, then
/// merges what lies in the same new range.
fn scale(stream: &mut Stream, count: u32, now: Timestamp) {
    let starts: Vec<HashKey> = stream.open_shards().map(|shard| shard.range.start).collect();
    // A start that division has shifted by a few keys is no reason for a shard of a few keys.
    let nearest = |wanted: HashKey| {
        let near = |start: &&HashKey| start.0.abs_diff(wanted.0) <= u128::from(MAX_SHARDS);
        starts.iter().find(near).copied().unwrap_or(wanted)
    };
    let wanted: Vec<HashKey> = uniform_ranges(count).iter().map(|range| nearest(range.start)).collect();
    for key in &wanted {
        let Some(shard) = stream.route(*key) else { continue };
        let (number, range) = (shard.number, shard.range);
        if range.start != *key {
            stream.replace(&[number], &halves(range, *key), now);
        }
    }
    let open: Vec<(u64, HashRange)> = stream.open_shards().map(|shard| (shard.number, shard.range)).collect();
    let mut last: Option<(u64, HashRange)> = None;
    for (number, range) in open {
        last = match last {
            Some((before, left)) if wanted.binary_search(&range.start).is_err() => {
                let merged = HashRange { start: left.start, end: range.end };
                stream.replace(&[before, number], &[merged], now).first().map(|child| (*child, merged))
            }
            _ => Some((number, range)),
        };
    }
}
