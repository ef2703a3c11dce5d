//! ListShards.

use std::ops::Bound;

use kinesis_record::{Shard, ShardId};

use super::describe::start_behind;
use super::error::{KinesisError, within};
use super::opaque::{Seal, TOKEN_LIFETIME, open, seal};
use super::operation::Operation;
use super::service::Kinesis;
use super::shard::{ShardState, shard_number};
use super::stream::Stream;
use super::target::StreamTarget;
use super::time::Timestamp;

/// Shards in one reply, whatever the request asks for.
const MAX_PAGE: u32 = 1_000;

/// Which shards to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardFilter {
    /// Those with ids behind this one.
    AfterShardId(ShardId),
    /// Those that were open at the oldest instant that the stream retains.
    AtTrimHorizon,
    /// All that the stream retains.
    FromTrimHorizon,
    /// The open ones.
    AtLatest,
    /// Those that were open at this instant.
    AtTimestamp(Timestamp),
    /// Those that were open at this instant or later.
    FromTimestamp(Timestamp),
}

/// A call of ListShards.
#[derive(Debug, Clone, Default)]
pub struct ListShardsRequest {
    /// The stream; not with a token.
    pub stream: StreamTarget,
    /// From the reply before, which knows stream and filter.
    pub next_token: Option<String>,
    /// The shards behind this one, of those that the filter admits; not with a token.
    pub exclusive_start_shard_id: Option<ShardId>,
    /// At most so many shards, 1 to 10,000. A reply has no more than 1,000.
    pub max_results: Option<u32>,
    /// Which shards; not with a token. All that the stream retains by default.
    pub filter: Option<ShardFilter>,
    /// Tells the stream from another of the same name; not with a token.
    pub stream_created: Option<Timestamp>,
}

/// The answer to ListShards.
#[derive(Debug, Clone)]
pub struct ListShardsResponse {
    /// Shards, open and closed, by their ids.
    pub shards: Vec<Shard>,
    /// Where to go on, if there are more. Good for five minutes.
    pub next_token: Option<String>,
}

/// A filter with its instants resolved, so that it means the same on every page.
#[derive(Debug, Clone, Copy)]
enum Rule {
    All,
    Open,
    OpenAt(Timestamp),
    OpenSince(Timestamp),
}

impl Kinesis {
    /// Lists the shards of a stream.
    ///
    /// # Errors
    /// `ResourceNotFoundException` without such a stream, `ResourceInUseException` while it is being created
    /// or deleted, `InvalidArgumentException` for a token together with what it stands for or that is none,
    /// `ExpiredNextTokenException` for a token older than five minutes.
    pub fn list_shards(
        &mut self,
        request: ListShardsRequest,
        now: Timestamp,
    ) -> Result<ListShardsResponse, KinesisError> {
        let limit = within(request.max_results.unwrap_or(MAX_PAGE), "maxResults", 1..=10_000)?.min(MAX_PAGE);
        let (stream, start, rule) = match &request.next_token {
            Some(token) => self.resume(&request, token, now)?,
            None => {
                self.admit_for_stream(Operation::ListShards, &request.stream, now)?;
                let stream: &Stream = self.any_stream(&request.stream, now)?;
                stream.check_created(request.stream_created)?;
                let rule = rule(stream, request.filter.as_ref(), now)?;
                let filter_start = match &request.filter {
                    Some(ShardFilter::AfterShardId(id)) => Some(id),
                    _ => None,
                };
                let start = start_behind(request.exclusive_start_shard_id.as_ref())?;
                let start = later(start, start_behind(filter_start)?);
                (stream, start, rule)
            }
        };
        stream.check_exists(now)?;
        let mut rest = stream
            .shards
            .range((start, Bound::Unbounded))
            .map(|(_, shard)| shard)
            .filter(|shard| rule.admits(shard));
        let shards: Vec<Shard> = rest.by_ref().take(limit as usize).map(ShardState::describe).collect();
        let last = shards.last().filter(|_| rest.next().is_some());
        let next_token = last.map(|last| token(stream, &last.id, rule, now));
        Ok(ListShardsResponse { shards, next_token })
    }

    fn resume(
        &mut self,
        request: &ListShardsRequest,
        token: &str,
        now: Timestamp,
    ) -> Result<(&Stream, Bound<u64>, Rule), KinesisError> {
        if !request.stream.is_empty()
            || request.exclusive_start_shard_id.is_some()
            || request.filter.is_some()
            || request.stream_created.is_some()
        {
            return Err(KinesisError::InvalidArgument(
                "NextToken stands for the stream, the filter and the place in the list: it cannot be given \
                 together with StreamName, StreamARN, StreamCreationTimestamp, ShardFilter or \
                 ExclusiveStartShardId."
                    .to_owned(),
            ));
        }
        let ([epoch, last, kind, instant, issued], name) = open(Seal::ListShards, token)
            .ok_or_else(|| KinesisError::InvalidArgument("Invalid NextToken.".to_owned()))?;
        if now.as_millis() > issued.saturating_add(TOKEN_LIFETIME) {
            return Err(KinesisError::expired_token());
        }
        self.admit_for_stream(Operation::ListShards, &StreamTarget::from(name.as_str()), now)?;
        let stream = self.stream_named(&name, now)?;
        stream.check_token(Some(epoch))?;
        Ok((stream, Bound::Excluded(last), Rule::from_numbers(kind, instant)))
    }
}

/// The start of what is behind both.
fn later(one: Bound<u64>, other: Bound<u64>) -> Bound<u64> {
    match (one, other) {
        (Bound::Excluded(one), Bound::Excluded(other)) => Bound::Excluded(one.max(other)),
        (Bound::Unbounded, start) | (start, _) => start,
    }
}

fn token(stream: &Stream, last: &ShardId, rule: Rule, now: Timestamp) -> String {
    let last = shard_number(last.as_str()).unwrap_or_default();
    let (kind, instant) = rule.numbers();
    let numbers = [stream.epoch, last, kind, instant, now.as_millis()];
    seal(Seal::ListShards, &numbers, &stream.name)
}

/// What `filter` means for the stream now. An instant before the trim horizon means the trim horizon.
fn rule(stream: &Stream, filter: Option<&ShardFilter>, now: Timestamp) -> Result<Rule, KinesisError> {
    let horizon = stream.horizon(now).max(stream.created);
    let check = |instant: Timestamp| {
        if instant > now {
            return Err(KinesisError::InvalidArgument(format!(
                "The timestamp of a shard filter must not be in the future: it is {instant}, while right \
                 now it is {now}."
            )));
        }
        Ok(instant.max(horizon))
    };
    Ok(match filter {
        None | Some(ShardFilter::FromTrimHorizon | ShardFilter::AfterShardId(_)) => Rule::All,
        Some(ShardFilter::AtTrimHorizon) => Rule::OpenAt(horizon),
        Some(ShardFilter::AtLatest) => Rule::Open,
        Some(ShardFilter::AtTimestamp(instant)) => Rule::OpenAt(check(*instant)?),
        Some(ShardFilter::FromTimestamp(instant)) => Rule::OpenSince(check(*instant)?),
    })
}

impl Rule {
    fn admits(self, shard: &ShardState) -> bool {
        let closed = shard.closed.as_ref().map(|closed| closed.at);
        match self {
            Self::All => true,
            Self::Open => closed.is_none(),
            // At the instant of a reshard it is the children that are open, so that no hash key is covered
            // twice.
            Self::OpenAt(instant) => shard.created <= instant && closed.is_none_or(|closed| closed > instant),
            Self::OpenSince(instant) => closed.is_none_or(|closed| closed >= instant),
        }
    }

    fn numbers(self) -> (u64, u64) {
        match self {
            Self::All => (0, 0),
            Self::Open => (1, 0),
            Self::OpenAt(instant) => (2, instant.as_millis()),
            Self::OpenSince(instant) => (3, instant.as_millis()),
        }
    }

    fn from_numbers(kind: u64, instant: u64) -> Self {
        let instant = Timestamp::from_millis(instant);
        match kind {
            1 => Self::Open,
            2 => Self::OpenAt(instant),
            3 => Self::OpenSince(instant),
            _ => Self::All,
        }
    }
}
