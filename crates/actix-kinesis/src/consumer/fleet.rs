//! All instances of an application, as the lease table and the stream show them to somebody who is none of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kinesis_lease::{Lease, WorkerId};
use kinesis_record::{Checkpoint, Shard, ShardId};

use super::error::ConsumerError;
use super::world::World;

/// Who reads which shard of a stream, and how far, when it was read.
///
/// ```no_run
/// use actix_kinesis::config::ConsumerConf;
/// use actix_kinesis::consumer::{ConsumerError, Fleet, World};
///
/// # async fn look() -> Result<(), ConsumerError> {
/// let conf = ConsumerConf::new("shop", "orders");
/// let world = World::connect(&conf, None).await?;
/// let before = Fleet::read(&world).await?;
/// println!("{before}");
/// tokio::time::sleep(conf.lease.failover_time).await;
/// let after = Fleet::read(&world).await?;
/// for shard in after.unrenewed_since(&before) {
///     println!("{shard}: whoever owned it is gone");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fleet {
    /// The stream.
    pub stream: String,
    /// The lease table.
    pub table: String,
    /// Whoever owns a lease of a shard that is not finished, by name, dead or alive. An instance without a lease cannot
    /// be seen.
    pub workers: Vec<FleetWorker>,
    /// The shards that the stream lists or the table has a row of, by name.
    pub shards: Vec<FleetShard>,
}

/// An instance that owns leases.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetWorker {
    /// The name under which it owns leases.
    pub worker: WorkerId,
    /// Whether it is of this library, and not of the KCL.
    pub is_peer: bool,
    /// How many leases of shards it owns that are not finished.
    pub leases: usize,
}

/// A shard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetShard {
    /// The shard.
    pub shard: ShardId,
    /// What the stream says of it.
    pub life: ShardLife,
    /// The shards that it came from, by stream and lease table together.
    pub parents: Vec<ShardId>,
    /// The shards that came from it, by stream and lease table together.
    pub children: Vec<ShardId>,
    /// Its row in the lease table. A shard has none before a worker has made it, nor after it was finished and cleaned
    /// up, nor if it was closed before a first start at the newest record.
    pub lease: Option<FleetLease>,
}

/// What a stream says of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardLife {
    /// It takes records.
    Open,
    /// It takes no more records. The last ones are retained.
    Closed,
    /// It is not in the stream any more, and nothing of it can be read.
    Gone,
}

/// A row of the lease table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetLease {
    /// The worker that reads the shard or, if it is finished, has read it; it may be dead. None if the lease is free.
    pub owner: Option<WorkerId>,
    /// Whether the owner is a worker of this library, and not of the KCL.
    pub is_peer: bool,
    /// How far the shard is processed.
    pub checkpoint: Checkpoint,
    /// `leaseCounter`: rises with each renewal, checkpoint and change of the owner.
    pub counter: i64,
    /// `ownerSwitchesSinceCheckpoint`.
    pub owner_switches: i64,
    /// Whether the owner wants another worker of this library to ask for the lease.
    pub is_offered: bool,
    /// The worker of this library that has asked the owner for the lease.
    pub asked_by: Option<WorkerId>,
    /// The worker that the leader of KCL 3.x workers wants to have the lease.
    pub promised_to: Option<WorkerId>,
}

impl FleetLease {
    /// Whether everything in the shard is processed.
    pub fn is_finished(&self) -> bool {
        self.checkpoint == Checkpoint::ShardEnd
    }
}

impl From<&Lease> for FleetLease {
    fn from(row: &Lease) -> Self {
        Self {
            owner: row.reader().cloned(),
            is_peer: row.is_read_by_peer(),
            checkpoint: row.checkpoint.clone(),
            counter: row.counter,
            owner_switches: row.owner_switches,
            // A KCL leaves what this library has written where it is.
            is_offered: row.is_offered && row.is_read_by_peer(),
            asked_by: row.asked_by.clone().filter(|_| row.is_read_by_peer()),
            promised_to: row.owner.clone().filter(|_| row.is_promised()),
        }
    }
}

impl Fleet {
    /// Reads the lease table and lists the shards, without changing anything.
    ///
    /// The table is read page by page while the instances go on, so that rows of one moment may stand beside those of
    /// the next.
    ///
    /// # Errors
    /// [`ConsumerError::LeaseTable`] if the table cannot be read, or is not there since no instance has ever started;
    /// [`ConsumerError::Stream`] if the shards cannot be listed. Nothing is tried again.
    pub async fn read(world: &World) -> Result<Self, ConsumerError> {
        let World { stream, leases } = world;
        // In this order, a shard that only the table knows is one that has left the stream.
        let rows = leases.scan().await.map_err(ConsumerError::LeaseTable)?.leases;
        let listed = stream.list_shards().await.map_err(ConsumerError::Stream)?;
        Ok(Self {
            stream: stream.name().to_owned(),
            table: leases.name().to_owned(),
            workers: workers(&rows),
            shards: shards(&rows, &listed),
        })
    }

    /// The shards whose leases have had the same owner and were not renewed since `earlier`, finished ones left out.
    ///
    /// One look at the table does not tell whether a worker lives; two do. If they lie further apart than the
    /// `failover-time` of the instances, the owners of these leases are dead or cannot reach the table, or a KCL 3.x
    /// leader has just assigned the lease.
    pub fn unrenewed_since(&self, earlier: &Self) -> Vec<ShardId> {
        let owned = |shard: &FleetShard| shard.lease.clone().filter(|lease| lease.owner.is_some());
        let former: BTreeMap<&ShardId, FleetLease> =
            earlier.shards.iter().filter_map(|shard| Some((&shard.shard, owned(shard)?))).collect();
        let is_unrenewed = |shard: &&FleetShard| {
            let lease = owned(shard).filter(|lease| !lease.is_finished());
            let former = former.get(&shard.shard);
            lease.zip(former).is_some_and(|(lease, former)| {
                (lease.counter, &lease.owner) == (former.counter, &former.owner)
            })
        };
        self.shards.iter().filter(is_unrenewed).map(|shard| shard.shard.clone()).collect()
    }
}

fn workers(rows: &[Lease]) -> Vec<FleetWorker> {
    let mut workers: BTreeMap<&WorkerId, FleetWorker> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.is_finished()) {
        let Some(worker) = row.reader() else { continue };
        let known = workers.entry(worker).or_insert_with(|| FleetWorker {
            worker: worker.clone(),
            is_peer: false,
            leases: 0,
        });
        known.is_peer |= row.is_read_by_peer();
        known.leases += 1;
    }
    workers.into_values().collect()
}

fn shards(rows: &[Lease], listed: &[Shard]) -> Vec<FleetShard> {
    let rows: BTreeMap<&ShardId, &Lease> = rows.iter().map(|row| (&row.shard, row)).collect();
    let listed: BTreeMap<&ShardId, &Shard> = listed.iter().map(|shard| (&shard.id, shard)).collect();
    let known: BTreeSet<&ShardId> = rows.keys().chain(listed.keys()).copied().collect();
    let mut parents: BTreeMap<&ShardId, BTreeSet<&ShardId>> = BTreeMap::new();
    let mut children: BTreeMap<&ShardId, BTreeSet<&ShardId>> = BTreeMap::new();
    let of_rows = rows.values().flat_map(|row| {
        let of_parents = row.parents.iter().map(|parent| (parent, &row.shard));
        of_parents.chain(row.children.iter().map(|child| (&row.shard, child)))
    });
    let of_list = listed.values().flat_map(|shard| shard.parents.iter().map(|parent| (parent, &shard.id)));
    for (parent, child) in of_rows.chain(of_list) {
        parents.entry(child).or_default().insert(parent);
        children.entry(parent).or_default().insert(child);
    }
    let relatives = |of: &BTreeMap<&ShardId, BTreeSet<&ShardId>>, shard: &ShardId| -> Vec<ShardId> {
        of.get(shard).into_iter().flatten().copied().cloned().collect()
    };
    let shard = |shard: &ShardId| FleetShard {
        shard: shard.clone(),
        life: match listed.get(shard) {
            Some(listed) if listed.is_open() => ShardLife::Open,
            Some(_) => ShardLife::Closed,
            None => ShardLife::Gone,
        },
        parents: relatives(&parents, shard),
        children: relatives(&children, shard),
        lease: rows.get(shard).map(|row| FleetLease::from(*row)),
    };
    known.into_iter().map(shard).collect()
}

/// A line for the stream, one for each worker and one for each shard.
impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}, lease table {}", self.stream, self.table)?;
        for FleetWorker { worker, is_peer, leases } in &self.workers {
            let kind = if *is_peer { "" } else { " (KCL)" };
            write!(f, "\nworker {worker}{kind}: {leases} leases")?;
        }
        for FleetShard { shard, life, lease, .. } in &self.shards {
            let life = match life {
                ShardLife::Open => "open",
                ShardLife::Closed => "closed",
                ShardLife::Gone => "gone",
            };
            write!(f, "\n{shard} ({life}): ")?;
            match lease {
                Some(lease) => write!(f, "{lease}")?,
                None => f.write_str("no row")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for FleetLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}, counter {}", self.checkpoint, self.counter)?;
        match &self.owner {
            Some(owner) => write!(f, ", owner {owner}")?,
            None => f.write_str(", free")?,
        }
        if self.is_offered {
            f.write_str(", offered")?;
        }
        if let Some(worker) = &self.asked_by {
            write!(f, ", asked for by {worker}")?;
        }
        if let Some(worker) = &self.promised_to {
            write!(f, ", promised to {worker}")?;
        }
        Ok(())
    }
}
