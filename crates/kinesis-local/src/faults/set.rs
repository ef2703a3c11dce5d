//! All faults that are set.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::action::Action;
use super::call::Call;
use super::fault::{Fault, Strikes};
use super::lists::ShardLists;
use super::plan::Plan;
use crate::model::Timestamp;
use crate::server::Shared;

/// The number of a fault, given when it is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultId(pub u64);

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fault that is set, and what it has done so far.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FaultStatus {
    /// Its number.
    pub id: FaultId,
    /// How many calls were meant by it, struck or not.
    pub seen: u64,
    /// How many calls it struck.
    pub fired: u64,
    /// What it is.
    pub fault: Fault,
}

/// The faults of both services, from [`LocalAws::faults`](crate::LocalAws::faults).
#[derive(Debug, Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

impl Faults {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Sets a fault. It stays until it is removed, also when the handle is dropped.
    ///
    /// # Panics
    /// When the fault could never strike: an operation that no service has, a selector that meets no call, something
    /// done that does not suit the operation, a number out of range. A test that goes on would test nothing.
    #[track_caller]
    #[allow(clippy::panic, reason = "a fault that cannot strike is a mistake in the test that adds it")]
    pub fn add(&self, fault: Fault) -> FaultHandle {
        if let Err(error) = fault.check() {
            panic!("{error}: {fault:?}");
        }
        let lists =
            matches!(fault.action, Action::StaleShards).then(|| Arc::new(ShardLists::now(&self.shared)));
        let (id, counts) = self.shared.faults.add(fault, lists);
        FaultHandle { faults: self.clone(), id, counts }
    }

    /// The faults that are set, in the order in which they were added.
    pub fn list(&self) -> Vec<FaultStatus> {
        self.shared.faults.list()
    }

    /// Removes a fault and tells whether it was there. A call that hangs goes on hanging.
    pub fn remove(&self, id: FaultId) -> bool {
        self.shared.faults.remove(id)
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.shared.faults.clear();
    }
}

/// A fault that was added.
#[derive(Debug, Clone)]
pub struct FaultHandle {
    faults: Faults,
    id: FaultId,
    counts: Arc<Counts>,
}

impl FaultHandle {
    /// Its number.
    pub fn id(&self) -> FaultId {
        self.id
    }

    /// How many calls were meant by it so far, struck or not.
    pub fn seen(&self) -> u64 {
        self.counts.seen.load(Ordering::Relaxed)
    }

    /// How many calls it has struck so far.
    pub fn fired(&self) -> u64 {
        *self.counts.fired.borrow()
    }

    /// Waits until it has struck so many calls. A struck call may still be on its way when this returns.
    pub async fn until_fired(&self, times: u64) {
        // The sender is held right here, so this does not fail.
        let _ = self.counts.fired.subscribe().wait_for(|fired| *fired >= times).await;
    }

    /// Removes it; its counts stay. A call that hangs goes on hanging.
    pub fn remove(&self) {
        self.faults.remove(self.id);
    }
}

#[derive(Debug, Default)]
struct Counts {
    seen: AtomicU64,
    fired: watch::Sender<u64>,
}

/// A fault that is set.
#[derive(Debug)]
struct Entry {
    id: FaultId,
    fault: Fault,
    added: Instant,
    random: Rng,
    lists: Option<Arc<ShardLists>>,
    counts: Arc<Counts>,
}

/// The faults that are set, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct FaultSet {
    seed: u64,
    next: AtomicU64,
    entries: Mutex<Vec<Entry>>,
}

impl FaultSet {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, next: AtomicU64::new(1), entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, fault: Fault, lists: Option<Arc<ShardLists>>) -> (FaultId, Arc<Counts>) {
        let id = FaultId(self.next.fetch_add(1, Ordering::Relaxed));
        let seed = fault.strikes.seed.unwrap_or_else(|| self.seed.wrapping_add(id.0));
        let counts = Arc::new(Counts::default());
        let random = Rng::with_seed(seed);
        let entry = Entry { id, fault, added: Instant::now(), random, lists, counts: counts.clone() };
        self.entries().push(entry);
        (id, counts)
    }

    fn list(&self) -> Vec<FaultStatus> {
        let status = |entry: &Entry| FaultStatus {
            id: entry.id,
            seen: entry.counts.seen.load(Ordering::Relaxed),
            fired: *entry.counts.fired.borrow(),
            fault: entry.fault.clone(),
        };
        self.entries().iter().map(status).collect()
    }

    fn remove(&self, id: FaultId) -> bool {
        let mut entries = self.entries();
        let before = entries.len();
        entries.retain(|entry| entry.id != id);
        entries.len() < before
    }

    pub(crate) fn clear(&self) {
        self.entries().clear();
    }

    /// What is to happen to a call. Each fault that is looked at counts it.
    pub(crate) fn plan(&self, call: &Call, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        for entry in self.entries().iter_mut() {
            if entry.strikes(call, now) {
                tracing::debug!(fault = entry.id.0, operation = call.operation, "struck");
                plan.take(&entry.fault.action, call, entry.lists.as_ref());
                if plan.is_decided() {
                    break;
                }
            }
        }
        plan
    }
}

impl Entry {
    fn strikes(&mut self, call: &Call, now: Timestamp) -> bool {
        let Fault { selector, strikes, action } = &self.fault;
        if !selector.matches(call) || !action.suits(call) || !is_due(action, call, now) {
            return false;
        }
        if !in_window(strikes, self.added.elapsed()) {
            return false;
        }
        let before = self.counts.seen.fetch_add(1, Ordering::Relaxed);
        let fired = *self.counts.fired.borrow();
        if before < strikes.skip || strikes.times.is_some_and(|times| fired >= times) {
            return false;
        }
        if strikes.chance.is_some_and(|chance| self.random.f64() >= chance) {
            return false;
        }
        self.counts.fired.send_modify(|fired| *fired += 1);
        true
    }
}

/// Whether a call is in the state that the action is about.
fn is_due(action: &Action, call: &Call, now: Timestamp) -> bool {
    match (action, call.iterator_issued) {
        (Action::ExpireIterators(age), Some(issued)) => now > issued.after(*age),
        (Action::ExpireIterators(_), None) => false,
        _ => true,
    }
}

fn in_window(strikes: &Strikes, age: Duration) -> bool {
    age >= strikes.from && strikes.until.is_none_or(|until| age < until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Before, Refusal};

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn get_records(set: &FaultSet) -> Plan {
        set.plan(&Call::kinesis("GetRecords", b"{}"), NOW)
    }

    fn struck(fault: Fault, calls: usize) -> Vec<bool> {
        let set = FaultSet::new(7);
        set.add(fault, None);
        (0..calls).map(|_| get_records(&set).is_decided()).collect()
    }

    #[test]
    fn some_calls_are_passed_over_then_some_struck_then_none() {
        let fault = Fault::on("GetRecords").skip(1).times(2).hang();
        assert_eq!(struck(fault, 5), [false, true, true, false, false]);
        assert_eq!(struck(Fault::on("PutRecord").hang(), 1), [false]);
        assert_eq!(
            struck(Fault::on("PutRecord").service(crate::faults::Service::DynamoDb).hang(), 1),
            [false]
        );
    }

    #[test]
    fn chance_comes_from_the_seed() {
        let fault = || Fault::on("GetRecords").chance(0.5).reset();
        let first = struck(fault(), 1_000);
        assert_eq!(struck(fault(), 1_000), first);
        assert!((400..600).contains(&first.iter().filter(|struck| **struck).count()));
        assert_ne!(struck(fault().seed(1), 1_000), struck(fault().seed(2), 1_000));
    }

    #[test]
    fn the_first_fault_that_decides_is_the_last_that_is_looked_at() {
        let set = FaultSet::new(0);
        set.add(Fault::on("GetRecords").delay(Duration::from_secs(1)), None);
        set.add(Fault::on_any().delay(Duration::from_secs(2)), None);
        set.add(Fault::on("GetRecords").times(1).error("InternalFailure"), None);
        let (_, counts) = set.add(Fault::on("GetRecords").hang(), None);
        let plan = get_records(&set);
        assert_eq!(plan.delay, Duration::from_secs(3));
        assert_eq!(plan.before, Some(Before::Refuse(Refusal::new("InternalFailure"))));
        assert_eq!(counts.seen.load(Ordering::Relaxed), 0);
        assert_eq!(get_records(&set).before, Some(Before::Hang));
        set.clear();
        assert!(!get_records(&set).is_decided());
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_of_time_counts_from_when_the_fault_was_added() {
        let set = FaultSet::new(0);
        let fault = Fault::on("GetRecords").from(Duration::from_secs(10)).until(Duration::from_secs(20));
        set.add(fault.hang(), None);
        let mut struck = Vec::new();
        for _ in 0..3 {
            struck.push(get_records(&set).is_decided());
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(struck, [false, true, false]);
    }

    #[test]
    fn an_action_for_one_operation_leaves_others_alone() {
        let set = FaultSet::new(0);
        let (_, counts) = set.add(Fault::on_any().empty_page(), None);
        set.plan(&Call::kinesis("ListShards", b"{}"), NOW);
        set.plan(&Call::dynamodb("GetRecords", b"{}"), NOW);
        assert_eq!(*counts.fired.borrow(), 0);
        assert!(get_records(&set).changes_reply());
        assert_eq!(*counts.fired.borrow(), 1);
    }
}
