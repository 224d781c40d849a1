//! Contexts: HIP has one primary context per device; the others are aliases of it.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hip_api::types::*;

use super::{Status, device, set};
use crate::state::objects::Context;
use crate::state::runtime::{Runtime, runtime};
use crate::state::thread;

pub unsafe fn hipCtxCreate(context: *mut hipCtx_t, flags: c_uint, device: hipDevice_t) -> Status {
    let runtime = runtime()?;
    runtime.device(device)?;
    if context.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let made = Context { device: device as usize, flags, primary: false };
    let (handle, _) = runtime.tables.contexts.insert_with(|_| made).ok_or(hipErrorOutOfMemory)?;
    enter(handle, device as usize);
    // SAFETY: the caller's out-pointer.
    unsafe { set(context, handle as hipCtx_t) }
}

pub unsafe fn hipCtxDestroy(context: hipCtx_t) -> Status {
    let runtime = runtime()?;
    if find(runtime, context)?.primary {
        return Err(hipErrorInvalidValue);
    }
    runtime.tables.contexts.remove(context as u64).ok_or(hipErrorInvalidValue)?;
    if thread::context() == Some(context as u64) {
        thread::pop_context();
        follow_top(runtime);
    }
    Ok(())
}

pub unsafe fn hipCtxPushCurrent(context: hipCtx_t) -> Status {
    let found = find(runtime()?, context)?;
    enter(context as u64, found.device);
    Ok(())
}

pub unsafe fn hipCtxPopCurrent(context: *mut hipCtx_t) -> Status {
    let runtime = runtime()?;
    let popped = thread::pop_context().ok_or(hipErrorInvalidContext)?;
    follow_top(runtime);
    if context.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's out-pointer.
    unsafe { set(context, popped as hipCtx_t) }
}

pub unsafe fn hipCtxSetCurrent(context: hipCtx_t) -> Status {
    let runtime = runtime()?;
    thread::pop_context();
    if context.is_null() {
        follow_top(runtime);
        return Ok(());
    }
    let found = find(runtime, context)?;
    enter(context as u64, found.device);
    Ok(())
}

pub unsafe fn hipCtxGetCurrent(context: *mut hipCtx_t) -> Status {
    let runtime = runtime()?;
    let handle = match thread::context() {
        Some(handle) => handle,
        None => runtime.current()?.1.primary_context.load(Ordering::Relaxed),
    };
    // SAFETY: the caller's out-pointer.
    unsafe { set(context, handle as hipCtx_t) }
}

pub unsafe fn hipCtxGetDevice(device: *mut hipDevice_t) -> Status {
    let (index, _) = runtime()?.current()?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(device, index as hipDevice_t) }
}

pub unsafe fn hipCtxGetFlags(flags: *mut c_uint) -> Status {
    let runtime = runtime()?;
    let found = match thread::context() {
        Some(handle) => runtime.tables.contexts.get(handle).ok_or(hipErrorInvalidContext)?.flags,
        None => runtime.current()?.1.settings.flags.load(Ordering::Relaxed),
    };
    // SAFETY: the caller's out-pointer.
    unsafe { set(flags, found) }
}

pub unsafe fn hipCtxGetApiVersion(_context: hipCtx_t, version: *mut c_uint) -> Status {
    // SAFETY: the caller's out-pointer. HIP has always returned 4.
    unsafe { set(version, 4) }
}

pub unsafe fn hipCtxGetCacheConfig(config: *mut hipFuncCache_t) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { device::hipDeviceGetCacheConfig(config) }
}

pub unsafe fn hipCtxSetCacheConfig(config: hipFuncCache_t) -> Status {
    // SAFETY: no pointers.
    unsafe { device::hipDeviceSetCacheConfig(config) }
}

pub unsafe fn hipCtxGetSharedMemConfig(config: *mut hipSharedMemConfig) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { device::hipDeviceGetSharedMemConfig(config) }
}

pub unsafe fn hipCtxSetSharedMemConfig(config: hipSharedMemConfig) -> Status {
    // SAFETY: no pointers.
    unsafe { device::hipDeviceSetSharedMemConfig(config) }
}

pub unsafe fn hipCtxSynchronize() -> Status {
    // SAFETY: no pointers.
    unsafe { device::hipDeviceSynchronize() }
}

pub unsafe fn hipCtxEnablePeerAccess(peer: hipCtx_t, flags: c_uint) -> Status {
    let peer = find(runtime()?, peer)?.device;
    // SAFETY: no pointers.
    unsafe { device::hipDeviceEnablePeerAccess(peer as c_int, flags) }
}

pub unsafe fn hipCtxDisablePeerAccess(peer: hipCtx_t) -> Status {
    let peer = find(runtime()?, peer)?.device;
    // SAFETY: no pointers.
    unsafe { device::hipDeviceDisablePeerAccess(peer as c_int) }
}

pub unsafe fn hipDevicePrimaryCtxRetain(context: *mut hipCtx_t, device: hipDevice_t) -> Status {
    let device = runtime()?.device(device)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(context, device.primary_context.load(Ordering::Relaxed) as hipCtx_t) }?;
    device.primary_context_users.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

pub unsafe fn hipDevicePrimaryCtxRelease(device: hipDevice_t) -> Status {
    let users = &runtime()?.device(device)?.primary_context_users;
    let _ = users.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    Ok(())
}

pub unsafe fn hipDevicePrimaryCtxGetState(
    device: hipDevice_t,
    flags: *mut c_uint,
    active: *mut c_int,
) -> Status {
    let device = runtime()?.device(device)?;
    // SAFETY: the caller's out-pointers.
    unsafe {
        set(flags, device.settings.flags.load(Ordering::Relaxed))?;
        set(active, c_int::from(device.primary_context_users.load(Ordering::Relaxed) > 0))
    }
}

pub unsafe fn hipDevicePrimaryCtxSetFlags(device: hipDevice_t, flags: c_uint) -> Status {
    runtime()?.device(device)?.settings.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

pub unsafe fn hipDevicePrimaryCtxReset(device: hipDevice_t) -> Status {
    let runtime = runtime()?;
    let found = runtime.device(device)?;
    runtime.call(&wire::ResetDevice { device: found.ordinal })?;
    runtime.reset_device(device as usize);
    Ok(())
}

fn find(runtime: &Runtime, context: hipCtx_t) -> Result<Arc<Context>, hipError_t> {
    runtime.tables.contexts.get(context as u64).ok_or(hipErrorInvalidContext)
}

fn enter(context: u64, device: usize) {
    thread::push_context(context);
    thread::set_device(device);
}

/// After a pop the current device is that of the context now on top.
fn follow_top(runtime: &Runtime) {
    if let Some(context) = thread::context().and_then(|handle| runtime.tables.contexts.get(handle)) {
        thread::set_device(context.device);
    }
}
