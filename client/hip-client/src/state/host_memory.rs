//! Host memory that kernels use: which of it is mirrored on the worker, and the program's advice for it.

use parking_lot::Mutex;

use super::advice::Advised;
use super::unmirrored::UnmirroredRanges;

/// What is known of host memory that kernels use or may use.
#[derive(Debug, Default)]
pub struct HostMemory {
    /// Pinned memory that is not mirrored on the worker yet.
    pub unmirrored: UnmirroredRanges,
    /// Locked while such memory is being mirrored.
    pub exposing: Mutex<()>,
    /// Advice given for managed memory (hipMemAdvise).
    pub advised: Mutex<Advised>,
    /// Bytes of managed variables that are mirrored on the worker.
    pub shared_variables: Mutex<u64>,
}
