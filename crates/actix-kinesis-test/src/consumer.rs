//! A consumer of a test's stream, and what a test waits for.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::time::{Duration, Instant};

use actix_kinesis::consumer::{
    ConsumerBuilder, ConsumerError, ConsumerNotice, KinesisConsumer, LeaseStore, Stopped,
};
use futures::FutureExt;
use kinesis_aws::DynamoLeaseStore;
use kinesis_lease::{Lease, StoreError};
use kinesis_local::faults::FaultHandle;
use kinesis_record::{Checkpoint, Position, ShardId};

use crate::fate::{Fate, Fates};
use crate::process::Process;
use crate::record::Record;
use crate::report::{Report, listed};
use crate::seen::Seen;
use crate::stream::TestStream;

/// The least pause between two looks at whether a condition holds.
const PAUSE: Duration = Duration::from_millis(10);

const LEASE_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A consumer under test: the real one, in an actix system of its own.
///
/// What it waits for, it waits for with the patience of its stream. All that concern the records of the stream
/// regard them from the oldest one on, and go by what all consumers with the same lease table did, those before
/// this one included.
///
/// Its drop is a [crash](Self::crash).
pub struct TestConsumer {
    // Ends before what it talks to.
    process: Process,
    handle: KinesisConsumer,
    stream: TestStream,
    number: usize,
    table: String,
}

/// Why a condition does not hold.
enum Lacking {
    /// It may hold later.
    Yet(String),
    /// It never will.
    ForGood(String),
}

impl TestConsumer {
    pub(crate) async fn start(stream: TestStream, builder: ConsumerBuilder) -> Self {
        let log = stream.world.log.clone();
        let number = log.next_consumer();
        let started = Process::start(|token| {
            let log = log.clone();
            builder.observer(move |observation| {
                let _for_as_long_as_this_lives = &token;
                log.note(number, observation);
            })
        });
        let (process, handle) =
            started.await.unwrap_or_else(|error| panic!("the consumer does not start: {error}"));
        let status = handle.status();
        assert_eq!(
            status.stream, stream.name,
            "the settings name another stream than the one that consumes them"
        );
        log.set_table(number, &status.table);
        Self { stream, handle, process, number, table: status.table }
    }

    /// The consumer itself: its status, its worker id, and stops of other kinds than [`stop`](Self::stop).
    pub fn handle(&self) -> &KinesisConsumer {
        &self.handle
    }

    /// What this consumer has done.
    pub fn seen(&self) -> Seen {
        self.related(self.stream.world.log.seen_of(self.number))
    }

    /// What all consumers with the same lease table have done: this one, others, and those that were before it.
    pub fn seen_by_all(&self) -> Seen {
        self.related(self.stream.world.log.seen_with(&self.table))
    }

    /// The rows of the lease table by shard: how far each shard is stored, and who reads it. None before the table is
    /// made.
    ///
    /// # Panics
    /// When the table cannot be read.
    pub async fn leases(&self) -> BTreeMap<ShardId, Lease> {
        let (clients, stream) = (&self.stream.world.clients, self.stream.name());
        let store = DynamoLeaseStore::new(clients, &self.table, stream, LEASE_CALL_TIMEOUT);
        match self.stream.world.background.run(async move { store.scan().await }).await {
            Ok(scan) => scan.leases.into_iter().map(|row| (row.shard.clone(), row)).collect(),
            Err(StoreError::TableMissing(_)) => BTreeMap::new(),
            Err(error) => panic!("{error}"),
        }
    }

    /// How far a shard is stored; none before it has a row in the lease table.
    ///
    /// # Panics
    /// As [`leases`](Self::leases).
    pub async fn checkpoint(&self, shard: impl AsRef<str>) -> Option<Checkpoint> {
        self.leases().await.remove(shard.as_ref()).map(|row| row.checkpoint)
    }

    /// Waits until this consumer has made so many deliveries, repeated ones included. Then they go to the mailbox of
    /// the processor; its handler may not have seen them yet.
    ///
    /// # Panics
    /// When they do not come in time, or the consumer ends before: with what is missing, the last failures and
    /// notices, and the state of each shard.
    #[track_caller]
    pub fn until_deliveries(&self, count: usize) -> impl Future<Output = Seen> {
        self.wait(format!("there are {count} deliveries"), async move || {
            let seen = self.seen();
            let made = seen.deliveries.len();
            if made >= count { Ok(seen) } else { Err(Lacking::Yet(format!("{made} deliveries"))) }
        })
    }

    /// Waits until each record of the stream has been delivered, to the mailbox of the processor.
    ///
    /// # Panics
    /// As [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_all_delivered(&self) -> impl Future<Output = ()> {
        self.wait("each record is delivered", async || self.all_records(Fate::is_delivered))
    }

    /// Waits until each record of the stream is settled: processed, skipped, or openly given up.
    ///
    /// # Panics
    /// As [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_all_settled(&self) -> impl Future<Output = ()> {
        self.wait("each record is settled", async || self.all_records(Fate::is_settled))
    }

    /// Waits until each record of the stream is processed.
    ///
    /// # Panics
    /// When that cannot be any more, since a record was skipped or given up, and as
    /// [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_all_processed(&self) -> impl Future<Output = ()> {
        self.wait("each record is processed", async || match self.all_records(Fate::is_settled) {
            Ok(()) => self.all_records(Fate::is_processed).map_err(|lacking| match lacking {
                Lacking::Yet(missing) | Lacking::ForGood(missing) => Lacking::ForGood(missing),
            }),
            Err(_) => self.all_records(Fate::is_processed),
        })
    }

    /// Waits until each record of the stream lies at or before the checkpoint of its shard in the lease table. That
    /// it was processed is another thing: see [`until_all_processed`](Self::until_all_processed).
    ///
    /// # Panics
    /// As [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_all_checkpointed(&self) -> impl Future<Output = ()> {
        self.wait("the last record of each shard is checkpointed", async || {
            let mut last: BTreeMap<ShardId, Position> = BTreeMap::new();
            for record in self.stream.records() {
                last.insert(record.shard, record.position);
            }
            let rows = self.leases().await;
            let behind = last.into_iter().filter_map(|(shard, position)| {
                let stored = rows.get(&shard).map(|row| row.checkpoint.clone());
                let is_behind =
                    stored.as_ref().is_none_or(|stored| *stored < Checkpoint::At(position.clone()));
                let stored = stored.map_or("no row".to_owned(), |stored| stored.to_string());
                is_behind.then(|| format!("{shard}: stored {stored}, last record {position}"))
            });
            none_of("shards are behind", behind.collect())
        })
    }

    /// Waits until everything in a closed shard is processed and `SHARD_END` is in the lease table.
    ///
    /// # Panics
    /// As [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_shard_ended(&self, shard: impl AsRef<str>) -> impl Future<Output = ()> {
        let shard = ShardId::new(shard.as_ref());
        let what = format!("SHARD_END is stored for {shard}");
        self.wait(what, async move || match self.checkpoint(&shard).await {
            Some(Checkpoint::ShardEnd) => Ok(()),
            Some(stored) => Err(Lacking::Yet(format!("its checkpoint is {stored}"))),
            None => Err(Lacking::Yet("it has no row".to_owned())),
        })
    }

    /// Waits until the rows of the lease table are as wanted, and gives them. `what` names it where it does not come.
    ///
    /// # Panics
    /// As [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_leases(
        &self,
        what: &str,
        is_so: impl Fn(&BTreeMap<ShardId, Lease>) -> bool,
    ) -> impl Future<Output = BTreeMap<ShardId, Lease>> {
        self.wait(what, async move || {
            let rows = self.leases().await;
            if is_so(&rows) { Ok(rows) } else { Err(Lacking::Yet("the rows are others".to_owned())) }
        })
    }

    /// Waits until a fault has struck so many calls.
    ///
    /// # Panics
    /// As [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_fired(&self, fault: &FaultHandle, times: u64) -> impl Future<Output = ()> {
        self.wait(format!("the fault has struck {times} calls"), async move || match fault.fired() {
            fired if fired >= times => Ok(()),
            fired => Err(Lacking::Yet(format!("{fired} calls"))),
        })
    }

    /// Waits until this consumer has given a notice of some kind, which may have been before, and gives the first
    /// one. `what` names it where it does not come.
    ///
    /// # Panics
    /// As [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_notice(
        &self,
        what: &str,
        is_it: impl Fn(&ConsumerNotice) -> bool,
    ) -> impl Future<Output = ConsumerNotice> {
        self.wait(format!("there is a notice: {what}"), async move || {
            let found = self.seen().notices.into_iter().find(&is_it);
            found.ok_or_else(|| Lacking::Yet("no such notice".to_owned()))
        })
    }

    /// Waits until what this consumer has done is as wanted, and gives it. `what` names it where it does not come.
    ///
    /// # Panics
    /// As [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) -> impl Future<Output = Seen> {
        self.wait(what, async move || {
            let seen = self.seen();
            if is_so(&seen) {
                return Ok(seen);
            }
            let open = seen.deliveries.iter().filter(|delivery| delivery.outcome.is_none()).count();
            let made = seen.deliveries.len();
            Err(Lacking::Yet(format!("{made} deliveries, {open} of them not answered")))
        })
    }

    /// Waits until the consumer has failed, and gives the reason.
    ///
    /// # Panics
    /// When it goes on or is stopped, as [`until_deliveries`](Self::until_deliveries).
    #[track_caller]
    pub fn until_failed(&self) -> impl Future<Output = ConsumerError> {
        self.wait("the consumer fails", async || match self.ending() {
            Some(Err(error)) => Ok(error),
            Some(Ok(_)) => Err(Lacking::ForGood("it has stopped without a failure".to_owned())),
            None => Err(Lacking::Yet("it goes on".to_owned())),
        })
    }

    /// Stops it as an application does, and makes sure that nothing was left: everything delivered is settled and
    /// stored, the leases are released. Its processors go on, and messages that they have not handled yet come to
    /// them.
    ///
    /// Stops that leave something are for [`handle`](Self::handle).
    ///
    /// # Panics
    /// When the stop leaves something, or the consumer had failed.
    #[track_caller]
    pub fn stop(&self) -> impl Future<Output = ()> {
        let place = Location::caller();
        async move {
            match self.handle.stop().await {
                Ok(stopped) if stopped.is_clean() => {}
                stopped => {
                    let lacking = match stopped {
                        Ok(stopped) => format!("it left {stopped:?}"),
                        Err(error) => format!("it has failed: {error}"),
                    };
                    self.fail(place, "not a clean stop", &lacking).await
                }
            }
        }
    }

    /// Ends it as the death of its process does: its threads end, with them the processors that a factory made
    /// there; nothing more is stored, and its leases stay as they are until they expire. Processors that the test
    /// itself started live on, with the messages that they have.
    ///
    /// # Panics
    /// When its threads do not end in time.
    pub async fn crash(&self) {
        self.process.kill();
        let died = self.stream.world.background.run_within(self.stream.patience, self.process.until_dead());
        assert!(died.await.is_some(), "the consumer's threads do not end");
    }

    /// With what the stream says of its shards; nothing if it was deleted.
    fn related(&self, seen: Seen) -> Seen {
        let shards = self.stream.aws().shards(self.stream.name()).unwrap_or_default();
        Seen { parents: shards.into_iter().map(|shard| (shard.id, shard.parents)).collect(), ..seen }
    }

    /// How it ended, if it has.
    fn ending(&self) -> Option<Result<Stopped, ConsumerError>> {
        self.handle.finished().now_or_never()
    }

    fn all_records(&self, is_as_wanted: impl Fn(&Fate) -> bool) -> Result<(), Lacking> {
        let seen = self.seen_by_all();
        let fates = Fates::of(&seen);
        let records = self.stream.records();
        let wanted: Vec<&Record> = records.iter().filter(|record| !record.is_misplaced).collect();
        let missing = wanted.iter().filter_map(|record| {
            let fate = fates.of_record(record);
            (!is_as_wanted(&fate)).then(|| format!("{record}: {fate}"))
        });
        none_of(&format!("of {} records are missing", wanted.len()), missing.collect())
    }

    /// Waits for a condition. The caller's place is in the panic, since that of a future's own is here.
    #[track_caller]
    fn wait<T>(
        &self,
        what: impl Into<String>,
        mut look: impl AsyncFnMut() -> Result<T, Lacking>,
    ) -> impl Future<Output = T> {
        let (place, what) = (Location::caller(), what.into());
        async move {
            let began = Instant::now();
            loop {
                // Before the look: what happened before the end is seen.
                let ending = self.ending();
                let looked = Instant::now();
                let (lacking, title) = match look().await {
                    Ok(found) => return found,
                    Err(Lacking::ForGood(lacking)) => (lacking, format!("it cannot be any more that {what}")),
                    Err(Lacking::Yet(lacking)) => match ending {
                        Some(Ok(_)) => (lacking, format!("the consumer has stopped before {what}")),
                        Some(Err(error)) => {
                            (lacking, format!("the consumer has failed before {what}: {error}"))
                        }
                        None if began.elapsed() < self.stream.patience => {
                            // Looks through a long stream leave most of the time to what is looked at.
                            self.stream.world.background.sleep(PAUSE.max(looked.elapsed() * 4)).await;
                            continue;
                        }
                        None => (lacking, format!("waited {:?} in vain until {what}", self.stream.patience)),
                    },
                };
                self.fail(place, &title, &lacking).await;
            }
        }
    }

    async fn fail(&self, place: &Location<'_>, title: &str, lacking: &str) -> ! {
        let (seen, status, leases) = (self.seen_by_all(), self.handle.status(), self.leases().await);
        panic!("{}", Report { place, title, lacking, seen, status, leases });
    }
}

impl fmt::Debug for TestConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestConsumer").field("handle", &self.handle).finish_non_exhaustive()
    }
}

fn none_of(what: &str, found: Vec<String>) -> Result<(), Lacking> {
    if found.is_empty() {
        Ok(())
    } else {
        Err(Lacking::Yet(format!("{} {what}:{}", found.len(), listed(&found))))
    }
}
