//! Twin: a copy of a mirror's bytes as both sides last agreed on them, used to find what this side has changed since.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use wire::delta;

use crate::Tracker;
use crate::os::pages;

/// Size at which a body of changes is passed on; it may be longer by one stretch.
pub const BODY_BYTES: usize = 128 << 10;
/// Block size of comparisons.
const BLOCK: usize = 4096;
/// Limit on a stretch of consecutive differing blocks that are compared together.
const STRETCH: usize = 16 * BLOCK;
/// Minimum size of a mirror whose written pages are tracked: comparing a smaller one is as fast as querying the kernel.
const WATCHED: usize = 128 << 10;

/// The twin of one mirror.
#[derive(Debug)]
pub struct Twin {
    /// Address of the mirror in this process; null if the caller passes its bytes instead.
    memory: *mut u8,
    twin: NonNull<u8>,
    bytes: usize,
    /// Tracker of its written pages, if they are tracked.
    tracker: Option<Arc<Tracker>>,
    /// Ranges still to be compared in this turn, in reverse order.
    pending: Vec<Range<usize>>,
    scratch: Vec<u8>,
}

// SAFETY: the twin is a mapping owned by this object, and the memory is accessed only under the contract of `new`.
unsafe impl Send for Twin {}

impl Twin {
    /// Creates an all-zero twin for `bytes` bytes at `memory`. Uses `tracker` for written pages if the mirror is large enough,
    /// page-aligned, and can be tracked.
    ///
    /// # Safety
    /// The memory must stay readable and writable until the twin is dropped. Other threads may write it at any time.
    pub unsafe fn new(memory: *mut u8, bytes: usize, tracker: Option<&Arc<Tracker>>) -> io::Result<Twin> {
        let twin = pages::map(bytes)?;
        let start = memory as u64;
        let fit = bytes >= WATCHED && start.is_multiple_of(BLOCK as u64);
        let tracker = tracker.filter(|tracker| {
            // SAFETY: guaranteed by the caller; the pages are tracked no longer than this object lives.
            fit && unsafe { tracker.watch(start, whole_blocks(bytes)) }.is_ok()
        });
        let (pending, scratch) = (Vec::new(), Vec::new());
        Ok(Twin { memory, twin, bytes, tracker: tracker.cloned(), pending, scratch })
    }

    /// Size of the mirror.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether written pages are tracked.
    pub fn is_watched(&self) -> bool {
        self.tracker.is_some()
    }

    /// Determines what may have changed by now; [`Twin::collect`] then compares it.
    pub fn begin(&mut self) {
        if let Some(tracker) = &self.tracker {
            let mut found = Vec::new();
            if tracker.take(self.memory as u64, self.bytes as u64, &mut found).is_ok() {
                // Ranges that an earlier turn did not reach are still to be compared.
                self.pending.extend(found.into_iter().rev());
                return;
            }
            // Tracking failed: from now on everything is compared.
            self.tracker = None;
        }
        self.pending.clear();
        if self.bytes > 0 {
            self.pending.push(0..self.bytes);
        }
    }

    /// Appends changes to `body` until it is long enough or there are no more; returns whether there are more. `address` is the
    /// mirror's address on the other side. Updates the twin, so what was appended must be sent. `look` gets the memory around
    /// changes.
    pub fn collect(&mut self, address: u64, body: &mut Vec<u8>, look: &mut dyn FnMut(&[u8])) -> bool {
        while body.len() < BODY_BYTES {
            let Some(mut part) = self.pending.pop() else { return false };
            while !part.is_empty() && body.len() < BODY_BYTES {
                let stretch = self.next_stretch(&mut part);
                self.compare(stretch, address, body, look);
            }
            if !part.is_empty() {
                self.pending.push(part);
            }
        }
        !self.pending.is_empty()
    }

    /// Takes equal blocks, then differing ones, from the front of `part`; returns the latter.
    fn next_stretch(&self, part: &mut Range<usize>) -> Range<usize> {
        let mut differs = part.start..part.start;
        while part.start < part.end {
            let end = part.end.min((part.start / BLOCK + 1) * BLOCK);
            let same = self.is_same(part.start..end);
            if same && differs.is_empty() {
                differs = end..end;
            } else if same || differs.len() >= STRETCH {
                break;
            } else {
                differs.end = end;
            }
            part.start = end;
        }
        differs
    }

    fn is_same(&self, part: Range<usize>) -> bool {
        // SAFETY: the part lies in both, see `new`. If bytes change concurrently, either answer is correct.
        unsafe {
            let (now, twin) = (self.memory.add(part.start), self.twin.as_ptr().add(part.start));
            libc::memcmp(now.cast(), twin.cast(), part.len()) == 0
        }
    }

    fn compare(&mut self, part: Range<usize>, address: u64, body: &mut Vec<u8>, look: &mut dyn FnMut(&[u8])) {
        if part.is_empty() {
            return;
        }
        self.scratch.resize(STRETCH, 0);
        let now = &mut self.scratch[..part.len()];
        // SAFETY: as above. The copy is what is compared, sent and kept, whatever happens to the memory.
        let twin = unsafe {
            std::ptr::copy_nonoverlapping(self.memory.add(part.start), now.as_mut_ptr(), part.len());
            std::slice::from_raw_parts_mut(self.twin.as_ptr().add(part.start), part.len())
        };
        look(now);
        delta::diff(address + part.start as u64, now, twin, body);
    }

    /// Compares bytes that the caller passes, from offset `at`: for memory that is not in this process.
    pub fn compare_shown(&mut self, at: usize, now: &[u8], address: u64, body: &mut Vec<u8>) {
        let twin = &mut self.twin_mut()[at..at + now.len()];
        if twin != now {
            delta::diff(address + at as u64, now, twin, body);
        }
    }

    /// Applies bytes from the other side, except where this side has written meanwhile: those bytes keep their value and still
    /// differ. The bytes must lie in the mirror.
    pub fn accept(&mut self, at: usize, bytes: &[u8]) {
        let part = at..at + bytes.len();
        assert!(part.end <= self.bytes, "the bytes must lie in the mirror");
        // SAFETY: the part lies in both, see `new`. Bytes outside it are not touched, since other threads may be writing them.
        unsafe {
            let (now, twin) = (self.memory.add(at), self.twin.as_ptr().add(at));
            if self.is_same(part) {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), now, bytes.len());
            } else {
                for (index, byte) in bytes.iter().enumerate() {
                    if now.add(index).read_volatile() == *twin.add(index) {
                        now.add(index).write_volatile(*byte);
                    }
                }
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), twin, bytes.len());
        }
    }

    /// Whether these are the bytes that both sides last agreed on.
    pub fn is_agreed(&self, at: usize, bytes: &[u8]) -> bool {
        // SAFETY: this object alone owns the mapping, which is `bytes` long; the reference ends here.
        let twin = unsafe { std::slice::from_raw_parts(self.twin.as_ptr(), self.bytes) };
        twin.get(at..at + bytes.len()) == Some(bytes)
    }

    /// Records bytes that both sides are known to have.
    pub fn agree(&mut self, at: usize, bytes: &[u8]) {
        self.twin_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn twin_mut(&mut self) -> &mut [u8] {
        // SAFETY: this object alone owns the mapping, which is `bytes` long.
        unsafe { std::slice::from_raw_parts_mut(self.twin.as_ptr(), self.bytes) }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        if let Some(tracker) = &self.tracker {
            tracker.forget(self.memory as u64, whole_blocks(self.bytes));
        }
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { pages::unmap(self.twin, self.bytes) };
    }
}

fn whole_blocks(bytes: usize) -> u64 {
    bytes.next_multiple_of(BLOCK) as u64
}
