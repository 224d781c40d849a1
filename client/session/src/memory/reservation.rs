//! The address range of a session's device memory, reserved in this process, so that nothing else gets an address inside it.

use std::io;

use crate::os::reserve::{self, BASE_STEP, BASES, FIRST_BASE, SIZES};

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
        reserve::reserve(base, bytes)?;
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
        // SAFETY: this object owns the range, and whatever the session put into it is gone with the session.
        unsafe { reserve::release(self.base, self.bytes) };
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
