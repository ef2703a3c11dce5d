//! Changes of requests and replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
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

/// Records of PutRecords that are to fail: by place, code and message.
#[derive(Debug, Default)]
pub(super) struct FailedRecords(BTreeMap<usize, (String, String)>);

/// A PutRecords request with some records taken out.
#[derive(Debug)]
pub(crate) struct Edited {
    /// What is left to serve, if anything.
    pub(crate) request: Option<Bytes>,
    failed: BTreeMap<usize, Value>,
}

impl FailedRecords {
    /// A place fails for the first reason that was given.
    pub(super) fn add(&mut self, places: &[usize], code: &str, message: &str) {
        for place in places {
            self.0.entry(*place).or_insert_with(|| (code.to_owned(), message.to_owned()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take_out(&self, request: &[u8]) -> Option<Edited> {
        if self.is_empty() {
            return None;
        }
        let mut request: Value = serde_json::from_slice(request).ok()?;
        let records = request.get_mut("Records")?.as_array_mut()?;
        let mut failed = BTreeMap::new();
        let all = std::mem::take(records);
        for (place, record) in all.into_iter().enumerate() {
            match self.0.get(&place) {
                Some((code, message)) => {
                    failed.insert(place, json!({ "ErrorCode": code, "ErrorMessage": message }));
                }
                None => records.push(record),
            }
        }
        let request = (!records.is_empty()).then(|| request.to_string().into());
        (!failed.is_empty()).then_some(Edited { request, failed })
    }
}

impl Edited {
    /// The reply with the records that failed among those that were served.
    pub(crate) fn put_back(self, reply: &mut Value) {
        if !reply.is_object() {
            *reply = json!({});
        }
        let failures = reply["FailedRecordCount"].as_u64().unwrap_or_default();
        reply["FailedRecordCount"] = (failures + self.failed.len() as u64).into();
        let mut records = reply["Records"].take().as_array_mut().map(std::mem::take).unwrap_or_default();
        // In rising order, each place is right when the ones before it are filled.
        for (place, failure) in self.failed {
            records.insert(place.min(records.len()), failure);
        }
        reply["Records"] = records.into();
    }
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

    #[test]
    fn failed_records_are_not_served_and_come_back_at_their_places() {
        let mut failed = FailedRecords::default();
        failed.add(&[0, 2, 9], "Busy", "later");
        let edited = failed.take_out(br#"{"Records": [1, 2, 3, 4]}"#).unwrap();
        assert_eq!(edited.request.as_deref(), Some(&br#"{"Records":[2,4]}"#[..]));
        let mut reply = json!({"FailedRecordCount": 1, "Records": ["two", "four"]});
        edited.put_back(&mut reply);
        let failure = json!({"ErrorCode": "Busy", "ErrorMessage": "later"});
        assert_eq!(reply, json!({"FailedRecordCount": 3, "Records": [failure, "two", failure, "four"]}));
    }

    #[test]
    fn a_request_of_which_all_fails_is_not_served_at_all() {
        let mut failed = FailedRecords::default();
        failed.add(&[0], "Busy", "later");
        let edited = failed.take_out(br#"{"Records": [1]}"#).unwrap();
        assert_eq!(edited.request, None);
        let mut reply = Value::Null;
        edited.put_back(&mut reply);
        assert_eq!(
            (&reply["FailedRecordCount"], &reply["Records"][0]["ErrorCode"]),
            (&json!(1), &json!("Busy"))
        );
    }
}
