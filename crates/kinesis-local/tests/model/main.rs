//! The service as a state machine, under a time of the test's own.

#![allow(clippy::unwrap_used, clippy::panic)]

mod consumers;
mod following;
mod iterators;
mod limits;
mod lineage;
mod listing;
mod managing;
mod putting;
mod radar;
mod reading;
mod retention;
mod room;
mod states;
mod subscriptions;

use kinesis_local::model::{
    CreateStreamRequest, GetRecordsRequest, GetRecordsResponse, GetShardIteratorRequest, Kinesis,
    KinesisError, ListShardsRequest, MergeShardsRequest, PutRecordRequest, PutRecordResponse,
    PutRecordsEntry, Settings, SplitShardRequest, StartingPosition, Timestamp,
};
use kinesis_record::{Shard, ShardId};

const SHARD_0: &str = "shardId-000000000000";
const SHARD_1: &str = "shardId-000000000001";
const SHARD_2: &str = "shardId-000000000002";

const HOUR: u64 = 3_600_000;

/// A service with the stream `flights` and a clock.
struct Bench {
    model: Kinesis,
    now: Timestamp,
}

impl Bench {
    fn new(shards: u32) -> Self {
        Self::with(Settings::default(), shards)
    }

    fn with(settings: Settings, shards: u32) -> Self {
        let mut bench =
            Self { model: Kinesis::new(settings), now: Timestamp::from_millis(1_800_000_000_000) };
        bench.create("flights", shards);
        bench
    }

    fn create(&mut self, name: &str, shards: u32) {
        let request = CreateStreamRequest {
            stream_name: name.to_owned(),
            shard_count: Some(shards),
            ..Default::default()
        };
        self.model.create_stream(request, self.now).unwrap();
    }

    fn pass(&mut self, millis: u64) {
        self.now = Timestamp::from_millis(self.now.as_millis() + millis);
    }

    fn put(&mut self, data: &str) -> PutRecordResponse {
        self.put_entry(PutRecordsEntry::new(data, data.to_owned())).unwrap()
    }

    fn put_entry(&mut self, record: PutRecordsEntry) -> Result<PutRecordResponse, KinesisError> {
        let request =
            PutRecordRequest { stream: "flights".into(), record, sequence_number_for_ordering: None };
        self.model.put_record(request, self.now)
    }

    fn iterator(&mut self, shard: &str, position: StartingPosition) -> Result<String, KinesisError> {
        let request = GetShardIteratorRequest { stream: "flights".into(), shard_id: shard.into(), position };
        self.model.get_shard_iterator(request, self.now)
    }

    fn get(&mut self, iterator: &str, limit: Option<u32>) -> Result<GetRecordsResponse, KinesisError> {
        let request = GetRecordsRequest { shard_iterator: iterator.to_owned(), limit, ..Default::default() };
        self.model.get_records(request, self.now)
    }

    /// One page from a position.
    fn read(&mut self, shard: &str, position: StartingPosition) -> GetRecordsResponse {
        let iterator = self.iterator(shard, position).unwrap();
        self.get(&iterator, None).unwrap()
    }

    fn split(&mut self, shard: &str, key: u128) -> Result<[ShardId; 2], KinesisError> {
        let request = SplitShardRequest {
            stream: "flights".into(),
            shard_to_split: shard.into(),
            new_starting_hash_key: key.to_string(),
        };
        self.model.split_shard(request, self.now)
    }

    fn merge(&mut self, first: &str, second: &str) -> Result<ShardId, KinesisError> {
        let request = MergeShardsRequest {
            stream: "flights".into(),
            shard_to_merge: first.into(),
            adjacent_shard_to_merge: second.into(),
        };
        self.model.merge_shards(request, self.now)
    }

    fn shards(&mut self) -> Vec<Shard> {
        let request = ListShardsRequest { stream: "flights".into(), ..Default::default() };
        self.model.list_shards(request, self.now).unwrap().shards
    }
}

/// The payloads of a page as texts.
fn texts(page: &GetRecordsResponse) -> Vec<&str> {
    page.records.iter().map(|record| std::str::from_utf8(&record.data).unwrap()).collect()
}

/// The service's name of the error.
fn code<T: std::fmt::Debug>(result: Result<T, KinesisError>) -> &'static str {
    result.unwrap_err().code()
}
