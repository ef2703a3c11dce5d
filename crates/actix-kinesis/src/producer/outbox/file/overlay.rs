//! A database file that is read alone: what the database writes to it stays in memory.
//!
//! A database that could not write reads nothing either until it is opened anew, and it writes when it opens. This lets it
//! be read on a disk that takes no writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

const BLOCK: usize = 4_096;

#[derive(Debug)]
pub(super) struct Overlay(Mutex<State>);

#[derive(Debug)]
struct State {
    file: File,
    /// The blocks that were written, by their index.
    written: BTreeMap<u64, Vec<u8>>,
    length: u64,
    /// How much of the file counts.
    file_length: u64,
}

impl Overlay {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let state = State { file, written: BTreeMap::new(), length, file_length: length };
        Ok(Self(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is done under the lock leaves whole blocks, even if it ends half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.lock();
        if offset + out.len() as u64 > state.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        state.fill(offset, out)?;
        for (block, range, within) in parts(offset, out.len()) {
            if let Some(written) = state.written.get(&block) {
                out[range].copy_from_slice(&written[within]);
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.lock();
        if length < state.length {
            // What is added again later is empty.
            state.file_length = state.file_length.min(length);
            state.written.split_off(&length.div_ceil(BLOCK as u64));
            let end = (length % BLOCK as u64) as usize;
            if let Some(last) = state.written.get_mut(&(length / BLOCK as u64)) {
                last[end..].fill(0);
            }
        }
        state.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        for (block, range, within) in parts(offset, data.len()) {
            if !state.written.contains_key(&block) {
                let mut whole = vec![0; BLOCK];
                state.fill(block * BLOCK as u64, &mut whole)?;
                state.written.insert(block, whole);
            }
            if let Some(written) = state.written.get_mut(&block) {
                written[within].copy_from_slice(&data[range]);
            }
        }
        Ok(())
    }
}

impl State {
    /// Reads what the file has, with zeros behind its end.
    fn fill(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = self.file_length.saturating_sub(offset).min(out.len() as u64) as usize;
        let (from_file, behind) = out.split_at_mut(there);
        if there > 0 {
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.read_exact(from_file)?;
        }
        behind.fill(0);
        Ok(())
    }
}

type Span = std::ops::Range<usize>;

/// The blocks of some bytes from an offset on, with the place of each part in the bytes and in its block.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, Span, Span)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let from = (at % BLOCK as u64) as usize;
        let count = (BLOCK - from).min(length - done);
        let part = (at / BLOCK as u64, done..done + count, from..from + count);
        done += count;
        (count > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_a_file_would_and_leaves_the_file_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut random = fastrand::Rng::with_seed(1);
        let mut expected: Vec<u8> = (0..20_000).map(|_| random.u8(..)).collect();
        std::fs::write(&path, &expected).unwrap();
        let (before, overlay) = (expected.clone(), Overlay::open(&path).unwrap());
        for _ in 0..2_000 {
            match random.u8(..8) {
                0 => {
                    let length = random.usize(10_000..40_000);
                    overlay.set_len(length as u64).unwrap();
                    expected.resize(length, 0);
                }
                1..4 => {
                    let at = random.usize(..expected.len());
                    let data = vec![random.u8(..); random.usize(..=(expected.len() - at).min(9_000))];
                    overlay.write(at as u64, &data).unwrap();
                    expected[at..at + data.len()].copy_from_slice(&data);
                }
                _ => {
                    let at = random.usize(..expected.len());
                    let mut read = vec![1; random.usize(..=(expected.len() - at).min(9_000))];
                    overlay.read(at as u64, &mut read).unwrap();
                    assert!(read == expected[at..at + read.len()]);
                }
            }
            assert_eq!(overlay.len().unwrap(), expected.len() as u64);
        }
        assert!(overlay.read(expected.len() as u64, &mut [0]).is_err());
        assert!(std::fs::read(&path).unwrap() == before);
    }
}
