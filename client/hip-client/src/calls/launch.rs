//! Kernel launches: posted without waiting. `launch_request.rs` validates them, `function.rs` has queries of kernels.

use std::ffi::{c_int, c_uint, c_void};

use hip_api::types::*;

use super::Status;
pub use super::function::*;
use super::launch_request::{COOPERATIVE, Launch, kernarg_status, work_items, xyz};
use crate::graph::node::{Host, Work};
use crate::process::soname;
use crate::state::kernarg::Kernarg;
use crate::state::runtime::runtime;
use crate::state::streams;
use crate::state::thread::{self, CallConfiguration};

unsafe fn launch_stub(
    stub: *const c_void,
    blocks: dim3,
    block: dim3,
    args: *mut *mut c_void,
    shared_bytes: usize,
    on: hipStream_t,
    flags: u32,
    events: [hipEvent_t; 2],
) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on).map_err(streams::gone_is(hipErrorInvalidValue))?;
    if stub.is_null() {
        return Err(hipErrorInvalidDeviceFunction);
    }
    let function = runtime.stub(at.device, stub as usize)?;
    let launch = Launch {
        function: &function,
        grid: work_items(xyz(blocks), xyz(block)),
        block: xyz(block),
        shared_bytes: shared_bytes as u64,
        stream: at,
        flags,
        start: events[0],
        stop: events[1],
    };
    // SAFETY: the caller passes one pointer per argument of the kernel.
    let kernarg = unsafe { Kernarg::gather(&function.kernel, args.cast_const(), std::ptr::null()) }
        .map_err(kernarg_status(&function))?;
    launch.send(runtime, &kernarg)
}

unsafe fn launch_function(
    function: hipFunction_t,
    grid: [u64; 3],
    block: [u32; 3],
    shared_bytes: u64,
    on: hipStream_t,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    flags: u32,
    events: [hipEvent_t; 2],
) -> Status {
    let runtime = runtime()?;
    let function = find(runtime, function)?;
    let stream = runtime.resolve(on).map_err(streams::gone_is(hipErrorInvalidValue))?;
    let launch = Launch {
        function: &function,
        grid,
        block,
        shared_bytes,
        stream,
        flags,
        start: events[0],
        stop: events[1],
    };
    // SAFETY: the caller's argument arrays, as HIP describes them.
    let kernarg = unsafe { Kernarg::gather(&function.kernel, params.cast_const(), extra.cast_const()) }
        .map_err(kernarg_status(&function))?;
    launch.send(runtime, &kernarg).map_err(|error| {
        let is_old = soname::hip_major() < 7;
        if error == hipErrorInvalidConfiguration && is_old { hipErrorInvalidValue } else { error }
    })
}

const NO_EVENTS: [hipEvent_t; 2] = [std::ptr::null_mut(); 2];

pub unsafe fn hipLaunchKernel(
    stub: *const c_void,
    blocks: dim3,
    block: dim3,
    args: *mut *mut c_void,
    shared_bytes: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { launch_stub(stub, blocks, block, args, shared_bytes, on, 0, NO_EVENTS) }
}

pub unsafe fn hipLaunchKernel_spt(
    stub: *const c_void,
    blocks: dim3,
    block: dim3,
    args: *mut *mut c_void,
    shared_bytes: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { launch_stub(stub, blocks, block, args, shared_bytes, streams::spt(on), 0, NO_EVENTS) }
}

pub unsafe fn hipExtLaunchKernel(
    stub: *const c_void,
    blocks: dim3,
    block: dim3,
    args: *mut *mut c_void,
    shared_bytes: usize,
    on: hipStream_t,
    start: hipEvent_t,
    stop: hipEvent_t,
    _flags: c_int,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { launch_stub(stub, blocks, block, args, shared_bytes, on, 0, [start, stop]) }
}

pub unsafe fn hipLaunchCooperativeKernel(
    stub: *const c_void,
    blocks: dim3,
    block: dim3,
    args: *mut *mut c_void,
    shared_bytes: c_uint,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { launch_stub(stub, blocks, block, args, shared_bytes as usize, on, COOPERATIVE, NO_EVENTS) }
}

pub unsafe fn hipLaunchCooperativeKernel_spt(
    stub: *const c_void,
    blocks: dim3,
    block: dim3,
    args: *mut *mut c_void,
    shared_bytes: u32,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { hipLaunchCooperativeKernel(stub, blocks, block, args, shared_bytes, streams::spt(on)) }
}

/// Launches a kernel on each of several devices.
pub unsafe fn hipExtLaunchMultiKernelMultiDevice(
    list: *mut hipLaunchParams,
    count: c_int,
    _flags: c_uint,
) -> Status {
    let runtime = runtime()?;
    let count = usize::try_from(count).unwrap_or(0);
    if list.is_null() || count == 0 || count > runtime.devices.len() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's array of `count` entries.
    let list = unsafe { std::slice::from_raw_parts(list, count) };
    let mut devices = Vec::new();
    for entry in list {
        let stream = runtime.tables.streams.get(entry.stream as u64).ok_or(hipErrorInvalidResourceHandle)?;
        if devices.contains(&stream.device) {
            return Err(hipErrorInvalidDevice);
        }
        devices.push(stream.device);
    }
    for it in list {
        // SAFETY: the caller's arguments.
        unsafe {
            launch_stub(it.func, it.gridDim, it.blockDim, it.args, it.sharedMem, it.stream, 0, NO_EVENTS)?;
        }
    }
    Ok(())
}

/// Launch entry point of HIP 5's first `<<<>>>` implementation: the arguments are passed packed.
pub unsafe fn launch_packed(
    stub: usize,
    blocks: *const dim3,
    block: *const dim3,
    shared_bytes: c_uint,
    on: hipStream_t,
    extra: *mut *mut c_void,
) -> Status {
    if blocks.is_null() || block.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let at = runtime.resolve(on).map_err(streams::gone_is(hipErrorInvalidValue))?;
    let function = runtime.stub(at.device, stub)?.id as hipFunction_t;
    // SAFETY: the caller's dimensions, not null.
    let (blocks, block) = unsafe { (xyz(*blocks), xyz(*block)) };
    let (grid, shared_bytes) = (work_items(blocks, block), u64::from(shared_bytes));
    let none = std::ptr::null_mut();
    // SAFETY: the caller's packed arguments.
    unsafe { launch_function(function, grid, block, shared_bytes, on, none, extra, 0, NO_EVENTS) }
}

pub unsafe fn hipLaunchKernelExC(
    config: *const hipLaunchConfig_t,
    stub: *const c_void,
    args: *mut *mut c_void,
) -> Status {
    if config.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's struct, not null, with `numAttrs` attributes behind `attrs`.
    unsafe {
        let c = &*config;
        let flags = attribute_flags(c.attrs.cast_const(), c.numAttrs)?;
        launch_stub(stub, c.gridDim, c.blockDim, args, c.dynamicSmemBytes, c.stream, flags, NO_EVENTS)
    }
}

pub unsafe fn hipDrvLaunchKernelEx(
    config: *const HIP_LAUNCH_CONFIG,
    function: hipFunction_t,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Status {
    if config.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's struct, not null, with `numAttrs` attributes behind `attrs`.
    unsafe {
        let c = &*config;
        let flags = attribute_flags(c.attrs.cast_const(), c.numAttrs)?;
        let block = [c.blockDimX, c.blockDimY, c.blockDimZ];
        let grid = work_items([c.gridDimX, c.gridDimY, c.gridDimZ], block);
        let shared = u64::from(c.sharedMemBytes);
        launch_function(function, grid, block, shared, c.hStream, params, extra, flags, NO_EVENTS)
    }
}

/// Only the "cooperative" launch attribute has an effect; the others are hints.
unsafe fn attribute_flags(attributes: *const hipLaunchAttribute, count: c_uint) -> Result<u32, hipError_t> {
    if attributes.is_null() && count > 0 {
        return Err(hipErrorInvalidValue);
    }
    let mut flags = 0;
    for i in 0..count as usize {
        // SAFETY: the caller's array of `count` attributes; the id says which member of the union is set.
        unsafe {
            let attribute = &*attributes.add(i);
            if attribute.id == hipLaunchAttributeCooperative && attribute.val.cooperative != 0 {
                flags |= COOPERATIVE;
            }
        }
    }
    Ok(flags)
}

pub unsafe fn hipModuleLaunchKernel(
    function: hipFunction_t,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    on: hipStream_t,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Status {
    if grid_x > i32::MAX as u32 {
        return Err(hipErrorInvalidValue);
    }
    let block = [block_x, block_y, block_z];
    let grid = work_items([grid_x, grid_y, grid_z], block);
    // SAFETY: the caller's arguments.
    unsafe { launch_function(function, grid, block, shared_bytes.into(), on, params, extra, 0, NO_EVENTS) }
}

pub unsafe fn hipModuleLaunchCooperativeKernel(
    function: hipFunction_t,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    on: hipStream_t,
    params: *mut *mut c_void,
) -> Status {
    let block = [block_x, block_y, block_z];
    let grid = work_items([grid_x, grid_y, grid_z], block);
    let extra = std::ptr::null_mut();
    // SAFETY: the caller's arguments.
    unsafe {
        launch_function(function, grid, block, shared_bytes.into(), on, params, extra, COOPERATIVE, NO_EVENTS)
    }
}

/// Unlike hipModuleLaunchKernel, the grid is in work-items.
pub unsafe fn hipExtModuleLaunchKernel(
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
    _flags: u32,
) -> Status {
    let grid = [global_x.into(), global_y.into(), global_z.into()];
    let block = [local_x, local_y, local_z];
    // SAFETY: the caller's arguments.
    unsafe {
        launch_function(function, grid, block, shared_bytes as u64, on, params, extra, 0, [start, stop])
    }
}

pub unsafe fn hipHccModuleLaunchKernel(
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
        hipExtModuleLaunchKernel(
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
            0,
        )
    }
}

pub unsafe fn hipConfigureCall(grid: dim3, block: dim3, shared_bytes: usize, stream: hipStream_t) -> Status {
    thread::push_configuration(CallConfiguration {
        grid,
        block,
        shared_bytes,
        stream,
        arguments: Vec::new(),
    });
    Ok(())
}

pub unsafe fn hipSetupArgument(argument: *const c_void, bytes: usize, offset: usize) -> Status {
    /// The limit of a kernel's arguments.
    const MOST: usize = 64 << 10;
    let end = offset.checked_add(bytes).filter(|end| *end <= MOST).ok_or(hipErrorInvalidValue)?;
    if argument.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's argument of `bytes` bytes, not null.
    let value = unsafe { std::slice::from_raw_parts(argument.cast::<u8>(), bytes) };
    thread::with_configuration(|configuration| {
        if configuration.arguments.len() < end {
            configuration.arguments.resize(end, 0);
        }
        configuration.arguments[offset..end].copy_from_slice(value);
    })
    .ok_or(hipErrorMissingConfiguration)
}

pub unsafe fn hipLaunchByPtr(stub: *const c_void) -> Status {
    let configuration = thread::pop_configuration().ok_or(hipErrorMissingConfiguration)?;
    let runtime = runtime()?;
    let at = runtime.resolve(configuration.stream).map_err(streams::gone_is(hipErrorInvalidValue))?;
    let function = runtime.stub(at.device, stub as usize)?;
    let mut size = configuration.arguments.len();
    let mut list = [
        HIP_LAUNCH_PARAM_BUFFER_POINTER,
        configuration.arguments.as_ptr().cast_mut().cast(),
        HIP_LAUNCH_PARAM_BUFFER_SIZE,
        (&raw mut size).cast(),
        HIP_LAUNCH_PARAM_END,
    ];
    let block = xyz(configuration.block);
    // SAFETY: the list names a buffer that lives until the call returns.
    unsafe {
        launch_function(
            function.id as hipFunction_t,
            work_items(xyz(configuration.grid), block),
            block,
            configuration.shared_bytes as u64,
            configuration.stream,
            std::ptr::null_mut(),
            list.as_mut_ptr(),
            0,
            NO_EVENTS,
        )
    }
}

pub unsafe fn hipLaunchHostFunc(on: hipStream_t, function: hipHostFn_t, data: *mut c_void) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    let function = function.ok_or(hipErrorInvalidValue)?;
    let data = data as usize;
    let kept = runtime.record(at, || Ok(Work::Host(Host { function, data })));
    kept.unwrap_or_else(|| {
        runtime.host_function(at.id, move |_status| {
            // SAFETY: the program passed the function and its data for exactly this call.
            unsafe { function(data as *mut c_void) }
        })
    })
}

pub unsafe fn hipLaunchHostFunc_spt(on: hipStream_t, function: hipHostFn_t, data: *mut c_void) -> Status {
    // SAFETY: the caller's function and data.
    unsafe { hipLaunchHostFunc(streams::spt(on), function, data) }
}
