//! Functions that AMD's header declares without `extern "C"`, exported under their mangled names.

pub use super::launch::hipExtModuleLaunchKernel as _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j;
pub use super::launch::hipHccModuleLaunchKernel as _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_;

use std::ffi::{c_uint, c_void};

use hip_api::types::{dim3, hipStream_t};

pub use super::texture::hipDestroySurfaceObject as _Z23hipDestroySurfaceObjectP13__hip_surface;

/// Has no result: hipGetLastError reports a failure.
pub unsafe fn _ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv(
    stub: usize,
    blocks: *const dim3,
    block: *const dim3,
    shared_bytes: c_uint,
    on: hipStream_t,
    extra: *mut *mut c_void,
) {
    // SAFETY: the caller's arguments.
    if let Err(error) = unsafe { super::launch::launch_packed(stub, blocks, block, shared_bytes, on, extra) }
    {
        crate::state::thread::remember(error);
    }
}
