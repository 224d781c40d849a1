//! Small objects behind handles of the program: events, pools, libraries, contexts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use session::progress::ProgressMark;

/// A kernel library (hipLibrary): a module under another handle type.
#[derive(Debug)]
pub struct Library {
    pub module: u64,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    pub id: u64,
    pub device: usize,
    pub flags: u32,
    pub recorded: AtomicBool,
    /// Progress of its records.
    pub mark: Arc<ProgressMark>,
}

/// A memory pool: a label for allocations. Freed memory returns to the device at once, so a pool caches nothing.
#[derive(Debug)]
pub struct Pool {
    pub device: usize,
    /// Its allocations can be exported to other processes.
    pub shareable: bool,
    pub attributes: Mutex<HashMap<u32, u64>>,
    pub used: AtomicU64,
    pub used_high: AtomicU64,
}

/// A context: a device under another handle type.
#[derive(Debug)]
pub struct Context {
    pub device: usize,
    pub flags: u32,
    pub primary: bool,
}

impl Event {
    /// An event that was never recorded.
    pub fn new(id: u64, device: usize, flags: u32) -> Event {
        Event { id, device, flags, recorded: AtomicBool::new(false), mark: Arc::new(ProgressMark::default()) }
    }
}
