//! Replies of Kinesis as values. What breaks the service's own rules is refused, not guessed at.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_kinesis::operation::get_records::GetRecordsOutput;
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types;
use bytes::Bytes;
use kinesis_lease::stream::{ChildShard, RawRecord, RecordsPage, ShardIterator};
use kinesis_record::{HashRange, SequenceNumber, Shard, ShardId};

/// A shard from a list. An error is a text that completes "the reply holds ...".
pub(super) fn shard(shard: types::Shard) -> Result<Shard, String> {
    let id = shard_id(shard.shard_id)?;
    let hash_range = hash_range(&id, shard.hash_key_range.as_ref())?;
    let sequences = shard
        .sequence_number_range
        .ok_or_else(|| format!("the shard {id} without a range of sequence numbers"))?;
    let starting_sequence = sequence(&id, &sequences.starting_sequence_number)?;
    let ending_sequence = match some(sequences.ending_sequence_number) {
        Some(ending) => Some(sequence(&id, &ending)?),
        None => None,
    };
    let parents = [shard.parent_shard_id, shard.adjacent_parent_shard_id];
    let parents = parents.into_iter().filter_map(some).map(ShardId::from).collect();
    Ok(Shard { id, hash_range, parents, starting_sequence, ending_sequence })
}

/// A page of records. The data is moved, not copied.
///
/// A page without a next iterator is the end of its shard, and a consumer will never look at the shard again. So
/// an empty iterator is not taken for an absent one, nor an empty object for a page.
pub(super) fn records(reply: GetRecordsOutput) -> Result<RecordsPage, String> {
    if reply.next_shard_iterator.as_deref() == Some("") {
        return Err("an empty next iterator".to_owned());
    }
    if reply.next_shard_iterator.is_none()
        && reply.millis_behind_latest.is_none()
        && reply.child_shards.is_none()
    {
        return Err("nothing of a page of records".to_owned());
    }
    let children = reply.child_shards.unwrap_or_default().into_iter().map(child).collect::<Result<_, _>>()?;
    let records = reply.records.into_iter().map(record).collect::<Result<_, _>>()?;
    let behind = reply.millis_behind_latest.and_then(|millis| u64::try_from(millis).ok()).unwrap_or(0);
    Ok(RecordsPage {
        records,
        next: reply.next_shard_iterator.map(ShardIterator),
        behind: Duration::from_millis(behind),
        children,
    })
}

fn record(record: types::Record) -> Result<RawRecord, String> {
    let sequence: SequenceNumber =
        record.sequence_number.parse().map_err(|error| format!("a record whose sequence number {error}"))?;
    Ok(RawRecord {
        sequence,
        partition_key: record.partition_key,
        data: Bytes::from(record.data.into_inner()),
        arrival: record.approximate_arrival_timestamp.and_then(arrival),
    })
}

/// The service keeps milliseconds and sends them as a decimal fraction of seconds, of which binary floating point
/// makes some nanoseconds more or less.
fn arrival(at: DateTime) -> Option<SystemTime> {
    let millis = (at.as_nanos() + 500_000).div_euclid(1_000_000);
    UNIX_EPOCH.checked_add(Duration::from_millis(u64::try_from(millis).ok()?))
}

fn child(child: types::ChildShard) -> Result<ChildShard, String> {
    let id = shard_id(child.shard_id)?;
    let hash_range = hash_range(&id, child.hash_key_range.as_ref())?;
    let parents = child.parent_shards.into_iter().map(ShardId::from).collect();
    Ok(ChildShard { id, parents, hash_range })
}

fn shard_id(name: String) -> Result<ShardId, String> {
    if name.is_empty() { Err("a shard without a name".to_owned()) } else { Ok(name.into()) }
}

fn hash_range(id: &ShardId, range: Option<&types::HashKeyRange>) -> Result<HashRange, String> {
    let range = range.ok_or_else(|| format!("the shard {id} without a range of hash keys"))?;
    let key =
        |text: &str| text.parse().map_err(|error| format!("the shard {id}, of whose hash keys {error}"));
    let (start, end) = (key(&range.starting_hash_key)?, key(&range.ending_hash_key)?);
    if start > end {
        return Err(format!("the shard {id}, whose hash keys start at {start} and end before, at {end}"));
    }
    Ok(HashRange { start, end })
}

fn sequence(id: &ShardId, text: &str) -> Result<SequenceNumber, String> {
    text.parse().map_err(|error| format!("the shard {id}, of whose sequence numbers {error}"))
}

/// An emulator may send an empty text for what is absent.
fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_kinesis::primitives::Blob;
    use kinesis_record::HashKey;

    fn keys(start: &str, end: &str) -> types::HashKeyRange {
        types::HashKeyRange::builder().starting_hash_key(start).ending_hash_key(end).build().unwrap()
    }

    fn sequences(start: &str, end: Option<&str>) -> types::SequenceNumberRange {
        let range = types::SequenceNumberRange::builder().starting_sequence_number(start);
        range.set_ending_sequence_number(end.map(str::to_owned)).build().unwrap()
    }

    fn listed(keys: types::HashKeyRange, sequences: types::SequenceNumberRange) -> types::Shard {
        let shard = types::Shard::builder().shard_id("shardId-1").parent_shard_id("shardId-0");
        shard.hash_key_range(keys).sequence_number_range(sequences).build().unwrap()
    }

    #[test]
    fn a_closed_shard_with_one_parent_is_read() {
        let read = shard(listed(keys("0", "9"), sequences("100", Some("200")))).unwrap();
        assert_eq!(read.parents, ["shardId-0".into()]);
        assert_eq!(read.hash_range, HashRange { start: HashKey(0), end: HashKey(9) });
        assert!(!read.is_open());
        assert!(shard(listed(keys("0", "9"), sequences("100", Some("")))).unwrap().is_open());
    }

    #[test]
    fn a_shard_that_breaks_the_services_rules_is_refused_by_name() {
        let wrong = [
            listed(keys("", ""), sequences("1", None)),
            listed(keys("9", "0"), sequences("1", None)),
            listed(keys("0", "9"), sequences("", None)),
            listed(keys("0", "9"), sequences("1", Some("x"))),
        ];
        for listed in wrong {
            assert!(shard(listed.clone()).unwrap_err().contains("shardId-1"), "{listed:?}");
        }
        let bare = types::Shard::builder().shard_id("shardId-1").build().unwrap();
        assert!(shard(bare).unwrap_err().contains("shardId-1"));
    }

    #[test]
    fn data_is_moved_into_a_record_without_a_copy() {
        let data = vec![7_u8; 64];
        let address = data.as_ptr();
        let sent = types::Record::builder().sequence_number("1").data(Blob::new(data)).build().unwrap();
        let record = record(sent).unwrap();
        assert_eq!(record.data.as_ptr(), address);
        assert_eq!(record.partition_key, None);
    }

    #[test]
    fn an_arrival_is_a_whole_number_of_milliseconds() {
        let sent = DateTime::from_secs_and_nanos(1_800_000_000, 19_999_980);
        assert_eq!(arrival(sent), Some(UNIX_EPOCH + Duration::from_millis(1_800_000_000_020)));
        assert_eq!(arrival(DateTime::from_secs(-1)), None);
    }

    #[test]
    fn only_a_page_that_says_something_can_be_the_end_of_a_shard() {
        let page = || GetRecordsOutput::builder().set_records(Some(Vec::new()));
        assert!(records(page().build().unwrap()).is_err());
        assert!(records(page().next_shard_iterator("").millis_behind_latest(0).build().unwrap()).is_err());
        let end = records(page().millis_behind_latest(0).build().unwrap()).unwrap();
        assert_eq!((end.next, end.records.len()), (None, 0));
    }
}
