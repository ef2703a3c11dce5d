//! Reading the entries of one run.

use super::entry::{Content, first};
use super::form::{Happening, Memory};
use super::{Entry, Event, JournalError};

/// How far the entries of a run were read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    last: u64,
    /// The parts of what is not complete yet.
    parts: String,
    memory: Memory,
}

impl Reader {
    /// The events of an entry. It has none if the rest of them is still to come, or if it was read before: what carries logs
    /// may deliver a line twice.
    pub(super) fn read(&mut self, entry: Entry) -> Result<Vec<Event>, JournalError> {
        let (last, found) = (self.last, entry.number);
        if found <= last {
            return Ok(Vec::new());
        } else if found > last + 1 {
            return Err(if last == 0 {
                JournalError::NoBeginning
            } else {
                JournalError::Missing { last, found }
            });
        }
        self.last = found;
        let happenings: Vec<Happening> = match entry.content {
            // Parts that are left over here are those before the mark that no more were taken.
            Content::Whole(happenings) => happenings,
            Content::Part(part, is_last) => {
                self.parts.push_str(&part);
                if !is_last {
                    return Ok(Vec::new());
                }
                first(&std::mem::take(&mut self.parts))?
            }
        };
        happenings.into_iter().map(|happening| self.memory.restore(happening)).collect()
    }
}
