//! Reads a shard's records ahead of its worker.

mod cursor;
mod pace;
mod page;

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use kinesis_lease::stream::{ChildShard, RecordsPage, StreamApi, StreamError, StreamErrorKind};
use kinesis_record::{Shard, ShardId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, error, info, warn};

use super::backoff::Backoff;
use super::notice::ConsumerNotice;
use super::notifier::Notifier;
use super::status::Gauges;
use super::tracker::PageItem;
use super::worker::{ConsumerWorker, PageFetched, ShardDrained};
use crate::config::PollingConf;

pub(crate) use cursor::Cursor;
use pace::Pace;
pub(crate) use page::Unpacker;

/// Before anything is known of a shard's records, each is taken to need so much memory.
const ASSUMED_RECORD_COST: u64 = 16 * 1024;

/// Polls one shard by GetRecords and sends its worker page after page, as far ahead as there is room.
pub(crate) struct Fetcher {
    pub(crate) api: Arc<dyn StreamApi>,
    pub(crate) shard: ShardId,
    pub(crate) cursor: Cursor,
    pub(crate) unpacker: Unpacker,
    /// How many bytes the worker has room for.
    pub(crate) room: watch::Receiver<u64>,
    pub(crate) worker: Addr<ConsumerWorker>,
    pub(crate) conf: PollingConf,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) notifier: Notifier,
    pub(crate) random: fastrand::Rng,
}

/// What comes next of a shard.
enum Next {
    Page(RecordsPage),
    End(Vec<ChildShard>),
}

impl Fetcher {
    /// Reads until the shard ends or its worker stops.
    pub(crate) async fn run(mut self) {
        let mut pace = Pace::new(Instant::now());
        let mut record_cost = ASSUMED_RECORD_COST;
        loop {
            let room = match self.room.wait_for(|room| *room > 0).await {
                Ok(room) => *room,
                Err(_) => return,
            };
            pace.wait().await;
            let limit = (room / record_cost).clamp(1, u64::from(self.conf.max_records)) as u32;
            let page = match self.next(limit, &mut pace).await {
                Next::Page(page) => page,
                Next::End(children) => {
                    // A worker that has stopped meanwhile ends the shard no more.
                    let _ = self.worker.send(ShardDrained { children }).await;
                    return;
                }
            };
            let records = page.records.len() as u64;
            pace.read(page.records.iter().map(|record| record.data.len() as u64).sum());
            self.gauges.set_behind(page.behind);
            let is_caught_up = page.behind.is_zero();
            let unpacked = self.unpacker.unpack(page);
            self.report(&unpacked);
            if let Some(cost) = cost_of(&unpacked.items).checked_div(records) {
                record_cost = cost.max(1);
            }
            if !unpacked.items.is_empty()
                && self.worker.send(PageFetched { items: unpacked.items }).await.is_err()
            {
                return;
            }
            if is_caught_up {
                sleep(self.conf.idle_time).await;
            }
        }
    }

    /// The next page, or the end: whatever fails meanwhile is tried again until it works.
    async fn next(&mut self, limit: u32, pace: &mut Pace) -> Next {
        let mut backoff =
            Backoff::new(Duration::from_millis(200), Duration::from_secs(10), self.random.fork());
        loop {
            match self.attempt(limit).await {
                Ok(next) => {
                    if backoff.failures() > 0 {
                        info!(shard = %self.shard, failures = backoff.failures(), "reading again");
                    }
                    return next;
                }
                Err(failure) => {
                    self.log(&failure, backoff.failures());
                    sleep(backoff.next_pause()).await;
                    pace.wait().await;
                }
            }
        }
    }

    async fn attempt(&mut self, limit: u32) -> Result<Next, StreamError> {
        if let Some(children) = self.cursor.end() {
            return Ok(Next::End(children));
        }
        let iterator = match self.cursor.iterator() {
            Some(iterator) => iterator.clone(),
            None => {
                let start = self.cursor.start();
                match self.api.shard_iterator(&self.shard, &start).await {
                    Ok(iterator) => self.cursor.opened(iterator),
                    Err(error) => return self.not_opened(error).await,
                }
            }
        };
        match self.api.get_records(&iterator, limit).await {
            Ok(page) => {
                if page.next.is_none() && page.children.is_empty() {
                    return self.without_successor(page).await;
                }
                if let Some(gap) = self.cursor.advance(&page) {
                    self.gap(gap);
                }
                Ok(match &page.next {
                    Some(_) => Next::Page(page),
                    None => {
                        let children = page.children.clone();
                        self.ended(page, children)
                    }
                })
            }
            Err(error) if error.kind == StreamErrorKind::ExpiredIterator => {
                debug!(shard = %self.shard, "iterator expired, opening another behind the last record fetched");
                self.cursor.close();
                Err(error)
            }
            Err(error) if error.kind == StreamErrorKind::NotFound => {
                self.cursor.close();
                self.if_gone(error).await
            }
            Err(error) => {
                if error.kind == StreamErrorKind::InvalidArgument {
                    self.cursor.close();
                }
                Err(error)
            }
        }
    }

    /// A reply without a next iterator that names no children: the end only if the stream shows the shard closed.
    async fn without_successor(&mut self, page: RecordsPage) -> Result<Next, StreamError> {
        let shards = self.api.list_shards().await?;
        let Some(shard) = shards.iter().find(|shard| shard.id == self.shard) else {
            self.cursor.advance(&page);
            return Ok(self.ended(page, Vec::new()));
        };
        if shard.is_open() {
            warn!(shard = %self.shard, "a reply without a next iterator for an open shard, reading on");
            self.cursor.advance(&page);
            self.cursor.close();
            return Ok(Next::Page(page));
        }
        let children = children_of(&self.shard, &shards);
        if children.is_empty() {
            return Err(StreamError {
                kind: StreamErrorKind::Unavailable,
                message: format!(
                    "shard {} is closed, but the stream does not name its children yet",
                    self.shard
                ),
            });
        }
        self.cursor.advance(&page);
        Ok(self.ended(page, children))
    }

    fn ended(&mut self, page: RecordsPage, children: Vec<ChildShard>) -> Next {
        if page.records.is_empty() {
            Next::End(children)
        } else {
            self.cursor.ends_with(children);
            Next::Page(page)
        }
    }

    /// GetShardIterator failed.
    async fn not_opened(&mut self, error: StreamError) -> Result<Next, StreamError> {
        match error.kind {
            StreamErrorKind::NotFound => self.if_gone(error).await,
            StreamErrorKind::InvalidArgument => {
                let shards = self.api.list_shards().await?;
                let shard = shards.iter().find(|shard| shard.id == self.shard);
                if shard.is_some_and(|shard| self.cursor.is_behind_the_last_record_of(shard)) {
                    return Ok(Next::End(children_of(&self.shard, &shards)));
                }
                match self.cursor.fall_back() {
                    Some(refused) => {
                        self.gap(format!(
                            "position {refused} is not known to the stream any more ({error}); reading goes on at \
                             the oldest record behind it"
                        ));
                        Err(error)
                    }
                    None => Err(error),
                }
            }
            _ => Err(error),
        }
    }

    /// A shard that a complete list does not show is gone, and all that was in it.
    async fn if_gone(&mut self, error: StreamError) -> Result<Next, StreamError> {
        let shards = self.api.list_shards().await?;
        if shards.is_empty() || shards.iter().any(|shard| shard.id == self.shard) {
            return Err(error);
        }
        self.gap("the shard is no longer in the stream: what was not read of it has expired".to_owned());
        Ok(Next::End(children_of(&self.shard, &shards)))
    }

    fn gap(&self, detail: String) {
        error!(shard = %self.shard, detail, "gap: records may have expired before they were read");
        self.notifier.notify(ConsumerNotice::Gap { shard: self.shard.clone(), detail });
    }

    fn report(&self, unpacked: &page::Unpacked) {
        if !unpacked.left_out.is_empty() {
            let count = unpacked.left_out.len();
            self.gauges.left_out.add(count as u64);
            warn!(
                shard = %self.shard, count, first = %unpacked.left_out[0],
                "user records left out: their hash keys belong to another shard"
            );
            let positions = unpacked.left_out.clone();
            self.notifier.notify(ConsumerNotice::RecordsLeftOut { shard: self.shard.clone(), positions });
        }
        for (event, cause) in &unpacked.broken {
            self.gauges.broken_aggregates.add(1);
            warn!(
                shard = %self.shard, position = %event.position(), cause,
                "an aggregated record that cannot be taken apart is delivered whole"
            );
            let (event, cause) = (event.clone(), cause.clone());
            self.notifier.notify(ConsumerNotice::AggregateBroken { event, cause });
        }
    }

    fn log(&self, failure: &StreamError, failures: u32) {
        let shard = &self.shard;
        match failure.kind {
            StreamErrorKind::ExpiredIterator => {}
            StreamErrorKind::Encryption | StreamErrorKind::Denied | StreamErrorKind::NotFound
                if failures == 0 =>
            {
                error!(%shard, error = %failure, "the shard cannot be read until somebody acts, trying again");
            }
            _ if failures == 1 => warn!(%shard, error = %failure, "reading fails, trying again"),
            _ => debug!(%shard, error = %failure, failures, "reading fails, trying again"),
        }
    }
}

fn cost_of(items: &[PageItem]) -> u64 {
    items.iter().map(|item| item.cost() as u64).sum()
}

fn children_of(shard: &ShardId, shards: &[Shard]) -> Vec<ChildShard> {
    shards.iter().filter(|child| child.parents.contains(shard)).map(ChildShard::from).collect()
}
