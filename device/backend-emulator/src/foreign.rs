//! Pages at addresses of the program's own choosing, outside the arena: for host memory that kernels see under the address
//! it has in the program.
//!
//! Ranges are exact to the byte and do not overlap, but two may share a page: the first or the last of each is counted. Nothing
//! that lies in this process is ever replaced.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

const PAGE: u64 = 4096;
/// Addresses below belong to nobody, addresses above to the kernel.
const USABLE: Range<u64> = 1 << 16..1 << 47;

/// The pages that are there.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// How many ranges begin or end in a page.
    edges: HashMap<u64, u32>,
}

impl Foreign {
    /// Puts zeroed pages behind a range that overlaps no other, except where an earlier one shares a page.
    pub(crate) fn commit(&mut self, address: u64, bytes: u64) -> io::Result<()> {
        let end = address.checked_add(bytes).filter(|end| *end > address && *end <= USABLE.end);
        if end.is_none() || address < USABLE.start {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (first, last) = edges(address, bytes);
        let fresh = self.exclusive(first, last, |count| count == 0);
        if !fresh.is_empty() {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a fresh mapping; NOREPLACE keeps it off anything that exists.
            let got = unsafe {
                libc::mmap(
                    fresh.start as *mut libc::c_void,
                    (fresh.end - fresh.start) as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    flags | libc::MAP_FIXED_NOREPLACE,
                    -1,
                    0,
                )
            };
            if got == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            if got as u64 != fresh.start {
                // SAFETY: just mapped by a kernel too old to know NOREPLACE; nobody else knows the address.
                unsafe { libc::munmap(got, (fresh.end - fresh.start) as usize) };
                return Err(io::ErrorKind::AddrInUse.into());
            }
        }
        *self.edges.entry(first).or_default() += 1;
        *self.edges.entry(last).or_default() += 1;
        Ok(())
    }

    /// Takes away what no other range shares. No work that may touch it is left.
    pub(crate) fn release(&mut self, address: u64, bytes: u64) {
        let (first, last) = edges(address, bytes);
        for page in [first, last] {
            if let Some(count) = self.edges.get_mut(&page) {
                *count -= 1;
            }
        }
        let gone = self.exclusive(first, last, |count| count == 0);
        self.edges.retain(|page, count| *count > 0 || (*page != first && *page != last));
        if !gone.is_empty() {
            // SAFETY: the pages were mapped by `commit` and belong to no range any more.
            unsafe { libc::munmap(gone.start as *mut libc::c_void, (gone.end - gone.start) as usize) };
        }
    }

    /// The part of the pages from `first` to `last` that no other range has: those between are always its own.
    fn exclusive(&self, first: u64, last: u64, alone: impl Fn(u32) -> bool) -> Range<u64> {
        let own = |page: u64| alone(self.edges.get(&page).copied().unwrap_or(0));
        let start = if own(first) { first } else { first + PAGE };
        let end = if own(last) { last + PAGE } else { last };
        start..end.max(start)
    }
}

/// The pages of the first and of the last byte.
fn edges(address: u64, bytes: u64) -> (u64, u64) {
    (address / PAGE * PAGE, (address + bytes - 1) / PAGE * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address where nothing lies for a while.
    fn hole(pages: u64) -> u64 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let bytes = (pages * PAGE) as usize;
        // SAFETY: a fresh mapping that is given back at once: its place is free.
        unsafe {
            let at = libc::mmap(0x1234_5600_0000 as *mut _, bytes, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::munmap(at, bytes);
            at as u64
        }
    }

    fn is_mapped(address: u64) -> bool {
        // SAFETY: msync reads no memory; it fails where nothing is mapped.
        unsafe { libc::msync((address / PAGE * PAGE) as *mut _, PAGE as usize, libc::MS_ASYNC) == 0 }
    }

    #[test]
    fn a_page_that_two_ranges_share_stays_until_both_are_gone() {
        let base = hole(8);
        let mut foreign = Foreign::default();
        foreign.commit(base + 100, 200).unwrap();
        foreign.commit(base + 300, 3 * PAGE).unwrap();
        // SAFETY: just mapped.
        unsafe { *((base + 150) as *mut u8) = 7 };
        foreign.release(base + 300, 3 * PAGE);
        assert!(is_mapped(base) && !is_mapped(base + PAGE) && !is_mapped(base + 3 * PAGE));
        foreign.commit(base + 300, PAGE).unwrap();
        // SAFETY: the page was never gone.
        assert_eq!(unsafe { *((base + 150) as *const u8) }, 7);
        foreign.release(base + 100, 200);
        assert!(is_mapped(base) && is_mapped(base + PAGE));
        foreign.release(base + 300, PAGE);
        assert!(!is_mapped(base) && !is_mapped(base + PAGE) && foreign.edges.is_empty());
    }

    #[test]
    fn what_lies_in_this_process_is_never_replaced() {
        let mut foreign = Foreign::default();
        let ours = vec![5u8; 3 * PAGE as usize];
        assert!(foreign.commit(ours.as_ptr() as u64, 10).is_err());
        assert!(ours.iter().all(|byte| *byte == 5) && foreign.edges.is_empty());
        for (address, bytes) in [(0, 10), (1 << 47, 1), (u64::MAX, 2), (1 << 20, u64::MAX), (1 << 20, 0)] {
            assert!(foreign.commit(address, bytes).is_err(), "{address:#x}+{bytes:#x}");
        }
    }
}
