//! What a software GPU has to know of its machine.
//!
//! A process that is confined cannot read the machine's files any more: its caller looks first and passes the result on.

use std::fs::File;
use std::sync::Arc;

/// The machine, as far as a software GPU depends on it.
#[derive(Clone, Debug)]
pub struct Host {
    /// Bytes of memory.
    pub memory: u64,
    /// Processors that this process may use.
    pub threads: usize,
    /// `/proc/self/pagemap`, which shows what pages were never written. Without it all pages count as written.
    pub pages: Option<Arc<File>>,
}

impl Host {
    pub fn look() -> Host {
        Host {
            memory: crate::device::host_memory(),
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            pages: File::open("/proc/self/pagemap").ok().map(Arc::new),
        }
    }
}
