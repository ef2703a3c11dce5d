//! What a request says about itself.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::selector::Service;
use crate::model::Timestamp;
use crate::model::iterator::Cursor;

/// A call: what faults go by and counters count.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) service: Service,
    pub(crate) operation: String,
    pub(crate) stream: Option<String>,
    pub(crate) shards: Vec<String>,
    pub(crate) tables: Vec<String>,
    pub(crate) keys: Vec<String>,
    /// When the iterator of a GetRecords call was made.
    pub(crate) iterator_issued: Option<Timestamp>,
}

/// The members of Kinesis requests that name something.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Names<'a> {
    pub(crate) stream_name: Option<Cow<'a, str>>,
    #[serde(rename = "StreamARN")]
    pub(crate) stream_arn: Option<Cow<'a, str>>,
    #[serde(rename = "ConsumerARN")]
    pub(crate) consumer_arn: Option<Cow<'a, str>>,
    #[serde(rename = "ResourceARN")]
    pub(crate) resource_arn: Option<Cow<'a, str>>,
    pub(crate) shard_id: Option<Cow<'a, str>>,
    pub(crate) shard_to_split: Option<Cow<'a, str>>,
    pub(crate) shard_to_merge: Option<Cow<'a, str>>,
    pub(crate) adjacent_shard_to_merge: Option<Cow<'a, str>>,
    pub(crate) shard_iterator: Option<Cow<'a, str>>,
}

/// The members of DynamoDB requests that name something.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Items {
    table_name: Option<String>,
    key: Option<Map<String, Value>>,
    item: Option<Map<String, Value>>,
    /// Of a batch: for each table, the items that it reads or writes.
    request_items: Option<Map<String, Value>>,
    /// Of a transaction.
    transact_items: Option<Vec<Map<String, Value>>>,
}

impl Call {
    fn new(service: Service, operation: &str) -> Self {
        Self {
            service,
            operation: operation.to_owned(),
            stream: None,
            shards: Vec::new(),
            tables: Vec::new(),
            keys: Vec::new(),
            iterator_issued: None,
        }
    }

    /// A call of Kinesis with its request in JSON. A request that cannot be read is about nothing.
    pub(crate) fn kinesis(operation: &str, body: &[u8]) -> Self {
        Self::about(operation, serde_json::from_slice(body).unwrap_or_default())
    }

    /// A call of Kinesis with what its request names.
    pub(crate) fn about(operation: &str, names: Names<'_>) -> Self {
        let mut call = Self::new(Service::Kinesis, operation);
        let arns = [names.stream_arn, names.consumer_arn, names.resource_arn];
        let in_arn = || arns.iter().flatten().find_map(|arn| stream_in_arn(arn));
        call.stream = names.stream_name.as_deref().or_else(in_arn).map(str::to_owned);
        let shards =
            [names.shard_id, names.shard_to_split, names.shard_to_merge, names.adjacent_shard_to_merge];
        call.shards.extend(shards.into_iter().flatten().map(Cow::into_owned));
        if let Some(cursor) = names.shard_iterator.and_then(|text| Cursor::open(&text).ok()) {
            call.shards.push(format!("shardId-{:012}", cursor.shard));
            call.iterator_issued = Some(cursor.issued);
            call.stream = Some(cursor.stream);
        }
        call
    }

    /// A call of DynamoDB with its request in JSON. A request that cannot be read is about nothing.
    pub(crate) fn dynamodb(operation: &str, body: &[u8]) -> Self {
        let items: Items = serde_json::from_slice(body).unwrap_or_default();
        let mut call = Self::new(Service::DynamoDb, operation);
        call.tables.extend(items.table_name.as_deref().map(table_name));
        call.add_keys(items.key.as_ref());
        call.add_keys(items.item.as_ref());
        for (table, work) in items.request_items.iter().flatten() {
            call.tables.push(table_name(table));
            // A read has the keys in a list, a write each in an object of its own.
            for key in work["Keys"].as_array().into_iter().flatten() {
                call.add_keys(key.as_object());
            }
            for write in work.as_array().into_iter().flatten() {
                call.add_keys(write["PutRequest"]["Item"].as_object());
                call.add_keys(write["DeleteRequest"]["Key"].as_object());
            }
        }
        for part in items.transact_items.iter().flatten().flat_map(|item| item.values()) {
            call.tables.extend(part["TableName"].as_str().map(table_name));
            call.add_keys(part["Key"].as_object());
            call.add_keys(part["Item"].as_object());
        }
        call
    }

    fn add_keys(&mut self, attributes: Option<&Map<String, Value>>) {
        for attribute in attributes.into_iter().flat_map(|attributes| attributes.values()) {
            let text = attribute["S"].as_str().or_else(|| attribute["N"].as_str());
            self.keys.extend(text.map(str::to_owned));
        }
    }
}

/// The stream in the ARN of a stream or of one of its consumers.
fn stream_in_arn(arn: &str) -> Option<&str> {
    let (_, resource) = arn.split_once(":stream/")?;
    resource.split('/').next()
}

/// A table by its name, which may be given as its ARN.
fn table_name(text: &str) -> String {
    let name = match text.split_once(":table/") {
        Some((_, resource)) => resource.split('/').next().unwrap_or_default(),
        None => text,
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_kinesis_is_about_the_stream_and_the_shards_that_it_names() {
        let call = Call::kinesis("PutRecord", br#"{"StreamName": "flights", "Data": ""}"#);
        assert_eq!((call.stream.as_deref(), call.shards.len()), (Some("flights"), 0));
        let merge = br#"{"StreamARN": "arn:aws:kinesis:r:0:stream/flights", "ShardToMerge": "a",
            "AdjacentShardToMerge": "b"}"#;
        let call = Call::kinesis("MergeShards", merge);
        assert_eq!((call.stream.as_deref(), call.shards), (Some("flights"), vec!["a".into(), "b".into()]));
        let subscribe =
            br#"{"ConsumerARN": "arn:aws:kinesis:r:0:stream/flights/consumer/c:1", "ShardId": "a"}"#;
        assert_eq!(Call::kinesis("SubscribeToShard", subscribe).stream.as_deref(), Some("flights"));
    }

    #[test]
    fn a_read_is_about_the_shard_of_its_iterator() {
        let issued = Timestamp::from_millis(7);
        let cursor = Cursor { stream: "flights".into(), stream_epoch: 7, shard: 12, index: 0, issued };
        let body = format!(r#"{{"ShardIterator": "{}"}}"#, cursor.seal());
        let call = Call::kinesis("GetRecords", body.as_bytes());
        assert_eq!(call.shards, ["shardId-000000000012"]);
        assert_eq!((call.stream.as_deref(), call.iterator_issued), (Some("flights"), Some(issued)));
    }

    #[test]
    fn a_call_of_dynamodb_is_about_its_tables_and_keys() {
        let update =
            br#"{"TableName": "arn:aws:dynamodb:r:0:table/leases", "Key": {"leaseKey": {"S": "a"}}}"#;
        let call = Call::dynamodb("UpdateItem", update);
        assert_eq!((call.tables, call.keys), (vec!["leases".to_owned()], vec!["a".to_owned()]));
        let batch = br#"{"RequestItems": {"leases": [{"DeleteRequest": {"Key": {"k": {"N": "5"}}}}]}}"#;
        let call = Call::dynamodb("BatchWriteItem", batch);
        assert_eq!((call.tables, call.keys), (vec!["leases".to_owned()], vec!["5".to_owned()]));
        let both = br#"{"TransactItems": [{"Put": {"TableName": "leases", "Item": {"k": {"S": "b"}}}}]}"#;
        let call = Call::dynamodb("TransactWriteItems", both);
        assert_eq!((call.tables, call.keys), (vec!["leases".to_owned()], vec!["b".to_owned()]));
    }

    #[test]
    fn a_request_that_cannot_be_read_is_about_nothing() {
        for body in [&b"{"[..], b"", br#"{"StreamName": 5}"#] {
            let call = Call::kinesis("PutRecord", body);
            assert_eq!((call.stream, call.shards.len()), (None, 0));
        }
    }
}
