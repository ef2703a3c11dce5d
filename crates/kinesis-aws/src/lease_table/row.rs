//! Rows of the lease table as DynamoDB items, with the attributes of the Java KCL.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_dynamodb::types::AttributeValue;
use kinesis_lease::{Lease, NewLease, WorkerId};
use kinesis_record::{Checkpoint, HashKey, HashRange, ShardId};

pub(super) const LEASE_KEY: &str = "leaseKey";
pub(super) const LEASE_OWNER: &str = "leaseOwner";
pub(super) const LEASE_COUNTER: &str = "leaseCounter";
pub(super) const OWNER_SWITCHES: &str = "ownerSwitchesSinceCheckpoint";
pub(super) const CHECKPOINT: &str = "checkpoint";
pub(super) const CHECKPOINT_SUB_SEQUENCE: &str = "checkpointSubSequenceNumber";
pub(super) const PENDING_CHECKPOINT: &str = "pendingCheckpoint";
pub(super) const PENDING_SUB_SEQUENCE: &str = "pendingCheckpointSubSequenceNumber";
pub(super) const PENDING_STATE: &str = "pendingCheckpointState";
pub(super) const PARENTS: &str = "parentShardId";
pub(super) const CHILDREN: &str = "childShardIds";
pub(super) const STARTING_HASH_KEY: &str = "startingHashKey";
pub(super) const ENDING_HASH_KEY: &str = "endingHashKey";
pub(super) const CHECKPOINT_OWNER: &str = "checkpointOwner";
/// Kilobytes per second, known to a KCL 3.x.
pub(super) const THROUGHPUT: &str = "throughputKBps";
/// Known to no KCL, which leaves it alone.
pub(super) const TOKEN: &str = "acquisitionToken";
/// Known to no KCL either, as those that follow.
pub(super) const HAND_OVER_TO: &str = "handOverTo";
pub(super) const HAND_OVER_OFFERED: &str = "handOverOffered";
/// The stream of the shard. The KCL's own `streamName` would make the row one of an application with several streams.
pub(super) const OF_STREAM: &str = "ofStream";
/// Milliseconds since 1970.
const LATEST_SINCE: &str = "latestSince";
/// KCL 3.5 and later keep other things than leases in the table and tell them by this.
const ENTITY_TYPE: &str = "entityType";
/// Rows of an application that reads several streams have it. There the key is not a shard's name alone.
const STREAM_NAME: &str = "streamName";

pub(super) type Item = HashMap<String, AttributeValue>;

/// Why an item is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoLease {
    /// It is meant to be something else, such as the KCL's figures on a worker.
    #[error("its {ENTITY_TYPE} is {0:?}")]
    Other(String),
    /// It should be a lease, and cannot be read as one.
    #[error("{0}")]
    Broken(String),
}

/// The stream that the item belongs to, if it says so.
pub(super) fn stream(item: &Item) -> Option<&String> {
    item.get(OF_STREAM)?.as_s().ok()
}

/// The item for a shard of `stream` that has none yet.
pub(super) fn new_item(lease: &NewLease, stream: &str) -> Item {
    let mut item = Item::from([
        (OF_STREAM.to_owned(), text(stream)),
        (LEASE_KEY.to_owned(), text(lease.shard.as_str())),
        (LEASE_COUNTER.to_owned(), number(0)),
        (OWNER_SWITCHES.to_owned(), number(0)),
        (CHECKPOINT.to_owned(), text(lease.checkpoint.text())),
        (CHECKPOINT_SUB_SEQUENCE.to_owned(), number(lease.checkpoint.sub_sequence())),
        (STARTING_HASH_KEY.to_owned(), text(&lease.hash_range.start.to_string())),
        (ENDING_HASH_KEY.to_owned(), text(&lease.hash_range.end.to_string())),
    ]);
    if let Some(parents) = shards(&lease.parents) {
        item.insert(PARENTS.to_owned(), parents);
    }
    let latest_since = lease.latest_since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    if let Some(since) = latest_since.and_then(|since| i64::try_from(since.as_millis()).ok()) {
        item.insert(LATEST_SINCE.to_owned(), number(since));
    }
    item
}

/// Reads an item. Attributes that are not ours to know are passed over. One that no KCL knows, or that says what the
/// stream says as well, is as good as absent if it cannot be read: a row is not given up for it.
pub(super) fn lease(item: &Item) -> Result<Lease, NoLease> {
    if let Some(kind) = read_text(item, ENTITY_TYPE)?.filter(|kind| kind != "LEASE") {
        return Err(NoLease::Other(kind));
    }
    if item.contains_key(STREAM_NAME) {
        return Err(NoLease::Broken(format!(
            "it has the attribute {STREAM_NAME}, so that it belongs to an application that reads several streams"
        )));
    }
    let missing = |name: &str| NoLease::Broken(format!("it has no attribute {name}"));
    let shard = read_text(item, LEASE_KEY)?.ok_or_else(|| missing(LEASE_KEY))?;
    let counter = read_number(item, LEASE_COUNTER)?.ok_or_else(|| missing(LEASE_COUNTER))?;
    if counter == i64::MAX {
        return Err(NoLease::Broken(format!("its {LEASE_COUNTER} is {counter} and cannot be raised")));
    }
    let checkpoint = read_text(item, CHECKPOINT)?.ok_or_else(|| missing(CHECKPOINT))?;
    let sub_sequence = read_number(item, CHECKPOINT_SUB_SEQUENCE)?.unwrap_or(0);
    Ok(Lease {
        shard: shard.into(),
        owner: read_text(item, LEASE_OWNER)?.map(WorkerId::from),
        counter,
        // The KCL refuses a row without it. Our next write to the row puts it back.
        owner_switches: read_number(item, OWNER_SWITCHES)?.unwrap_or(0),
        checkpoint: Checkpoint::parse(&checkpoint, sub_sequence)
            .map_err(|error| NoLease::Broken(format!("its {CHECKPOINT} {error}")))?,
        parents: read_shards(item, PARENTS)?,
        children: read_shards(item, CHILDREN).unwrap_or_default(),
        hash_range: read_hash_range(item),
        checkpoint_owner: read_text(item, CHECKPOINT_OWNER)?.map(WorkerId::from),
        token: read_text(item, TOKEN).ok().flatten(),
        asked_by: read_text(item, HAND_OVER_TO).ok().flatten().map(WorkerId::from),
        is_offered: item.get(HAND_OVER_OFFERED) == Some(&AttributeValue::Bool(true)),
        latest_since: read_number(item, LATEST_SINCE)
            .ok()
            .flatten()
            .and_then(|millis| u64::try_from(millis).ok())
            .and_then(|millis| UNIX_EPOCH.checked_add(Duration::from_millis(millis))),
    })
}

pub(super) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(super) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A set of shards. DynamoDB has no empty set: none is an absent attribute.
pub(super) fn shards(shards: &[ShardId]) -> Option<AttributeValue> {
    let names: Vec<_> = shards.iter().map(ToString::to_string).collect();
    (!names.is_empty()).then_some(AttributeValue::Ss(names))
}

fn read_text(item: &Item, name: &str) -> Result<Option<String>, NoLease> {
    match item.get(name) {
        None | Some(AttributeValue::Null(true)) => Ok(None),
        Some(AttributeValue::S(text)) => Ok(Some(text.clone())),
        Some(_) => Err(NoLease::Broken(format!("its {name} is no text (S)"))),
    }
}

fn read_number(item: &Item, name: &str) -> Result<Option<i64>, NoLease> {
    match item.get(name) {
        None | Some(AttributeValue::Null(true)) => Ok(None),
        Some(AttributeValue::N(text)) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(NoLease::Broken(format!("its {name} is {text:?}, no whole number of 64 bits"))),
        },
        Some(_) => Err(NoLease::Broken(format!("its {name} is no number (N)"))),
    }
}

fn read_shards(item: &Item, name: &str) -> Result<Vec<ShardId>, NoLease> {
    match item.get(name) {
        None | Some(AttributeValue::Null(true)) => Ok(Vec::new()),
        Some(AttributeValue::Ss(names)) => {
            let mut shards: Vec<ShardId> = names.iter().map(|name| ShardId::new(name)).collect();
            shards.sort();
            Ok(shards)
        }
        Some(_) => Err(NoLease::Broken(format!("its {name} is no set of texts (SS)"))),
    }
}

/// KCL 1.x before 1.14 and 2.x before 2.3 do not write the hash keys.
fn read_hash_range(item: &Item) -> Option<HashRange> {
    let key = |name| read_text(item, name).ok()??.parse::<HashKey>().ok();
    let (start, end) = (key(STARTING_HASH_KEY)?, key(ENDING_HASH_KEY)?);
    (start <= end).then_some(HashRange { start, end })
}
