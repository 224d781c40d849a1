//! An asymmetric memory fence (membarrier) that is free on the frequent side.
//!
//! Two threads that each write one location and then read the other's must not both read the old value. Normally both
//! need a full fence between the write and the read. Here the frequent side uses a compiler fence only, and the rare side
//! has the kernel issue a fence on all threads of the process.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration.
const EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_EXPEDITED: libc::c_int = 1 << 4;

/// Whether the kernel supports expedited membarrier. Registers the process on first use.
#[inline]
fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| membarrier(REGISTER_EXPEDITED))
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: takes three integers and accesses no memory of this process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// The fence of the frequent side.
#[inline]
pub fn light() {
    if is_available() { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
}

/// The fence of the rare side.
pub fn heavy() {
    fence(Ordering::SeqCst);
    if is_available() && !membarrier(EXPEDITED) {
        // Fails only if the registration was lost, as after a fork: register again.
        membarrier(REGISTER_EXPEDITED);
        membarrier(EXPEDITED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    #[test]
    fn never_do_both_sides_miss_each_other() {
        const ROUNDS: usize = 300;
        let (mine, yours) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let missed = AtomicBool::new(false);
        let (saw_mine, saw_yours) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    while saw_yours.load(Ordering::Acquire) < round - 1 {
                        std::thread::yield_now();
                    }
                    mine.store(round, Ordering::Relaxed);
                    light();
                    let seen = yours.load(Ordering::Relaxed) == round;
                    saw_mine.store(2 * round + usize::from(seen), Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                yours.store(round, Ordering::Relaxed);
                heavy();
                let seen = mine.load(Ordering::Relaxed) == round;
                let other = loop {
                    let said = saw_mine.load(Ordering::Acquire);
                    if said >= 2 * round {
                        break said & 1 == 1;
                    }
                    std::thread::yield_now();
                };
                if !seen && !other {
                    missed.store(true, Ordering::Relaxed);
                }
                saw_yours.store(round, Ordering::Release);
            }
        });
        assert!(!missed.load(Ordering::Relaxed));
    }
}
