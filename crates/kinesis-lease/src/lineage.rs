//! Which shards need a lease row, and when a shard may be started.
//!
//! A split closes one shard and opens two, a merge closes two and opens one. For the records of a key to keep their
//! order, a child is read only when all of its parents are.

use std::collections::{BTreeMap, HashMap, HashSet};

use kinesis_record::{Checkpoint, HashKey, HashRange, Shard, ShardId};

use crate::lease::{Lease, NewLease};
use crate::stream::{StreamError, StreamErrorKind};

/// The rows of the lease table, by shard.
pub type Rows = BTreeMap<ShardId, Lease>;

/// The complete list of a stream's shards, indexed: its open shards take every hash key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardList {
    shards: BTreeMap<ShardId, Shard>,
}

impl ShardList {
    /// Indexes a complete list.
    ///
    /// # Errors
    /// The open shards do not take every hash key, so that shards are missing: the list was made in the middle of a
    /// reshard, or is a part. Nothing may be concluded from it. An empty list is of no stream.
    pub fn complete(shards: impl IntoIterator<Item = Shard>) -> Result<Self, StreamError> {
        let list = Self { shards: shards.into_iter().map(|shard| (shard.id.clone(), shard)).collect() };
        match list.first_hole() {
            None => Ok(list),
            Some(hole) => Err(StreamError {
                kind: StreamErrorKind::Unavailable,
                message: format!(
                    "the list of shards is not complete: no open shard in it takes hash key {hole}; \
                     it is asked for again"
                ),
            }),
        }
    }

    /// The first hash key that no open shard takes.
    fn first_hole(&self) -> Option<HashKey> {
        let mut ranges: Vec<HashRange> =
            self.iter().filter(|shard| shard.is_open()).map(|shard| shard.hash_range).collect();
        ranges.sort_by_key(|range| range.start);
        let mut next = 0;
        for range in ranges {
            if range.start.0 > next {
                break;
            }
            next = match range.end.0.checked_add(1) {
                Some(beyond) => beyond.max(next),
                None => return None,
            };
        }
        Some(HashKey(next))
    }

    /// The shard with this name, if the stream still knows it.
    pub fn get(&self, shard: &ShardId) -> Option<&Shard> {
        self.shards.get(shard)
    }

    /// All shards, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Shard> {
        self.shards.values()
    }

    /// The shards that came from `parent`. It looks through all of them.
    pub fn children(&self, parent: &ShardId) -> impl Iterator<Item = &Shard> {
        self.iter().filter(|shard| shard.parents.contains(parent))
    }
}

/// The rows to create for listed shards that have none, parents before children.
///
/// - An empty table is the first start: every shard is read from `initial`, or only the open ones if that is
///   `LATEST`. What came after them comes as their descendants.
/// - A descendant of a leased shard is read from its oldest record (from the instant, if `initial` is
///   `AT_TIMESTAMP`), whatever `initial` says: its records came after what was asked for.
/// - An ancestor of a leased shard was finished and cleaned up, or never wanted. It is created, to be read whole, only
///   if a descendant that has not begun still waits for it, and none has begun.
/// - A shard without a known relative is read from `initial` if it belongs to the first start (it never had a parent
///   and is open, or no worker has got beyond `LATEST` yet), else from its oldest record: it may have been closed
///   before its row could be created.
pub fn missing_leases(rows: &Rows, list: &ShardList, initial: &Checkpoint) -> Vec<NewLease> {
    let relatives = Relatives::new(rows, list);
    let descendants = relatives.descendants();
    let ancestors = relatives.ancestors();
    let awaited = relatives.awaited(&descendants);
    let passed = relatives.passed();
    let first_start = rows.values().all(|lease| lease.checkpoint == Checkpoint::Latest);
    let from_initial =
        |shard: &Shard| (*initial != Checkpoint::Latest || shard.is_open()).then(|| initial.clone());

    let mut missing: Vec<(&Shard, Checkpoint)> = list
        .iter()
        .filter(|shard| !rows.contains_key(&shard.id))
        .filter_map(|shard| {
            let checkpoint = if rows.is_empty() {
                from_initial(shard)
            } else if descendants.contains(&shard.id)
                || (awaited.contains(&shard.id) && !passed.contains(&shard.id))
            {
                Some(of_descendant(initial))
            } else if ancestors.contains(&shard.id) {
                None
            } else if (shard.parents.is_empty() && shard.is_open())
                || (*initial == Checkpoint::Latest && first_start)
            {
                from_initial(shard)
            } else {
                Some(of_descendant(initial))
            };
            checkpoint.map(|checkpoint| (shard, checkpoint))
        })
        .collect();
    missing.sort_by(|(left, _), (right, _)| left.starting_sequence.cmp(&right.starting_sequence));
    missing.into_iter().map(|(shard, checkpoint)| NewLease::new(shard.into(), checkpoint)).collect()
}

/// Where a shard is read from whose parent was read before: nothing in it is older than what was asked for.
pub fn of_descendant(initial: &Checkpoint) -> Checkpoint {
    match initial {
        Checkpoint::AtTimestamp => Checkpoint::AtTimestamp,
        _ => Checkpoint::TrimHorizon,
    }
}

/// Whether the shard of `lease` may be read: each parent is at `SHARD_END`, or provably gone.
///
/// A parent without a row is gone when a complete list shows the child and not the parent. A parent that the list
/// does show is waited for, unless the child or another descendant has been read before or starts at `LATEST`, so that
/// nothing in the parent is wanted.
pub fn may_start(lease: &Lease, rows: &Rows, list: &ShardList) -> bool {
    let listed = list.get(&lease.shard);
    let parents: HashSet<&ShardId> =
        lease.parents.iter().chain(listed.into_iter().flat_map(|shard| &shard.parents)).collect();
    parents.into_iter().all(|parent| match rows.get(parent) {
        Some(row) => row.is_finished(),
        None => {
            has_begun(lease)
                || (listed.is_some() && list.get(parent).is_none())
                || is_passed(parent, rows, list)
        }
    })
}

/// Whether a row may be created for `child` when its parent `ending` ends: each parent has a row, or is provably gone.
///
/// A KCL worker takes a parent without a row for a finished one, and would start the child at once. Whether a parent is
/// gone only a list can tell that is no older than the child, since the names of shards rise.
pub fn may_create(
    child: &NewLease,
    ending: &ShardId,
    has_row: impl Fn(&ShardId) -> bool,
    list: &ShardList,
) -> bool {
    let is_up_to_date = list.shards.last_key_value().is_some_and(|(newest, _)| *newest >= child.shard);
    let mut parents = child.parents.iter().filter(|parent| !has_row(parent));
    parents.all(|parent| parent == ending || (is_up_to_date && list.get(parent).is_none()))
}

/// The children of each shard, by what rows and list tell. A child that only its parent's row names counts while it is
/// listed.
pub(crate) fn children<'a>(
    rows: &'a Rows,
    list: &'a ShardList,
) -> HashMap<&'a ShardId, HashSet<&'a ShardId>> {
    let mut children: HashMap<_, HashSet<_>> = HashMap::new();
    let listed = list.iter().map(|shard| (&shard.id, &shard.parents));
    for (child, parents) in rows.values().map(|row| (&row.shard, &row.parents)).chain(listed) {
        for parent in parents {
            children.entry(parent).or_default().insert(child);
        }
    }
    for row in rows.values() {
        let named = row.children.iter().filter(|child| list.get(child).is_some());
        children.entry(&row.shard).or_default().extend(named);
    }
    children
}

/// Whether a descendant of the shard has begun, which none does before the shard is finished.
pub(crate) fn is_passed(shard: &ShardId, rows: &Rows, list: &ShardList) -> bool {
    let mut seen = HashSet::new();
    let mut next: Vec<&ShardId> = list.children(shard).map(|child| &child.id).collect();
    while let Some(descendant) = next.pop() {
        if rows.get(descendant).is_some_and(has_begun) {
            return true;
        }
        if seen.insert(descendant) {
            next.extend(list.children(descendant).map(|child| &child.id));
        }
    }
    false
}

/// Whether a child of the shard has not begun.
pub(crate) fn is_awaited(shard: &ShardId, rows: &Rows) -> bool {
    rows.values().any(|row| row.parents.contains(shard) && !has_begun(row))
}

pub(crate) fn has_begun(lease: &Lease) -> bool {
    !matches!(lease.checkpoint, Checkpoint::TrimHorizon | Checkpoint::AtTimestamp)
}

/// The lineage that rows and list know of together.
struct Relatives<'a> {
    rows: &'a Rows,
    parents: HashMap<&'a ShardId, Vec<&'a ShardId>>,
    children: HashMap<&'a ShardId, Vec<&'a ShardId>>,
}

impl<'a> Relatives<'a> {
    fn new(rows: &'a Rows, list: &'a ShardList) -> Self {
        let mut parents: HashMap<_, Vec<_>> = HashMap::new();
        let mut children: HashMap<_, Vec<_>> = HashMap::new();
        let listed = list.iter().map(|shard| (&shard.id, &shard.parents));
        for (child, of_child) in rows.values().map(|lease| (&lease.shard, &lease.parents)).chain(listed) {
            for parent in of_child {
                parents.entry(child).or_default().push(parent);
                children.entry(parent).or_default().push(child);
            }
        }
        Self { rows, parents, children }
    }

    /// The shards without a lease that come from one with a lease.
    fn descendants(&self) -> HashSet<&'a ShardId> {
        self.reach(self.rows.keys(), &self.children)
    }

    /// The shards without a lease from which one with a lease comes.
    fn ancestors(&self) -> HashSet<&'a ShardId> {
        self.reach(self.rows.keys(), &self.parents)
    }

    /// The shards without a lease that shards wait for which have not begun: leased ones or `descendants`.
    fn awaited(&self, descendants: &HashSet<&'a ShardId>) -> HashSet<&'a ShardId> {
        let waiting = self.rows.values().filter(|lease| !has_begun(lease)).map(|lease| &lease.shard);
        self.reach(waiting.chain(descendants.iter().copied()), &self.parents)
    }

    /// The shards from which one comes that has begun.
    fn passed(&self) -> HashSet<&'a ShardId> {
        let mut passed = HashSet::new();
        let begun = self.rows.values().filter(|lease| has_begun(lease));
        let mut next: Vec<&ShardId> = begun.map(|lease| &lease.shard).collect();
        while let Some(shard) = next.pop() {
            let parents = self.parents.get(shard).into_iter().flatten().copied();
            next.extend(parents.filter(|parent| passed.insert(*parent)));
        }
        passed
    }

    /// The shards without a lease that `edges` lead to, with no lease in between.
    fn reach(
        &self,
        from: impl Iterator<Item = &'a ShardId>,
        edges: &HashMap<&'a ShardId, Vec<&'a ShardId>>,
    ) -> HashSet<&'a ShardId> {
        let mut reached = HashSet::new();
        let mut next: Vec<&ShardId> = from.collect();
        while let Some(shard) = next.pop() {
            let beyond = edges.get(shard).into_iter().flatten().copied();
            next.extend(beyond.filter(|shard| !self.rows.contains_key(*shard) && reached.insert(*shard)));
        }
        reached
    }
}

#[cfg(test)]
mod tests;
