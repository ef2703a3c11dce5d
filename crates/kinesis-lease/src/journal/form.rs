//! The form in which events are written: without what the journal holds already.
//!
//! A row of the table is written as what differs from the row that was last told of its shard. A list of shards like the
//! one before is not written again. The outcome of a write names the effect that asked for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kinesis_record::{Shard, ShardId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Ending, Event, Input, JournalError};
use crate::coordinator::{Acquisition, Effect, Settings};
use crate::lease::{Lease, LeaseWrite};
use crate::store::{Scan, Written};

/// An [`Event`] as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Happening {
    Begin {
        seed: u64,
        settings: Settings,
    },
    In(Moment, Input),
    /// These rows are new or differ, and those of these shards cannot be read.
    Scanned(Moment, Vec<Row>, Rest, Vec<ShardId>),
    /// The list is that of before.
    ListedAgain(Moment),
    /// The outcome of the write that this effect, counted from 1, has asked for.
    Applied(Moment, u64, Option<Row>),
    Refused(Moment, u64, Option<Row>),
    Out(Effect),
    Ended(Ending),
}

/// What becomes of the rows that a scan does not tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rest {
    /// The set and its order are those of the scan before.
    Unchanged,
    /// There are no others.
    Gone,
}

/// When an input came, in nanoseconds, and how many effects had not been taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moment(u64, usize);

impl Moment {
    fn new(at: Duration, untaken: usize) -> Self {
        // A driver's clock begins with its consumer: five centuries will do.
        Self(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX), untaken)
    }

    fn tell(self, input: Input) -> Event {
        Event::In { at: Duration::from_nanos(self.0), untaken: self.1, input }
    }
}

/// The attributes of a row by their names, without those that it does not have; in a difference, null is one that it
/// does not have any more. The shard is always there.
type Row = Map<String, Value>;

const SHARD: &str = "shard";

/// What was told before, which writing and reading keep alike.
#[derive(Debug, Default)]
pub(super) struct Memory {
    rows: BTreeMap<String, Row>,
    /// The shards of the last scan, in its order.
    scanned: Vec<String>,
    list: Option<Vec<Shard>>,
    effects: u64,
    /// The last write that was asked for, with the number of its effect.
    writes: BTreeMap<ShardId, (u64, Acquisition, LeaseWrite)>,
}

impl Memory {
    pub(super) fn shorten(&mut self, event: Event) -> Result<Happening, serde_json::Error> {
        let (at, untaken, input) = match event {
            Event::Begin { seed, settings } => return Ok(Happening::Begin { seed, settings }),
            Event::In { at, untaken, input } => (at, untaken, input),
            Event::Out(effect) => {
                self.note_effect(&effect);
                return Ok(Happening::Out(effect));
            }
            Event::Ended(ending) => return Ok(Happening::Ended(ending)),
        };
        let moment = Moment::new(at, untaken);
        Ok(match input {
            Input::Scanned(Ok(Scan { leases: rows, unreadable })) => {
                let mut changed =
                    rows.iter().map(|row| self.difference(row)).collect::<Result<Vec<_>, _>>()?;
                let shards = rows.iter().map(|row| row.shard.to_string()).collect();
                let rest = if self.scanned == shards { Rest::Unchanged } else { Rest::Gone };
                self.note_scan(shards);
                changed.retain(|row| rest == Rest::Gone || row.len() > 1);
                Happening::Scanned(moment, changed, rest, unreadable)
            }
            Input::Listed(Ok(shards)) if self.list.as_ref() == Some(&shards) => {
                Happening::ListedAgain(moment)
            }
            Input::Listed(Ok(shards)) => {
                self.list = Some(shards.clone());
                Happening::In(moment, Input::Listed(Ok(shards)))
            }
            Input::Written(acquisition, write, Ok(outcome)) => {
                let asked = self.writes.get(&write.shard);
                match asked.filter(|(_, by, asked)| (*by, asked) == (acquisition, &write)) {
                    None => Happening::In(moment, Input::Written(acquisition, write, Ok(outcome))),
                    Some(&(effect, ..)) => {
                        let mut short =
                            |row: Option<Box<Lease>>| row.map(|row| self.difference(&row)).transpose();
                        match outcome {
                            Written::Applied(row) => Happening::Applied(moment, effect, short(row)?),
                            Written::Refused(row) => Happening::Refused(moment, effect, short(row)?),
                        }
                    }
                }
            }
            input => Happening::In(moment, input),
        })
    }

    pub(super) fn restore(&mut self, happening: Happening) -> Result<Event, JournalError> {
        Ok(match happening {
            Happening::Begin { seed, settings } => Event::Begin { seed, settings },
            Happening::In(moment, input) => {
                if let Input::Listed(Ok(shards)) = &input {
                    self.list = Some(shards.clone());
                }
                moment.tell(input)
            }
            Happening::Scanned(moment, changed, rest, unreadable) => {
                let leases = self.scan(changed, rest)?;
                moment.tell(Input::Scanned(Ok(Scan { leases, unreadable })))
            }
            Happening::ListedAgain(moment) => {
                let list = self.list.clone().ok_or_else(|| unknown("a list"))?;
                moment.tell(Input::Listed(Ok(list)))
            }
            Happening::Applied(moment, effect, row) => {
                let row = self.row(row)?;
                moment.tell(self.written(effect, Written::Applied(row))?)
            }
            Happening::Refused(moment, effect, row) => {
                let row = self.row(row)?;
                moment.tell(self.written(effect, Written::Refused(row))?)
            }
            Happening::Out(effect) => {
                self.note_effect(&effect);
                Event::Out(effect)
            }
            Happening::Ended(ending) => Event::Ended(ending),
        })
    }

    fn note_effect(&mut self, effect: &Effect) {
        self.effects += 1;
        if let Effect::Write(acquisition, write) = effect {
            self.writes.insert(write.shard.clone(), (self.effects, *acquisition, write.clone()));
        }
    }

    fn note_scan(&mut self, shards: Vec<String>) {
        // A shard that is there twice cannot be told by its name.
        let is_set = shards.iter().collect::<BTreeSet<_>>().len() == shards.len();
        self.scanned = if is_set { shards } else { Vec::new() };
    }

    /// What is new about a row.
    fn difference(&mut self, row: &Lease) -> Result<Row, serde_json::Error> {
        let Value::Object(mut row) = serde_json::to_value(row)? else { return Ok(Row::new()) };
        row.retain(|_, value| !value.is_null());
        let shard = row.get(SHARD).and_then(Value::as_str).unwrap_or_default().to_owned();
        let former = self.rows.insert(shard, row.clone()).unwrap_or_default();
        let gone = former.keys().filter(|name| !row.contains_key(*name)).cloned().collect::<Vec<_>>();
        row.retain(|name, value| name == SHARD || former.get(name) != Some(value));
        row.extend(gone.into_iter().map(|name| (name, Value::Null)));
        Ok(row)
    }

    /// The row of which this is new.
    fn merge(&mut self, difference: Row) -> Result<Lease, JournalError> {
        let shard = shard_of(&difference)?;
        let row = self.rows.entry(shard).or_default();
        row.extend(difference);
        row.retain(|_, value| !value.is_null());
        serde_json::from_value(Value::Object(row.clone()))
            .map_err(|error| JournalError::Broken(error.to_string()))
    }

    fn row(&mut self, difference: Option<Row>) -> Result<Option<Box<Lease>>, JournalError> {
        difference.map(|row| self.merge(row).map(Box::new)).transpose()
    }

    fn scan(&mut self, changed: Vec<Row>, rest: Rest) -> Result<Vec<Lease>, JournalError> {
        let mut told = Vec::new();
        for row in changed {
            told.push((shard_of(&row)?, row));
        }
        if rest == Rest::Unchanged {
            let mut changed: BTreeMap<_, _> = std::mem::take(&mut told).into_iter().collect();
            for shard in &self.scanned {
                let row = changed
                    .remove(shard)
                    .unwrap_or_else(|| Row::from_iter([(SHARD.to_owned(), shard.as_str().into())]));
                told.push((shard.clone(), row));
            }
        }
        let (shards, rows): (Vec<_>, Vec<_>) = told.into_iter().unzip();
        self.note_scan(shards);
        rows.into_iter().map(|row| self.merge(row)).collect()
    }

    fn written(&self, effect: u64, outcome: Written) -> Result<Input, JournalError> {
        let asked = self.writes.values().find(|(number, ..)| *number == effect);
        let (_, acquisition, write) = asked.ok_or_else(|| unknown("a write"))?;
        Ok(Input::Written(*acquisition, write.clone(), Ok(outcome)))
    }
}

fn shard_of(row: &Row) -> Result<String, JournalError> {
    let shard = row.get(SHARD).and_then(Value::as_str).map(str::to_owned);
    shard.ok_or_else(|| unknown("the shard of a row"))
}

fn unknown(what: &str) -> JournalError {
    JournalError::Broken(format!("it refers to {what} that was not told before"))
}
