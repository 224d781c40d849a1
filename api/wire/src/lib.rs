//! Protocol between client and worker: frames, operations, handshake, sessions.
//!
//! Defines the format of every byte on the wire and the rules about their order. Does no I/O, reads no clock and has no global
//! state: callers supply bytes, randomness and time.

#![warn(missing_docs)]
// The operation table is sorted one row per step of a recursive macro, see `request`.
#![recursion_limit = "256"]

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
mod request;
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
pub use request::{Handle, HandleBody, Payload, Receiver, Requests, dispatch};
pub use session::*;
pub use session_id::{SessionId, SessionIdError};
