//! Byte links between client and worker: TCP, TLS, unix sockets, shared memory, in-process pairs, and a proxy that simulates a bad
//! network.
//!
//! Owns sockets and their options. Uses frames only for the handshake, does not interpret operations, and never reads the
//! environment.

#![warn(missing_docs)]

pub mod greet;
pub mod impair;
pub mod tls;
pub mod token;

mod address;
mod crew;
mod endpoint;
mod error;
#[cfg(unix)]
mod fifo;

mod link;
mod listener;
mod os;
#[cfg(unix)]
mod owner;
#[cfg(unix)]
mod spin;
mod striped_stream;

pub use address::Address;
pub use endpoint::{DEFAULT_PORT, Endpoint};
pub use error::TransportError;
pub use link::{Link, Peer, Ready, Transport};
pub use listener::Listener;
#[cfg(unix)]
pub use os::attached::{receive_attached, send_attached};
pub use os::fifo_pair::SharedMemory;
pub use os::threads::{lower_priority, quietly, spawn_quietly};
pub use striped_stream::{BLOCK_BYTES, LargeWrite, StripedStream};
