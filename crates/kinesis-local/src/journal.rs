//! What has changed in Kinesis, kept in a file: each call that changed something, with its time.
//!
//! The model gives the same answers to the same calls at the same times, so that a file of calls is all there is
//! to keep. A line is written at once and not synced: it outlives the process, not a power cut. A last line
//! that was not finished is dropped. A line that cannot be written is kept in memory and goes before all others, and
//! nothing changes until it has gone: the file never lacks a call that a later one builds on.

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
    lines: Lines<File>,
    path: PathBuf,
}

/// A file that holds whole lines, however writing ends.
#[derive(Debug)]
struct Lines<F> {
    file: F,
    /// The length of the whole lines in the file.
    length: u64,
    /// The line that could not be written.
    unwritten: Vec<u8>,
}

/// What lines are written to, always at its end.
trait Cuttable: Write {
    /// Cuts it to so many bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Cuttable for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

impl<F: Cuttable> Lines<F> {
    /// Writes a line, after the one that could not be written. When it fails, the line is the one to be written next.
    fn write(&mut self, line: Vec<u8>) -> io::Result<()> {
        self.catch_up()?;
        self.unwritten = line;
        let written = self.file.write_all(&self.unwritten);
        if written.is_ok() {
            self.written();
        } else if let Err(error) = self.file.cut(self.length) {
            tracing::error!(%error, "a line that was not finished stays in the journal for now");
        }
        written
    }

    /// Writes the line that could not be written, if there is one.
    fn catch_up(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        // There may still be a piece of it, if it could not be cut off.
        self.file.cut(self.length)?;
        self.file.write_all(&self.unwritten)?;
        self.written();
        Ok(())
    }

    fn written(&mut self) {
        self.length += self.unwritten.len() as u64;
        self.unwritten.clear();
    }
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
        let path = directory.join(FILE);
        let file = std::fs::create_dir_all(directory)
            .and_then(|()| OpenOptions::new().read(true).append(true).create(true).open(&path))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))?;
        file.try_lock().map_err(|_| {
            io::Error::new(io::ErrorKind::ResourceBusy, format!("another process uses {}", path.display()))
        })?;
        Ok(Self { lines: Lines { file, length: 0, unwritten: Vec::new() }, path })
    }

    /// The calls in the file, to be read to the end before another is kept. One at a time is in memory, as the file
    /// may be greater than what is left of it all.
    ///
    /// # Errors
    /// When the system refuses, or there is something else in the file.
    pub(crate) fn past(&mut self) -> impl Iterator<Item = io::Result<Past>> {
        let Self { lines: Lines { file, length: end, .. }, path } = self;
        let file = &*file;
        let mut lines = BufReader::new(file);
        let (mut line, mut number) = (Vec::new(), 0);
        std::iter::from_fn(move || {
            line.clear();
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => None,
                Ok(length) if line.ends_with(b"\n") => {
                    number += 1;
                    *end += length as u64;
                    Some(serde_json::from_slice(&line).map_err(|error| {
                        let why = format!("line {number} of {} is no call: {error}", path.display());
                        io::Error::new(io::ErrorKind::InvalidData, why)
                    }))
                }
                Ok(_) => file.set_len(*end).err().map(Err),
                Err(error) => Some(Err(error)),
            }
        })
    }

    /// Writes what could not be written before. Without it, nothing may change.
    ///
    /// # Errors
    /// When the system still refuses.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        self.lines.catch_up()
    }

    /// Keeps a call whose request is JSON.
    ///
    /// # Errors
    /// When the system refuses. The call is kept by the next [`Journal::catch_up`] that works.
    pub(crate) fn keep(&mut self, now: Timestamp, operation: Operation, request: &[u8]) -> io::Result<()> {
        let mut line =
            format!(r#"{{"at":{},"operation":"{operation}","request":"#, now.as_millis()).into_bytes();
        // A line break in JSON stands between values, never inside of one.
        line.extend(request.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }));
        line.extend(b"}\n");
        self.lines.write(line)
    }
}

#[cfg(test)]
impl Journal {
    /// The file at `path`, which cannot be written to.
    pub(crate) fn read_only(path: &Path) -> io::Result<Self> {
        let lines = Lines { file: File::open(path)?, length: 0, unwritten: Vec::new() };
        Ok(Self { lines, path: path.to_owned() })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so much room, of which the end can be cut off or not.
    #[derive(Debug, Default)]
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
        cuts: bool,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.room.saturating_sub(self.bytes.len()));
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Cuttable for Disk {
        fn cut(&mut self, length: u64) -> io::Result<()> {
            if !self.cuts {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.bytes.truncate(length as usize);
            Ok(())
        }
    }

    fn lines(room: usize, cuts: bool) -> Lines<Disk> {
        let file = Disk { room, cuts, ..Disk::default() };
        Lines { file, length: 0, unwritten: Vec::new() }
    }

    #[test]
    fn a_line_that_does_not_fit_leaves_nothing_and_comes_first_when_there_is_room() {
        let mut lines = lines(6, true);
        lines.write(b"one\n".to_vec()).unwrap();
        assert_eq!(lines.write(b"two\n".to_vec()).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(lines.file.bytes, b"one\n");
        lines.write(b"six\n".to_vec()).unwrap_err();
        lines.file.room = 99;
        lines.catch_up().unwrap();
        assert_eq!(lines.file.bytes, b"one\ntwo\n");
        lines.write(b"three\n".to_vec()).unwrap();
        assert_eq!(lines.file.bytes, b"one\ntwo\nthree\n");
    }

    #[test]
    fn nothing_is_written_behind_a_piece_of_a_line_that_cannot_be_cut_off() {
        let mut lines = lines(6, false);
        lines.write(b"one\n".to_vec()).unwrap();
        lines.write(b"two\n".to_vec()).unwrap_err();
        lines.file.room = 99;
        for _ in 0..2 {
            lines.catch_up().unwrap_err();
            lines.write(b"three\n".to_vec()).unwrap_err();
        }
        assert_eq!(lines.file.bytes, b"one\ntw");
        lines.file.cuts = true;
        lines.write(b"three\n".to_vec()).unwrap();
        assert_eq!(lines.file.bytes, b"one\ntwo\nthree\n");
    }
}
