//! Entries as lines of a log.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::form::Happening;
use super::{JournalError, VERSION};

/// No line is longer, in bytes. Log drivers split lines at 16 KiB, and each JSON around a line makes it longer.
pub(super) const LONGEST_LINE: usize = 8 * 1024;

/// Room for what stands around the events of an entry.
const AROUND: usize = 128;

/// The name by which entries are found. It is the first key of a line.
const MARK: &str = "lease_journal";

/// How many JSON documents may be around an entry, each a text in the next one.
const MOST_DOCUMENTS: usize = 6;

/// One line of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Tells the coordinators apart whose entries are in one log.
    pub run: String,
    /// The entries of a run are numbered from 1, without a gap.
    pub number: u64,
    pub(super) content: Content,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    Whole(Vec<Happening>),
    /// Part of what is too long for a line, with whether it is the last one.
    Part(String, bool),
}

/// A line with an entry that is of no use.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct Unreadable {
    /// The run that it belongs to, if the line tells.
    pub run: Option<String>,
    /// [`JournalError::Broken`] or [`JournalError::OtherVersion`].
    pub error: JournalError,
}

#[derive(Deserialize)]
struct Version {
    lease_journal: u32,
}

#[derive(Deserialize)]
struct Line {
    run: String,
    entry: u64,
    events: Option<Vec<Happening>>,
    part: Option<String>,
    #[serde(default)]
    more: bool,
}

impl Entry {
    /// The entry in a line of a log, whatever stands around it, as it is or as a text in a JSON document, which may be a
    /// text in another one. `None` if there is none.
    ///
    /// # Errors
    /// What is wrong with the entry that is there.
    pub fn find(line: &str) -> Option<Result<Self, Unreadable>> {
        let (start, documents) = line.match_indices(MARK).find_map(|(at, _)| opening(line, at))?;
        let line = &line[start..];
        Some(Self::parse(line, documents).map_err(|error| Unreadable { run: run_of(line), error }))
    }

    fn parse(line: &str, documents: usize) -> Result<Self, JournalError> {
        let mut text = line.to_owned();
        for _ in 0..documents {
            text = first(&format!("\"{text}"))?;
        }
        let found = first::<Version>(&text)?.lease_journal;
        if found != VERSION {
            return Err(JournalError::OtherVersion { found });
        }
        let Line { run, entry: number, events, part, more } = first(&text)?;
        let content = match (events, part) {
            (Some(events), _) => Content::Whole(events),
            (None, Some(part)) => Content::Part(part, !more),
            (None, None) => return Err(JournalError::Broken("it holds nothing".to_owned())),
        };
        Ok(Self { run, number, content })
    }
}

/// Where the entry begins whose mark is at this place, and how many JSON documents are around it: each doubles the
/// backslashes before a quotation mark and adds one.
fn opening(line: &str, mark: usize) -> Option<(usize, usize)> {
    let before = line[..mark].strip_suffix('"')?;
    let escaped = before.trim_end_matches('\\');
    let backslashes = before.len() - escaped.len();
    let documents = (0..=MOST_DOCUMENTS).find(|documents| (1 << documents) - 1 == backslashes)?;
    Some((escaped.strip_suffix('{')?.len(), documents))
}

/// The run that a line belongs to which may break off behind that.
fn run_of(line: &str) -> Option<String> {
    let head: String = line.chars().take(1024).filter(|char| *char != '\\').collect();
    let (_, behind) = head.split_once(r#","run":""#)?;
    Some(behind.split_once('"')?.0.to_owned())
}

/// The value that `text` begins with.
pub(super) fn first<T: DeserializeOwned>(text: &str) -> Result<T, JournalError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next().unwrap_or_else(|| Err(serde::de::Error::custom("nothing")));
    value.map_err(|error| JournalError::Broken(error.to_string()))
}

/// The name of a run: FNV-1a over what the tokens of its acquisitions begin with, the worker id and 128 bits of chance. It is in
/// every line, so it is short, and of hexadecimal digits, which no JSON escapes.
pub(crate) fn name_of(token: &str) -> String {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", token.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The contents of the lines for `events`, a JSON text, in order: what follows the number of the entry.
pub(super) fn contents(events: &str) -> Vec<String> {
    let longest = LONGEST_LINE - AROUND;
    if events.len() <= longest {
        return vec![format!(r#""events":{events}}}"#)];
    }
    let parts = split(events, longest);
    let last = parts.len() - 1;
    let content = |(index, part): (usize, &str)| {
        let more = if index < last { r#","more":true"# } else { "" };
        format!(r#""part":{}{more}}}"#, serde_json::Value::from(part))
    };
    parts.into_iter().enumerate().map(content).collect()
}

/// Cuts a JSON text into parts that are, each as a text in JSON, not longer than that.
fn split(text: &str, longest: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut length) = (0, 0);
    for (at, char) in text.char_indices() {
        // There are no control characters: they are escaped once already.
        let escaped = if matches!(char, '"' | '\\') { 2 } else { char.len_utf8() };
        if length + escaped > longest {
            parts.push(&text[start..at]);
            (start, length) = (at, 0);
        }
        length += escaped;
    }
    parts.push(&text[start..]);
    parts
}

/// A line with one of the [`contents`].
pub(super) fn line(run: &str, number: u64, content: &str) -> String {
    format!(r#"{{"lease_journal":{VERSION},"run":"{run}","entry":{number},{content}"#)
}
