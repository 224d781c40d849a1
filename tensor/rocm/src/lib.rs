//! The ROCm device: AMD GPUs, local, remote or software, through one libamdhip64 opened at run time.
//!
//! Steps become kernels generated as HIP C++, compiled by the runtime's compiler (hiprtc) and cached. Without a compiler, kernels
//! that were built ahead interpret the steps, with the same results. The crate links nothing and reads no environment variables.

#![warn(missing_docs)]

mod ahead;
mod axes;
mod blas;
mod cache;
mod companion;
mod conv;
mod device;
mod exchange;
mod expression;
mod faults;
mod interpret;
mod kernels;
mod library;
mod memory;
mod pinned;
mod properties;
mod rccl;
mod replay;
mod source;
mod stream;
mod symbolic;
mod template;
mod tuning;
mod work;

pub use blas::BlasChoice;
pub use conv::ConvChoice;
pub use device::{RocmDevice, RocmOptions, device_count, device_count_with, reset_with};
pub use exchange::{Lent, User};
pub use kernels::KernelStatistics;
pub use memory::{MemoryPool, MemoryStatistics};
pub use pinned::{PinnedBuffer, PinnedPool, PinnedStatistics};
pub use rccl::{Collective, Combination, Group};
pub use replay::ReplayStatistics;
pub use tuning::{TuningCache, TuningStatistics, tuning_cache};
