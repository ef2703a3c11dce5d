//! What can be wrong with a configuration, told so that an operator can mend it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{}: cannot be read: {cause}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },

    /// A text is no HOCON, or is broken in a way that would silently lose a part of it.
    #[error("{origin}:{line}:{column}: {problem}")]
    Syntax {
        /// The file, or what else the text is.
        origin: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong, and what to do.
        problem: String,
    },

    /// A `${substitution}` has no value, refers to itself, or a file that must be included is missing.
    #[error("{origin}:{line}:{column}: {problem}")]
    Unresolved {
        /// The file, or what else the text is.
        origin: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The path in the substitution: an environment variable or another key.
        path: String,
        /// What is wrong, and what to do.
        problem: String,
    },

    /// A key that means nothing, and would have no effect.
    #[error("{key}{}: unknown key{}", In(.origin), DidYouMean(.nearest))]
    UnknownKey {
        /// Its full path.
        key: String,
        /// Where it is written.
        origin: Option<String>,
        /// A known key that looks like it.
        nearest: Option<String>,
    },

    /// A required key is absent or null.
    #[error("{key}: missing, and it has no default: {allowed}")]
    Missing {
        /// Its full path.
        key: String,
        /// What it must be.
        allowed: String,
    },

    /// A value that is of the wrong kind or out of range.
    #[error("{key}{}: found {found}; allowed: {allowed}", In(.origin))]
    Value {
        /// The full path of the key; relative to the consumer's or producer's section if no file was read.
        key: String,
        /// Where it is written, if it is.
        origin: Option<String>,
        /// The value.
        found: String,
        /// The kind, the range and the unit that the key takes.
        allowed: String,
    },

    /// One setting is given twice in one section, by its name here and by its name in reactive-kinesis.
    #[error("{key} and {reactive_key}{} are one setting under two names: remove one of them", In(.origin))]
    Twice {
        /// The full path of the key of this library.
        key: String,
        /// The full path of the key of reactive-kinesis; or a second one of them.
        reactive_key: String,
        /// Where both are written.
        origin: Option<String>,
    },

    /// No consumer has the name that was asked for.
    #[error(
        "kinesis.{name}: there is no consumer of this name{}; {reason}; known consumers: {}",
        DidYouMean(.nearest), Names(.known)
    )]
    UnknownConsumer {
        /// The name asked for.
        name: String,
        /// Why there is none.
        reason: &'static str,
        /// A known name that looks like it.
        nearest: Option<String>,
        /// All consumers of the configuration.
        known: Vec<String>,
    },

    /// No producer has the name that was asked for.
    #[error(
        "kinesis.{name}: there is no producer of this name{}; {reason}; known producers: {}",
        DidYouMean(.nearest), Names(.known)
    )]
    UnknownProducer {
        /// The name asked for.
        name: String,
        /// Why there is none.
        reason: &'static str,
        /// A known name that looks like it.
        nearest: Option<String>,
        /// All producers of the configuration.
        known: Vec<String>,
    },

    /// More than one of the above.
    #[error("{} problems:{}", .0.len(), Lines(.0))]
    Several(Vec<ConfigError>),
}

impl ConfigError {
    /// `Ok` if there is no problem.
    pub(super) fn of(mut problems: Vec<Self>) -> Result<(), Self> {
        match problems.len() {
            0 => Ok(()),
            1 => Err(problems.remove(0)),
            _ => Err(Self::Several(problems)),
        }
    }
}

struct In<'a>(&'a Option<String>);

impl fmt::Display for In<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|origin| write!(f, " (in {origin})"))
    }
}

struct DidYouMean<'a>(&'a Option<String>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|nearest| write!(f, "; did you mean {nearest}?"))
    }
}

struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("none") } else { f.write_str(&self.0.join(", ")) }
    }
}

struct Lines<'a>(&'a [ConfigError]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}
