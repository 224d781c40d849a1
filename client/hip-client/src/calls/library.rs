//! Kernel libraries: code objects whose kernels are looked up by name.
//!
//! A library is loaded as a module on the device that is current at load time. A kernel of a library is a function of
//! that module, and is launched as one.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;

use hip_api::types::*;

pub use super::link::{hipLinkAddData, hipLinkAddFile, hipLinkComplete, hipLinkCreate, hipLinkDestroy};
use super::{Status, module, set, text};
use crate::state::module::{Function, Module};
use crate::state::objects::Library;
use crate::state::runtime::{Runtime, runtime};

fn find(runtime: &Runtime, library: hipLibrary_t) -> Result<Arc<Library>, hipError_t> {
    runtime.tables.libraries.get(library as u64).ok_or(hipErrorInvalidResourceHandle)
}

fn kernel(runtime: &Runtime, kernel: hipKernel_t) -> Result<Arc<Function>, hipError_t> {
    runtime.tables.functions.get(kernel as u64).ok_or(hipErrorInvalidResourceHandle)
}

fn module_of(runtime: &Runtime, library: &Library) -> Result<Arc<Module>, hipError_t> {
    runtime.tables.modules.get(library.module).ok_or(hipErrorInvalidResourceHandle)
}

/// Creates a library from the module that `load` loads.
fn wrap(library: *mut hipLibrary_t, load: impl FnOnce(&mut hipModule_t) -> Status) -> Status {
    if library.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let mut module = std::ptr::null_mut();
    load(&mut module)?;
    let made = runtime()?.tables.libraries.insert_with(|_| Library { module: module as u64 });
    let (handle, _) = made.ok_or(hipErrorOutOfMemory)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(library, handle as hipLibrary_t) }
}

/// The options configure a compiler, which a finished code object does not need.
pub unsafe fn hipLibraryLoadData(
    library: *mut hipLibrary_t,
    code: *const c_void,
    _options: *mut hipJitOption,
    _values: *mut *mut c_void,
    _count: c_uint,
    _library_options: *mut hipLibraryOption,
    _library_values: *mut *mut c_void,
    _library_count: c_uint,
) -> Status {
    // SAFETY: a local out-pointer and the caller's image.
    wrap(library, |module| unsafe { module::hipModuleLoadData(module, code) })
}

pub unsafe fn hipLibraryLoadFromFile(
    library: *mut hipLibrary_t,
    file: *const c_char,
    _options: *mut hipJitOption,
    _values: *mut *mut c_void,
    _count: c_uint,
    _library_options: *mut hipLibraryOption,
    _library_values: *mut *mut c_void,
    _library_count: c_uint,
) -> Status {
    // SAFETY: a local out-pointer and the caller's string.
    wrap(library, |module| unsafe { module::hipModuleLoad(module, file) })
}

pub unsafe fn hipLibraryUnload(library: hipLibrary_t) -> Status {
    let runtime = runtime()?;
    let gone = runtime.tables.libraries.remove(library as u64).ok_or(hipErrorInvalidResourceHandle)?;
    runtime.unload_module(gone.module)
}

pub unsafe fn hipLibraryGetKernel(
    kernel: *mut hipKernel_t,
    library: hipLibrary_t,
    name: *const c_char,
) -> Status {
    if kernel.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's string.
    let name = unsafe { text(name) }?;
    let runtime = runtime()?;
    let module = module_of(runtime, &*find(runtime, library)?)?;
    let found = runtime.function(&module, &name)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(kernel, found.id as hipKernel_t) }
}

pub unsafe fn hipLibraryGetKernelCount(count: *mut c_uint, library: hipLibrary_t) -> Status {
    let runtime = runtime()?;
    let module = module_of(runtime, &*find(runtime, library)?)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(count, module.code.kernels().len() as c_uint) }
}

pub unsafe fn hipLibraryEnumerateKernels(
    kernels: *mut hipKernel_t,
    count: c_uint,
    library: hipLibrary_t,
) -> Status {
    let runtime = runtime()?;
    let module = module_of(runtime, &*find(runtime, library)?)?;
    if kernels.is_null() || count == 0 {
        return Err(hipErrorInvalidValue);
    }
    let names: Vec<String> =
        module.code.kernels().iter().take(count as usize).map(|kernel| kernel.name.clone()).collect();
    for (index, name) in names.iter().enumerate() {
        let found = runtime.function(&module, name)?;
        // SAFETY: the caller's array of `count` entries.
        unsafe { set(kernels.add(index), found.id as hipKernel_t)? };
    }
    Ok(())
}

pub unsafe fn hipKernelGetName(name: *mut *const c_char, kernel: hipKernel_t) -> Status {
    let found = self::kernel(runtime()?, kernel)?;
    // SAFETY: the caller's out-pointer; the name lives as long as the kernel.
    unsafe { set(name, found.c_name.as_ptr()) }
}

pub unsafe fn hipKernelGetLibrary(library: *mut hipLibrary_t, kernel: hipKernel_t) -> Status {
    let runtime = runtime()?;
    let module = self::kernel(runtime, kernel)?.module;
    let found = runtime.tables.libraries.find(|library| library.module == module);
    // SAFETY: the caller's out-pointer.
    unsafe { set(library, found.ok_or(hipErrorInvalidResourceHandle)? as hipLibrary_t) }
}
