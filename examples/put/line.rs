//! The lines of output.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use actix_kinesis::producer::Outcome;
use serde_json::json;

/// Tells what became of an event with this partition key, as the checker `actix_kinesis_test::check` reads it.
pub(crate) fn write(output: &mut impl Write, number: u64, key: &str, outcome: &Outcome) -> io::Result<()> {
    let line = match outcome {
        Ok(result) => json!({
            "unix_ms": unix_ms(),
            "event": "put",
            "message_id": number,
            "ok": true,
            "shard": result.shard.as_str(),
            "seq": result.sequence.as_str(),
            "sub": result.sub_sequence,
            "pk": key,
            "attempts": result.calls(),
            "error": null,
        }),
        Err(error) => json!({
            "unix_ms": unix_ms(),
            "event": "put-failed",
            "message_id": number,
            "ok": false,
            "shard": null,
            "seq": null,
            "sub": null,
            "pk": key,
            "attempts": error.calls(),
            "may_be_stored": error.may_be_stored(),
            "error": error.to_string(),
        }),
    };
    writeln!(output, "{line}")
}

/// For a line that is no event.
pub(crate) fn write_refused(output: &mut impl Write, number: u64, error: &str) -> io::Result<()> {
    let line = json!({
        "unix_ms": unix_ms(),
        "event": "put-refused",
        "message_id": number,
        "ok": false,
        "shard": null,
        "seq": null,
        "sub": null,
        "pk": null,
        "attempts": 0,
        "error": error,
    });
    writeln!(output, "{line}")
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
