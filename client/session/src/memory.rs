//! Memory of a session: device addresses, and memory that exists on client and worker.

pub mod arena;
pub mod mirrors;
pub mod reservation;
