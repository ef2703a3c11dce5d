//! What has changed in Kinesis, kept in a file: each call that changed something, with its time.
//!
//! The model gives the same answers to the same calls at the same times, so that a file of calls is all there is
//! to keep. A line is written at once and not synced: it outlives the process, not a power cut. A last line
//! that was not finished is dropped.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::model::{Operation, Timestamp};

const FILE: &str = "kinesis.jsonl";

/// The file, held against other processes.
#[derive(Debug)]
pub(crate) struct Journal(File);

/// A call of the past.
#[derive(Debug, Deserialize)]
pub(crate) struct Past {
    at: u64,
    operation: String,
    request: Value,
}

impl Past {
    /// The time, the operation and the request of the call; none for an operation that is not known.
    pub(crate) fn call(&self) -> Option<(Timestamp, Operation, String)> {
        let operation = Operation::named(&self.operation)?;
        Some((Timestamp::from_millis(self.at), operation, self.request.to_string()))
    }
}

impl Journal {
    /// Opens the file in a directory, which is made if need be, and gives the calls in it.
    ///
    /// # Errors
    /// When the system refuses, another process has the file, or there is something else in it.
    pub(crate) fn open(directory: &Path) -> io::Result<(Self, Vec<Past>)> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join(FILE);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        file.try_lock().map_err(|_| {
            io::Error::new(io::ErrorKind::ResourceBusy, format!("another process uses {}", path.display()))
        })?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        text.truncate(end);
        file.set_len(end as u64)?;
        file.seek(io::SeekFrom::End(0))?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let calls = lines.zip(1..).map(|(line, number)| {
            serde_json::from_slice(line).map_err(|error| {
                let why = format!("line {number} of {} is no call: {error}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, why)
            })
        });
        let calls = calls.collect::<io::Result<_>>()?;
        Ok((Self(file), calls))
    }

    /// Keeps a call whose request is JSON.
    pub(crate) fn keep(&mut self, now: Timestamp, operation: Operation, request: &[u8]) -> io::Result<()> {
        let mut line =
            format!(r#"{{"at":{},"operation":"{operation}","request":"#, now.as_millis()).into_bytes();
        // A line break in JSON stands between values, never inside of one.
        line.extend(request.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }));
        line.extend(b"}\n");
        self.0.write_all(&line)
    }
}

/// Whether an operation changes what is to be kept. A subscription is none of it: it ends with its connection.
pub(crate) fn changes(operation: Operation) -> bool {
    let name = operation.name();
    !["Describe", "Get", "List"].iter().any(|prefix| name.starts_with(prefix))
        && operation != Operation::SubscribeToShard
}

/// The part of a PutRecords request that was stored, by the reply; none if nothing was.
pub(crate) fn stored(request: &[u8], reply: &str) -> Option<Vec<u8>> {
    let reply: Value = serde_json::from_str(reply).ok()?;
    if reply["FailedRecordCount"] == 0 {
        return Some(request.to_vec());
    }
    let mut request: Value = serde_json::from_slice(request).ok()?;
    let records = request.get_mut("Records")?.as_array_mut()?;
    let mut place = 0;
    records.retain(|_| {
        place += 1;
        reply["Records"][place - 1].get("ErrorCode").is_none_or(Value::is_null)
    });
    let some = !records.is_empty();
    some.then(|| request.to_string().into_bytes())
}
