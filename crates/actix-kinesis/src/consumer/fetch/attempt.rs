//! One attempt to read on, and what a reply or a refusal means for the shard.

use kinesis_lease::lineage::ShardList;
use kinesis_lease::stream::{ChildShard, RecordsPage, ShardIterator, StreamError, StreamErrorKind};
use kinesis_record::ShardId;
use tokio::time::sleep;
use tracing::{debug, info};

use super::cursor::Misplaced;
use super::pace::Pace;
use super::{Fetcher, bytes_of};

/// What an attempt brought.
pub(super) struct Fetched {
    pub(super) page: RecordsPage,
    /// Nothing comes behind the page, ever. These shards came from this one.
    pub(super) end: Option<Vec<ChildShard>>,
}

impl Fetched {
    fn end(children: Vec<ChildShard>) -> Self {
        let nothing = RecordsPage {
            records: Vec::new(),
            next: None,
            behind: std::time::Duration::ZERO,
            children: Vec::new(),
        };
        Self { page: nothing, end: Some(children) }
    }
}

/// Why an attempt brought nothing.
#[derive(Debug)]
pub(super) enum Setback {
    /// The next attempt may succeed.
    Passing(StreamError),
    /// None will.
    Misplaced(Misplaced),
}

impl From<StreamError> for Setback {
    fn from(error: StreamError) -> Self {
        Self::Passing(error)
    }
}

impl Fetcher {
    /// Reads one page. After a failure the next attempt goes on at the same place: nothing is skipped by one.
    pub(super) async fn attempt(&mut self, limit: u32, pace: &mut Pace) -> Result<Fetched, Setback> {
        let iterator = match self.cursor.iterator() {
            Some(iterator) => iterator.clone(),
            None => match self.open().await {
                Ok(iterator) => iterator,
                Err(error) => return self.not_opened(error).await,
            },
        };
        let error = match self.api.get_records(&iterator, limit).await {
            Ok(page) => {
                pace.read(bytes_of(&page));
                return self.read(page).await;
            }
            Err(error) => error,
        };
        match error.kind {
            StreamErrorKind::ExpiredIterator | StreamErrorKind::InvalidArgument => {
                debug!(shard = %self.shard, "iterator refused, opening another behind the last record fetched");
                self.cursor.close();
                Err(error.into())
            }
            StreamErrorKind::NotFound => {
                self.cursor.close();
                self.if_gone(error).await
            }
            _ => Err(error.into()),
        }
    }

    async fn open(&mut self) -> Result<ShardIterator, StreamError> {
        if let Some(wait) = self.cursor.too_early() {
            info!(shard = %self.shard, ?wait, "the instant to read from has not come yet");
            sleep(wait).await;
        }
        let iterator = self.api.shard_iterator(&self.shard, self.cursor.start()).await?;
        Ok(self.cursor.opened(iterator))
    }

    /// A reply without a next iterator is the end if it names children. Otherwise it may be a slip of the service: it
    /// is the end only if the stream shows the shard closed, and an iterator opened anew brings nothing more.
    async fn read(&mut self, page: RecordsPage) -> Result<Fetched, Setback> {
        if page.next.is_some() {
            return self.fetched(page, None);
        }
        let is_told = !page.children.is_empty();
        if !page.records.is_empty() || is_told && self.cursor.unseen().is_none() {
            let end = is_told.then(|| page.children.clone());
            return self.fetched(page, end);
        }
        let shards = self.list().await?;
        let Some(shard) = shards.get(&self.shard) else {
            return Ok(self.gone(&shards));
        };
        let children = if is_told { page.children.clone() } else { children_of(&self.shard, &shards) };
        if !is_told && (shard.is_open() || !self.cursor.was_severed()) {
            self.fetched(page, None)?;
            return Err(passing(format!("a reply without an iterator for shard {}", shard.id)).into());
        }
        if children.is_empty() {
            return Err(self.childless().into());
        }
        if self.cursor.unseen().is_some() && !self.cursor.is_behind_the_last_record_of(shard) {
            self.gap(
                "the record at the stored position is gone, and the shard ends without another".to_owned(),
            );
        }
        self.fetched(page, Some(children))
    }

    fn fetched(&mut self, page: RecordsPage, end: Option<Vec<ChildShard>>) -> Result<Fetched, Setback> {
        if let Some(gap) = self.cursor.advance(&page).map_err(Setback::Misplaced)? {
            self.gap(gap);
        }
        Ok(Fetched { page, end })
    }

    /// GetShardIterator failed.
    async fn not_opened(&mut self, error: StreamError) -> Result<Fetched, Setback> {
        match error.kind {
            StreamErrorKind::NotFound => self.if_gone(error).await,
            StreamErrorKind::InvalidArgument if self.cursor.is_at_a_record() => {
                self.if_behind_the_end(error).await
            }
            _ => Err(error.into()),
        }
    }

    /// The service does not know the place: no record can come behind it, or it has expired, or it never was one of this
    /// stream. Which of the last two the oldest record will show.
    async fn if_behind_the_end(&mut self, error: StreamError) -> Result<Fetched, Setback> {
        let shards = self.list().await?;
        let listed = shards.get(&self.shard);
        if listed.is_some_and(|shard| self.cursor.is_at_the_end_of(shard)) {
            let children = children_of(&self.shard, &shards);
            return if children.is_empty() {
                Err(self.childless().into())
            } else {
                Ok(Fetched::end(children))
            };
        }
        self.cursor.refused();
        Err(error.into())
    }

    async fn if_gone(&mut self, error: StreamError) -> Result<Fetched, Setback> {
        let shards = self.list().await?;
        if shards.get(&self.shard).is_some() {
            return Err(passing(format!("{error}, yet the stream shows the shard")).into());
        }
        Ok(self.gone(&shards))
    }

    /// A shard that a complete list does not show is gone, and all that was in it.
    fn gone(&self, shards: &ShardList) -> Fetched {
        self.gap("the shard is no longer in the stream: what was not read of it has expired".to_owned());
        Fetched::end(children_of(&self.shard, shards))
    }

    async fn list(&self) -> Result<ShardList, StreamError> {
        ShardList::complete(self.api.list_shards().await?)
    }

    fn childless(&self) -> StreamError {
        passing(format!("shard {} is closed, but the stream does not name its children yet", self.shard))
    }
}

fn passing(message: String) -> StreamError {
    StreamError { kind: StreamErrorKind::Unavailable, message }
}

fn children_of(shard: &ShardId, shards: &ShardList) -> Vec<ChildShard> {
    shards.children(shard).map(ChildShard::from).collect()
}
