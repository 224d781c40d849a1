//! The session's process: serves one client, and moves to another worker on request.

mod changes;
mod checkpoint;
mod control_thread;
pub(crate) mod executor;
mod housekeeping;
mod main_thread;
pub(crate) mod manifest;
pub(crate) mod migrate_in;
pub(crate) mod migrate_out;
mod observer;
mod shared;
pub(crate) mod snapshot;
mod welcome;
