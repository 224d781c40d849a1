//! Functions that AMD's header declares without `extern "C"`: the same calls under their mangled names.

use std::ffi::c_void;

use hip_api::types::*;

use super::{Status, launch};

pub unsafe fn _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(
    function: hipFunction_t,
    global_x: u32,
    global_y: u32,
    global_z: u32,
    local_x: u32,
    local_y: u32,
    local_z: u32,
    shared_bytes: usize,
    on: hipStream_t,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: hipEvent_t,
    stop: hipEvent_t,
    flags: u32,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe {
        launch::hipExtModuleLaunchKernel(
            function,
            global_x,
            global_y,
            global_z,
            local_x,
            local_y,
            local_z,
            shared_bytes,
            on,
            params,
            extra,
            start,
            stop,
            flags,
        )
    }
}

pub unsafe fn _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_(
    function: hipFunction_t,
    global_x: u32,
    global_y: u32,
    global_z: u32,
    local_x: u32,
    local_y: u32,
    local_z: u32,
    shared_bytes: usize,
    on: hipStream_t,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: hipEvent_t,
    stop: hipEvent_t,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe {
        launch::hipHccModuleLaunchKernel(
            function,
            global_x,
            global_y,
            global_z,
            local_x,
            local_y,
            local_z,
            shared_bytes,
            on,
            params,
            extra,
            start,
            stop,
        )
    }
}
