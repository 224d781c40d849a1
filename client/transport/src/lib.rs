//! Byte links between client and worker: TCP, TCP with TLS, unix sockets, in-process pairs, and a proxy that
//! delays, throttles and cuts them on purpose.
//!
//! Owns sockets and how they are tuned. Knows frames only as far as it takes to drive a handshake; refuses to
//! know what operations mean, and never reads the environment.

pub mod greet;
pub mod impair;
pub mod tls;
pub mod token;

mod address;
mod endpoint;
mod error;
mod lane;
mod link;
mod listener;
mod owner;

pub use address::Address;
pub use endpoint::{DEFAULT_PORT, Endpoint};
pub use error::TransportError;
pub use lane::{BLOCK_BYTES, Lane};
pub use link::{Link, Peer, Ready};
pub use listener::Listener;
