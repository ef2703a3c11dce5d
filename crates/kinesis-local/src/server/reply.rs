//! What a call is answered with. Records and their places are written in the client's form right from the model's
//! answer; all else is small and goes through JSON.

use bytes::Bytes;

use super::form::Form;
use super::writer::{Cbor, Json, Writer};
use crate::model::{
    ChildShard, EncryptionType, GetRecordsResponse, PutRecordsResponse, Record, SubscribeToShardEvent,
};

/// A reply that is still to be written.
#[derive(Debug)]
pub(crate) enum Reply {
    /// JSON already; empty for an operation without a reply.
    Json(String),
    /// Where records went.
    Places(PutRecordsResponse),
    /// Records that were read.
    Page(GetRecordsResponse),
    /// Records of a subscription.
    Event(SubscribeToShardEvent),
}

impl Reply {
    pub(crate) fn empty() -> Self {
        Self::Json(String::new())
    }

    pub(crate) fn write(self, form: Form) -> Bytes {
        match (self, form) {
            (Self::Json(json), form) => form.write(json),
            (typed, Form::Json) => typed.into_json().into(),
            (typed, Form::Cbor) => {
                let mut writer = Cbor(Vec::with_capacity(typed.room()));
                typed.put(&mut writer);
                writer.0.into()
            }
        }
    }

    pub(crate) fn into_json(self) -> String {
        match self {
            Self::Json(json) => json,
            typed => {
                let mut writer = Json(String::with_capacity(typed.room()));
                typed.put(&mut writer);
                writer.0
            }
        }
    }

    /// What it needs in either form.
    fn room(&self) -> usize {
        // A place has some 120 bytes; a record has some 180 around its partition key and payload.
        let records = match self {
            Self::Json(json) => return json.len(),
            Self::Places(response) => return response.records.len() * 150 + 128,
            Self::Page(response) => &response.records,
            Self::Event(event) => &event.records,
        };
        records.iter().map(|record| 180 + record.size() * 4 / 3).sum::<usize>() + 1_024
    }

    fn put(&self, writer: &mut impl Writer) {
        match self {
            Self::Json(_) => {}
            Self::Places(response) => put_places(writer, response),
            Self::Page(response) => {
                writer.open_map();
                put_records(writer, &response.records);
                writer.member("NextShardIterator");
                match &response.next_shard_iterator {
                    Some(iterator) => writer.text(iterator),
                    None => writer.null(),
                }
                put_end(writer, response.millis_behind_latest, &response.child_shards);
                writer.close_map();
            }
            Self::Event(event) => {
                writer.open_map();
                put_records(writer, &event.records);
                if let Some(number) = &event.continuation_sequence_number {
                    writer.member("ContinuationSequenceNumber");
                    writer.text(number.as_str());
                }
                put_end(writer, event.millis_behind_latest, &event.child_shards);
                writer.close_map();
            }
        }
    }
}

fn put_places(writer: &mut impl Writer, response: &PutRecordsResponse) {
    writer.open_map();
    writer.member("FailedRecordCount");
    writer.number(response.failed_record_count() as u64);
    writer.member("Records");
    writer.open_array();
    for record in &response.records {
        writer.item();
        writer.open_map();
        match record {
            Ok(place) => {
                writer.member("ShardId");
                writer.text(place.shard_id.as_str());
                writer.member("SequenceNumber");
                writer.text(place.sequence_number.as_str());
            }
            Err(error) => {
                writer.member("ErrorCode");
                writer.text(error.code());
                writer.member("ErrorMessage");
                writer.text(error.message());
            }
        }
        writer.close_map();
    }
    writer.close_array();
    put_encryption(writer, response.encryption);
    writer.close_map();
}

fn put_records(writer: &mut impl Writer, records: &[Record]) {
    writer.member("Records");
    writer.open_array();
    for record in records {
        writer.item();
        writer.open_map();
        writer.member("SequenceNumber");
        writer.text(record.sequence_number.as_str());
        writer.member("ApproximateArrivalTimestamp");
        writer.instant(record.arrival);
        if let Some(key) = &record.partition_key {
            writer.member("PartitionKey");
            writer.text(key);
        }
        writer.member("Data");
        writer.payload(&record.data);
        put_encryption(writer, record.encryption);
        writer.close_map();
    }
    writer.close_array();
}

/// As in the service, only what is encrypted says so.
fn put_encryption(writer: &mut impl Writer, encryption: EncryptionType) {
    if encryption == EncryptionType::Kms {
        writer.member("EncryptionType");
        writer.text(encryption.as_str());
    }
}

fn put_end(writer: &mut impl Writer, millis_behind_latest: u64, children: &[ChildShard]) {
    writer.member("MillisBehindLatest");
    writer.number(millis_behind_latest);
    if children.is_empty() {
        return;
    }
    writer.member("ChildShards");
    writer.open_array();
    for child in children {
        writer.item();
        writer.open_map();
        writer.member("ShardId");
        writer.text(child.shard_id.as_str());
        writer.member("ParentShards");
        writer.open_array();
        for parent in &child.parent_shards {
            writer.item();
            writer.text(parent.as_str());
        }
        writer.close_array();
        writer.member("HashKeyRange");
        writer.open_map();
        writer.member("StartingHashKey");
        writer.text(&child.hash_range.start.to_string());
        writer.member("EndingHashKey");
        writer.text(&child.hash_range.end.to_string());
        writer.close_map();
        writer.close_map();
    }
    writer.close_array();
}
