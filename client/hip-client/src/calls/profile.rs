//! Names for profilers, and profiler switches without effect.

use std::ffi::{c_char, c_uint, c_void};

use hip_api::types::*;

use super::{Status, launch};
use crate::state::registry;
use crate::state::runtime::runtime;

/// Accepted without effect: profiling is done by tools around the worker.
pub unsafe fn hipProfilerStart() -> Status {
    Ok(())
}

pub unsafe fn hipProfilerStop() -> Status {
    Ok(())
}

/// Ids of AMD's tracing interface, which this library does not offer: every id is unknown.
pub unsafe fn hipApiName(_id: u32) -> *const c_char {
    c"unknown".as_ptr()
}

pub unsafe fn hipGetCmdName(_operation: c_uint) -> *const c_char {
    c"unknown".as_ptr()
}

pub unsafe fn hipKernelNameRef(function: hipFunction_t) -> *const c_char {
    let found =
        runtime().ok().and_then(|runtime| launch::by_symbol(runtime, function.cast_const().cast()).ok());
    // The function table keeps the string alive as long as the handle is valid.
    found.map_or(std::ptr::null(), |function| function.c_name.as_ptr())
}

pub unsafe fn hipKernelNameRefByPtr(stub: *const c_void, _stream: hipStream_t) -> *const c_char {
    registry::function(stub as usize).map_or(std::ptr::null(), |symbol| symbol.name_pointer())
}
