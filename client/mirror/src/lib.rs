//! Mirrored memory: memory that both sides of a session hold, as seen by one side.
//!
//! Each side keeps a twin of every mirror: the bytes as both sides last agreed on them. Bytes that differ from the twin were
//! written by this side since, so both sides may write to the same page. Owns twins, their comparison and the tracking of written
//! pages; frames and the times of comparison are the caller's.

#![warn(missing_docs)]

mod os;
mod twin;

pub use os::written::Tracker;
pub use twin::{BODY_BYTES, Twin};
