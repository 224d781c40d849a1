//! The session's process: serves one client, and moves to another worker on request.

pub(crate) mod chunks;
pub(crate) mod executor;
mod manifest;
pub(crate) mod migrate_in;
pub(crate) mod migrate_out;
pub(crate) mod snapshot;
