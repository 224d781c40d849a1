//! Pages outside the arena, at addresses that the program chose: host memory that kernels access at its host address.
//!
//! Ranges have byte granularity and do not overlap, but two may share a page, so the first and last page of each range have a
//! reference count. Existing mappings of this process are never replaced.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

const PAGE: u64 = 4096;
/// User-space addresses that can be mapped: the lowest 64 KiB stay unmapped, addresses above belong to the kernel.
const USABLE: Range<u64> = 1 << 16..1 << 47;

/// Tracks the pages that are mapped.
#[derive(Debug, Default)]
pub(crate) struct HostPages {
    /// Number of range ends (first and last bytes) in each page.
    edges: HashMap<u64, u32>,
}

impl HostPages {
    /// Maps zeroed pages for a range, except for pages that it shares with another range.
    pub(crate) fn commit(&mut self, address: u64, bytes: u64) -> io::Result<()> {
        let end = address.checked_add(bytes).filter(|end| *end > address && *end <= USABLE.end);
        if end.is_none() || address < USABLE.start {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (first, last) = edges(address, bytes);
        let fresh = self.exclusive(first, last, |count| count == 0);
        if !fresh.is_empty() {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping; MAP_FIXED_NOREPLACE protects existing ones.
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
                // SAFETY: just mapped by an old kernel that ignores MAP_FIXED_NOREPLACE; no other code has the address.
                unsafe { libc::munmap(got, (fresh.end - fresh.start) as usize) };
                return Err(io::ErrorKind::AddrInUse.into());
            }
        }
        *self.edges.entry(first).or_default() += 1;
        *self.edges.entry(last).or_default() += 1;
        Ok(())
    }

    /// Unmaps the pages of a range that no other range shares. All work that may access it must have ended.
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
            // SAFETY: `commit` mapped the pages, and no range uses them any more.
            unsafe { libc::munmap(gone.start as *mut libc::c_void, (gone.end - gone.start) as usize) };
        }
    }

    /// The pages from `first` to `last` that no other range shares. Only the two end pages can be shared.
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

    /// Returns an address at which nothing is mapped.
    fn hole(pages: u64) -> u64 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let bytes = (pages * PAGE) as usize;
        // SAFETY: a new mapping that is unmapped at once, so its address range is free.
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
        let mut pages = HostPages::default();
        pages.commit(base + 100, 200).unwrap();
        pages.commit(base + 300, 3 * PAGE).unwrap();
        // SAFETY: just mapped.
        unsafe { *((base + 150) as *mut u8) = 7 };
        pages.release(base + 300, 3 * PAGE);
        assert!(is_mapped(base) && !is_mapped(base + PAGE) && !is_mapped(base + 3 * PAGE));
        pages.commit(base + 300, PAGE).unwrap();
        // SAFETY: the page was never unmapped.
        assert_eq!(unsafe { *((base + 150) as *const u8) }, 7);
        pages.release(base + 100, 200);
        assert!(is_mapped(base) && is_mapped(base + PAGE));
        pages.release(base + 300, PAGE);
        assert!(!is_mapped(base) && !is_mapped(base + PAGE) && pages.edges.is_empty());
    }

    #[test]
    fn what_lies_in_this_process_is_never_replaced() {
        let mut pages = HostPages::default();
        let ours = vec![5u8; 3 * PAGE as usize];
        assert!(pages.commit(ours.as_ptr() as u64, 10).is_err());
        assert!(ours.iter().all(|byte| *byte == 5) && pages.edges.is_empty());
        for (address, bytes) in [(0, 10), (1 << 47, 1), (u64::MAX, 2), (1 << 20, u64::MAX), (1 << 20, 0)] {
            assert!(pages.commit(address, bytes).is_err(), "{address:#x}+{bytes:#x}");
        }
    }
}
