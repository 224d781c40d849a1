//! Memory that exists on both sides of a session, as one side sees it.
//!
//! Each side keeps a twin of every mirror: the bytes as both sides last agreed on them. What differs from the twin is what this
//! side has written since, byte by byte, so that both may write to one page. Owns twins, their comparison and the finding of
//! written pages; knows neither frames nor when anything is compared.

mod twin;
mod written;

pub use twin::{BODY_BYTES, Twin};
pub use written::Tracker;
