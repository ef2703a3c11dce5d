//! To files and object stores.

use std::ops::RangeInclusive;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::TryStreamExt;
use kinesis_record::{Checkpoint, Position, SequenceNumber, ShardId};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};

use super::dead_letter::{DeadLetter, DeadLetterStore, DeadLetters, Stage};
use super::emitter::{Batch, EmitError, Emitter};
use crate::consumer::{ConsumerEvent, Contents};

/// Wide enough for the sequence numbers of the service, which have 56 digits, so that names are in the order of positions.
const SEQUENCE_DIGITS: usize = 64;
const SUB_SEQUENCE_DIGITS: usize = 10;

/// Writes each batch as one object, a line for each value: `<prefix>/<shard>/<last position>_<first position>`, positions in
/// digits of a fixed width.
///
/// Objects are put as a whole, and which there are says what was emitted: after a crash, the events in them are not emitted again, and
/// each event is in one object. Two processes that emit the same shard at a time, as after the freeze of one, may still both
/// write what one of them read last; so may one that loses a lease while it puts, and has it back before that put arrives. What is
/// redriven goes to `<prefix>/redriven/<shard>/<position>`, and is not emitted again either.
///
/// The store is one of the crate `object_store` 0.14: `LocalFileSystem` for files. For Amazon S3, with the feature `s3` of this
/// crate, `AmazonS3Builder::from_env().with_bucket_name("flights").build()?` takes `AWS_REGION` and the credentials from the
/// environment, else those of the container or the host. Another server that speaks S3 is reached at `AWS_ENDPOINT`, in clear only
/// with `AWS_ALLOW_HTTP=true`. The store tries again and has time-outs by itself; what fails all the same is tried again here.
/// Needed are the permissions `s3:PutObject` and `s3:ListBucket`; for dead letters and redriving `s3:GetObject` and
/// `s3:DeleteObject`, too.
#[derive(Debug, Clone)]
pub struct ObjectEmitter {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl ObjectEmitter {
    /// Writes below `prefix`, `flights/raw` for instance. No other stream may be written there.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, prefix: Path::from(prefix) }
    }

    fn folder(&self, shard: &ShardId) -> Path {
        self.prefix.clone().join(shard.as_str())
    }

    fn redriven(&self, shard: &ShardId) -> Path {
        self.prefix.clone().join("redriven").join(shard.as_str())
    }
}

impl<T: AsRef<[u8]> + Send + Sync> Emitter<T> for ObjectEmitter {
    async fn emit(&self, batch: &Batch<T>) -> Result<(), EmitError> {
        let size = batch.items().map(|item| item.value.as_ref().len() + 1).sum();
        let mut lines = Vec::with_capacity(size);
        for item in batch.items() {
            lines.extend_from_slice(item.value.as_ref());
            lines.push(b'\n');
        }
        let (first, last) = (name(batch.range().start()), name(batch.range().end()));
        let object = match batch.is_redrive() {
            true => self.redriven(batch.shard()).join(first),
            false => self.folder(batch.shard()).join(format!("{last}_{first}")),
        };
        put(&*self.store, &object, lines).await
    }

    async fn emitted(
        &self,
        shard: &ShardId,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<RangeInclusive<Position>>, EmitError> {
        let objects = behind(&*self.store, self.folder(shard), checkpoint).await?;
        let redriven = behind(&*self.store, self.redriven(shard), checkpoint).await?;
        let batches = objects.iter().filter_map(|object| range(object.filename()?));
        let events = redriven.iter().filter_map(|object| position(object.filename()?));
        Ok(batches.chain(events.map(|event| event.clone()..=event)).collect())
    }
}

/// Keeps dead letters as JSON, an object each: `<prefix>/<shard>/<position>`. The payload is in Base64.
#[derive(Debug, Clone)]
pub struct ObjectDeadLetters {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl ObjectDeadLetters {
    /// Keeps them below `prefix`. Nothing else may be there, and no letters of another pipeline: what has a letter behind the
    /// checkpoint is not emitted before it is redriven.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, prefix: Path::from(prefix) }
    }

    fn folder(&self, shard: &ShardId) -> Path {
        self.prefix.clone().join(shard.as_str())
    }
}

/// A letter as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Letter {
    stream: String,
    shard: String,
    sequence_number: String,
    sub_sequence_number: i64,
    partition_key: Option<String>,
    explicit_hash_key: Option<String>,
    is_aggregated: bool,
    stage: Stage,
    failed: Vec<usize>,
    cause: String,
    attempts: u32,
    payload: String,
}

impl DeadLetters for ObjectDeadLetters {
    async fn put(&self, letter: &DeadLetter) -> Result<(), EmitError> {
        let position = letter.position();
        let object = self.folder(letter.shard()).join(name(position));
        let letter = Letter {
            stream: letter.stream().to_owned(),
            shard: letter.shard().to_string(),
            sequence_number: position.sequence.to_string(),
            sub_sequence_number: position.sub_sequence,
            partition_key: letter.event().partition_key().map(str::to_owned),
            explicit_hash_key: letter.event().explicit_hash_key().map(str::to_owned),
            is_aggregated: letter.event().is_aggregated(),
            stage: letter.stage(),
            failed: letter.failed().to_vec(),
            cause: letter.cause().to_owned(),
            attempts: letter.attempts(),
            payload: BASE64_STANDARD.encode(letter.payload()),
        };
        let json = serde_json::to_vec_pretty(&letter).map_err(EmitError::unavailable)?;
        put(&*self.store, &object, json).await
    }

    async fn kept(&self, shard: &ShardId, checkpoint: &Checkpoint) -> Result<Vec<Position>, EmitError> {
        let objects = behind(&*self.store, self.folder(shard), checkpoint).await?;
        Ok(objects.iter().filter_map(|object| position(object.filename()?)).collect())
    }
}

impl DeadLetterStore for ObjectDeadLetters {
    type Key = Path;

    async fn list(&self) -> Result<Vec<Path>, EmitError> {
        let objects = self.store.list(Some(&self.prefix)).map_ok(|object| object.location);
        let mut keys: Vec<_> = objects.try_collect().await.map_err(EmitError::unavailable)?;
        keys.sort();
        Ok(keys)
    }

    async fn get(&self, key: &Path) -> Result<DeadLetter, EmitError> {
        let object = self.store.get(key).await.map_err(EmitError::unavailable)?;
        let json = object.bytes().await.map_err(EmitError::unavailable)?;
        letter(&json).map_err(|error| EmitError::Unavailable(format!("{key} is no dead letter: {error}")))
    }

    async fn delete(&self, key: &Path) -> Result<(), EmitError> {
        self.store.delete(key).await.map_err(EmitError::unavailable)
    }
}

fn letter(json: &[u8]) -> Result<DeadLetter, Box<dyn std::error::Error>> {
    let letter: Letter = serde_json::from_slice(json)?;
    let sequence: SequenceNumber = letter.sequence_number.parse()?;
    let event = ConsumerEvent::from_contents(Contents {
        partition_key: letter.partition_key.map(Into::into),
        explicit_hash_key: letter.explicit_hash_key.map(Into::into),
        payload: Bytes::from(BASE64_STANDARD.decode(&letter.payload)?),
        is_aggregated: letter.is_aggregated,
        ..Contents::nowhere(letter.shard.as_str().into(), Position::new(sequence, letter.sub_sequence_number))
    });
    Ok(DeadLetter {
        stream: letter.stream.into(),
        event,
        stage: letter.stage,
        failed: letter.failed,
        cause: letter.cause,
        attempts: letter.attempts,
    })
}

async fn put(store: &dyn ObjectStore, object: &Path, content: Vec<u8>) -> Result<(), EmitError> {
    store.put(object, PutPayload::from(content)).await.map(drop).map_err(EmitError::unavailable)
}

/// The objects of a shard's folder that are behind a checkpoint by their names.
async fn behind(
    store: &dyn ObjectStore,
    folder: Path,
    checkpoint: &Checkpoint,
) -> Result<Vec<Path>, EmitError> {
    let objects = match checkpoint {
        Checkpoint::At(position) => {
            store.list_with_offset(Some(&folder), &folder.clone().join(name(position)))
        }
        _ => store.list(Some(&folder)),
    };
    objects.map_ok(|object| object.location).try_collect().await.map_err(EmitError::unavailable)
}

/// A position as part of a name, in the order of positions.
fn name(position: &Position) -> String {
    let (sequence, sub_sequence) = (position.sequence.as_str(), position.sub_sequence.max(0));
    format!("{sequence:0>SEQUENCE_DIGITS$}-{sub_sequence:0>SUB_SEQUENCE_DIGITS$}")
}

/// The range of a batch's object; none if it is none.
fn range(object: &str) -> Option<RangeInclusive<Position>> {
    let (last, first) = object.split_once('_')?;
    Some(position(first)?..=position(last)?)
}

fn position(name: &str) -> Option<Position> {
    let (sequence, sub_sequence) = name.split_once('-')?;
    let sequence = sequence.trim_start_matches('0');
    let sequence = if sequence.is_empty() { "0" } else { sequence };
    Some(Position::new(sequence.parse().ok()?, sub_sequence.parse().ok()?))
}
