//! Changes of replies.

use std::sync::Arc;

use serde_json::{Value, json};

use super::action::Rewrite;
use super::call::Call;
use super::lists::{self, ShardLists};
use crate::model::Timestamp;
use crate::model::iterator::Cursor;

/// A change of a reply.
#[derive(Debug)]
pub(super) enum Change {
    Merge(Value),
    Rewrite(Rewrite),
    EmptyPage,
    StaleShards(Arc<ShardLists>),
    HideShards(Vec<String>),
    FirstShards(usize),
}

impl Change {
    pub(super) fn apply(&self, call: &Call, request: &[u8], reply: &mut Value, now: Timestamp) {
        match self {
            Self::Merge(patch) => merge(reply, patch),
            Self::Rewrite(rewrite) => (rewrite.0)(reply),
            Self::EmptyPage => empty_page(request, reply, now),
            Self::StaleShards(lists) => lists.apply(call, request, reply),
            Self::HideShards(ids) => lists::hide(reply, ids),
            Self::FirstShards(number) => lists::first(reply, *number),
        }
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (member, value) in patch {
        match target.as_object_mut() {
            Some(target) if value.is_null() => drop(target.remove(member)),
            Some(target) => merge(target.entry(member.as_str()).or_insert(Value::Null), value),
            None => {}
        }
    }
}

/// A page of nothing. Its iterator stands where the request's stood, and the lag is what is still unread.
fn empty_page(request: &[u8], reply: &mut Value, now: Timestamp) {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    let Some(Ok(cursor)) = request["ShardIterator"].as_str().map(Cursor::open) else { return };
    let mut page = json!({
        "Records": [],
        "NextShardIterator": Cursor { issued: now, ..cursor }.seal(),
        "MillisBehindLatest": reply["MillisBehindLatest"],
    });
    if let Some(seconds) = reply["Records"][0]["ApproximateArrivalTimestamp"].as_f64() {
        let arrival = Timestamp::from_millis((seconds * 1_000.0).round() as u64);
        page["MillisBehindLatest"] = now.millis_since(arrival).into();
    }
    *reply = page;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_sets_adds_and_removes_members() {
        let mut reply = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        merge(&mut reply, &json!({"a": {"b": null, "e": {"f": 3}}, "d": [3], "g": null}));
        assert_eq!(reply, json!({"a": {"c": 2, "e": {"f": 3}}, "d": [3]}));
    }
}
