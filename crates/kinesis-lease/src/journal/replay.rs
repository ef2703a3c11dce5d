//! Running again what a journal tells of.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Entry, Event, Input, VERSION};
use crate::coordinator::{Coordinator, Effect, Settings};

/// What every entry begins with.
const MARK: &str = r#"{"lease_journal":"#;

/// The same inside of a text that is part of a JSON document.
const QUOTED_MARK: &str = r#"{\"lease_journal\":"#;

/// Why an entry is of no use, or where a replay went another way.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JournalError {
    /// The line was cut off or changed.
    #[error("broken entry, the line was cut off or changed: {0}")]
    Broken(String),
    /// Another version of this library wrote it.
    #[error("the entry is of version {found} of the journal, this program reads version {VERSION}")]
    OtherVersion {
        /// The entry's version.
        found: u32,
    },
    /// The first entry of a run is not its beginning.
    #[error(
        "the log does not have the beginning of this run, without which it cannot be replayed: it must \
         reach back to the start of the consumer"
    )]
    NoBeginning,
    /// The seed leads to other numbers here.
    #[error(
        "the seed does not give the token that the journal names: the beginning was changed, or \
         the program that wrote it has another random generator"
    )]
    OtherGenerator,
    /// The coordinator did something else.
    #[error("the replay differs: {0}")]
    Differs(Difference),
}

/// What a replay did otherwise than its journal says.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Difference {
    /// Another effect was next, or none.
    #[error("recorded was {recorded:?}, replayed {}", or_nothing(.replayed))]
    Effect {
        /// The journal's effect.
        recorded: Box<Effect>,
        /// The effect that came instead.
        replayed: Option<Box<Effect>>,
    },
    /// There were more or fewer effects to take when the next input came.
    #[error("when this input came, recorded were {recorded} effects still to be taken, replayed {}: {replayed:?}", .replayed.len())]
    Untaken {
        /// How many there were.
        recorded: usize,
        /// Those that there are.
        replayed: Vec<Effect>,
    },
}

fn or_nothing(effect: &Option<Box<Effect>>) -> String {
    effect.as_ref().map_or("nothing".to_owned(), |effect| format!("{effect:?}"))
}

#[derive(Deserialize)]
struct Head {
    lease_journal: u32,
}

impl Entry {
    /// The entry in a line of a log, whatever stands around it, as it is or as a text in a JSON document. `None` if there
    /// is none.
    ///
    /// # Errors
    /// [`JournalError::Broken`] and [`JournalError::OtherVersion`].
    pub fn find(line: &str) -> Option<Result<Self, JournalError>> {
        if let Some(start) = line.find(MARK) {
            return Some(Self::parse(&line[start..]));
        }
        let quoted = &line[line.find(QUOTED_MARK)?..];
        let text = first::<String>(&format!("\"{quoted}"));
        Some(text.and_then(|text| Self::parse(&text)))
    }

    fn parse(text: &str) -> Result<Self, JournalError> {
        match first::<Head>(text)?.lease_journal {
            VERSION => first(text),
            found => Err(JournalError::OtherVersion { found }),
        }
    }
}

/// The value that `text` begins with.
fn first<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, JournalError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next().unwrap_or_else(|| Err(serde::de::Error::custom("nothing")));
    value.map_err(|error| JournalError::Broken(error.to_string()))
}

/// The runs in a log, each with a coordinator of its own.
#[derive(Debug, Default)]
pub struct Replay {
    runs: BTreeMap<String, Run>,
}

/// How far a run was replayed.
#[derive(Debug)]
pub struct Run {
    /// None once it went another way.
    coordinator: Option<Coordinator>,
    inputs: usize,
    effects: usize,
}

impl Replay {
    /// Does what the entry tells of. Entries of a run that has failed before are passed over.
    ///
    /// # Errors
    /// [`JournalError::NoBeginning`], [`JournalError::OtherGenerator`] and [`JournalError::Differs`], each once for a
    /// run.
    pub fn follow(&mut self, entry: Entry) -> Result<(), JournalError> {
        let Entry { run: name, event, .. } = entry;
        let is_known = self.runs.contains_key(&name);
        let run = self.runs.entry(name.clone()).or_insert(Run { coordinator: None, inputs: 0, effects: 0 });
        let outcome = match event {
            Event::Begin { seed, settings } => run.begin(&name, seed, settings),
            Event::In { at, untaken, input } if is_known => run.tell(at, untaken, input),
            Event::Out(effect) if is_known => run.take(effect),
            Event::In { .. } | Event::Out(_) => Err(JournalError::NoBeginning),
        };
        if outcome.is_err() {
            run.coordinator = None;
        }
        outcome
    }

    /// The runs by their names.
    pub fn runs(&self) -> &BTreeMap<String, Run> {
        &self.runs
    }
}

impl Run {
    /// Whether everything was as recorded so far.
    pub fn is_same(&self) -> bool {
        self.coordinator.is_some()
    }

    /// How many inputs and effects were the same as recorded.
    pub fn followed(&self) -> (usize, usize) {
        (self.inputs, self.effects)
    }

    fn begin(&mut self, name: &str, seed: u64, settings: Settings) -> Result<(), JournalError> {
        let coordinator = Coordinator::new(settings, fastrand::Rng::with_seed(seed));
        if coordinator.run() != name {
            return Err(JournalError::OtherGenerator);
        }
        *self = Self { coordinator: Some(coordinator), inputs: 0, effects: 0 };
        Ok(())
    }

    fn tell(&mut self, at: Duration, untaken: usize, input: Input) -> Result<(), JournalError> {
        let Some(coordinator) = &mut self.coordinator else { return Ok(()) };
        if coordinator.untaken() != untaken {
            let replayed = std::iter::from_fn(|| coordinator.next_effect()).collect();
            return Err(JournalError::Differs(Difference::Untaken { recorded: untaken, replayed }));
        }
        input.tell(coordinator, at);
        self.inputs += 1;
        Ok(())
    }

    fn take(&mut self, recorded: Effect) -> Result<(), JournalError> {
        let Some(coordinator) = &mut self.coordinator else { return Ok(()) };
        let replayed = coordinator.next_effect();
        if replayed.as_ref() != Some(&recorded) {
            let (recorded, replayed) = (Box::new(recorded), replayed.map(Box::new));
            return Err(JournalError::Differs(Difference::Effect { recorded, replayed }));
        }
        self.effects += 1;
        Ok(())
    }
}

impl Input {
    /// What the calls return is told by effects as well.
    fn tell(self, to: &mut Coordinator, now: Duration) {
        match self {
            Self::Tick => to.tick(now),
            Self::Scanned(rows) => to.scanned(now, rows),
            Self::Listed(shards) => drop(to.listed(now, shards)),
            Self::Created(new, outcome) => to.created(now, new, outcome),
            Self::Written(acquisition, write, outcome) => to.written(now, acquisition, write, outcome),
            Self::Deleted(shard, outcome) => to.deleted(&shard, outcome),
            Self::BegunAnew(shard, outcome) => to.begun_anew(now, &shard, outcome),
            Self::LookedUp(acquisition, shard, row) => to.looked_up(now, acquisition, &shard, row),
            Self::Reported(reported) => to.reported(now, reported),
            Self::Retired => to.retired(now),
            Self::Checkpoint(shard, acquisition, checkpoint) => {
                to.checkpoint(now, &shard, acquisition, checkpoint);
            }
            Self::End(shard, acquisition, children) => {
                to.end(now, &shard, acquisition, children);
            }
            Self::Release(shard, acquisition) => {
                to.release(now, &shard, acquisition);
            }
            Self::Offer(shard, acquisition) => to.offer(now, &shard, acquisition),
            Self::Keep(shard, acquisition) => to.keep(now, &shard, acquisition),
            Self::Leave => drop(to.leave(now)),
            Self::Shun(shard) => to.shun(&shard),
            Self::Unshun(shard) => to.unshun(now, &shard),
            Self::StopTaking => to.stop_taking(now),
        }
    }
}
