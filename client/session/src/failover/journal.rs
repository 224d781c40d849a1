//! The journal: requests in order, in memory. Older ones are compressed, and are in a file if they exceed a limit.
//!
//! Requests are appended by the thread that reads acknowledgements, which may be one that launches kernels. So appending only copies
//! into memory that was used or prepared before. Another thread (`spill.rs`) does the rest.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::packed::{Packed, Shelf};
use super::space::Space;
use super::spill::{Done, Spilled, Spiller};

/// Size of a segment: the unit that is compressed and freed.
pub(super) const SEGMENT_BYTES: usize = 16 << 20;
/// Number of segments that are in memory as they are: the one that is being filled, and the one before.
const IN_MEMORY: usize = 2;
/// Number of segments that are being packed. If the program is faster, appending waits.
const PACKING: usize = 2;
/// Most segments whose memory is kept for later ones: all that exist at a time, and one that was prepared.
const SPARE: usize = IN_MEMORY + PACKING + 1;
/// Most bytes of compressed segments in memory. The others are in the file.
const PACKED_IN_MEMORY: u64 = 64 << 20;
/// How long appending waits until a segment is packed. Even a slow disk writes 16 MiB in this time. Nothing is read from the worker
/// meanwhile, so it is shorter than the time after which a silent link counts as broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a request cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The journal has reached its limit.
    #[error("the journal exceeds {limit} bytes (REMORA_FAILOVER_LIMIT)")]
    Full {
        /// Most bytes of the journal.
        limit: u64,
    },
    /// The disk or the journal's thread failed.
    #[error("the journal cannot be written to {folder}: {source}")]
    Write {
        /// Folder of the journal's file.
        folder: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The journal's thread does not finish, for instance because the disk does not answer.
    #[error(
        "a part of the journal was not written to {folder} within {seconds} s: the disk or the machine is overloaded; \
         REMORA_FAILOVER_FOLDER names another folder"
    )]
    Slow {
        /// Folder of the journal's file.
        folder: String,
        /// How long the journal waited.
        seconds: u64,
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
    /// Size in memory and in the file.
    bytes: u64,
    /// The thread, once there is more than one segment.
    spiller: Option<Spiller>,
    spare: Vec<Requests>,
    most_packed_in_memory: u64,
    patience: Duration,
}

#[derive(Debug)]
struct Segment {
    /// Number of its first request, which identifies the segment.
    first: u64,
    count: u64,
    content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Memory(Requests),
    /// Being packed.
    Packing(Arc<Requests>),
    Packed(Packed),
}

impl Segment {
    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Memory(requests) => requests.size(),
            Content::Packing(requests) => requests.size(),
            Content::Packed(packed) => packed.size(),
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
    /// An empty journal. A file is created in `folder` when it is needed.
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
            most_packed_in_memory: PACKED_IN_MEMORY,
            patience: PATIENCE,
        }
    }

    /// Appends request `number`, which must be the next one.
    #[inline]
    pub fn push(&mut self, number: u64, inline: &[u8], lent: &[u8]) -> Result<(), JournalError> {
        assert_eq!(number, self.next, "requests must be kept in order");
        let bytes = inline.len() + lent.len();
        let size = (bytes + size_of::<u64>()) as u64;
        if self.bytes + size > self.limit {
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
        // For the next segment. A program that fills only one needs no thread.
        if self.spare.is_empty() && self.segments.len() > 1 {
            self.spiller()?.prepare();
        }
        Ok(())
    }

    /// The thread, which is started if there is none.
    fn spiller(&mut self) -> Result<&mut Spiller, JournalError> {
        let spiller = match self.spiller.take() {
            Some(spiller) => spiller,
            None => {
                let shelf = Shelf::new(Space::new(self.folder.clone()), self.most_packed_in_memory);
                Spiller::start(shelf).map_err(|source| self.failed(source))?
            }
        };
        Ok(self.spiller.insert(spiller))
    }

    /// Number of the first request that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Size of all requests, in memory and in the file.
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
            if let Some(segment) = self.segments.pop_front() {
                self.recycle(segment.content);
            }
        }
    }

    /// Drops everything. The thread frees it, and ends.
    pub fn clear(&mut self) {
        self.first = self.next;
        self.bytes = 0;
        let spare = self.spare.drain(..).map(Content::Memory);
        let dropped = self.segments.drain(..).map(|segment| segment.content).chain(spare);
        match self.spiller.take() {
            Some(spiller) => dropped.for_each(|content| spiller.free(content)),
            None => drop(dropped),
        }
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
            Content::Packing(requests) => &**requests,
            Content::Packed(packed) => {
                let (taken, range) = Requests::choose(packed.ends()?, skipped, last, most);
                packed.read(range, buffer)?;
                if number + taken == segment.first + segment.count {
                    packed.end_reading();
                }
                return Ok(taken);
            }
        };
        let (taken, range) = Requests::choose(&requests.ends, skipped, last, most);
        buffer.extend_from_slice(&requests.bytes[range.start as usize..range.end as usize]);
        Ok(taken)
    }

    /// Has the oldest segment in memory packed if there are too many.
    fn spill(&mut self) -> Result<(), JournalError> {
        self.collect()?;
        let is_in_memory = |it: &Segment| matches!(it.content, Content::Memory(_));
        if self.segments.iter().filter(|it| is_in_memory(it)).count() < IN_MEMORY {
            return Ok(());
        }
        let Some(at) = self.segments.iter().position(is_in_memory) else { return Ok(()) };
        self.spiller()?;
        if let (Some(spiller), Segment { first, content, .. }) = (&mut self.spiller, &mut self.segments[at])
            && let Content::Memory(requests) = content
        {
            let requests = Arc::new(std::mem::take(requests));
            *content = Content::Packing(Arc::clone(&requests));
            let begun = spiller.pack(*first, requests);
            begun.map_err(|source| self.failed(source))?;
        }
        Ok(())
    }

    /// Takes what the thread has done. Waits if it has too much to do.
    fn collect(&mut self) -> Result<(), JournalError> {
        let deadline = Instant::now() + self.patience;
        while let Some(spiller) = &mut self.spiller {
            let must_wait = spiller.pending() >= PACKING;
            let patience =
                if must_wait { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match spiller.done(patience).map_err(|source| self.failed(source))? {
                Some(Done::Packed(done)) => self.packed(done)?,
                Some(Done::Prepared(requests)) => self.recycle(Content::Memory(requests)),
                None if must_wait => {
                    let (folder, seconds) = (self.folder.display().to_string(), self.patience.as_secs());
                    return Err(JournalError::Slow { folder, seconds });
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Notes that a segment is packed.
    fn packed(&mut self, done: Spilled) -> Result<(), JournalError> {
        let packed = done.result.map_err(|source| self.failed(source))?;
        let at = self.segments.partition_point(|segment| segment.first < done.segment);
        match self.segments.get_mut(at).filter(|it| it.first == done.segment) {
            Some(segment) => {
                self.bytes -= segment.bytes();
                segment.content = Content::Packed(packed);
                self.bytes += segment.bytes();
            }
            // It was dropped meanwhile.
            None => self.recycle(Content::Packed(packed)),
        }
        // The thread has no reference any more, and neither has the segment.
        if let Some(requests) = Arc::into_inner(done.requests) {
            self.recycle(Content::Memory(requests));
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Write { folder: self.folder.display().to_string(), source }
    }

    /// Keeps the memory of a segment for a later one, unless a large request has made it larger than usual. Otherwise the thread frees
    /// it, because returning memory to the system takes time.
    fn recycle(&mut self, content: Content) {
        match content {
            Content::Memory(mut requests)
                if requests.bytes.capacity() == SEGMENT_BYTES && self.spare.len() < SPARE =>
            {
                requests.bytes.clear();
                requests.ends.clear();
                self.spare.push(requests);
            }
            // Another reference comes back with the packed segment.
            Content::Packing(_) => {}
            content => {
                if let Some(spiller) = &self.spiller {
                    spiller.free(content);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Requests that cannot be compressed, and some that can.
    fn request(number: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(number);
        let bytes = if number.is_multiple_of(7) { 3 << 20 } else { random.usize(1..2000) };
        let mask = if number.is_multiple_of(14) { 1 } else { u8::MAX };
        (0..bytes).map(|_| random.u8(..) & mask).collect()
    }

    /// A journal whose compressed segments are all in its file.
    fn on_disk(folder: &Path) -> Journal {
        Journal { most_packed_in_memory: 0, ..Journal::new(folder.to_owned(), u64::MAX) }
    }

    /// Waits until all segments are packed that are being packed.
    fn settle(journal: &mut Journal) {
        while let Some(spiller) = journal.spiller.as_mut().filter(|it| it.pending() > 0) {
            match spiller.done(PATIENCE).unwrap().unwrap() {
                Done::Packed(done) => journal.packed(done).unwrap(),
                Done::Prepared(requests) => journal.recycle(Content::Memory(requests)),
            }
        }
    }

    fn packed(journal: &Journal, in_file: bool) -> usize {
        let is_packed =
            |it: &&Segment| matches!(&it.content, Content::Packed(it) if it.is_in_file() == in_file);
        journal.segments.iter().filter(is_packed).count()
    }

    /// Number of files in a folder that this process has open. They have no names there.
    fn open_files(folder: &Path) -> usize {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter(|it| std::fs::read_link(it.path()).is_ok_and(|to| to.starts_with(folder))).count()
    }

    #[test]
    fn requests_come_out_as_they_went_in_from_memory_and_from_disk() {
        let folder = tempfile::tempdir().unwrap();
        for in_file in [false, true] {
            let mut journal = match in_file {
                false => Journal::new(folder.path().to_owned(), u64::MAX),
                true => on_disk(folder.path()),
            };
            for number in 1..=200 {
                let (request, split) = (request(number), number as usize % 2);
                let (inline, lent) = request.split_at(request.len() / (split + 1));
                journal.push(number, inline, lent).unwrap();
            }
            settle(&mut journal);
            let packed = packed(&journal, in_file);
            assert!(packed >= 3 && journal.segments.len() - packed <= IN_MEMORY);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
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
    }

    #[test]
    fn memory_of_dropped_segments_is_used_again_for_other_requests() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = on_disk(folder.path());
        let (mut next, mut buffer) = (1, Vec::new());
        let mut memory = Vec::new();
        for round in 0..3 {
            for _ in 0..90 {
                journal.push(next, &[next as u8; 1 << 20], &[]).unwrap();
                next += 1;
            }
            settle(&mut journal);
            for number in journal.first()..next {
                journal.read(number, number, 1, &mut buffer).unwrap();
                assert!(buffer == [number as u8; 1 << 20], "request {number}");
            }
            assert!(packed(&journal, true) >= 3);
            journal.forget(next - 1);
            assert_eq!((journal.bytes, journal.segments.len()), (0, 0));
            assert!((IN_MEMORY..=SPARE).contains(&journal.spare.len()), "{}", journal.spare.len());
            let before = std::mem::take(&mut memory);
            memory = journal.spare.iter().map(|it| it.bytes.as_ptr() as usize).collect();
            assert!(round == 0 || before.iter().all(|it| memory.contains(it)), "{before:x?} {memory:x?}");
        }
        // A segment may be dropped while it is being packed.
        for number in next..next + 50 {
            journal.push(number, &[1; 1 << 20], &[]).unwrap();
        }
        journal.forget(next + 48);
        settle(&mut journal);
        assert!(journal.read(next, next, 1, &mut buffer).is_err());
        journal.read(next + 49, next + 49, 1, &mut buffer).unwrap();
    }

    #[test]
    fn a_journal_of_many_segments_has_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = on_disk(folder.path());
        for number in 1..=200 {
            journal.push(number, &[number as u8; 1 << 20], &[]).unwrap();
        }
        settle(&mut journal);
        assert!(packed(&journal, true) >= 10);
        assert_eq!(open_files(folder.path()), 1);
    }

    #[test]
    fn requests_that_resemble_each_other_take_little_space() {
        let folder = tempfile::tempdir().unwrap();
        // All of them together have 208 MB; four segments may be in memory.
        let mut journal = Journal::new(folder.path().to_owned(), 96 << 20);
        let mut request = [7; 200];
        for number in 1..=1_000_000u64 {
            request[..8].copy_from_slice(&number.to_le_bytes());
            journal.push(number, &request, &[]).unwrap();
        }
        settle(&mut journal);
        assert_eq!(open_files(folder.path()), 0, "they stay in memory");
        let mut buffer = Vec::new();
        for number in [1u64, 70_000, 500_000, 999_999] {
            assert_eq!(journal.read(number, number + 1, 1 << 20, &mut buffer).unwrap(), 2);
            assert_eq!((buffer.len(), &buffer[..8], buffer[399]), (400, &number.to_le_bytes()[..], 7));
        }
    }

    /// Appends until that fails. Returns the error.
    fn fill(journal: &mut Journal) -> String {
        let next = journal.next;
        let mut numbers = next..next + 200;
        let result = numbers.try_for_each(|number| journal.push(number, &[0; 1 << 20], &[]));
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_journal_has_a_limit_and_reports_a_folder_it_cannot_write_to() {
        let mut journal = Journal::new("/".into(), 1000);
        journal.push(1, &[0; 800], &[]).unwrap();
        assert!(matches!(journal.push(2, &[0; 201], &[]), Err(JournalError::Full { limit: 1000 })));
        let error = fill(&mut on_disk("/nonexistent".as_ref()));
        assert!(error.contains("/nonexistent"), "{error}");
    }

    #[test]
    fn a_journal_whose_thread_does_not_answer_or_has_ended_reports_that() {
        let (spiller, thread) = Spiller::stuck();
        let mut journal = Journal { patience: Duration::from_millis(1), ..on_disk("/tmp".as_ref()) };
        journal.spiller = Some(spiller);
        let error = fill(&mut journal);
        assert!(error.contains("within 0 s") && error.contains("/tmp"), "{error}");
        drop(thread);
        let error = fill(&mut journal);
        assert!(error.contains("the thread of the journal has ended"), "{error}");
        // Nothing waits for it.
        journal.clear();
    }
}
