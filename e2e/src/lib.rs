//! Support for end-to-end tests: programs compiled by real compilers, real workers, and processes with time limits.
//!
//! Tests use the system as a user does: through the `remora` program, the client libraries and the worker's port. They fail if
//! these are missing; `cargo xtask build` builds them.

mod artefact;
mod env;
mod marker;
mod process;
mod program;
mod skip;
mod status;
mod usage;
mod worker;

pub use artefact::{library_folder, remora, toolchain_folder};
pub use marker::Marker;
pub use process::{Ended, Running, eventually};
pub use program::{Program, Recipe, version_needs};
pub use skip::skip;
pub use status::{Session, Status};
pub use usage::Usage;
pub use worker::{Worker, WorkerOptions};

/// Number of repetitions in leak tests; `cargo xtask conformance leaks` sets a much larger one.
pub fn cycles() -> usize {
    env::cycles().unwrap_or(50)
}
