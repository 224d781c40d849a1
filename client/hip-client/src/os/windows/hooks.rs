//! Functions of this library that the system calls: when it is loaded and at exit.

use std::ffi::c_void;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
};
use windows_sys::Win32::System::SystemServices::{DLL_PROCESS_ATTACH, DLL_PROCESS_DETACH};

use crate::process::exit;

/// Called by the loader. `reserved` is not null if the process ends: its other threads have ended then, wherever they were.
#[unsafe(no_mangle)]
extern "system" fn DllMain(_module: HMODULE, reason: u32, reserved: *mut c_void) -> i32 {
    match reason {
        DLL_PROCESS_ATTACH => pin(),
        DLL_PROCESS_DETACH if !reserved.is_null() => exit::exiting(),
        _ => {}
    }
    1
}

/// Keeps the library loaded: its threads outlive a FreeLibrary.
fn pin() {
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
    let mut module = null_mut();
    // SAFETY: an address of this module, and a place for the handle.
    unsafe { GetModuleHandleExW(flags, (pin as *const c_void).cast(), &raw mut module) };
}

/// Windows has no fork.
pub fn at_fork(_child: extern "C" fn()) {}

/// Does nothing: handlers of a DLL run when it is unloaded, after those of the program. [`is_exiting`] answers instead.
pub fn at_exit(_handler: extern "C" fn()) {}

/// True: programs unregister their GPU code when they exit, and nothing tells an exit from the end of a library earlier. The cost
/// is that the GPU code of a library stays loaded after FreeLibrary.
pub fn is_exiting() -> bool {
    true
}

/// Whether the process's other threads still run while [`exit::exiting`] runs.
pub const THREADS_OUTLIVE_EXIT: bool = false;
