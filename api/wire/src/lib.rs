//! The protocol between client and worker: frames, operations, handshake, sessions.
//!
//! Owns every byte that crosses the wire and every rule about its order. Does no I/O, reads no clock, keeps no
//! globals: callers bring bytes, randomness and time.

#[doc(hidden)]
pub mod exercise;

pub mod delta;

mod codec;
mod effect;
mod error;
mod frame;
mod graph;
mod handshake;
mod limits;
mod operation;
mod session;
mod session_id;

pub use codec::{Bytes, Field, Reader, Sink};
pub use effect::Effect;
pub use error::WireError;
pub use frame::*;
pub use graph::*;
pub use handshake::*;
pub use limits::*;
pub use operation::*;
pub use session::*;
pub use session_id::{SessionId, SessionIdError};
