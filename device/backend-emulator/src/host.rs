//! Properties of the host machine that a software GPU depends on.
//!
//! A sandboxed process cannot read the machine's files, so they are read before the process enters its sandbox.

use std::fs::File;
use std::sync::Arc;

/// Resources of the host machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// Bytes of memory of the machine, or of this process's cgroup if that has less.
    pub memory: u64,
    /// Number of CPUs that this process may use.
    pub threads: usize,
    /// `/proc/self/pagemap`, which shows which pages were never written. Without it all pages count as written.
    pub pages: Option<Arc<File>>,
}

impl Host {
    /// Reads the resources of this machine.
    pub fn look() -> Host {
        Host {
            memory: limits::machine_memory(),
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            pages: File::open("/proc/self/pagemap").ok().map(Arc::new),
        }
    }
}
