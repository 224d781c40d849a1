//! Kernel launches: validated here and posted without waiting.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hip_api::types::*;

use super::{Status, event, set};
use crate::graph::node::{Arguments, Host, Kernel, Work};
use crate::process::soname;
use crate::state::kernarg::{Kernarg, KernargError};
use crate::state::module::Function;
use crate::state::occupancy::groups_per_compute_unit;
use crate::state::runtime::{Runtime, runtime};
use crate::state::stream::StreamRef;
use crate::state::streams;
use crate::state::thread::{self, CallConfiguration};
use crate::telemetry::report;

/// The largest workgroup on any device of these architectures, in work-items.
const MOST_WORK_ITEMS: u64 = 1024;
const COOPERATIVE: u32 = 1;

/// A launch, common to all launch functions.
struct Launch<'a> {
    function: &'a Arc<Function>,
    /// Work-items in each dimension.
    grid: [u64; 3],
    block: [u32; 3],
    shared_bytes: u64,
    stream: StreamRef,
    flags: u32,
    start: hipEvent_t,
    stop: hipEvent_t,
}

impl Launch<'_> {
    /// Validates the launch and returns its operation.
    fn check(&self, runtime: &Runtime) -> Result<wire::Launch, hipError_t> {
        let kernel = &self.function.kernel;
        let work_items: u64 = self.block.iter().map(|n| u64::from(*n)).product();
        if work_items == 0 || work_items > MOST_WORK_ITEMS || self.grid.contains(&0) {
            return Err(hipErrorInvalidConfiguration);
        }
        if work_items > u64::from(kernel.max_flat_workgroup_size.max(1)) {
            report::debug(format_args!(
                "{}: {work_items} work-items per workgroup, but compiled for at most {}",
                kernel.name, kernel.max_flat_workgroup_size
            ));
            return Err(hipErrorLaunchFailure);
        }
        let mut grid = [0; 3];
        for (to, from) in grid.iter_mut().zip(self.grid) {
            *to = u32::try_from(from).map_err(|_| hipErrorInvalidConfiguration)?;
        }
        let device = &runtime.devices[self.function.device];
        let limit = device.properties.sharedMemPerBlock as u64;
        if self.shared_bytes + u64::from(kernel.group_size) > limit {
            return Err(hipErrorInvalidValue);
        }
        if self.stream.device != self.function.device {
            return Err(hipErrorInvalidHandle);
        }
        if self.flags & COOPERATIVE != 0 {
            let groups =
                self.grid.iter().zip(self.block).map(|(items, size)| items.div_ceil(u64::from(size)));
            let units = device.properties.multiProcessorCount.max(1) as u64;
            let resident = groups_per_compute_unit(kernel, work_items as u32, self.shared_bytes, limit);
            if groups.fold(1, u64::saturating_mul) > u64::from(resident) * units {
                return Err(hipErrorCooperativeLaunchTooLarge);
            }
        }
        let start_event = self.event(runtime, self.start)?;
        let stop_event = self.event(runtime, self.stop)?;
        Ok(wire::Launch {
            function: self.function.id,
            stream: self.stream.id,
            grid,
            block: self.block,
            shared_bytes: self.shared_bytes as u32,
            flags: self.flags,
            start_event,
            stop_event,
        })
    }

    fn send(&self, runtime: &Runtime, kernarg: &Kernarg) -> Status {
        let operation = self.check(runtime)?;
        let kept = runtime.record(self.stream, || {
            let symbol = self.function.id as usize;
            Ok(Work::Kernel(self.node(operation.clone(), symbol, kernarg.bytes(), false)))
        });
        kept.unwrap_or_else(|| runtime.post(&operation, kernarg.bytes()))
    }

    /// The launch as a graph node.
    fn node(&self, launch: wire::Launch, symbol: usize, arguments: &[u8], packed: bool) -> Kernel {
        let code = &self.function.kernel;
        let blocks: [u32; 3] = std::array::from_fn(|i| launch.grid[i].div_ceil(launch.block[i].max(1)));
        Kernel {
            function: Arc::clone(self.function),
            symbol,
            blocks: dim3::new(blocks[0], blocks[1], blocks[2]),
            launch,
            arguments: Arguments::new(code, arguments, packed || code.args.is_empty()),
            attributes: HashMap::new(),
        }
    }

    fn event(&self, runtime: &Runtime, handle: hipEvent_t) -> Result<u64, hipError_t> {
        if handle.is_null() {
            return Ok(0);
        }
        let event = event::find(runtime, handle)?;
        event.mark.advance();
        event.recorded.store(true, Ordering::Release);
        Ok(event.id)
    }
}

/// Builds a kernel node from its parameters, for the given device.
///
/// # Safety
/// The argument lists are as HIP describes them.
pub unsafe fn kernel_node(
    runtime: &Runtime,
    device: usize,
    parameters: &hipKernelNodeParams,
) -> Result<Kernel, hipError_t> {
    if parameters.func.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let function = match runtime.tables.functions.get(parameters.func as u64) {
        Some(function) => function,
        None => runtime.stub(device, parameters.func as usize)?,
    };
    let block = xyz(parameters.blockDim);
    let launch = Launch {
        function: &function,
        grid: work_items(xyz(parameters.gridDim), block),
        block,
        shared_bytes: parameters.sharedMemBytes.into(),
        stream: StreamRef { id: 0, device: function.device },
        flags: 0,
        start: std::ptr::null_mut(),
        stop: std::ptr::null_mut(),
    };
    let operation = launch.check(runtime)?;
    let (params, extra) = (parameters.kernelParams.cast_const(), parameters.extra.cast_const());
    // SAFETY: guaranteed by the caller.
    let kernarg = unsafe { Kernarg::gather(&function.kernel, params, extra) };
    let kernarg = kernarg.map_err(|_| hipErrorInvalidValue)?;
    Ok(launch.node(operation, parameters.func as usize, kernarg.bytes(), params.is_null()))
}

fn kernarg_status(function: &Function) -> impl FnOnce(KernargError) -> hipError_t + '_ {
    |error| {
        report::line(format_args!("launch of {}: {error}", function.kernel.name));
        hipErrorInvalidValue
    }
}

/// Work-items of a grid given in workgroups.
fn work_items(blocks: [u32; 3], block: [u32; 3]) -> [u64; 3] {
    std::array::from_fn(|i| u64::from(blocks[i]) * u64::from(block[i]))
}

fn xyz(d: dim3) -> [u32; 3] {
    [d.x, d.y, d.z]
}

fn find(runtime: &Runtime, function: hipFunction_t) -> Result<Arc<Function>, hipError_t> {
    runtime.tables.functions.get(function as u64).ok_or(hipErrorInvalidResourceHandle)
}

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
