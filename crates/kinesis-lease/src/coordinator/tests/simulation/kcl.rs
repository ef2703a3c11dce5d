//! Workers of the Java KCL on the same table: they renew by the counter, count every row, take and steal without
//! asking, and know nothing of this library's attributes.

use super::*;
use crate::coordinator::leader::REPORT_INTERVAL;
use crate::testing::at;

#[derive(Debug)]
pub(super) struct Kcl {
    name: WorkerId,
    /// It is dead while even.
    life: u64,
    /// What it renews, with the counters that it knows.
    held: BTreeMap<ShardId, i64>,
    /// The counters that it has seen of other leases, and since when.
    seen: BTreeMap<ShardId, (i64, Duration)>,
}

impl Kcl {
    pub(super) fn holds(&self, shard: &ShardId) -> bool {
        self.held.contains_key(shard)
    }

    fn is_alive(&self) -> bool {
        self.life % 2 == 1
    }

    /// Whether the lease may be taken; remembers its counter.
    fn watch(&mut self, now: Duration, row: &Lease) -> bool {
        let seen = self.seen.entry(row.shard.clone()).or_insert((row.counter, now));
        if seen.0 != row.counter {
            *seen = (row.counter, now);
        }
        row.owner.is_none() || now > seen.1 + FAILOVER
    }
}

impl Fleet {
    pub(super) fn start_kcl(&mut self) {
        for index in 0..self.random.usize(1..4) {
            let name = format!("kcl-{index}").as_str().into();
            self.kcl.push(Kcl { name, life: 0, held: BTreeMap::new(), seen: BTreeMap::new() });
            let at = self.random_time(CALM / 2);
            self.after(at, Event::KclDies(index));
            for _ in 0..2 * self.random.usize(0..2) {
                let at = CALM / 2 + self.random_time(CALM / 2);
                self.after(at, Event::KclDies(index));
            }
        }
        if self.trial.has_leader() {
            self.after(FAILOVER, Event::KclLeads);
        }
    }

    /// It dies, or starts anew under another name.
    pub(super) fn kcl_dies(&mut self, index: usize) {
        let kcl = &mut self.kcl[index];
        kcl.life += 1;
        kcl.held.clear();
        kcl.seen.clear();
        if kcl.is_alive() {
            let life = kcl.life;
            kcl.name = format!("kcl-{index}-{life}").as_str().into();
            self.after(Duration::ZERO, Event::KclRenews(index, life));
            self.after(Duration::ZERO, Event::KclTakes(index, life));
        }
    }

    /// Renews what it holds, and processes some of it.
    pub(super) fn kcl_renews(&mut self, index: usize, life: u64) {
        if self.kcl[index].life != life {
            return;
        }
        self.after(FAILOVER / 3 - Duration::from_millis(25), Event::KclRenews(index, life));
        let name = self.kcl[index].name.clone();
        for (shard, counter) in self.kcl[index].held.clone() {
            let row = self.table.rows.get(&shard).filter(|row| row.counter == counter).cloned();
            let Some(row) = row else {
                self.kcl[index].held.remove(&shard);
                continue;
            };
            let is_handed_over = row.is_promised() && self.random.bool();
            let change = if is_handed_over { None } else { self.kcl_processes(&row) };
            self.kcl_change(&shard, |row| {
                row.counter += 1;
                if is_handed_over {
                    row.checkpoint_owner = None;
                }
                row.checkpoint = change.unwrap_or(row.checkpoint.clone());
            });
            if is_handed_over {
                self.kcl[index].held.remove(&shard);
            } else {
                self.kcl[index].held.insert(shard.clone(), counter + 1);
                assert_eq!(self.table.rows[&shard].reader(), Some(&name));
            }
        }
    }

    /// The next checkpoint of a shard whose parents are finished.
    fn kcl_processes(&mut self, row: &Lease) -> Option<Checkpoint> {
        let is_finished = |parent: &ShardId| self.table.rows.get(parent).is_none_or(Lease::is_finished);
        if row.is_finished() || !row.parents.iter().all(is_finished) || self.random.bool() {
            return None;
        }
        if self.stream.iter().any(|shard| shard.id == row.shard && shard.is_open()) {
            let processed =
                row.checkpoint.position().map_or(0, |at| at.sequence.as_str().parse::<u128>().unwrap());
            return Some(at(processed + 1));
        }
        let children: Vec<Shard> =
            self.stream.iter().filter(|child| child.parents.contains(&row.shard)).cloned().collect();
        let has_row = |parent: &ShardId| self.table.rows.contains_key(parent) || self.ended.contains(parent);
        if !children.iter().all(|child| child.parents.iter().all(has_row)) {
            return None;
        }
        let checkpoint = lineage::of_descendant(&self.initial);
        for child in &children {
            self.change(|table| table.create(&NewLease::new(child.into(), checkpoint.clone())));
        }
        Some(Checkpoint::ShardEnd)
    }

    /// A 2.x worker takes what has expired, else steals one lease. A 3.x worker finds what was assigned to it.
    pub(super) fn kcl_takes(&mut self, index: usize, life: u64) {
        if self.kcl[index].life != life {
            return;
        }
        if self.trial.has_leader() {
            self.after(FAILOVER - Duration::from_millis(25), Event::KclTakes(index, life));
            let kcl = &mut self.kcl[index];
            let is_assigned =
                |row: &&Lease| row.owner.as_ref() == Some(&kcl.name) && row.checkpoint_owner.is_none();
            for row in self.table.rows.values().filter(is_assigned) {
                kcl.held.entry(row.shard.clone()).or_insert(row.counter);
            }
            return;
        }
        self.after(2 * FAILOVER + Duration::from_millis(50), Event::KclTakes(index, life));
        let name = self.kcl[index].name.clone();
        let mut available = Vec::new();
        let mut by_owner: BTreeMap<WorkerId, Vec<ShardId>> = BTreeMap::from([(name.clone(), Vec::new())]);
        for row in self.table.rows.values() {
            match &row.owner {
                Some(owner) if !self.kcl[index].watch(self.now, row) => {
                    by_owner.entry(owner.clone()).or_default().push(row.shard.clone());
                }
                _ => available.push(row.shard.clone()),
            }
        }
        let target = self.table.rows.len().div_ceil(by_owner.len());
        let mut need = target.saturating_sub(by_owner[&name].len());
        let mut taken = available;
        self.random.shuffle(&mut taken);
        if taken.is_empty() {
            let (_, theirs) = by_owner.iter().max_by_key(|(_, theirs)| theirs.len()).unwrap();
            need = need.min(if need > 1 { 1 } else { theirs.len().saturating_sub(target) }).min(1);
            taken = self.random.choice(theirs).cloned().into_iter().collect();
        }
        for shard in taken.into_iter().take(need) {
            self.evict(&shard);
            self.kcl_change(&shard, |row| {
                row.counter += 1;
                row.owner = Some(name.clone());
            });
            let counter = self.table.rows[&shard].counter;
            self.kcl[index].held.insert(shard, counter);
        }
    }

    /// The leader assigns what has no owner or has expired, and moves a lease that is held by another worker.
    pub(super) fn kcl_leads(&mut self) {
        self.after(2 * FAILOVER, Event::KclLeads);
        let Some(leader) = self.kcl.iter().position(Kcl::is_alive) else { return };
        self.pulse = LeaderPulse { version: format!("{:?}", self.now), ..self.pulse.clone() };
        let rows: Vec<Lease> = self.table.rows.values().cloned().collect();
        for row in &rows {
            let is_available = self.kcl[leader].watch(self.now, row);
            if is_available && !row.is_finished() {
                let to = self.least_loaded();
                self.evict(&row.shard);
                self.kcl_change(&row.shard, |row| {
                    row.counter += 1;
                    row.owner = Some(to);
                    row.checkpoint_owner = None;
                });
            }
        }
        let to = self.least_loaded();
        let load = |of: &WorkerId| self.load(of);
        let is_moved = |row: &&Lease| {
            let Some(owner) = row.owner.as_ref().filter(|_| row.checkpoint_owner.is_none()) else {
                return false;
            };
            let is_known = self.assignees().contains(owner);
            !row.is_finished() && load(owner) >= load(&to) + 2 && (is_known || !self.is_calm())
        };
        let moved: Vec<ShardId> = rows.iter().filter(is_moved).map(|row| row.shard.clone()).collect();
        if let Some(shard) = self.random.choice(moved) {
            self.kcl_change(&shard, |row| row.checkpoint_owner = row.owner.replace(to));
        }
    }

    /// The workers that the leader knows: those that report.
    fn assignees(&self) -> Vec<WorkerId> {
        let reported = self.reports.iter().filter(|(_, at)| self.now <= **at + 2 * REPORT_INTERVAL);
        let alive = self.kcl.iter().filter(|kcl| kcl.is_alive()).map(|kcl| &kcl.name);
        alive.chain(reported.map(|(worker, _)| worker)).cloned().collect()
    }

    fn load(&self, of: &WorkerId) -> usize {
        self.table.rows.values().filter(|row| !row.is_finished() && row.owner.as_ref() == Some(of)).count()
    }

    fn least_loaded(&self) -> WorkerId {
        self.assignees().into_iter().min_by_key(|worker| self.load(worker)).unwrap()
    }

    /// While there is a leader it has made all shares equal, else our workers have done so among themselves.
    pub(super) fn assert_led(&self) {
        if self.kcl.iter().any(Kcl::is_alive) {
            let loads: Vec<_> = self.assignees().iter().map(|worker| self.load(worker)).collect();
            assert!(loads.len() >= self.processes.len(), "not all report: {:?}", self.reports);
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= 1, "{:?} have {loads:?}", self.assignees());
        } else {
            self.assert_even();
        }
    }

    /// Whoever reads the shard learns only later that it was taken.
    fn evict(&mut self, shard: &ShardId) {
        for process in &mut self.processes {
            if let Some(holding) = process.held.get_mut(shard) {
                holding.is_stolen = true;
            }
        }
    }

    fn kcl_change(&mut self, shard: &ShardId, change: impl FnOnce(&mut Lease)) {
        let before = self.table.clone();
        change(self.table.rows.get_mut(shard).unwrap());
        self.changed(&before);
    }

    /// Our workers are even among themselves, and have taken what a KCL worker would not take back.
    pub(super) fn assert_shared_with_kcl(&self) {
        let ours: Vec<usize> = self.processes.iter().map(|process| process.held.len()).collect();
        let (least, most) = (ours.iter().min().unwrap(), ours.iter().max().unwrap());
        assert!(most - least <= 1, "{ours:?}");
        let list = complete_list(self.stream.clone());
        let of = |owner: &WorkerId, is_counted: &dyn Fn(&Lease) -> bool| {
            let rows = self.table.rows.values().filter(|row| row.owner.as_ref() == Some(owner));
            rows.filter(|row| is_counted(row)).count()
        };
        let may_move = |row: &Lease| !row.is_finished() && lineage::may_start(row, &self.table.rows, &list);
        for kcl in self.kcl.iter().filter(|kcl| kcl.is_alive()) {
            for (index, held) in ours.iter().enumerate() {
                let all = of(&format!("worker-{index}").into(), &|_| true);
                let is_fair = of(&kcl.name, &may_move) <= held + 1 || of(&kcl.name, &|_| true) <= all + 1;
                assert!(is_fair, "{} has too much beside {ours:?}", kcl.name);
            }
        }
    }
}
