//! Error names, error strings and the last error of the thread.

use std::ffi::c_char;

use hip_api::types::*;

use super::{Status, set};
use crate::process::soname;
use crate::state::thread;

/// HIP 5 returned the name here; the sentences came later.
fn message(error: hipError_t) -> *const c_char {
    if soname::hip_major() < 6 { error.error_name().as_ptr() } else { error.error_string().as_ptr() }
}

pub unsafe fn hipGetErrorName(error: hipError_t) -> *const c_char {
    error.error_name().as_ptr()
}

pub unsafe fn hipGetErrorString(error: hipError_t) -> *const c_char {
    message(error)
}

pub unsafe fn hipDrvGetErrorName(error: hipError_t, text: *mut *const c_char) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { set(text, error.error_name().as_ptr()) }?;
    known(error)
}

pub unsafe fn hipDrvGetErrorString(error: hipError_t, text: *mut *const c_char) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { set(text, message(error)) }?;
    known(error)
}

fn known(error: hipError_t) -> Status {
    if error.is_known() { Ok(()) } else { Err(hipErrorInvalidValue) }
}

pub unsafe fn hipGetLastError() -> thread::LastError {
    thread::LastError(thread::take_last_error())
}

pub unsafe fn hipExtGetLastError() -> thread::LastError {
    thread::LastError(thread::take_last_error())
}

pub unsafe fn hipPeekAtLastError() -> thread::LastError {
    thread::LastError(thread::last_error())
}
