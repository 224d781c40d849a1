//! The journal: requests in order, in memory and, beyond a limit, in files that the system deletes with the process.
//!
//! Appending is on the path of every request. So it writes only to memory that was used before, since fresh pages cost more than the
//! copy, and another thread compresses and writes what goes to files.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::spill::{Spilled, Spiller, Stored};

/// Size of a segment: the unit that is written to disk and freed.
const SEGMENT_BYTES: usize = 16 << 20;
/// Number of segments in memory that are not being written: the one that is being filled, and the one before.
const IN_MEMORY: usize = 2;
/// Number of segments that are being written. If the disk is slower than the program, appending waits.
const WRITING: usize = 2;
/// Number of segments whose memory is kept for later ones.
const SPARE: usize = 2;

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
    /// Size in memory and in files.
    bytes: u64,
    /// The thread that writes files, once there are any.
    spiller: Option<Spiller>,
    spare: Vec<Requests>,
}

#[derive(Debug)]
struct Segment {
    /// Number of its first request, which identifies the segment.
    first: u64,
    count: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Memory(Requests),
    /// Being written to a file.
    Writing(Arc<Requests>),
    File(Stored),
}

impl Segment {
    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Memory(requests) => requests.size(),
            Content::Writing(requests) => requests.size(),
            Content::File(stored) => stored.size(),
        }
    }
}

/// Requests in memory, one after the other.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) bytes: Vec<u8>,
    /// Offset of the end of each request.
    pub(super) ends: Vec<u64>,
}

impl Requests {
    fn size(&self) -> u64 {
        (self.bytes.len() + size_of_val(&self.ends[..])) as u64
    }

    /// The end of as many requests after the first `skipped` ones as fit into `most` bytes, up to `last`, and at least one; and where
    /// they begin and end.
    fn choose(ends: &[u64], skipped: usize, last: usize, most: u64) -> (u64, std::ops::Range<u64>) {
        let start = if skipped == 0 { 0 } else { ends[skipped - 1] };
        let offered = &ends[skipped..last.min(ends.len())];
        let taken = offered.partition_point(|end| *end <= start.saturating_add(most)).max(1);
        (taken as u64, start..offered[taken - 1])
    }
}

impl Journal {
    /// An empty journal. Files are created in `folder` when they are needed.
    pub fn new(folder: PathBuf, limit: u64) -> Journal {
        Journal {
            folder,
            limit,
            first: 1,
            next: 1,
            segments: VecDeque::new(),
            bytes: 0,
            spiller: None,
            spare: Vec::new(),
        }
    }

    /// Appends request `number`, which must be the next one. `other` is the size of what counts towards the same limit.
    #[inline]
    pub fn push(&mut self, number: u64, inline: &[u8], lent: &[u8], other: u64) -> Result<(), JournalError> {
        assert_eq!(number, self.next, "requests must be kept in order");
        let bytes = inline.len() + lent.len();
        let size = (bytes + size_of::<u64>()) as u64;
        if self.bytes + size + other > self.limit {
            return Err(JournalError::Full { limit: self.limit });
        }
        let has_room = match self.segments.back() {
            Some(Segment { content: Content::Memory(last), .. }) => last.bytes.len() + bytes <= SEGMENT_BYTES,
            _ => false,
        };
        if !has_room {
            self.begin_segment()?;
        }
        if let Some(Segment { count, content: Content::Memory(requests), .. }) = self.segments.back_mut() {
            requests.bytes.extend_from_slice(inline);
            requests.bytes.extend_from_slice(lent);
            requests.ends.push(requests.bytes.len() as u64);
            *count += 1;
        }
        self.bytes += size;
        self.next += 1;
        Ok(())
    }

    #[cold]
    fn begin_segment(&mut self) -> Result<(), JournalError> {
        self.spill()?;
        let fresh = || Requests { bytes: Vec::with_capacity(SEGMENT_BYTES), ends: Vec::new() };
        let content = Content::Memory(self.spare.pop().unwrap_or_else(fresh));
        self.segments.push_back(Segment { first: self.next, count: 0, content });
        Ok(())
    }

    /// Number of the first request that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Size of all requests, in memory and in files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Drops requests up to `number`, in whole segments.
    pub fn forget(&mut self, number: u64) {
        while let Some(segment) = self.segments.front() {
            let next = segment.first + segment.count;
            if next > number.saturating_add(1) {
                break;
            }
            self.bytes -= segment.bytes();
            self.first = next;
            if let Some(Segment { content: Content::Memory(requests), .. }) = self.segments.pop_front() {
                self.reuse(requests);
            }
        }
    }

    /// Drops everything and frees it.
    pub fn clear(&mut self) {
        self.first = self.next;
        self.segments.clear();
        self.bytes = 0;
        self.spiller = None;
        self.spare.clear();
    }

    /// Replaces the content of `buffer` by requests from `number` on: at least one, and as many up to `until` as fit into about
    /// `most` bytes. Returns how many.
    pub fn read(&mut self, number: u64, until: u64, most: u64, buffer: &mut Vec<u8>) -> io::Result<u64> {
        buffer.clear();
        let after = self.segments.partition_point(|segment| segment.first <= number);
        let found = after.checked_sub(1).map(|at| &mut self.segments[at]);
        let Some(segment) = found.filter(|it| number < it.first + it.count) else {
            return Err(io::Error::other(format!("request {number} is not in the journal")));
        };
        let (skipped, last) = ((number - segment.first) as usize, (until - segment.first + 1) as usize);
        let requests = match &mut segment.content {
            Content::Memory(requests) => requests,
            Content::Writing(requests) => &**requests,
            Content::File(stored) => {
                let (taken, range) = Requests::choose(stored.ends()?, skipped, last, most);
                stored.read(range, buffer)?;
                if number + taken == segment.first + segment.count {
                    stored.forget_ends();
                }
                return Ok(taken);
            }
        };
        let (taken, range) = Requests::choose(&requests.ends, skipped, last, most);
        buffer.extend_from_slice(&requests.bytes[range.start as usize..range.end as usize]);
        Ok(taken)
    }

    /// Has the oldest segment in memory written to a file if there are too many.
    fn spill(&mut self) -> Result<(), JournalError> {
        while let Some(spiller) = self.spiller.as_mut().filter(|it| it.pending() > 0) {
            let must_wait = spiller.pending() >= WRITING;
            let Some(done) = spiller.finished(must_wait) else { break };
            self.spilled(done)?;
        }
        let is_in_memory = |it: &Segment| matches!(it.content, Content::Memory(_));
        if self.segments.iter().filter(|it| is_in_memory(it)).count() < IN_MEMORY {
            return Ok(());
        }
        if self.spiller.is_none() {
            self.spiller = Some(Spiller::start(self.folder.clone()).map_err(|source| self.failed(source))?);
        }
        let oldest = self.segments.iter_mut().find(|it| is_in_memory(it));
        if let (Some(spiller), Some(Segment { first, content, .. })) = (&mut self.spiller, oldest)
            && let Content::Memory(requests) = content
        {
            let requests = Arc::new(std::mem::take(requests));
            *content = Content::Writing(Arc::clone(&requests));
            spiller.begin(*first, requests);
        }
        Ok(())
    }

    /// Notes that a segment is in its file.
    fn spilled(&mut self, done: Spilled) -> Result<(), JournalError> {
        let stored = done.result.map_err(|source| self.failed(source))?;
        let at = self.segments.partition_point(|segment| segment.first < done.segment);
        // It may have been dropped meanwhile.
        if let Some(segment) = self.segments.get_mut(at).filter(|it| it.first == done.segment) {
            self.bytes -= segment.bytes();
            segment.content = Content::File(stored);
            self.bytes += segment.bytes();
        }
        // The thread has no reference any more, and neither has the segment.
        if let Some(requests) = Arc::into_inner(done.requests) {
            self.reuse(requests);
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Write { folder: self.folder.display().to_string(), source }
    }

    /// Keeps the memory of a segment for a later one, unless a large request has made it larger than usual.
    fn reuse(&mut self, mut requests: Requests) {
        if requests.bytes.capacity() == SEGMENT_BYTES && self.spare.len() < SPARE {
            requests.bytes.clear();
            requests.ends.clear();
            self.spare.push(requests);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that cannot be compressed, and some that can.
    fn request(number: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(number);
        let bytes = if number.is_multiple_of(7) { 3 << 20 } else { random.usize(1..2000) };
        let mask = if number.is_multiple_of(14) { 1 } else { u8::MAX };
        (0..bytes).map(|_| random.u8(..) & mask).collect()
    }

    /// Waits until all segments are written that are being written.
    fn settle(journal: &mut Journal) {
        while let Some(spiller) = journal.spiller.as_mut().filter(|it| it.pending() > 0) {
            let done = spiller.finished(true).unwrap();
            journal.spilled(done).unwrap();
        }
    }

    fn in_files(journal: &Journal) -> usize {
        journal.segments.iter().filter(|it| matches!(it.content, Content::File(_))).count()
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
        settle(&mut journal);
        let on_disk = in_files(&journal);
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
        assert_eq!((journal.first(), journal.bytes), (201, 0));
    }

    #[test]
    fn memory_of_dropped_segments_is_used_again_for_other_requests() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(folder.path().to_owned(), u64::MAX);
        let (mut next, mut buffer) = (1, Vec::new());
        for _ in 0..3 {
            for _ in 0..90 {
                journal.push(next, &[next as u8; 1 << 20], &[], 0).unwrap();
                next += 1;
            }
            settle(&mut journal);
            for number in journal.first()..next {
                journal.read(number, number, 1, &mut buffer).unwrap();
                assert!(buffer == [number as u8; 1 << 20], "request {number}");
            }
            assert!(in_files(&journal) >= 3);
            journal.forget(next - 1);
            assert_eq!((journal.bytes, journal.segments.len(), journal.spare.len()), (0, 0, SPARE));
        }
        // A segment may be dropped while it is being written.
        for number in next..next + 50 {
            journal.push(number, &[1; 1 << 20], &[], 0).unwrap();
        }
        journal.forget(next + 48);
        settle(&mut journal);
        assert!(journal.read(next, next, 1, &mut buffer).is_err());
        journal.read(next + 49, next + 49, 1, &mut buffer).unwrap();
    }

    #[test]
    fn requests_that_resemble_each_other_take_little_space() {
        let folder = tempfile::tempdir().unwrap();
        // All of them together have 208 MB; four segments may be in memory.
        let mut journal = Journal::new(folder.path().to_owned(), 96 << 20);
        let mut request = [7; 200];
        for number in 1..=1_000_000u64 {
            request[..8].copy_from_slice(&number.to_le_bytes());
            journal.push(number, &request, &[], 0).unwrap();
        }
        settle(&mut journal);
        let mut buffer = Vec::new();
        for number in [1u64, 70_000, 500_000, 999_999] {
            assert_eq!(journal.read(number, number + 1, 1 << 20, &mut buffer).unwrap(), 2);
            assert_eq!((buffer.len(), &buffer[..8], buffer[399]), (400, &number.to_le_bytes()[..], 7));
        }
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
