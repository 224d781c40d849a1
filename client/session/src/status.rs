//! Status numbers of failures that a session reports itself; all others come from the worker.

/// The session is lost: every call fails (hipErrorUnknown).
pub const LOST: i32 = 999;
/// The session is closed (hipErrorDeinitialized).
pub const CLOSED: i32 = 4;
/// Out of memory, here or because the worker's process was killed for it (hipErrorOutOfMemory).
pub const OUT_OF_MEMORY: i32 = 2;
