//! Reserves the address range of a session's device memory in this process, so that nothing else gets an address inside
//! it.

use std::io;

use windows_sys::Win32::System::Memory::{
    MEM_RELEASE, MEM_RESERVE, PAGE_NOACCESS, VirtualAlloc, VirtualFree,
};

/// The first base tried: far from program, heap, libraries and stack, and free on a Linux worker too.
const FIRST_BASE: u64 = 0x2000_0000_0000;
const BASE_STEP: u64 = 0x0400_0000_0000;
/// The range of a lost session stays reserved, so this is also the number of sessions that a process can have in turn.
const BASES: u64 = 16;
/// Largest first; systems that limit the address space get a smaller range. Smaller than on Linux: Wine keeps a byte per page, so
/// that 4 TiB would use 1 GiB of memory.
const SIZES: &[u64] = &[1 << 40, 256 << 30, 64 << 30];

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
        // SAFETY: reserves unused addresses or fails; gives no access.
        let start = unsafe { VirtualAlloc(base as *const _, bytes as usize, MEM_RESERVE, PAGE_NOACCESS) };
        if start.is_null() {
            return Err(io::Error::last_os_error());
        }
        let reservation = Reservation { base: start as u64, bytes };
        // The system rounds the address down to its allocation granularity.
        if start as u64 == base { Ok(reservation) } else { Err(io::ErrorKind::AddrInUse.into()) }
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
        // SAFETY: this object owns the reservation, and whatever the session committed in it is gone with the session.
        unsafe { VirtualFree(self.base as *mut _, 0, MEM_RELEASE) };
    }
}
