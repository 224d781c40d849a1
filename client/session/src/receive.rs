//! The receiving side: the reader role, pending replies, and what the worker pushes.

mod callback_threads;
pub mod callbacks;
pub mod deliveries;
pub mod incoming;
pub mod late;
pub mod pending;
pub mod progress;
mod reader;
