//! Kernels as functions: handles and attributes.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hip_api::types::*;

use super::{Status, set};
use crate::state::module::Function;
use crate::state::runtime::{Runtime, runtime};

/// The kernel behind a handle.
pub(super) fn find(runtime: &Runtime, function: hipFunction_t) -> Result<Arc<Function>, hipError_t> {
    runtime.tables.functions.get(function as u64).ok_or(hipErrorInvalidResourceHandle)
}

/// The function of a `const void*`: a host stub, or a hipFunction_t where both are allowed.
pub fn by_symbol(runtime: &Runtime, symbol: *const c_void) -> Result<Arc<Function>, hipError_t> {
    let (device, _) = runtime.current()?;
    match runtime.tables.functions.get(symbol as u64) {
        Some(function) => Ok(function),
        None => runtime.stub(device, symbol as usize),
    }
}

pub unsafe fn hipGetFuncBySymbol(function: *mut hipFunction_t, symbol: *const c_void) -> Status {
    let runtime = runtime()?;
    let found = by_symbol(runtime, symbol)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(function, found.id as hipFunction_t) }
}

pub unsafe fn hipFuncGetAttributes(attributes: *mut hipFuncAttributes, symbol: *const c_void) -> Status {
    let runtime = runtime()?;
    let function = by_symbol(runtime, symbol)?;
    let kernel = &function.kernel;
    let shared = runtime.devices[function.device].properties.sharedMemPerBlock;
    let answer = hipFuncAttributes {
        binaryVersion: binary_version(runtime, &function),
        localSizeBytes: kernel.private_size as usize,
        maxDynamicSharedSizeBytes: shared.saturating_sub(kernel.group_size as usize) as c_int,
        maxThreadsPerBlock: kernel.max_flat_workgroup_size as c_int,
        numRegs: kernel.vgpr_count as c_int,
        ptxVersion: binary_version(runtime, &function),
        sharedSizeBytes: kernel.group_size as usize,
        ..Default::default()
    };
    // SAFETY: the caller's out-pointer.
    unsafe { set(attributes, answer) }
}

fn binary_version(runtime: &Runtime, function: &Function) -> c_int {
    let properties = &runtime.devices[function.device].properties;
    properties.major * 10 + properties.minor
}

pub unsafe fn hipFuncGetAttribute(
    value: *mut c_int,
    attribute: hipFunction_attribute,
    function: hipFunction_t,
) -> Status {
    let runtime = runtime()?;
    let found = find(runtime, function)?;
    let kernel = &found.kernel;
    let set_by_program = found.attributes.lock().get(&attribute.0).copied();
    let shared = runtime.devices[found.device].properties.sharedMemPerBlock as c_int;
    let answer = match attribute {
        HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => kernel.max_flat_workgroup_size as c_int,
        HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => kernel.group_size as c_int,
        HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES => 0,
        HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => kernel.private_size as c_int,
        HIP_FUNC_ATTRIBUTE_NUM_REGS => kernel.vgpr_count as c_int,
        HIP_FUNC_ATTRIBUTE_PTX_VERSION | HIP_FUNC_ATTRIBUTE_BINARY_VERSION => binary_version(runtime, &found),
        HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA => 0,
        HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            set_by_program.unwrap_or(shared - kernel.group_size as c_int)
        }
        HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => set_by_program.unwrap_or(0),
        _ => return Err(hipErrorInvalidValue),
    };
    // SAFETY: the caller's out-pointer.
    unsafe { set(value, answer) }
}

pub unsafe fn hipFuncSetAttribute(
    symbol: *const c_void,
    attribute: hipFuncAttribute,
    value: c_int,
) -> Status {
    if attribute != hipFuncAttributeMaxDynamicSharedMemorySize
        && attribute != hipFuncAttributePreferredSharedMemoryCarveout
    {
        return Err(hipErrorInvalidValue);
    }
    let function = by_symbol(runtime()?, symbol)?;
    function.attributes.lock().insert(attribute.0, value);
    Ok(())
}

/// These devices have no configurable split between cache and shared memory.
pub unsafe fn hipFuncSetCacheConfig(symbol: *const c_void, _config: hipFuncCache_t) -> Status {
    by_symbol(runtime()?, symbol).map(|_| ())
}

pub unsafe fn hipFuncSetSharedMemConfig(symbol: *const c_void, _config: hipSharedMemConfig) -> Status {
    by_symbol(runtime()?, symbol).map(|_| ())
}
