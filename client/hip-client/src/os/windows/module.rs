//! The DLL that this code is in.

use std::ffi::{OsString, c_void};
use std::os::windows::ffi::OsStringExt;
use std::path::Path;
use std::ptr::null_mut;

use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleFileNameW,
    GetModuleHandleExW,
};

/// The file name of the module that contains this code.
pub fn own_name() -> Option<String> {
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    let mut module = null_mut();
    let mut path = [0u16; 1024];
    // SAFETY: an address of this module, a place for the handle, and a buffer of the length passed.
    let length = unsafe {
        if GetModuleHandleExW(flags, (own_name as *const c_void).cast(), &raw mut module) == 0 {
            return None;
        }
        GetModuleFileNameW(module, path.as_mut_ptr(), path.len() as u32)
    };
    let path = OsString::from_wide(path.get(..length as usize)?);
    Some(Path::new(&path).file_name()?.to_string_lossy().into_owned())
}
