//! What happens to one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::action::{Action, Refusal};
use super::call::Call;
use super::edit::Change;
use super::lists::ShardLists;
use super::selector::Service;
use crate::model::{KinesisError, Timestamp};

/// Records of PutRecords that are to fail, by their places in the request from 0.
pub(crate) type Failures = BTreeMap<usize, KinesisError>;

/// How a call ends without having been applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Before {
    Refuse(Refusal),
    Hang,
    Reset,
}

/// How a call ends that was applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum After {
    Refuse(Refusal),
    Lose,
    Half,
    Stall,
}

/// What the faults that struck a call do to it together.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) delay: Duration,
    pub(crate) before: Option<Before>,
    pub(crate) after: Option<After>,
    pub(crate) failures: Failures,
    changes: Vec<Change>,
}

impl Plan {
    /// Whether the call's end is decided.
    pub(super) fn is_decided(&self) -> bool {
        self.before.is_some() || self.after.is_some()
    }

    /// Takes in what one more fault does.
    pub(super) fn take(&mut self, action: &Action, call: &Call, lists: Option<&Arc<ShardLists>>) {
        match action {
            Action::Observe => {}
            Action::Delay(time) => self.delay = self.delay.saturating_add(*time),
            Action::Error(refusal) => self.before = Some(Before::Refuse(refusal.clone())),
            Action::Throttle => self.before = Some(Before::Refuse(throttled(call))),
            Action::ExpireIterators(age) => self.before = Some(Before::Refuse(expired(call, *age))),
            Action::Hang => self.before = Some(Before::Hang),
            Action::Reset => self.before = Some(Before::Reset),
            Action::ErrorAfter(refusal) => self.after = Some(After::Refuse(refusal.clone())),
            Action::LoseReply => self.after = Some(After::Lose),
            Action::HalfBody => self.after = Some(After::Half),
            Action::StallBody => self.after = Some(After::Stall),
            Action::FailRecords { places, code, message } => {
                // A place fails for the first reason that was given.
                for place in places {
                    let failures = self.failures.entry(*place);
                    failures.or_insert_with(|| code.failure(message.clone()));
                }
            }
            Action::Merge(patch) => self.changes.push(Change::Merge(patch.clone())),
            Action::Rewrite(rewrite) => self.changes.push(Change::Rewrite(rewrite.clone())),
            Action::EmptyPage => self.changes.push(Change::EmptyPage),
            Action::HideShards(ids) => self.changes.push(Change::HideShards(ids.clone())),
            Action::FirstShards(number) => self.changes.push(Change::FirstShards(*number)),
            Action::StaleShards => {
                self.changes.extend(lists.map(|lists| Change::StaleShards(lists.clone())));
            }
        }
    }

    /// Whether [`Plan::edit_reply`] does anything.
    pub(crate) fn changes_reply(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Changes the reply of a call that succeeded.
    pub(crate) fn edit_reply(&self, call: &Call, request: &[u8], reply: &mut Value, now: Timestamp) {
        for change in &self.changes {
            change.apply(call, request, reply, now);
        }
    }
}

fn throttled(call: &Call) -> Refusal {
    let refusal = Refusal::new("ProvisionedThroughputExceededException");
    match call.service {
        Service::Kinesis => {
            let shard = call.shards.first().map_or("shardId-000000000000", String::as_str);
            let stream = call.stream.as_deref().unwrap_or_default();
            refusal.message(&format!("Rate exceeded for shard {shard} in stream {stream}."))
        }
        Service::DynamoDb => refusal.message(
            "The level of configured provisioned throughput for the table was exceeded. Consider increasing \
             your provisioning level with the UpdateTable API.",
        ),
    }
}

fn expired(call: &Call, age: Duration) -> Refusal {
    let issued = call.iterator_issued.unwrap_or_default();
    Refusal::new("ExpiredIteratorException").message(&format!(
        "Iterator expired. The iterator was created at time {issued}, which is further in the past than the \
         tolerated delay of {} milliseconds.",
        age.as_millis()
    ))
}
