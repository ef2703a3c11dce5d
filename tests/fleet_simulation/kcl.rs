//! A worker of the Java KCL 2.x on the same table. It knows nothing of asking: it takes leases off whoever has most, and
//! the former owner learns of it at its next renewal.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_kinesis::consumer::World;
use actix_kinesis_test::check::Event;
use kinesis_lease::lease::{Lease, NewLease, WorkerId};
use kinesis_lease::stream::{RawRecord, ShardIterator, StartAt};
use kinesis_record::aggregation::{Deaggregated, deaggregate};
use kinesis_record::{Checkpoint, Position, ShardId};
use tokio::time::{Instant, sleep};

use crate::process::FAILOVER;
use crate::trace::Trace;
use crate::world::Place;

const SECOND: Duration = Duration::from_secs(1);

/// A worker, for as long as it lives.
pub(crate) struct Kcl {
    place: Place,
    trace: Trace,
    name: String,
    world: World,
    chance: fastrand::Rng,
    /// The counters of all leases, and since when they stand still.
    seen: BTreeMap<ShardId, (i64, Instant)>,
    held: BTreeMap<ShardId, Reading>,
}

/// A lease that it has, as far as it knows.
struct Reading {
    counter: i64,
    renewed: Instant,
    checkpoint: Checkpoint,
    iterator: Option<ShardIterator>,
}

impl Kcl {
    pub(crate) fn new(place: Place, trace: Trace, name: String, chance: fastrand::Rng) -> Self {
        let (world, _) = place.connect_as(&name);
        Self { place, trace, name, world, chance, seen: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// Works for so long, then gives its leases up or dies with them.
    pub(crate) async fn run(mut self, time: Duration, is_polite: bool) {
        let end = Instant::now() + time;
        let mut take_at = Instant::now();
        while Instant::now() < end {
            if take_at <= Instant::now() {
                self.take();
                take_at += 2 * FAILOVER;
            }
            for shard in self.held.keys().cloned().collect::<Vec<_>>() {
                if self.go_on(&shard).await.is_none() {
                    self.held.remove(&shard);
                }
            }
            sleep(SECOND).await;
        }
        if is_polite {
            for (shard, reading) in std::mem::take(&mut self.held) {
                self.place.change_as(&self.name, &shard, reading.counter, |row| row.owner = None);
            }
            self.trace.tell(&self.name, Event::Stopped { clean: true });
        } else {
            self.trace.tell(&self.name, Event::Crashed);
        }
    }

    /// Takes what has expired, up to its share, or else one lease of whoever has most. Finished shards count.
    fn take(&mut self) {
        let now = Instant::now();
        let rows: Vec<Lease> = self.place.rows().values().cloned().collect();
        let mut loads = BTreeMap::from([(WorkerId::from(self.name.as_str()), 0)]);
        let mut free = Vec::new();
        for row in &rows {
            let seen = self.seen.entry(row.shard.clone()).or_insert((row.counter, now));
            if seen.0 != row.counter {
                *seen = (row.counter, now);
            }
            match &row.owner {
                Some(owner) if seen.1 + FAILOVER >= now => *loads.entry(owner.clone()).or_default() += 1,
                _ => free.push(row),
            }
        }
        let share = rows.len().div_ceil(loads.len());
        let missing = share.saturating_sub(self.held.len());
        if free.is_empty() && missing > 0 {
            let most = loads.iter().max_by_key(|(_, load)| **load);
            let most = most.filter(|(_, load)| **load > share || **load == share && missing > 1);
            let of_owner = rows.iter().filter(|row| row.owner.as_ref() == most.map(|(owner, _)| owner));
            if let Some(stolen) = self.chance.choice(of_owner.collect::<Vec<_>>()) {
                self.take_lease(stolen);
            }
        }
        self.chance.shuffle(&mut free);
        free.into_iter().take(missing).for_each(|row| self.take_lease(row));
    }

    /// Leaves in the row what no KCL 2.x knows.
    fn take_lease(&mut self, row: &Lease) {
        let name = self.name.as_str();
        let is_taken = self.place.change_as(name, &row.shard, row.counter, |row| {
            row.owner = Some(name.into());
            row.owner_switches += 1;
        });
        if is_taken {
            let (shard, checkpoint) = (row.shard.to_string(), row.checkpoint.clone());
            if !row.is_finished() {
                let checkpoint = checkpoint.clone();
                self.trace.tell(name, Event::ShardStarted { shard, checkpoint, token: None });
            }
            let (counter, renewed) = (row.counter + 1, Instant::now());
            self.held.insert(row.shard.clone(), Reading { counter, renewed, checkpoint, iterator: None });
        }
    }

    /// Renews the lease if that is due, and processes a page. Nothing is returned if the lease is not its own any more,
    /// or of no use.
    async fn go_on(&mut self, shard: &ShardId) -> Option<()> {
        let reading = self.held.get(shard)?;
        if reading.renewed + FAILOVER / 3 <= Instant::now() {
            self.write(shard, |_| ())?;
        }
        let row = self.place.rows().get(shard)?.clone();
        let is_open = |parent: &ShardId| self.place.rows().get(parent).is_some_and(|row| !row.is_finished());
        if row.is_finished() || row.parents.iter().any(is_open) {
            return Some(());
        }
        let iterator = match self.held.get(shard)?.iterator.clone() {
            Some(iterator) => iterator,
            None => self.world.stream.shard_iterator(shard, &start(&row.checkpoint)).await.ok()?,
        };
        let page = self.world.stream.get_records(&iterator, 20).await.ok()?;
        let mut last = None;
        for record in &page.records {
            for (position, key) in user_records(record) {
                if Checkpoint::At(position.clone()) > self.held.get(shard)?.checkpoint {
                    self.process(shard, &position, key);
                    last = Some(Checkpoint::At(position));
                }
            }
        }
        if let Some(last) = last {
            self.held.get_mut(shard)?.checkpoint = last.clone();
            self.write(shard, |row| row.checkpoint = last)?;
        }
        if page.next.is_none() {
            for child in page.children.iter().cloned() {
                let new = NewLease::new(child, Checkpoint::TrimHorizon);
                self.world.leases.create(&new).await.ok()?;
            }
            self.write(shard, |row| {
                row.checkpoint = Checkpoint::ShardEnd;
                row.children = page.children.iter().map(|child| child.id.clone()).collect();
            })?;
            return None;
        }
        self.held.get_mut(shard)?.iterator = page.next;
        Some(())
    }

    fn write(&mut self, shard: &ShardId, change: impl FnOnce(&mut Lease)) -> Option<()> {
        let reading = self.held.get_mut(shard)?;
        if !self.place.change_as(&self.name, shard, reading.counter, change) {
            self.trace.tell(&self.name, Event::LeaseLost { shard: shard.to_string() });
            return None;
        }
        reading.counter += 1;
        reading.renewed = Instant::now();
        Some(())
    }

    fn process(&self, shard: &ShardId, position: &Position, pk: Option<String>) {
        let (shard, seq, sub) = (shard.to_string(), position.sequence.clone(), position.sub_sequence);
        let delivery = Event::Delivery {
            shard: shard.clone(),
            seq: seq.clone(),
            sub,
            pk,
            ehk: None,
            attempt: 1,
            token: None,
        };
        self.trace.tell(&self.name, delivery);
        self.trace.tell(&self.name, Event::Answer { shard, seq, sub, done: true });
    }
}

fn start(checkpoint: &Checkpoint) -> StartAt {
    match checkpoint {
        Checkpoint::At(position) => StartAt::At(position.sequence.clone()),
        _ => StartAt::TrimHorizon,
    }
}

fn user_records(record: &RawRecord) -> Vec<(Position, Option<String>)> {
    let at = |sub| Position::new(record.sequence.clone(), sub);
    match deaggregate(&record.data, None) {
        Deaggregated::Aggregated { records, .. } => {
            let one = |user: kinesis_record::aggregation::UserRecord| {
                (at(user.sub_sequence), Some(user.partition_key.to_string()))
            };
            records.into_iter().map(one).collect()
        }
        _ => vec![(at(0), record.partition_key.clone())],
    }
}
