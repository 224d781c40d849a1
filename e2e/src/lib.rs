//! What tests of the whole system need: programs compiled by real compilers, real workers, and processes that end.
//!
//! Owns nothing of the system itself; everything is met as a user meets it, through the `remora` program, the libraries
//! beside it and the worker's port. It refuses to run without them: `cargo xtask build` makes them.

mod artefact;
mod env;
mod marker;
mod process;
mod program;
mod status;
mod usage;
mod worker;

pub use artefact::{library_folder, remora, toolchain_folder};
pub use marker::Marker;
pub use process::{Ended, Running, eventually};
pub use program::{Program, Recipe, version_needs};
pub use status::{Session, Status};
pub use usage::Usage;
pub use worker::{Worker, WorkerOptions};

/// How often what must leave nothing behind is done; `cargo xtask conformance leaks` asks for many more.
pub fn cycles() -> usize {
    env::cycles().unwrap_or(50)
}
