//! One file without a name, whose space is used again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// The system gets unused space at the end of the file back if there is more than this.
const KEPT: u64 = 64 << 20;

/// A file that is created when something is written.
#[derive(Debug)]
pub(super) struct Space {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    /// Size of the file, and the end of what is in use.
    size: u64,
    end: u64,
    /// Unused ranges before the end, by their start. No two of them touch.
    unused: BTreeMap<u64, u64>,
}

impl Space {
    pub(super) fn new(folder: PathBuf) -> Space {
        Space { folder, state: Mutex::default() }
    }

    /// Writes bytes into unused space.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<Range<u64>> {
        let mut state = self.state.lock();
        let range = state.take(bytes.len() as u64);
        let written = state.write(&self.folder, range.start, bytes);
        if let Err(error) = written {
            state.release(&range);
            return Err(error);
        }
        Ok(range)
    }

    /// Reads bytes that were written.
    pub(super) fn read(&self, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        let mut file = state.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(bytes)
    }

    /// Allows a range to be overwritten.
    pub(super) fn release(&self, range: &Range<u64>) {
        let mut state = self.state.lock();
        state.release(range);
        if state.size > state.end + KEPT {
            // Failure is harmless: the space is used again, or freed with the process.
            let end = state.end;
            if state.file.as_ref().is_some_and(|file| file.set_len(end).is_ok()) {
                state.size = end;
            }
        }
    }
}

impl State {
    /// Takes the first unused range that is large enough, or extends the file.
    fn take(&mut self, bytes: u64) -> Range<u64> {
        let fitting = self.unused.iter().find(|(start, end)| **end - **start >= bytes);
        let Some((start, end)) = fitting.map(|(start, end)| (*start, *end)) else {
            let start = self.end;
            self.end += bytes;
            return start..self.end;
        };
        self.unused.remove(&start);
        if start + bytes < end {
            self.unused.insert(start + bytes, end);
        }
        start..start + bytes
    }

    fn release(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((before, touching)) = self.unused.range(..start).next_back().map(|(at, end)| (*at, *end))
            && touching == start
        {
            self.unused.remove(&before);
            start = before;
        }
        if let Some(after) = self.unused.remove(&end) {
            end = after;
        }
        if end == self.end {
            self.end = start;
        } else {
            self.unused.insert(start, end);
        }
    }

    fn write(&mut self, folder: &Path, start: u64, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile_in(folder)?);
        }
        let mut file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.seek(SeekFrom::Start(start))?;
        // Counted first: a write that fails may have extended the file.
        self.size = self.size.max(start + bytes.len() as u64);
        file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_space_is_used_again_and_never_while_it_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(folder.path().to_owned());
        let mut random = fastrand::Rng::with_seed(5);
        let mut live: Vec<(Range<u64>, u8)> = Vec::new();
        for round in 0..2000u64 {
            if live.len() == 20 {
                let (range, _) = live.swap_remove(random.usize(..live.len()));
                space.release(&range);
            }
            let (size, value) = (random.usize(1..1000), round as u8);
            live.push((space.write(&vec![value; size]).unwrap(), value));
            let (range, value) = &live[random.usize(..live.len())];
            let mut bytes = vec![0; (range.end - range.start) as usize];
            space.read(range.start, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| byte == value), "round {round}: {range:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
        // 20 ranges of at most 1000 bytes need no more than a few times their size.
        assert!(space.state.lock().size < 100_000, "{}", space.state.lock().size);
        live.iter().for_each(|(range, _)| space.release(range));
        let state = space.state.lock();
        assert!((state.end, state.unused.len()) == (0, 0), "{state:?}");
    }

    #[test]
    fn unused_space_at_the_end_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(folder.path().to_owned());
        let ranges: Vec<_> = (0..80).map(|_| space.write(&vec![1; 1 << 20]).unwrap()).collect();
        let size = |space: &Space| space.state.lock().file.as_ref().unwrap().metadata().unwrap().len();
        assert_eq!(size(&space), 80 << 20);
        ranges.iter().rev().for_each(|range| space.release(range));
        assert!(size(&space) <= KEPT + (1 << 20), "{}", size(&space));
    }

    #[test]
    fn a_write_that_fails_takes_no_space() {
        let space = Space::new("/nonexistent".into());
        assert!(space.write(&[1; 100]).is_err());
        assert_eq!(space.state.lock().end, 0);
    }
}
