//! What no fleet of consumers may do, looked for in a history of what it did.
//!
//! A history is a sequence of [`Line`]s in the order of time: of a simulation, of `probe` processes, or of an application
//! in production with a [`Recorder`]. The [`Checker`] reads it once and gives the [`Violation`]s. The more a history tells,
//! the more is checked: without [`Event::Put`] nobody knows what is missing. The program `examples/check.rs` does this for
//! files of JSON lines.
//!
//! ```
//! use actix_kinesis_test::check::{Checker, Line, Oracle, Rules};
//!
//! let mut checker = Checker::new(Rules::default());
//! for line in [
//!     r#"{"unix_ms":1,"event":"put","shard":"a","seq":"1","sub":0,"pk":"k"}"#,
//!     r#"{"unix_ms":2,"event":"put","shard":"a","seq":"2","sub":0,"pk":"k"}"#,
//!     r#"{"unix_ms":3,"worker":"w","event":"delivery","shard":"a","seq":"2","sub":0,"pk":"k","attempt":1}"#,
//! ] {
//!     checker.observe(&Line::parse(line).unwrap());
//! }
//! let violations = checker.finish();
//! assert_eq!(violations[0].oracle, Oracle::Complete);
//! ```

mod delivered;
mod ended;
mod event;
mod excuse;
mod observed;
mod recorder;
mod shard;
mod stored;
#[cfg(test)]
mod tests;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use actix_kinesis::config::Concurrency;
use kinesis_record::Position;

pub use event::{Event, Line};
use excuse::Unexplained;
pub use recorder::Recorder;
use shard::ShardHistory;

/// So many violations are told; more say nothing new.
const MOST_TOLD: usize = 20;

/// What must hold besides what always does.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Nothing goes wrong and all events are answered in time: no event comes twice, whatever is started, stopped,
    /// resharded or handed over.
    pub only_planned: bool,
    /// After a crash, a freeze or the loss of a lease, what was done with longer ago than this does not come again. Not
    /// checked without it.
    pub window: Option<Duration>,
    /// From when faults are over, or a record is put if that is later, the record is done with and stored within this
    /// time, and so are closed shards. Not checked without it.
    pub progress: Option<Duration>,
    /// The most events that a process may have under way. One of each shard is always allowed, whatever the others have.
    /// Needs [`Event::Answer`] or [`Event::Load`].
    pub max_in_flight: Option<u64>,
    /// The most memory that the events of a process may take, in bytes.
    pub max_bytes: Option<u64>,
    /// Clocks may run so differently that two processes both believe to have a lease. Then a sink is to go by the
    /// fencing token.
    pub owners_may_overlap: bool,
    /// How many events of a shard each process has under way at once, and what waits for what.
    pub concurrency: Concurrency,
    /// The settings tolerate no failure: no event is given up.
    pub gives_up_nothing: bool,
    /// A process that says nothing any more, its stop included, may have died after its last line, as after `kill -9`. So
    /// it is with what processes write down themselves. Without this, [`Event::Crashed`] tells of each death.
    pub silence_is_death: bool,
}

/// What a fleet has to keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Oracle {
    /// Every record is delivered, nothing that was never put, and nothing is given up where that is forbidden.
    Complete,
    /// The first deliveries of a key's records come in the order of the stream, across reshards, too. With `concurrency`,
    /// nothing of a shard or key is delivered beside an open event of it.
    Order,
    /// What was done with and stored before its reader began does not come again.
    Stored,
    /// Once a reader of a shard has delivered, one with an older fencing token is silent, and none has the same one.
    Owner,
    /// Checkpoints grow, pass nothing that is not done with, and say `SHARD_END` when everything is and the rows of the
    /// children are there. Each write of one raises the counter by one. What a process deletes is finished, and what comes
    /// behind a shard that is being read is read whole.
    Checkpoint,
    /// Nothing of a shard is delivered before its parents are at `SHARD_END`.
    Parents,
    /// An event that was done with, as all before it, comes again only for a reason: a crash, a freeze, a lost lease, a failed shard, a stop
    /// that was not clean.
    Repeat,
    /// After these, no more comes again than what was done with last.
    Window,
    /// Once faults are over, everything is soon done with and stored.
    Progress,
    /// What is under way stays within the limits.
    Memory,
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a fleet should not have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What it goes against.
    pub oracle: Oracle,
    /// The line of the history that shows it, from 1.
    pub line: usize,
    /// When, in milliseconds, by the clock of the history.
    pub at_ms: u64,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ms, line {}: {}", self.oracle, self.at_ms, self.line, self.text)
    }
}

/// Reads a history, line by line.
#[derive(Debug)]
pub struct Checker {
    rules: Rules,
    line: usize,
    at_ms: u64,
    shards: BTreeMap<String, ShardHistory>,
    workers: BTreeMap<String, WorkerHistory>,
    /// Which of the processes with its name is the present one, from 1, where there was more than one.
    lives: BTreeMap<String, usize>,
    /// Of each partition key and explicit hash key, the greatest place that was delivered for the first time.
    keys: BTreeMap<(String, Option<String>), Position>,
    /// Partition keys of which there may be records that were not acknowledged.
    uncertain_keys: BTreeSet<String>,
    /// Whether the history tells what was put, of which shards there are, and whether it was read from `LATEST`.
    has_puts: bool,
    has_shards: bool,
    /// Whether it tells of answers, without which everything would seem to be under way for ever.
    has_answers: bool,
    from_latest: bool,
    calm_ms: Option<u64>,
    /// Events that came again, as far as is known without a reason.
    unexplained: Vec<Unexplained>,
    violations: Vec<Violation>,
}

/// What is known of a process.
#[derive(Debug, Default)]
struct WorkerHistory {
    /// When it crashed or froze.
    breaks: Vec<u64>,
    /// Whether it said at its end that not everything was settled and stored. It may have let go of a shard before.
    has_stopped_unclean: bool,
    /// When a shard was lost or failed.
    losses: BTreeMap<String, Vec<u64>>,
    restarts: BTreeMap<String, Vec<u64>>,
    /// What is under way, by shard.
    in_flight: BTreeMap<String, BTreeSet<Position>>,
    /// What it is not done with, of each shard and, if that is what is processed in order, each key.
    open: BTreeMap<(String, Option<String>), Position>,
    /// The shards that it has had.
    shards: BTreeSet<String>,
    /// Its last line, and when that was.
    last: (usize, u64),
    /// Whether it has done anything.
    has_lived: bool,
    /// Whether it has said that it ends, or somebody that it died.
    has_ended: bool,
}

impl Checker {
    /// A checker of one history.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            line: 0,
            at_ms: 0,
            shards: BTreeMap::new(),
            workers: BTreeMap::new(),
            lives: BTreeMap::new(),
            keys: BTreeMap::new(),
            uncertain_keys: BTreeSet::new(),
            has_puts: false,
            has_shards: false,
            has_answers: false,
            from_latest: false,
            calm_ms: None,
            unexplained: Vec::new(),
            violations: Vec::new(),
        }
    }

    /// Takes note of the next line.
    pub fn observe(&mut self, line: &Line) {
        self.line += 1;
        self.at_ms = line.at_ms;
        let at_ms = line.at_ms;
        let worker = &*self.life(line);
        self.speaks(worker, &line.event);
        match &line.event {
            Event::Shard { shard, parents } => self.opened(shard, parents),
            Event::Put { shard, pk, attempts, .. } => {
                if *attempts > 1 {
                    self.uncertain_keys.insert(pk.clone());
                }
                if let Some(position) = line.event.position() {
                    self.put(shard, position);
                }
            }
            Event::PutFailed { pk, may_be_stored } => {
                if *may_be_stored {
                    self.uncertain_keys.insert(pk.clone());
                }
            }
            Event::Row { shard, checkpoint, counter } => self.stored(worker, shard, checkpoint, *counter),
            Event::RowDeleted { shard } => self.deleted(worker, shard),
            Event::ShardStarted { shard, checkpoint, token } => {
                self.worker(worker).shards.insert(shard.clone());
                self.taken(worker, shard, checkpoint, *token);
            }
            Event::CheckpointStored { shard, checkpoint, token } => {
                self.told_stored(worker, shard, checkpoint, *token);
            }
            Event::Delivery { shard, pk, ehk, attempt, token, .. } => {
                if let Some(position) = line.event.position() {
                    let (shard, attempt, token) = (shard.as_str(), *attempt, *token);
                    let (key, hash_key) = (pk.as_deref(), ehk.as_deref());
                    let delivery = delivered::Delivery { shard, position, key, hash_key, attempt, token };
                    self.delivered(worker, &delivery);
                }
            }
            Event::Answer { shard, done, .. } => {
                if let Some(position) = line.event.position() {
                    self.has_answers = true;
                    if let Some(in_flight) = self.worker(worker).in_flight.get_mut(shard) {
                        in_flight.remove(&position);
                    }
                    if *done {
                        self.done(worker, shard, &position);
                    }
                }
            }
            Event::EventGivenUp { shard, .. } => {
                if let Some(position) = line.event.position() {
                    if self.rules.gives_up_nothing {
                        self.violated(Oracle::Complete, format!("{worker} gives up {shard} {position}"));
                    }
                    self.done(worker, shard, &position);
                }
            }
            Event::ShardRestarts { shard } => {
                let history = self.worker(worker);
                history.restarts.entry(shard.clone()).or_default().push(at_ms);
                self.let_go(worker, shard);
            }
            Event::LeaseLost { shard } => {
                let history = self.worker(worker);
                history.losses.entry(shard.clone()).or_default().push(at_ms);
                self.let_go(worker, shard);
            }
            Event::ConsumerShutdown { shard } => self.let_go(worker, shard),
            Event::Load { in_flight, bytes } => self.loaded(worker, *in_flight, *bytes),
            Event::Crashed => {
                let worker = self.worker(worker);
                worker.breaks.push(at_ms);
                worker.in_flight.clear();
                worker.open.clear();
            }
            Event::Stopped { clean } => {
                let worker = self.worker(worker);
                worker.has_stopped_unclean |= !clean;
                worker.in_flight.clear();
                worker.open.clear();
            }
            Event::Frozen => self.worker(worker).breaks.push(at_ms),
            Event::Calm => self.calm_ms = Some(at_ms),
            Event::Started | Event::Thawed | Event::Other => {}
        }
    }

    /// Passes a line that is none of the history, so that lines are counted as they stand.
    pub fn pass(&mut self) {
        self.line += 1;
    }

    /// What was found, when the history is over: the first twenty violations.
    pub fn finish(mut self) -> Vec<Violation> {
        self.check_unexplained();
        self.check_the_end();
        self.violations.sort_by_key(|violation| violation.line);
        self.violations.truncate(MOST_TOLD);
        self.violations
    }

    fn shard(&mut self, shard: &str) -> &mut ShardHistory {
        // Not by `entry`, which takes a copy of the name each time.
        if !self.shards.contains_key(shard) {
            self.shards.insert(shard.to_owned(), ShardHistory::default());
        }
        self.shards.entry(shard.to_owned()).or_default()
    }

    fn worker(&mut self, worker: &str) -> &mut WorkerHistory {
        self.workers.entry(worker.to_owned()).or_default()
    }

    fn done(&mut self, worker: &str, shard: &str, position: &Position) {
        self.worker(worker).open.retain(|(of, _), open| of != shard || open != position);
        let at_ms = self.at_ms;
        self.shard(shard).done(worker, position, at_ms);
    }

    /// A process has ended its work on the shard, for now or for good.
    fn let_go(&mut self, worker: &str, shard: &str) {
        let history = self.worker(worker);
        history.in_flight.remove(shard);
        history.open.retain(|(of, _), _| of != shard);
        self.shard(shard).forget(worker);
    }

    fn violated(&mut self, oracle: Oracle, text: String) {
        if self.violations.len() < MOST_TOLD {
            let violation = self.violation(oracle, text);
            self.violations.push(violation);
        }
    }

    fn violation(&self, oracle: Oracle, text: String) -> Violation {
        Violation { oracle, line: self.line, at_ms: self.at_ms, text }
    }

    fn opened(&mut self, shard: &str, parents: &[String]) {
        self.has_shards = true;
        self.shard(shard).parents = parents.to_vec();
        for parent in parents {
            self.shard(parent).children.push(shard.to_owned());
        }
    }

    fn put(&mut self, shard: &str, position: Position) {
        self.has_puts = true;
        let put = Some((self.line, self.at_ms));
        let history = self.shard(shard);
        let is_finished = history.is_finished;
        let record = history.records.entry(position.clone()).or_default();
        record.put = put;
        // Who put it may have learned so after somebody had read it.
        if is_finished && record.delivered_by.is_none() {
            self.violated(
                Oracle::Checkpoint,
                format!("{shard} was at SHARD_END, and {position} is put into it"),
            );
        }
    }

    fn loaded(&mut self, worker: &str, in_flight: u64, bytes: u64) {
        let shards = self.worker(worker).shards.len() as u64;
        if let Some(limit) = self.rules.max_in_flight
            && in_flight > limit.saturating_add(shards.saturating_sub(1))
        {
            self.violated(
                Oracle::Memory,
                format!("{worker} has {in_flight} events under way, {limit} are allowed"),
            );
        }
        if let Some(limit) = self.rules.max_bytes
            && bytes > limit
        {
            self.violated(Oracle::Memory, format!("{worker} holds {bytes} bytes, {limit} are allowed"));
        }
    }
}

impl WorkerHistory {
    /// The first moment since `since` at which something happened for which events of the shard may come again.
    fn first_reason(&self, shard: &str, since: u64) -> Option<u64> {
        let losses = self.losses.get(shard).into_iter().flatten();
        let restarts = self.restarts.get(shard).into_iter().flatten();
        self.breaks.iter().chain(losses).chain(restarts).copied().filter(|at| *at >= since).min()
    }
}
