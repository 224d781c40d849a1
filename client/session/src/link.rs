//! The links of a session: opening them, watching them, replacing broken ones, and spreading over several.

pub mod extra_links;
pub mod handshake;
mod heartbeat;
pub mod liveness;
pub mod reattach;
pub mod redirect;
mod spread;
