//! The process around the library: its environment, its exit and forks, its standard streams, and its one session.

pub mod env;
pub mod exit;
mod host;
pub mod open;
pub mod soname;
