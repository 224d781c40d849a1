//! Occupancy queries, computed from the code object without a round trip.

use std::ffi::{c_int, c_uint, c_void};

use hip_api::types::*;

use super::{Status, launch, set};
use crate::state::module::Function;
use crate::state::occupancy::best_block;
use crate::state::runtime::{Runtime, runtime};

fn active_blocks(
    runtime: &Runtime,
    function: &Function,
    block: c_int,
    dynamic: usize,
) -> Result<c_int, hipError_t> {
    let block = u32::try_from(block).ok().filter(|b| *b > 0).ok_or(hipErrorInvalidValue)?;
    let lds = runtime.devices[function.device].properties.sharedMemPerBlock as u64;
    Ok(function.kernel.occupancy(block, dynamic as u64, lds).groups as c_int)
}

fn potential(
    runtime: &Runtime,
    function: &Function,
    dynamic: usize,
    limit: c_int,
) -> Result<(c_int, c_int), hipError_t> {
    let properties = &runtime.devices[function.device].properties;
    let limit = u32::try_from(limit).map_err(|_| hipErrorInvalidValue)?;
    let units = properties.multiProcessorCount.max(1) as u32;
    let lds = properties.sharedMemPerBlock as u64;
    let (block, grid) = best_block(&function.kernel, |_| dynamic as u64, limit, lds, units);
    Ok((grid as c_int, block as c_int))
}

fn handle(runtime: &Runtime, function: hipFunction_t) -> Result<std::sync::Arc<Function>, hipError_t> {
    runtime.tables.functions.get(function as u64).ok_or(hipErrorInvalidValue)
}

pub unsafe fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: hipFunction_t,
    block: c_int,
    dynamic: usize,
) -> Status {
    let runtime = runtime()?;
    let answer = active_blocks(runtime, &*handle(runtime, function)?, block, dynamic)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(blocks, answer) }
}

pub unsafe fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    function: hipFunction_t,
    block: c_int,
    dynamic: usize,
    flags: c_uint,
) -> Status {
    check_flags(flags)?;
    // SAFETY: the caller's out-pointer.
    unsafe { hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, dynamic) }
}

pub unsafe fn hipModuleOccupancyMaxPotentialBlockSize(
    grid: *mut c_int,
    block: *mut c_int,
    function: hipFunction_t,
    dynamic: usize,
    limit: c_int,
) -> Status {
    let runtime = runtime()?;
    let (best_grid, best) = potential(runtime, &*handle(runtime, function)?, dynamic, limit)?;
    // SAFETY: the caller's out-pointers.
    unsafe {
        set(grid, best_grid)?;
        set(block, best)
    }
}

pub unsafe fn hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
    grid: *mut c_int,
    block: *mut c_int,
    function: hipFunction_t,
    dynamic: usize,
    limit: c_int,
    flags: c_uint,
) -> Status {
    check_flags(flags)?;
    // SAFETY: the caller's out-pointers.
    unsafe { hipModuleOccupancyMaxPotentialBlockSize(grid, block, function, dynamic, limit) }
}

pub unsafe fn hipOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    symbol: *const c_void,
    block: c_int,
    dynamic: usize,
) -> Status {
    let runtime = runtime()?;
    let answer = active_blocks(runtime, &*launch::by_symbol(runtime, symbol)?, block, dynamic)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(blocks, answer) }
}

pub unsafe fn hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    symbol: *const c_void,
    block: c_int,
    dynamic: usize,
    flags: c_uint,
) -> Status {
    check_flags(flags)?;
    // SAFETY: the caller's out-pointer.
    unsafe { hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, symbol, block, dynamic) }
}

pub unsafe fn hipOccupancyMaxPotentialBlockSize(
    grid: *mut c_int,
    block: *mut c_int,
    symbol: *const c_void,
    dynamic: usize,
    limit: c_int,
) -> Status {
    let runtime = runtime()?;
    let (best_grid, best) = potential(runtime, &*launch::by_symbol(runtime, symbol)?, dynamic, limit)?;
    // SAFETY: the caller's out-pointers.
    unsafe {
        set(grid, best_grid)?;
        set(block, best)
    }
}

pub unsafe fn hipOccupancyAvailableDynamicSMemPerBlock(
    bytes: *mut usize,
    symbol: *const c_void,
    blocks: c_int,
    block: c_int,
) -> Status {
    let runtime = runtime()?;
    let function = launch::by_symbol(runtime, symbol)?;
    let blocks = usize::try_from(blocks).ok().filter(|n| *n > 0).ok_or(hipErrorInvalidValue)?;
    if active_blocks(runtime, &function, block, 0)? < blocks as c_int {
        return Err(hipErrorInvalidValue);
    }
    let lds = runtime.devices[function.device].properties.sharedMemPerBlock;
    let share = lds / blocks;
    // SAFETY: the caller's out-pointer.
    unsafe { set(bytes, share.saturating_sub(function.kernel.group_size as usize)) }
}

fn check_flags(flags: c_uint) -> Status {
    if flags & !hipOccupancyDisableCachingOverride == 0 { Ok(()) } else { Err(hipErrorInvalidValue) }
}
