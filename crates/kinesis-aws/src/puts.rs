//! Writing to streams through the SDK.

use aws_sdk_kinesis::error::BuildError;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::{PutRecordsRequestEntry, PutRecordsResultEntry};
use futures::FutureExt;
use futures::future::BoxFuture;
use kinesis_lease::put::{PutPlace, PutRecord, PutRefusal, PutReply};
use kinesis_lease::{PutApi, StreamApi, StreamError, StreamErrorKind};
use kinesis_record::Shard;

use crate::clients::Clients;
use crate::kinesis::KinesisStream;

/// Puts records into the streams of an account and region, each named by its name or its ARN.
///
/// Calls are made once each and take at most the `request_timeout` of the settings.
#[derive(Debug, Clone)]
pub struct KinesisPuts {
    clients: Clients,
}

impl KinesisPuts {
    /// Nothing is asked of Kinesis yet.
    pub fn new(clients: &Clients) -> Self {
        Self { clients: clients.clone() }
    }

    async fn put(&self, stream: &str, records: Vec<PutRecord>) -> Result<Vec<PutReply>, StreamError> {
        let stream = KinesisStream::new(&self.clients, stream);
        let call = stream.call("PutRecords", None);
        let sent = records.len();
        let entries = records.into_iter().map(entry).collect::<Result<Vec<_>, _>>();
        let entries = entries.map_err(|error| StreamError {
            kind: StreamErrorKind::InvalidArgument,
            message: error.to_string(),
        })?;
        let request = self
            .clients
            .kinesis()
            .put_records()
            .set_stream_name(stream.name_without_arn())
            .set_stream_arn(stream.arn().map(str::to_owned))
            .set_records(Some(entries));
        let replies = request.send().await.map_err(|error| call.failed(&error, None))?.records;
        if replies.len() != sent {
            let holds = format!("{} results for {sent} records", replies.len());
            return Err(call.unreadable(&holds));
        }
        replies.into_iter().map(|reply| result(reply).map_err(|wrong| call.unreadable(&wrong))).collect()
    }
}

impl PutApi for KinesisPuts {
    fn list_shards<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<Vec<Shard>, StreamError>> {
        async move { KinesisStream::new(&self.clients, stream).list_shards().await }.boxed()
    }

    fn put_records<'a>(
        &'a self,
        stream: &'a str,
        records: Vec<PutRecord>,
    ) -> BoxFuture<'a, Result<Vec<PutReply>, StreamError>> {
        self.put(stream, records).boxed()
    }
}

/// The SDK's entry. Data that nobody else holds, such as a fresh aggregate, is moved; other data is copied once, for
/// the SDK wants to own it.
fn entry(record: PutRecord) -> Result<PutRecordsRequestEntry, BuildError> {
    PutRecordsRequestEntry::builder()
        .partition_key(&*record.partition_key)
        .set_explicit_hash_key(record.explicit_hash_key.map(|key| key.to_string()))
        .data(Blob::new(Vec::from(record.data)))
        .build()
}

/// What became of a record. An error is a text that completes "the reply holds ...".
fn result(reply: PutRecordsResultEntry) -> Result<PutReply, String> {
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    if let Some(code) = some(reply.error_code) {
        return Ok(Err(PutRefusal { code, message: reply.error_message.unwrap_or_default() }));
    }
    let (Some(shard), Some(sequence)) = (some(reply.shard_id), some(reply.sequence_number)) else {
        return Err("a result with neither an error nor a place".to_owned());
    };
    let sequence = sequence.parse().map_err(|error| format!("a result whose sequence number {error}"))?;
    Ok(Ok(PutPlace { shard: shard.into(), sequence }))
}
