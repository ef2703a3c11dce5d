//! What has changed in Kinesis, kept in a file: each call that changed something, with its time.
//!
//! The model gives the same answers to the same calls at the same times, so that a file of calls is all there is
//! to keep. A line is written at once and not synced: it outlives the process, not a power cut. A last line
//! that was not finished is dropped.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::model::{Operation, PutRecordsResponse, Timestamp};

const FILE: &str = "kinesis.jsonl";

/// The file, held against other processes.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

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
    /// Opens the file in a directory, which is made if need be.
    ///
    /// # Errors
    /// When the system refuses or another process has the file.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join(FILE);
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        file.try_lock().map_err(|_| {
            io::Error::new(io::ErrorKind::ResourceBusy, format!("another process uses {}", path.display()))
        })?;
        Ok(Self { file, path })
    }

    /// The calls in the file, to be read to the end before another is kept. One at a time is in memory, as the file
    /// may be greater than what is left of it all.
    ///
    /// # Errors
    /// When the system refuses, or there is something else in the file.
    pub(crate) fn past(&self) -> impl Iterator<Item = io::Result<Past>> {
        let mut lines = BufReader::new(&self.file);
        let (mut line, mut number, mut end) = (Vec::new(), 0, 0);
        std::iter::from_fn(move || {
            line.clear();
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => None,
                Ok(length) if line.ends_with(b"\n") => {
                    number += 1;
                    end += length as u64;
                    Some(serde_json::from_slice(&line).map_err(|error| {
                        let why = format!("line {number} of {} is no call: {error}", self.path.display());
                        io::Error::new(io::ErrorKind::InvalidData, why)
                    }))
                }
                Ok(_) => self.file.set_len(end).err().map(Err),
                Err(error) => Some(Err(error)),
            }
        })
    }

    /// Keeps a call whose request is JSON.
    pub(crate) fn keep(&mut self, now: Timestamp, operation: Operation, request: &[u8]) -> io::Result<()> {
        let mut line =
            format!(r#"{{"at":{},"operation":"{operation}","request":"#, now.as_millis()).into_bytes();
        // A line break in JSON stands between values, never inside of one.
        line.extend(request.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }));
        line.extend(b"}\n");
        self.file.write_all(&line)
    }
}

/// Whether an operation changes what is to be kept. A subscription is none of it: it ends with its connection.
pub(crate) fn changes(operation: Operation) -> bool {
    let name = operation.name();
    !["Describe", "Get", "List"].iter().any(|prefix| name.starts_with(prefix))
        && operation != Operation::SubscribeToShard
}

/// The part of a PutRecords request in JSON that was stored, by the reply; none if nothing was.
pub(crate) fn stored(request: Bytes, reply: &PutRecordsResponse) -> Option<Bytes> {
    if reply.failed_record_count() == 0 {
        return Some(request);
    }
    let mut request: Value = serde_json::from_slice(&request).ok()?;
    let records = request.get_mut("Records")?.as_array_mut()?;
    let mut places = reply.records.iter();
    records.retain(|_| places.next().is_some_and(Result::is_ok));
    let some = !records.is_empty();
    some.then(|| request.to_string().into())
}
