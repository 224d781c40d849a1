//! What the sessions of one worker may use together of each of its devices: memory, and a share of the time.
//!
//! A worker is one allocation, its sessions are processes of their own. They meet in one page of shared memory ([`Page`]), which the
//! supervisor makes and every session's process maps. Owns the booking of memory across processes, the rate of launches
//! ([`Pace`]) and the accounts; refuses to know what a device, a kernel or a frame is. docs/limits.md says what users may rely on.

mod config;
mod gate;
mod host;
mod ledger;
mod machine;
mod memory;
mod pace;
mod page;

pub use config::{HOST_ALLOWANCE, LimitConfig, LimitError, Qos};
pub use gate::Gate;
pub use host::{HostCharge, HostMemory};
pub use ledger::{Ledger, LedgerError};
pub use machine::{OutOfMemoryKills, machine_memory};
pub use memory::Exhausted;
pub use pace::{BURST, Pace};
pub use page::{Account, Page, Seat};

/// Nanoseconds of the machine's monotonic clock, which is the same for every process.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of processor time that the calling thread has used.
pub fn thread_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct given; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
