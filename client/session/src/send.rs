//! The sending side: the ring of unacknowledged frames, the thread that writes them, and compression of uploads.

mod double_mapping;
pub mod outgoing;
pub mod ring;
mod sender;
pub mod upload;
