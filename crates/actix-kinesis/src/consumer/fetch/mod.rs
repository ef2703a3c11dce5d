//! Reads a shard's records ahead of its worker.

mod attempt;
mod cursor;
mod episode;
mod pace;
mod page;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use actix::Recipient;
use kinesis_lease::stream::{RecordsPage, StreamApi};
use kinesis_record::ShardId;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{error, warn};

use super::notice::ConsumerNotice;
use super::notifier::Notifier;
use super::status::Gauges;
use super::tracker::PageItem;
use super::worker::{PageFetched, PositionRefused, ShardDrained};
use crate::config::PollingConf;
use attempt::{Fetched, Setback};
pub(crate) use cursor::{Cursor, Misplaced};
use episode::Episode;
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
    /// Where pages go.
    pub(crate) pages: Recipient<PageFetched>,
    /// Where the shard's end is told, after the last page.
    pub(crate) end: Recipient<ShardDrained>,
    /// Where it is told that the stored position is none of the stream.
    pub(crate) misplaced: Recipient<PositionRefused>,
    pub(crate) conf: PollingConf,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) notifier: Notifier,
    pub(crate) random: fastrand::Rng,
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
            let limit = (room / record_cost).clamp(1, u64::from(self.conf.max_records)) as u32;
            let Fetched { page, end } = match self.next(limit, &mut pace).await {
                Ok(fetched) => fetched,
                Err(misplaced) => {
                    let _ = self.misplaced.send(PositionRefused(misplaced)).await;
                    return;
                }
            };
            self.gauges.set_behind(page.behind);
            let is_caught_up = page.behind.is_zero() && page.next.is_some();
            let (records, bytes) = (page.records.len() as u64, bytes_of(&page));
            self.gauges.fetched_bytes.add(bytes);
            let unpacked = self.unpacker.unpack(page);
            self.report(&unpacked);
            if let Some(cost) = cost_of(&unpacked.items).max(bytes).checked_div(records) {
                record_cost = cost.max(1);
            }
            if !unpacked.items.is_empty()
                && self.pages.send(PageFetched { items: unpacked.items }).await.is_err()
            {
                return;
            }
            if let Some(children) = end {
                // A worker that has stopped meanwhile ends the shard no more.
                let _ = self.end.send(ShardDrained { children }).await;
                return;
            }
            if is_caught_up {
                sleep(self.conf.idle_time).await;
            }
        }
    }

    /// The next page, or the end: whatever fails meanwhile is tried again until it works, unless it never will.
    async fn next(&mut self, limit: u32, pace: &mut Pace) -> Result<Fetched, Misplaced> {
        let mut episode = Episode::new(self.shard.clone(), self.random.fork());
        loop {
            pace.wait().await;
            match self.attempt(limit, pace).await {
                Ok(fetched) => {
                    episode.end();
                    return Ok(fetched);
                }
                Err(Setback::Misplaced(misplaced)) => return Err(misplaced),
                Err(Setback::Passing(failure)) => {
                    self.gauges.set_last_error(failure.to_string());
                    sleep(episode.failed(&failure)).await;
                }
            }
        }
    }

    fn gap(&self, detail: String) {
        error!(shard = %self.shard, detail, "gap: records may have expired before they were read");
        self.notifier.notify(ConsumerNotice::Gap { shard: self.shard.clone(), detail });
    }

    fn report(&self, unpacked: &page::Unpacked) {
        if let Some(first) = unpacked.left_out.first() {
            let count = unpacked.left_out.len();
            self.gauges.left_out.add(count as u64);
            warn!(
                shard = %self.shard, count, %first,
                "user records left out: their hash keys belong to another shard"
            );
            let positions = unpacked.left_out.clone();
            self.notifier.notify(ConsumerNotice::RecordsLeftOut { shard: self.shard.clone(), positions });
        }
        if let Some((first, cause)) = unpacked.broken.first() {
            let count = unpacked.broken.len();
            self.gauges.broken_aggregates.add(count as u64);
            warn!(
                shard = %self.shard, count, first = %first.position(), cause,
                "aggregated records that cannot be taken apart are delivered whole"
            );
        }
        for (event, cause) in &unpacked.broken {
            let (event, cause) = (event.clone(), cause.clone());
            self.notifier.notify(ConsumerNotice::AggregateBroken { event, cause });
        }
    }
}

fn cost_of(items: &[PageItem]) -> u64 {
    items.iter().map(|item| item.cost() as u64).sum()
}

fn bytes_of(page: &RecordsPage) -> u64 {
    page.records.iter().map(|record| record.data.len() as u64).sum()
}
