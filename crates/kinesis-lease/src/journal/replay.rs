//! Running again what a journal tells of.

use std::collections::BTreeMap;
use std::time::Duration;

use super::read::Reader;
use super::{Ending, Entry, Event, Input, VERSION};
use crate::coordinator::{Coordinator, Effect, Settings};

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
    /// Entries were lost on the way.
    #[error(
        "{} missing (the log has {last}, then {found}): it cannot be replayed any further",
        missing(*.last, *.found)
    )]
    Missing {
        /// The last entry before the hole.
        last: u64,
        /// The first one behind it.
        found: u64,
    },
    /// The journal says that it goes no further.
    #[error("the journal ended: {0}")]
    Ended(Ending),
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

fn missing(last: u64, found: u64) -> String {
    match (last + 1, found - 1) {
        (first, last) if first == last => format!("entry {first} is"),
        (first, last) => format!("entries {first} to {last} are"),
    }
}

fn or_nothing(effect: &Option<Box<Effect>>) -> String {
    effect.as_ref().map_or("nothing".to_owned(), |effect| format!("{effect:?}"))
}

/// The runs in a log, each with a coordinator of its own.
#[derive(Debug, Default)]
pub struct Replay {
    runs: BTreeMap<String, Run>,
}

/// How far a run was replayed.
#[derive(Debug, Default)]
pub struct Run {
    reader: Reader,
    coordinator: Option<Coordinator>,
    has_failed: bool,
    inputs: usize,
    effects: usize,
}

impl Replay {
    /// The events of an entry, each of which is then to be [followed](Replay::follow). None of a run that has failed
    /// before, and none if a later entry completes them.
    ///
    /// # Errors
    /// [`JournalError::NoBeginning`], [`JournalError::Missing`] and [`JournalError::Broken`], each once for a run.
    pub fn read(&mut self, entry: Entry) -> Result<Vec<Event>, JournalError> {
        let run = self.runs.entry(entry.run.clone()).or_default();
        if run.has_failed {
            return Ok(Vec::new());
        }
        let events = run.reader.read(entry);
        run.has_failed = events.is_err();
        events
    }

    /// Does what the event tells of. Those of a run that has failed before are passed over.
    ///
    /// # Errors
    /// [`JournalError::NoBeginning`], [`JournalError::OtherGenerator`], [`JournalError::Differs`] and
    /// [`JournalError::Ended`], each once for a run.
    pub fn follow(&mut self, name: &str, event: Event) -> Result<(), JournalError> {
        let run = self.runs.entry(name.to_owned()).or_default();
        if run.has_failed {
            return Ok(());
        }
        let outcome = match event {
            Event::Begin { seed, settings } => run.begin(name, seed, settings),
            Event::In { at, untaken, input } => run.tell(at, untaken, input),
            Event::Out(effect) => run.take(effect),
            Event::Ended(ending) => Err(JournalError::Ended(ending)),
        };
        run.has_failed = outcome.is_err();
        outcome
    }

    /// Follows a run no further, of which an entry is unreadable. Returns whether it was followed until now.
    pub fn abandon(&mut self, name: &str) -> bool {
        let run = self.runs.entry(name.to_owned()).or_default();
        !std::mem::replace(&mut run.has_failed, true)
    }

    /// The runs by their names.
    pub fn runs(&self) -> &BTreeMap<String, Run> {
        &self.runs
    }
}

impl Run {
    /// Whether everything was there and as recorded so far.
    pub fn is_same(&self) -> bool {
        !self.has_failed
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
        self.coordinator = Some(coordinator);
        Ok(())
    }

    fn tell(&mut self, at: Duration, untaken: usize, input: Input) -> Result<(), JournalError> {
        let coordinator = self.coordinator.as_mut().ok_or(JournalError::NoBeginning)?;
        if coordinator.untaken() != untaken {
            let replayed = std::iter::from_fn(|| coordinator.next_effect()).collect();
            return Err(JournalError::Differs(Difference::Untaken { recorded: untaken, replayed }));
        }
        input.tell(coordinator, at);
        self.inputs += 1;
        Ok(())
    }

    fn take(&mut self, recorded: Effect) -> Result<(), JournalError> {
        let coordinator = self.coordinator.as_mut().ok_or(JournalError::NoBeginning)?;
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
