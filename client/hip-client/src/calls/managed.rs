//! Managed memory: one address on both sides. Advice and prefetching are taken and remembered; they move nothing, for what has
//! changed moves by itself.

use std::ffi::{c_uint, c_void};

use hip_api::types::*;

use super::pinned::refuse;
use super::{Status, set};
use crate::env;
use crate::memory::Kind;
use crate::runtime::runtime;

pub unsafe fn hipMallocManaged(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status {
    let known = flags == hipMemAttachGlobal || flags == hipMemAttachHost;
    if pointer.is_null() || bytes == 0 || !known {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    runtime.captures.refuse_unsafe()?;
    if !env::mapped() {
        return Err(refuse("managed memory"));
    }
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, runtime.allocate_mirror(bytes, Kind::Managed, flags)?) }
}
