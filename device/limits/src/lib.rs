//! Resource limits of a worker: device memory, host memory and compute time that its sessions share.
//!
//! A worker is one allocation; each session is a separate process. They share one memory page ([`Page`]), which the supervisor
//! creates and every session process maps. This crate implements memory accounting across processes, the launch rate ([`Pace`]) and
//! the usage counters. It does not depend on devices, kernels or frames. docs/limits.md describes the guarantees for users.

#![warn(missing_docs)]

mod config;
mod gate;
mod host;
mod ledger;
mod machine;
mod memory;
mod pace;
mod page;

pub use config::{HOST_ALLOWANCE, LimitConfig, LimitError};
pub use gate::Gate;
pub use host::{HostCharge, HostMemory};
pub use ledger::{Ledger, LedgerError};
pub use machine::{OutOfMemoryKills, machine_memory};
pub use memory::Exhausted;
pub use pace::{BURST, Pace};
pub use page::{Account, Page, SessionSlot};
pub use worker_status::Qos;

/// Nanoseconds of the monotonic clock, which all processes of the machine share.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes only to the struct; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
