//! Modules: parsed and placed on the client, so that loading and lookups need no round trip.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;

use hip_api::types::*;

use super::{Status, set, set_if_wanted, text};
use crate::state::module::Module;
use crate::state::runtime::{Runtime, runtime};
use crate::telemetry::report;

fn find(runtime: &Runtime, module: hipModule_t) -> Result<Arc<Module>, hipError_t> {
    runtime.tables.modules.get(module as u64).ok_or(hipErrorInvalidResourceHandle)
}

pub unsafe fn hipModuleLoad(module: *mut hipModule_t, file: *const c_char) -> Status {
    if module.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's string.
    let path = unsafe { text(file) }?;
    if path.is_empty() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let (device, _) = runtime.current()?;
    let image = std::fs::read(&path).map_err(|error| {
        report::line(format_args!("hipModuleLoad cannot read {path}: {error}"));
        hipErrorFileNotFound
    })?;
    let loaded = runtime.load_module(device, &image)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(module, loaded.id as hipModule_t) }
}

pub unsafe fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) -> Status {
    if module.is_null() || image.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let (device, _) = runtime.current()?;
    // SAFETY: HIP passes no size: the caller guarantees a complete image, whose headers contain its length.
    let bytes = unsafe {
        let size = code_object::fat_binary_size(image.cast()).map_err(|error| {
            report::line(format_args!("the module image is not a code object: {error}"));
            hipErrorInvalidImage
        })?;
        std::slice::from_raw_parts(image.cast::<u8>(), size)
    };
    let loaded = runtime.load_module(device, bytes)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(module, loaded.id as hipModule_t) }
}

/// The options configure a compiler, which a finished code object does not need.
pub unsafe fn hipModuleLoadDataEx(
    module: *mut hipModule_t,
    image: *const c_void,
    _count: c_uint,
    _options: *mut hipJitOption,
    _values: *mut *mut c_void,
) -> Status {
    // SAFETY: the caller's image.
    unsafe { hipModuleLoadData(module, image) }
}

pub unsafe fn hipModuleLoadFatBinary(module: *mut hipModule_t, image: *const c_void) -> Status {
    // SAFETY: the caller's image.
    unsafe { hipModuleLoadData(module, image) }
}

pub unsafe fn hipModuleUnload(module: hipModule_t) -> Status {
    runtime()?.unload_module(module as u64)
}

pub unsafe fn hipModuleGetFunction(
    function: *mut hipFunction_t,
    module: hipModule_t,
    name: *const c_char,
) -> Status {
    if function.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's string.
    let name = unsafe { text(name) }?;
    let runtime = runtime()?;
    let found = runtime.function(&*find(runtime, module)?, &name)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(function, found.id as hipFunction_t) }
}

pub unsafe fn hipModuleGetFunctionCount(count: *mut c_uint, module: hipModule_t) -> Status {
    let found = find(runtime()?, module)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(count, found.code.kernels().len() as c_uint) }
}

pub unsafe fn hipModuleGetGlobal(
    pointer: *mut hipDeviceptr_t,
    bytes: *mut usize,
    module: hipModule_t,
    name: *const c_char,
) -> Status {
    // SAFETY: the caller's string.
    let name = unsafe { text(name) }?;
    let runtime = runtime()?;
    let (address, size) = runtime.global(&*find(runtime, module)?, &name)?;
    // SAFETY: the caller's out-pointers, either of which may be null.
    unsafe {
        set_if_wanted(pointer, address as hipDeviceptr_t);
        set_if_wanted(bytes, size as usize);
    }
    Ok(())
}
