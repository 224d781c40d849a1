//! A session with a worker, without HIP: frames are sent exactly once and in order across network failures, replies and
//! pushes are received, and memory that client and worker share is kept equal.
//!
//! [`Connection`] is the interface. Below it, `send/` holds what is sent, `receive/` what arrives, `link/` the sockets and
//! their replacement, `memory/` the device addresses and mirrored memory, and `os/` everything that depends on the
//! operating system. The library that uses a session supplies a [`Host`] for messages and device output, and optionally a
//! [`Traffic`] observer.
//!
//! Files that hold state do not use [`shared`]; files with the behaviour of a session extend `Shared`, which owns all state.

#![warn(missing_docs)]

mod config;
mod connection;
mod counters;
mod expectation;
mod failover;
mod host;
mod link;
mod memory;
mod os;
mod receive;
mod send;
mod shared;
pub mod status;
mod transfer;

pub use config::{Candidate, Config, CopyPolicy, OpenError, Retention, Window};
pub use connection::Connection;
pub use counters::Statistics;
pub use failover::FailoverConfig;
pub use host::{Host, StandardError, Traffic};
pub use link::liveness::{DEFAULT_SILENCE_TIMEOUT, SHORTEST_SILENCE_TIMEOUT};
pub use memory::{arena, mirrors};
pub use receive::callbacks::HOST_FUNCTION_THREAD;
pub use receive::progress;
pub use send::upload;
pub use transport::{quietly, spawn_quietly};
