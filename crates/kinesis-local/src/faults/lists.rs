//! Shard lists that are wrong.

use std::collections::BTreeMap;

use serde_json::Value;

use super::call::Call;
use super::plan::Failures;
use crate::model::{ListStreamsRequest, Operation};
use crate::server::{Parameters, Reply, Shared, dispatch};

/// The shards of all streams as they were at one time, in the JSON of the reply.
#[derive(Debug)]
pub(crate) struct ShardLists(BTreeMap<String, Vec<Value>>);

impl ShardLists {
    /// The shards as they are now.
    pub(crate) fn now(shared: &Shared) -> Self {
        let now = shared.now();
        let mut request = ListStreamsRequest::default();
        let mut lists = BTreeMap::new();
        loop {
            // The model is free again before the shards are asked for.
            let response = shared.model().list_streams(request, now);
            let Ok(response) = response else { break };
            for stream in response.streams {
                let shards = shards_of(shared, &stream.stream_name);
                lists.insert(stream.stream_name, shards);
            }
            if response.next_token.is_none() {
                break;
            }
            request = ListStreamsRequest { next_token: response.next_token, ..Default::default() };
        }
        Self(lists)
    }

    pub(super) fn apply(&self, call: &Call, request: &[u8], reply: &mut Value) {
        let request: Value = serde_json::from_slice(request).unwrap_or_default();
        let Some(shards) = shards_in(reply) else { return };
        let known = call.stream.as_ref().and_then(|stream| self.0.get(stream));
        if let (Some(known), Some("AT_LATEST")) = (known, request["ShardFilter"]["Type"].as_str()) {
            *shards = known.iter().filter(|shard| is_open(shard)).cloned().collect();
            return;
        }
        *shards = shards.iter().filter_map(|shard| self.then(shard)).cloned().collect();
    }

    /// What a shard was then. A page that a token asks for does not name its stream; the first sequence
    /// number tells shards of the same id apart.
    fn then(&self, shard: &Value) -> Option<&Value> {
        let identity = |shard: &Value| {
            (shard["ShardId"].clone(), shard["SequenceNumberRange"]["StartingSequenceNumber"].clone())
        };
        self.0.values().flatten().find(|known| identity(known) == identity(shard))
    }
}

fn shards_of(shared: &Shared, stream: &str) -> Vec<Value> {
    let mut request = serde_json::json!({ "StreamName": stream });
    let mut shards = Vec::new();
    loop {
        let parameters = Parameters::parse(request.to_string().as_bytes());
        let reply = parameters
            .and_then(|p| dispatch(shared, Operation::ListShards, p, &Failures::new(), shared.now()));
        let reply = reply.map(Reply::into_json).unwrap_or_default();
        let mut reply: Value = serde_json::from_str(&reply).unwrap_or_default();
        shards.append(shards_in(&mut reply).unwrap_or(&mut Vec::new()));
        match reply["NextToken"].take() {
            Value::Null => return shards,
            token => request = serde_json::json!({ "NextToken": token }),
        }
    }
}

/// Leaves shards out.
pub(super) fn hide(reply: &mut Value, ids: &[String]) {
    if let Some(shards) = shards_in(reply) {
        shards.retain(|shard| !ids.iter().any(|id| shard["ShardId"] == id.as_str()));
    }
}

/// Ends the list behind the first shards.
pub(super) fn first(reply: &mut Value, number: usize) {
    if let Some(shards) = shards_in(reply) {
        shards.truncate(number);
    }
    if let Some(token) = reply.get_mut("NextToken") {
        *token = Value::Null;
    }
    if let Some(more) = reply.pointer_mut("/StreamDescription/HasMoreShards") {
        *more = false.into();
    }
}

/// The list in a reply of ListShards or DescribeStream.
fn shards_in(reply: &mut Value) -> Option<&mut Vec<Value>> {
    let pointer = if reply.get("Shards").is_some() { "/Shards" } else { "/StreamDescription/Shards" };
    reply.pointer_mut(pointer)?.as_array_mut()
}

fn is_open(shard: &Value) -> bool {
    shard["SequenceNumberRange"].get("EndingSequenceNumber").is_none()
}
