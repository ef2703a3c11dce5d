//! Fair shares: how many leases each live worker has, and what is moved to make them even.
//!
//! Only shards with work count, and what a worker has asked for counts as its own, so that workers that join together
//! do not ask for the same share twice. A lease moves only from a worker that has at least two more, so that nothing
//! moves for ever. A worker of this library is asked for a lease; a KCL worker knows no such request and loses it. The
//! KCL counts finished leases too: so as not to take from it what it would take back, it must have two more by its own
//! count as well.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_record::ShardId;

use super::Coordinator;
use crate::lease::{Lease, WorkerId};
use crate::lineage::{self, ShardList};

/// How many leases each live worker has, or will have once all that was asked for is given.
#[derive(Debug)]
pub(super) struct Loads {
    me: WorkerId,
    unfinished: BTreeMap<WorkerId, usize>,
    /// As the KCL counts.
    all: BTreeMap<WorkerId, usize>,
}

impl Loads {
    pub(super) fn own(&self) -> usize {
        of(&self.unfinished, &self.me)
    }

    /// The most leases that a worker should have when `free` more are shared out.
    pub(super) fn share(&self, free: usize) -> usize {
        (self.unfinished.values().sum::<usize>() + free).div_ceil(self.unfinished.len().max(1))
    }

    /// Whether this worker, of all that see each other, is the one to see to the shard.
    pub(super) fn prefers_us(&self, shard: &ShardId) -> bool {
        let own = weight(&self.me, shard);
        self.unfinished.keys().all(|worker| weight(worker, shard) <= own)
    }

    /// The greater, the sooner this worker should take the shard: workers that see each other begin with other shards.
    pub(super) fn preference(&self, shard: &ShardId) -> impl Ord + use<> {
        (self.prefers_us(shard), weight(&self.me, shard))
    }

    /// Whether no other worker should rather take the shard off its owner, whatever their shares are.
    fn is_least_loaded_but(&self, owner: Option<&WorkerId>, shard: &ShardId) -> bool {
        let order = |worker: &WorkerId, load: usize| (load, Reverse(weight(worker, shard)));
        let own = order(&self.me, self.own());
        let mut others = self.unfinished.iter().filter(|(worker, _)| Some(*worker) != owner);
        others.all(|(worker, load)| own <= order(worker, *load))
    }

    fn gain(&mut self, from: Option<&WorkerId>) {
        for loads in [&mut self.unfinished, &mut self.all] {
            *loads.entry(self.me.clone()).or_default() += 1;
            if let Some(load) = from.and_then(|from| loads.get_mut(from)) {
                *load = load.saturating_sub(1);
            }
        }
    }

    fn is_overloaded(&self, worker: &WorkerId, is_peer: bool) -> bool {
        let exceeds = |loads| of(loads, worker) >= of(loads, &self.me) + 2;
        exceeds(&self.unfinished) && (is_peer || exceeds(&self.all))
    }
}

/// FNV-1a over both names, then the finalizer of MurmurHash3, since the top bits of the former hardly depend on the last
/// characters. Not the hasher of the standard library, which may change with it: workers that were built by different
/// compilers would rank each other differently, each leaving a shard to the other, and a journal could be replayed
/// only by the compiler of its writer.
fn weight(worker: &WorkerId, shard: &ShardId) -> u64 {
    let bytes = worker.as_str().bytes().chain([0]).chain(shard.as_str().bytes());
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325, step);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

fn of(loads: &BTreeMap<WorkerId, usize>, worker: &WorkerId) -> usize {
    loads.get(worker).copied().unwrap_or_default()
}

/// What another worker has that could be moved here.
#[derive(Debug, Default)]
struct Movable {
    is_peer: bool,
    /// The last is the one to begin with.
    shards: Vec<ShardId>,
}

/// What is to be moved here.
#[derive(Debug, Default)]
struct Moves {
    asked: Vec<ShardId>,
    stolen: Vec<ShardId>,
}

impl Coordinator {
    pub(super) fn loads(&self, now: Duration) -> Loads {
        let me = self.settings.worker.clone();
        let mut unfinished = BTreeMap::from([(me.clone(), 0)]);
        let mut all = unfinished.clone();
        for row in self.watch.rows.values() {
            let Some(worker) = self.prospective_reader(now, row) else { continue };
            if !row.is_finished() {
                *unfinished.entry(worker.clone()).or_default() += 1;
            }
            *all.entry(worker.clone()).or_default() += 1;
        }
        Loads { me, unfinished, all }
    }

    /// Who will have the lease if nothing more is moved; none if it is free, or its owner wants to be rid of it.
    fn prospective_reader<'a>(&'a self, now: Duration, row: &'a Lease) -> Option<&'a WorkerId> {
        let me = &self.settings.worker;
        match self.grips.get(&row.shard) {
            Some(grip) if !grip.is_taken() => Some(me),
            Some(_) => row.asked_by.as_ref().or(Some(me)),
            None if self.watch.is_expired(now, &row.shard, self.settings.failover) => None,
            None if row.is_of_peer() && row.is_offered => row.asked_by.as_ref(),
            None if row.is_of_peer() => row.asked_by.as_ref().or(row.reader()),
            None => row.reader(),
        }
    }

    /// Moves leases here until this worker has its share, or as many as one scan may move.
    pub(super) fn balance(&mut self, now: Duration) {
        let Some(list) = self.list_to_take_by() else { return };
        let Moves { asked, stolen } = self.moves(now, list);
        for shard in asked {
            self.ask_for(now, &shard);
        }
        for shard in stolen {
            self.take(now, &shard);
        }
    }

    fn moves(&self, now: Duration, list: &ShardList) -> Moves {
        let mut moves = Moves::default();
        let mut loads = self.loads(now);
        let mut room = self.settings.max_leases.saturating_sub(self.grips.len());
        let is_offered = |row: &&Lease| row.is_of_peer() && row.is_offered && row.asked_by.is_none();
        let offered = self.watch.rows.values().filter(is_offered);
        let mut offered: Vec<&Lease> = offered.filter(|row| self.is_movable(now, row, list)).collect();
        offered.sort_by_cached_key(|row| Reverse(loads.preference(&row.shard)));
        let share = loads.share(offered.len());
        for row in offered {
            // Somebody must take what its owner wants to be rid of, even if all have their share. Whoever should may
            // not want it either, or be a KCL worker, which does not ask.
            let is_due = loads.own() < share
                || loads.is_least_loaded_but(row.owner.as_ref(), &row.shard)
                || self.watch.is_offered_for(now, &row.shard, self.settings.failover);
            if is_due && moves.asked.len() < room {
                loads.gain(None);
                moves.asked.push(row.shard.clone());
            }
        }
        room -= moves.asked.len();
        if self.is_restless(now) || self.is_led(now) {
            return moves;
        }
        let limit = self.settings.max_steals.unwrap_or(share.div_ceil(5));
        let under_way = self.grips.values().filter(|grip| grip.is_asking()).count();
        let mut movable = self.movable(now, list);
        for _ in 0..limit.min(room).min((2 * limit).saturating_sub(under_way)) {
            let overloaded = movable.iter_mut().filter(|(worker, theirs)| {
                !theirs.shards.is_empty() && loads.is_overloaded(worker, theirs.is_peer)
            });
            let heaviest = overloaded.max_by_key(|(worker, _)| of(&loads.unfinished, worker));
            let Some((worker, theirs)) = heaviest else { break };
            let moved = if theirs.is_peer { &mut moves.asked } else { &mut moves.stolen };
            moved.extend(theirs.shards.pop());
            loads.gain(Some(worker));
        }
        moves
    }

    /// Whether the leases are being shared out anew, so that it is too early to move any.
    fn is_restless(&self, now: Duration) -> bool {
        let has_changed = |since: Duration| now < since + self.settings.failover;
        self.takes_under_way() > 0
            || self.waiting.keys().any(|shard| !self.shunned.contains(shard))
            || self.list_changed.is_some_and(has_changed)
    }

    /// A KCL worker holds leases of shards too that may not be started yet.
    fn is_movable(&self, now: Duration, row: &Lease, list: &ShardList) -> bool {
        !row.is_finished()
            && !self.grips.contains_key(&row.shard)
            && !self.shunned.contains(&row.shard)
            && !self.watch.is_expired(now, &row.shard, self.settings.failover)
            && row.checkpoint_owner.is_none()
            && lineage::may_start(row, &self.watch.rows, list)
    }

    /// What could be moved here, by owner: leases that have not just been moved, those of closed shards last, since they
    /// come to their end.
    fn movable(&self, now: Duration, list: &ShardList) -> BTreeMap<WorkerId, Movable> {
        let mut movable: BTreeMap<WorkerId, Movable> = BTreeMap::new();
        let mut rows: Vec<&Lease> =
            self.watch.rows.values().filter(|row| self.is_movable(now, row, list)).collect();
        let order = self.loads(now);
        rows.sort_by_cached_key(|row| {
            let is_open = list.get(&row.shard).is_some_and(|shard| shard.is_open());
            (is_open, order.preference(&row.shard))
        });
        for row in rows {
            let is_peer = row.is_of_peer();
            let is_to_be_had = self.watch.is_settled(now, &row.shard, self.settings.failover)
                && !(is_peer && (row.asked_by.is_some() || row.is_offered));
            if let Some(owner) = row.owner.as_ref().filter(|_| is_to_be_had) {
                let theirs = movable.entry(owner.clone()).or_default();
                theirs.is_peer = is_peer;
                theirs.shards.push(row.shard.clone());
            }
        }
        movable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_is_preferred_for_its_part_of_the_shards_however_alike_the_names_are() {
        let workers: Vec<WorkerId> = (0..5).map(|number| format!("worker-{number}").into()).collect();
        let mut preferred = BTreeMap::new();
        for number in 0..1_000 {
            let shard = format!("shardId-{number:012}").into();
            let worker = workers.iter().max_by_key(|worker| weight(worker, &shard)).unwrap();
            *preferred.entry(worker.clone()).or_insert(0) += 1;
        }
        assert_eq!(preferred.len(), 5);
        assert!(preferred.values().all(|shards| (150..250).contains(shards)), "{preferred:?}");
    }

    #[test]
    fn the_preference_is_the_same_wherever_this_was_built() {
        assert_eq!(weight(&"worker-1".into(), &"shardId-000000000000".into()), 496_795_471_311_491_493);
    }
}
