//! One Kinesis stream through the SDK.

pub(crate) mod error;
mod reply;

use std::fmt;
use std::time::UNIX_EPOCH;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::operation::get_shard_iterator::builders::GetShardIteratorFluentBuilder;
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::ShardIteratorType;
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::stream::{RecordsPage, ShardIterator, StartAt};
use kinesis_lease::{StreamApi, StreamError};
use kinesis_record::{Shard, ShardId};

use crate::clients::Clients;
use error::Call;

/// The pages of a shard list that are read before the reply is taken for endless. A page holds 1,000 shards.
const MAX_PAGES: usize = 1_000;

/// A stream, by its name or its ARN. With an ARN it may belong to another account.
///
/// Calls are made once each and take at most the `request_timeout` of the settings.
#[derive(Clone)]
pub struct KinesisStream {
    client: Client,
    name: String,
    arn: Option<String>,
    place: String,
}

impl KinesisStream {
    /// The stream with this name or ARN. Nothing is asked of Kinesis yet.
    pub fn new(clients: &Clients, stream: &str) -> Self {
        let arn = stream.starts_with("arn:").then(|| stream.to_owned());
        let name = stream.rsplit('/').next().filter(|_| arn.is_some()).unwrap_or(stream);
        Self {
            client: clients.kinesis().clone(),
            name: name.to_owned(),
            arn,
            place: clients.kinesis_place().to_owned(),
        }
    }

    /// The ARN, if the stream was named by it.
    pub fn arn(&self) -> Option<&str> {
        self.arn.as_deref()
    }

    pub(crate) fn call<'a>(&'a self, operation: &'static str, shard: Option<&'a str>) -> Call<'a> {
        let limit =
            self.client.config().timeout_config().and_then(|limits| limits.operation_attempt_timeout());
        Call { operation, stream: &self.name, shard, place: &self.place, limit }
    }

    /// The name, unless the ARN says it already.
    pub(crate) fn name_without_arn(&self) -> Option<String> {
        self.arn.is_none().then(|| self.name.clone())
    }

    async fn all_shards(&self) -> Result<Vec<Shard>, StreamError> {
        let call = self.call("ListShards", None);
        let mut shards = Vec::new();
        let mut token: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let request = match token.take() {
                // The service refuses a token together with the stream's name.
                Some(token) => self.client.list_shards().next_token(token),
                None => self
                    .client
                    .list_shards()
                    .set_stream_name(self.name_without_arn())
                    .set_stream_arn(self.arn.clone()),
            };
            let page = request.send().await.map_err(|error| call.failed(&error, None))?;
            for shard in page.shards.unwrap_or_default() {
                shards.push(reply::shard(shard).map_err(|wrong| call.unreadable(&wrong))?);
            }
            token = page.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(shards);
            }
        }
        Err(call.unreadable(&format!("more than {MAX_PAGES} pages of shards")))
    }

    async fn iterator(&self, shard: &ShardId, start: &StartAt) -> Result<ShardIterator, StreamError> {
        let call = self.call("GetShardIterator", Some(shard.as_str()));
        let request = self
            .client
            .get_shard_iterator()
            .set_stream_name(self.name_without_arn())
            .set_stream_arn(self.arn.clone())
            .shard_id(shard.as_str());
        let reply = starting(request, start).send().await.map_err(|error| call.failed(&error, None))?;
        match reply.shard_iterator {
            Some(iterator) if !iterator.is_empty() => Ok(ShardIterator(iterator)),
            _ => Err(call.unreadable("no iterator")),
        }
    }

    async fn records(&self, iterator: &ShardIterator, limit: u32) -> Result<RecordsPage, StreamError> {
        let call = self.call("GetRecords", None);
        let reply = self
            .client
            .get_records()
            .shard_iterator(&iterator.0)
            .set_stream_arn(self.arn.clone())
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .send()
            .await
            .map_err(|error| call.failed(&error, Some(&iterator.0)))?;
        reply::records(reply).map_err(|wrong| call.unreadable(&wrong))
    }
}

impl StreamApi for KinesisStream {
    fn name(&self) -> &str {
        &self.name
    }

    fn list_shards(&self) -> BoxFuture<'_, Result<Vec<Shard>, StreamError>> {
        self.all_shards().boxed()
    }

    fn shard_iterator<'a>(
        &'a self,
        shard: &'a ShardId,
        start: &'a StartAt,
    ) -> BoxFuture<'a, Result<ShardIterator, StreamError>> {
        self.iterator(shard, start).boxed()
    }

    fn get_records<'a>(
        &'a self,
        iterator: &'a ShardIterator,
        limit: u32,
    ) -> BoxFuture<'a, Result<RecordsPage, StreamError>> {
        self.records(iterator, limit).boxed()
    }
}

impl fmt::Debug for KinesisStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.arn.as_ref().unwrap_or(&self.name);
        f.debug_struct("KinesisStream").field("stream", name).field("place", &self.place).finish()
    }
}

fn starting(request: GetShardIteratorFluentBuilder, start: &StartAt) -> GetShardIteratorFluentBuilder {
    match start {
        StartAt::TrimHorizon => request.shard_iterator_type(ShardIteratorType::TrimHorizon),
        StartAt::Latest => request.shard_iterator_type(ShardIteratorType::Latest),
        StartAt::Timestamp(instant) => {
            // The service keeps milliseconds. Rounded down, so that no record of the instant is left out.
            let since_epoch = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
            let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
            request
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(DateTime::from_millis(millis))
        }
        StartAt::At(sequence) => request
            .shard_iterator_type(ShardIteratorType::AtSequenceNumber)
            .starting_sequence_number(sequence.as_str()),
        StartAt::After(sequence) => request
            .shard_iterator_type(ShardIteratorType::AfterSequenceNumber)
            .starting_sequence_number(sequence.as_str()),
    }
}
