//! Positions in a shard, and what the lease table stores of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sequence::{InvalidSequenceNumber, SequenceNumber};

/// The place of one user record in its shard: the sequence number of the Kinesis record that carries it and its
/// index among the user records of that record.
///
/// Ordered by sequence number, then by sub-sequence number, both as numbers. This is the KCL's extended sequence
/// number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The Kinesis record.
    pub sequence: SequenceNumber,
    /// The user record in it, from 0; always 0 for a record that is not aggregated.
    ///
    /// A stored position may hold −1, which every KCL accepts: "start at this Kinesis record, nothing of it is
    /// processed".
    pub sub_sequence: i64,
}

impl Position {
    /// The position of the user record with index `sub_sequence` in the Kinesis record `sequence`.
    pub fn new(sequence: SequenceNumber, sub_sequence: i64) -> Self {
        Self { sequence, sub_sequence }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.sequence, self.sub_sequence)
    }
}

/// How far a shard has been processed, as a lease row stores it: a position or one of the KCL's sentinels.
///
/// The order is the KCL's: `AT_TIMESTAMP` < `TRIM_HORIZON` < `LATEST` < every position < `SHARD_END`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Checkpoint {
    /// Nothing is processed; reading starts at the instant in the reader's own configuration.
    AtTimestamp,
    /// Nothing is processed; reading starts at the oldest record that the stream retains.
    TrimHorizon,
    /// Nothing is processed; reading starts behind the newest record.
    Latest,
    /// Everything up to and including this position is processed.
    At(Position),
    /// Everything in the shard is processed, and the shard is closed. Terminal.
    ShardEnd,
}

impl Checkpoint {
    /// Reads the two attributes of a lease row, `checkpoint` and `checkpointSubSequenceNumber`.
    ///
    /// # Errors
    /// When `text` is neither a sentinel nor a sequence number.
    pub fn parse(text: &str, sub_sequence: i64) -> Result<Self, InvalidSequenceNumber> {
        Ok(match text {
            "AT_TIMESTAMP" => Self::AtTimestamp,
            "TRIM_HORIZON" => Self::TrimHorizon,
            "LATEST" => Self::Latest,
            "SHARD_END" => Self::ShardEnd,
            number => Self::At(Position::new(number.parse()?, sub_sequence)),
        })
    }

    /// The attribute `checkpoint` of a lease row.
    pub fn text(&self) -> &str {
        match self {
            Self::AtTimestamp => "AT_TIMESTAMP",
            Self::TrimHorizon => "TRIM_HORIZON",
            Self::Latest => "LATEST",
            Self::At(position) => position.sequence.as_str(),
            Self::ShardEnd => "SHARD_END",
        }
    }

    /// The attribute `checkpointSubSequenceNumber` of a lease row: 0 for a sentinel.
    pub fn sub_sequence(&self) -> i64 {
        self.position().map_or(0, |position| position.sub_sequence)
    }

    /// The position, if it is one.
    pub fn position(&self) -> Option<&Position> {
        match self {
            Self::At(position) => Some(position),
            _ => None,
        }
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(position) => position.fmt(f),
            sentinel => f.write_str(sentinel.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sequence: &str, sub_sequence: i64) -> Checkpoint {
        Checkpoint::parse(sequence, sub_sequence).unwrap()
    }

    #[test]
    fn sentinels_and_positions_are_in_the_order_of_the_kcl() {
        let ordered = [
            at("AT_TIMESTAMP", 0),
            at("TRIM_HORIZON", 0),
            at("LATEST", 0),
            at("0", -1),
            at("0", 0),
            at("9", 2),
            at("9", 12),
            at("10", 0),
            at("SHARD_END", 0),
        ];
        assert!(ordered.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_checkpoint_survives_its_attributes() {
        for checkpoint in [at("LATEST", 0), at("0049", 7), at("SHARD_END", 0)] {
            assert_eq!(Checkpoint::parse(checkpoint.text(), checkpoint.sub_sequence()), Ok(checkpoint));
        }
        assert!(Checkpoint::parse("latest", 0).is_err());
    }
}
