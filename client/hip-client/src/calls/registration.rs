//! Functions that compiled programs call from their static constructors and around `<<< >>>`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use hip_api::types::*;

use super::{Status, launch, set_if_wanted};
use crate::process::exit;
use crate::state::{registry, runtime, thread, variables};
use crate::telemetry::report;

/// The wrapper that clang emits: magic, version, image, unused.
#[repr(C)]
struct FatBinaryWrapper {
    magic: u32,
    version: u32,
    image: *const c_void,
    unused: *const c_void,
}

/// "HIPF", read as a little-endian word.
const MAGIC: u32 = 0x4849_5046;

/// The cookie is a number that is never dereferenced.
pub unsafe fn __hipRegisterFatBinary(data: *const c_void) -> *mut *mut c_void {
    // The registering thread is usually the one that will call `exit`, which `exit::is_exiting` must detect.
    thread::clean_up_at_end();
    let wrapper = data.cast::<FatBinaryWrapper>();
    // SAFETY: compiled programs pass their wrapper, a static of this layout.
    let known = !wrapper.is_null() && unsafe { (*wrapper).magic == MAGIC && (*wrapper).version == 1 };
    if !known {
        report::line(format_args!(
            "a library registered GPU code in an unknown container format; its kernels will not be found"
        ));
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    registry::add_binary(unsafe { (*wrapper).image }.cast()) as *mut *mut c_void
}

/// Called when a library is closed or the process exits. At exit the code stays: later static destructors may launch it.
pub unsafe fn __hipUnregisterFatBinary(modules: *mut *mut c_void) {
    if exit::is_exiting() {
        return;
    }
    let Some((binary, stubs)) = registry::remove_binary(modules as u64) else { return };
    if let Some(runtime) = runtime::existing() {
        runtime.unload_binary(binary.id, &stubs);
    }
    variables::remove_binary(binary.id);
}

pub unsafe fn __hipRegisterFunction(
    modules: *mut *mut c_void,
    stub: *const c_void,
    _device_function: *mut c_char,
    name: *const c_char,
    _thread_limit: c_uint,
    _tid: *mut uint3,
    _bid: *mut uint3,
    _block: *mut dim3,
    _grid: *mut dim3,
    _warp: *mut c_int,
) {
    if !name.is_null() && registry::add_function(modules as u64, stub as usize, name) {
        // The kernel that had this address was in a library that has been closed.
        if let Some(runtime) = runtime::existing() {
            runtime.forget_stub(stub as usize);
        }
    }
}

pub unsafe fn __hipRegisterVar(
    modules: *mut *mut c_void,
    variable: *mut c_void,
    _host_name: *mut c_char,
    name: *mut c_char,
    _external: c_int,
    bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    if !name.is_null() {
        registry::add_variable(modules as u64, variable as usize, name, bytes);
    }
}

/// The program can use the variable from now on, without a session; kernels see it once their module is loaded.
pub unsafe fn __hipRegisterManagedVar(
    module: *mut c_void,
    pointer: *mut *mut c_void,
    initial: *mut c_void,
    name: *const c_char,
    bytes: usize,
    align: c_uint,
) {
    // SAFETY: the compiler passes the variable's initial value and a NUL-terminated name.
    let made = unsafe { variables::add(module as u64, initial.cast(), name, bytes, align as usize) };
    if made.is_none() {
        report::line(format_args!("cannot allocate a managed variable of {bytes} bytes"));
    }
    // SAFETY: the compiler passes the address of the variable's pointer.
    unsafe { set_if_wanted(pointer, made.unwrap_or(std::ptr::null_mut()).cast()) };
}

/// Texture references are not supported; registering one is harmless as long as it is not used.
pub unsafe fn __hipRegisterTexture(
    _modules: *mut *mut c_void,
    _variable: *mut c_void,
    _host_name: *mut c_char,
    _name: *mut c_char,
    _kind: c_int,
    _normalized: c_int,
    _external: c_int,
) {
}

pub unsafe fn __hipRegisterSurface(
    _modules: *mut *mut c_void,
    _variable: *mut c_void,
    _host_name: *mut c_char,
    _name: *mut c_char,
    _kind: c_int,
    _external: c_int,
) {
}

pub unsafe fn __hipPushCallConfiguration(
    grid: dim3,
    block: dim3,
    shared_bytes: usize,
    stream: hipStream_t,
) -> Status {
    // SAFETY: no pointer is dereferenced.
    unsafe { launch::hipConfigureCall(grid, block, shared_bytes, stream) }
}

pub unsafe fn __hipPopCallConfiguration(
    grid: *mut dim3,
    block: *mut dim3,
    shared_bytes: *mut usize,
    stream: *mut hipStream_t,
) -> Status {
    let configuration = thread::pop_configuration().ok_or(hipErrorMissingConfiguration)?;
    // SAFETY: the compiler's stub passes its own locals.
    unsafe {
        set_if_wanted(grid, configuration.grid);
        set_if_wanted(block, configuration.block);
        set_if_wanted(shared_bytes, configuration.shared_bytes);
        set_if_wanted(stream, configuration.stream);
    }
    Ok(())
}

/// No precompiled header is shipped.
pub unsafe fn __hipGetPCH(header: *mut *const c_char, bytes: *mut c_uint) {
    // SAFETY: the caller's out-pointers.
    unsafe {
        set_if_wanted(header, std::ptr::null());
        set_if_wanted(bytes, 0);
    }
}
