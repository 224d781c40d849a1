//! The journal: requests in order, in memory and, beyond a limit, in files that the system deletes with the process.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Size of a segment: the unit that is written to disk and freed.
const SEGMENT_BYTES: usize = 16 << 20;
/// Number of segments in memory: the one that is being filled, and the one before.
const IN_MEMORY: usize = 2;

/// Why a request cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The journal has reached its limit.
    #[error("the journal exceeds {limit} bytes (REMORA_FAILOVER_LIMIT)")]
    Full {
        /// Most bytes of the journal.
        limit: u64,
    },
    /// The disk failed.
    #[error("the journal cannot be written to {folder}: {source}")]
    Write {
        /// Folder of the journal's files.
        folder: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// Requests in order of their numbers.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    limit: u64,
    /// Number of the first request that is kept, and of the next one to append.
    first: u64,
    next: u64,
    segments: VecDeque<Segment>,
    bytes: u64,
}

#[derive(Debug)]
struct Segment {
    /// Offset of the end of each request, in order.
    ends: Vec<u64>,
    content: Content,
}

impl Segment {
    fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

#[derive(Debug)]
enum Content {
    Memory(Vec<u8>),
    File(File),
}

impl Journal {
    /// An empty journal. Files are created in `folder` when they are needed.
    pub fn new(folder: PathBuf, limit: u64) -> Journal {
        Journal { folder, limit, first: 1, next: 1, segments: VecDeque::new(), bytes: 0 }
    }

    /// Appends request `number`, which must be the next one. `other` is the size of what counts towards the same limit.
    pub fn push(&mut self, number: u64, inline: &[u8], lent: &[u8], other: u64) -> Result<(), JournalError> {
        assert_eq!(number, self.next, "requests must be kept in order");
        let size = (inline.len() + lent.len()) as u64;
        if self.bytes + size + other > self.limit {
            return Err(JournalError::Full { limit: self.limit });
        }
        let full = self.segments.back().is_none_or(|last| last.bytes() + size > SEGMENT_BYTES as u64);
        if full {
            self.spill()?;
            let content = Content::Memory(Vec::new());
            self.segments.push_back(Segment { ends: Vec::new(), content });
        }
        if let Some(Segment { ends, content: Content::Memory(memory) }) = self.segments.back_mut() {
            memory.extend_from_slice(inline);
            memory.extend_from_slice(lent);
            ends.push(memory.len() as u64);
        }
        self.bytes += size;
        self.next += 1;
        Ok(())
    }

    /// Number of the first request that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Size of all requests.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Drops requests up to `number`, in whole segments.
    pub fn forget(&mut self, number: u64) {
        while let Some(segment) = self.segments.front() {
            let next = self.first + segment.ends.len() as u64;
            if next > number.saturating_add(1) {
                break;
            }
            self.bytes -= segment.bytes();
            self.first = next;
            self.segments.pop_front();
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.first = self.next;
        self.segments.clear();
        self.bytes = 0;
    }

    /// Replaces the content of `buffer` by requests from `number` on: at least one, and as many up to `until` as fit into about
    /// `most` bytes. Returns how many.
    pub fn read(&mut self, number: u64, until: u64, most: u64, buffer: &mut Vec<u8>) -> io::Result<u64> {
        buffer.clear();
        let mut first = self.first;
        for segment in &mut self.segments {
            let count = segment.ends.len() as u64;
            if number < first {
                break;
            }
            if number >= first + count {
                first += count;
                continue;
            }
            let skipped = (number - first) as usize;
            let start = if skipped == 0 { 0 } else { segment.ends[skipped - 1] };
            let offered = &segment.ends[skipped..(skipped as u64 + until - number + 1).min(count) as usize];
            let taken = offered.partition_point(|end| *end <= start.saturating_add(most)).max(1);
            let bytes = offered[taken - 1] - start;
            match &mut segment.content {
                Content::Memory(memory) => {
                    buffer.extend_from_slice(&memory[start as usize..(start + bytes) as usize]);
                }
                Content::File(file) => {
                    file.seek(SeekFrom::Start(start))?;
                    buffer.resize(bytes as usize, 0);
                    file.read_exact(buffer)?;
                }
            }
            return Ok(taken as u64);
        }
        Err(io::Error::other(format!("request {number} is not in the journal")))
    }

    /// Moves the oldest segment in memory to a file if there are too many.
    fn spill(&mut self) -> Result<(), JournalError> {
        let is_in_memory = |it: &Segment| matches!(it.content, Content::Memory(_));
        if self.segments.iter().filter(|it| is_in_memory(it)).count() < IN_MEMORY {
            return Ok(());
        }
        let Some(segment) = self.segments.iter_mut().find(|it| is_in_memory(it)) else { return Ok(()) };
        if let Content::Memory(memory) = &segment.content {
            let written = tempfile::tempfile_in(&self.folder).and_then(|mut file| {
                file.write_all(memory)?;
                Ok(file)
            });
            let folder = || self.folder.display().to_string();
            segment.content =
                Content::File(written.map_err(|source| JournalError::Write { folder: folder(), source })?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(number);
        let bytes = if number.is_multiple_of(7) { 3 << 20 } else { random.usize(1..2000) };
        (0..bytes).map(|_| random.u8(..)).collect()
    }

    #[test]
    fn requests_come_out_as_they_went_in_from_memory_and_from_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path().to_owned(), u64::MAX);
        for number in 1..=200 {
            let (request, split) = (request(number), number as usize % 2);
            let (inline, lent) = request.split_at(request.len() / (split + 1));
            journal.push(number, inline, lent, 0).unwrap();
        }
        let on_disk = journal.segments.iter().filter(|it| matches!(it.content, Content::File(_))).count();
        assert!(on_disk >= 3 && journal.segments.len() - on_disk <= IN_MEMORY);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files have no names");
        let (mut number, mut buffer) = (1, Vec::new());
        while number <= 200 {
            let count = journal.read(number, 200, 1 << 20, &mut buffer).unwrap();
            let expected: Vec<u8> = (number..number + count).flat_map(request).collect();
            assert!(count > 0 && buffer == expected, "request {number}");
            number += count;
        }
        assert_eq!(journal.read(50, 50, u64::MAX, &mut buffer).unwrap(), 1);
        journal.forget(100);
        assert!(journal.first() > 50 && journal.first() <= 101 && journal.next == 201);
        let first = journal.first();
        journal.read(first, first, 1, &mut buffer).unwrap();
        assert!(buffer == request(first));
        assert!(journal.read(1, 1, 1, &mut buffer).is_err());
        // Any number that a worker sends is valid.
        journal.forget(u64::MAX);
        assert_eq!((journal.first(), journal.bytes()), (201, 0));
    }

    #[test]
    fn a_journal_has_a_limit_and_reports_a_folder_it_cannot_write_to() {
        let mut journal = Journal::new("/".into(), 1000);
        journal.push(1, &[0; 800], &[], 100).unwrap();
        assert!(matches!(journal.push(2, &[0; 101], &[], 100), Err(JournalError::Full { limit: 1000 })));
        let mut journal = Journal::new("/nonexistent".into(), u64::MAX);
        let result = (1..100).try_for_each(|number| journal.push(number, &[0; 1 << 20], &[], 0));
        assert!(result.unwrap_err().to_string().contains("/nonexistent"));
    }
}
