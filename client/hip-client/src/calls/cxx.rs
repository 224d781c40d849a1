//! Functions that AMD's header declares without `extern "C"`: the same calls under their mangled names.

pub use super::launch::hipExtModuleLaunchKernel as _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j;
pub use super::launch::hipHccModuleLaunchKernel as _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_;
