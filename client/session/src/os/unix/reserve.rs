//! Reserves the address range of a session's device memory in this process, so that nothing else gets an address inside
//! it.

use std::io;

/// ThreadSanitizer occupies most addresses and leaves the lowest to programs.
#[allow(unexpected_cfgs, reason = "set by `cargo xtask conformance threads` alone")]
const INSTRUMENTED: bool = cfg!(watched);
/// The first base tried: far from program, heap, libraries and stack on every Linux in use.
const FIRST_BASE: u64 = if INSTRUMENTED { 0x0020_0000_0000 } else { 0x2000_0000_0000 };
const BASE_STEP: u64 = if INSTRUMENTED { 0x0010_0000_0000 } else { 0x0400_0000_0000 };
/// The range of a lost session stays reserved, so this is also the number of sessions that a process can have in turn.
const BASES: u64 = if INSTRUMENTED { 4 } else { 16 };
/// Largest first; systems that limit the address space get a smaller range.
const SIZES: &[u64] = if INSTRUMENTED { &[64 << 30] } else { &[4 << 40, 1 << 40, 256 << 30, 64 << 30] };

/// An address range without memory, released on drop. The session of a process is never dropped: programs hold device
/// pointers until they end.
#[derive(Debug)]
pub struct Reservation {
    base: u64,
    bytes: u64,
}

impl Reservation {
    /// Reserves the largest available range.
    pub fn find() -> io::Result<Reservation> {
        let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
        for &bytes in SIZES {
            for index in 0..BASES {
                match Reservation::at(FIRST_BASE + index * BASE_STEP, bytes) {
                    Ok(reservation) => return Ok(reservation),
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }

    /// Reserves exactly this range, if it is unused.
    pub fn at(base: u64, bytes: u64) -> io::Result<Reservation> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: MAP_FIXED_NOREPLACE replaces no mapping, and PROT_NONE gives no access.
        let mapped = unsafe { libc::mmap(base as *mut _, bytes as usize, libc::PROT_NONE, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if mapped as u64 != base {
            // A kernel without MAP_FIXED_NOREPLACE treats the address as a hint.
            // SAFETY: this function just made the mapping.
            unsafe { libc::munmap(mapped, bytes as usize) };
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(Reservation { base, bytes })
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether this range contains another.
    pub fn contains(&self, base: u64, bytes: u64) -> bool {
        base >= self.base && base.checked_add(bytes).is_some_and(|end| end <= self.base + self.bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, and whatever the session mapped into it is gone with the session.
        unsafe { libc::munmap(self.base as *mut _, self.bytes as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reservations_never_overlap_and_a_dropped_one_is_free_again() {
        let first = Reservation::find().unwrap();
        let second = Reservation::find().unwrap();
        assert!(
            first.base() + first.bytes() <= second.base() || second.base() + second.bytes() <= first.base()
        );
        assert!(Reservation::at(first.base(), 4096).is_err());
        let (base, bytes) = (second.base(), second.bytes());
        assert!(second.contains(base + 4096, bytes - 4096));
        assert!(!second.contains(base + 4096, bytes));
        drop(second);
        Reservation::at(base, bytes).unwrap();
    }
}
