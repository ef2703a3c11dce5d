//! What no fleet of consumers may do, looked for in a history of what it did.
//!
//! A history is a sequence of [`Line`]s in the order of time: of a simulation, of `probe` processes, or made from the logs
//! of production. The [`Checker`] reads it once and gives the [`Violation`]s. The more a history tells, the more is
//! checked: without [`Event::Put`] nobody knows what is missing, without [`Event::Row`] nothing of checkpoints, and without
//! [`Event::Answer`] not what is done with. The program `examples/check.rs` does this for files of JSON lines.
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
mod shard;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use actix_kinesis::config::Concurrency;
use kinesis_record::Position;

pub use event::{Event, Line};
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
    /// How many records each key has, and the number of the one that was delivered last for the first time.
    keys: BTreeMap<String, (usize, Option<usize>)>,
    /// Whether the history tells what was put, and whether it was read from `LATEST`.
    has_puts: bool,
    /// Whether it tells of answers, without which everything would seem to be under way for ever.
    has_answers: bool,
    from_latest: bool,
    calm_ms: Option<u64>,
    /// Events that came again, as far as is known without a reason.
    unexplained: Vec<(String, Violation)>,
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
            keys: BTreeMap::new(),
            has_puts: false,
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
        let (at_ms, worker) = (line.at_ms, &line.worker);
        match &line.event {
            Event::Shard { shard, parents } => self.opened(shard, parents),
            Event::Put { shard, pk, .. } => {
                if let Some(position) = line.event.position() {
                    self.put(shard, position, pk);
                }
            }
            Event::Row { shard, checkpoint, counter } => self.stored(worker, shard, checkpoint, *counter),
            Event::RowDeleted { shard } => self.deleted(worker, shard),
            Event::ShardStarted { shard, checkpoint } => {
                self.worker(worker).shards.insert(shard.clone());
                self.shard(shard).started(worker, checkpoint);
            }
            Event::Delivery { shard, pk, attempt, token, .. } => {
                if let Some(position) = line.event.position() {
                    let delivery = delivered::Delivery { shard, position, attempt: *attempt, token: *token };
                    self.delivered(worker, &delivery, pk.as_deref());
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
                let worker = self.worker(worker);
                worker.restarts.entry(shard.clone()).or_default().push(at_ms);
                self.let_go(line, shard);
            }
            Event::LeaseLost { shard } => {
                let worker = self.worker(worker);
                worker.losses.entry(shard.clone()).or_default().push(at_ms);
                self.let_go(line, shard);
            }
            Event::ConsumerShutdown { shard } => self.let_go(line, shard),
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

    /// What was found, when the history is over.
    pub fn finish(mut self) -> Vec<Violation> {
        for (by, violation) in std::mem::take(&mut self.unexplained) {
            if !self.worker(&by).has_stopped_unclean {
                self.violations.push(violation);
            }
        }
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
    fn let_go(&mut self, line: &Line, shard: &str) {
        let worker = self.worker(&line.worker);
        worker.in_flight.remove(shard);
        worker.open.retain(|(of, _), _| of != shard);
        self.shard(shard).forget(&line.worker);
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
        self.shard(shard).parents = parents.to_vec();
        for parent in parents {
            self.shard(parent).children.push(shard.to_owned());
        }
    }

    fn put(&mut self, shard: &str, position: Position, key: &str) {
        self.has_puts = true;
        let (records, _) = self.keys.entry(key.to_owned()).or_default();
        let number = *records;
        *records += 1;
        let at_ms = self.at_ms;
        let history = self.shard(shard);
        history.put(position.clone(), number, at_ms);
        if history.is_finished {
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
