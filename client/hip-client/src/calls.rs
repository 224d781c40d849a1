//! The HIP functions: one Rust function per implemented row of the API table, one file per family.
//!
//! Each validates its arguments, so that a posted request cannot fail for a reason that HIP reports synchronously. It
//! then answers locally, posts, or calls. Pointer contracts are HIP's: pointers are null or valid as its documentation
//! says.

#![allow(non_snake_case, non_upper_case_globals, reason = "functions and constants are named as in HIP")]
#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the contract of each is HIP's own"
)]

/// Declares the four forms of a copy function: synchronous or asynchronous, on the null stream or on the per-thread
/// stream. The implementation takes the same arguments, then the stream, then until when the caller waits.
macro_rules! copies {
    ($($now:ident $now_spt:ident $later:ident $later_spt:ident
        = $function:ident($($arg:ident: $ty:ty),* $(,)?);)*) => { $(
        pub unsafe fn $now($($arg: $ty),*) -> Status {
            // SAFETY: the caller's ranges and structs.
            unsafe { $function($($arg,)* std::ptr::null_mut(), Until::Done) }
        }

        pub unsafe fn $now_spt($($arg: $ty),*) -> Status {
            // SAFETY: the caller's ranges and structs.
            unsafe { $function($($arg,)* hipStreamPerThread, Until::Done) }
        }

        pub unsafe fn $later($($arg: $ty,)* on: hipStream_t) -> Status {
            // SAFETY: the caller's ranges and structs.
            unsafe { $function($($arg,)* on, Until::Queued) }
        }

        pub unsafe fn $later_spt($($arg: $ty,)* on: hipStream_t) -> Status {
            // SAFETY: the caller's ranges and structs.
            unsafe { $function($($arg,)* $crate::state::streams::spt(on), Until::Queued) }
        }
    )* };
}

pub mod array;
pub mod context;
pub mod copy;
pub mod copy_batch;
pub mod copy_box;
pub mod cxx;
pub mod device;
pub mod error;
pub mod event;
mod function;
pub mod graph;
mod include;
pub mod ipc;
pub mod launch;
mod launch_request;
pub mod library;
pub mod link;
pub mod managed;
pub mod memory;
pub mod memset;
pub mod module;
pub mod occupancy;
pub mod pinned;
pub mod pool;
pub mod profile;
pub mod registration;
pub mod rtc;
pub mod stream;
pub mod stream_attribute;
pub mod stream_value;
pub mod support;
pub mod texture;
pub mod virtual_memory;

use hip_api::types::{hipError_t, hipErrorInvalidValue};

pub use crate::state::Status;

/// Writes through an out-pointer of the program; null is hipErrorInvalidValue.
///
/// # Safety
/// `pointer` is null or valid for a write of `T`.
unsafe fn set<T>(pointer: *mut T, value: T) -> Status {
    if pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: not null, and the caller guarantees the rest.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes through an out-pointer that may be null.
///
/// # Safety
/// `pointer` is null or valid for a write of `T`.
unsafe fn set_if_wanted<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: not null, and the caller guarantees the rest.
        unsafe { pointer.write(value) };
    }
}

/// Reads a C string of the program; null is hipErrorInvalidValue.
///
/// # Safety
/// `pointer` is null or a NUL-terminated string.
unsafe fn text(pointer: *const std::ffi::c_char) -> Result<String, hipError_t> {
    if pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { std::ffi::CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}
