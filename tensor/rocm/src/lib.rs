//! AMD GPUs as devices, local, remote or software: one libamdhip64 opened at run time, kernels of our own.
//!
//! Steps become kernels written in HIP C++, compiled by the runtime's own compiler and kept. It links nothing and reads no environment.

mod ahead;
mod axes;
mod cache;
mod device;
mod expression;
mod faults;
mod kernels;
mod library;
mod memory;
mod pinned;
mod properties;
mod replay;
mod source;
mod stream;
mod template;
mod tuning;
mod work;

pub use device::{RocmDevice, RocmOptions, device_count, device_count_with};
pub use kernels::KernelStatistics;
pub use memory::{MemoryPool, MemoryStatistics};
pub use pinned::{PinnedBuffer, PinnedPool, PinnedStatistics};
pub use replay::ReplayStatistics;
pub use tuning::{TuningCache, TuningStatistics, tuning_cache};
