//! Support for end-to-end tests: programs compiled by real compilers, real workers, and processes with time limits.
//!
//! Tests use the system as a user does: through the `remora` program, the client libraries and the worker's port. They fail if
//! these are missing; `cargo xtask build` builds them.

mod agent;
mod artefact;
pub mod endures;
mod env;
mod marker;
mod memory_relay;
mod process;
mod program;
mod skip;
mod status;
mod usage;
mod worker;

pub use agent::Agent;
pub use artefact::{library_folder, remora, toolchain_folder};
pub use marker::Marker;
pub use memory_relay::MemoryRelay;
pub use process::{Ended, Running, eventually};
pub use program::{Program, Recipe, version_needs};
pub use skip::skip;
pub use status::{Session, Status};
pub use usage::Usage;
pub use worker::{Worker, WorkerOptions};

/// Raises this process's limit of open files; asserts that it allows `count`. The usual default is 1024.
pub fn raise_descriptor_limit(count: usize) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for both calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(8192);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    assert!(limit.rlim_cur > count as u64, "this test needs {count} file descriptors");
}

/// Number of repetitions in leak tests; `cargo xtask conformance leaks` sets a much larger one.
pub fn cycles() -> usize {
    env::cycles().unwrap_or(50)
}
