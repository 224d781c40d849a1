//! User objects.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use hip_api::types::*;

use super::super::{Status, set};
use crate::graph::object::UserObject;
use crate::state::runtime::runtime;

/// The only flag, and it is mandatory: destructors are not synchronized with the device.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
const MOVE: c_uint = 1;

fn counted(count: c_uint) -> Result<u64, hipError_t> {
    if count == 0 || count > c_int::MAX as c_uint { Err(hipErrorInvalidValue) } else { Ok(count.into()) }
}

pub unsafe fn hipUserObjectCreate(
    object: *mut hipUserObject_t,
    pointer: *mut c_void,
    destroy: hipHostFn_t,
    references: c_uint,
    flags: c_uint,
) -> Status {
    let references = counted(references)?;
    let destroy = destroy.ok_or(hipErrorInvalidValue)?;
    if object.is_null() || flags != NO_DESTRUCTOR_SYNC {
        return Err(hipErrorInvalidValue);
    }
    let make = |id| UserObject::new(id, pointer, destroy, references);
    let (handle, _) = runtime()?.graphs.user_objects.insert_with(make).ok_or(hipErrorOutOfMemory)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(object, handle as hipUserObject_t) }
}

/// Ignores a destroyed object and a count that is too large, as HIP does.
pub unsafe fn hipUserObjectRelease(object: hipUserObject_t, count: c_uint) -> Status {
    let count = counted(count)?;
    if object.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    if let Some(found) = runtime.graphs.user_objects.get(object as u64).filter(|it| it.references() >= count)
    {
        found.release(&runtime.graphs.user_objects, count);
    }
    Ok(())
}

pub unsafe fn hipUserObjectRetain(object: hipUserObject_t, count: c_uint) -> Status {
    let count = counted(count)?;
    if object.is_null() {
        return Err(hipErrorInvalidValue);
    }
    if let Some(found) = runtime()?.graphs.user_objects.get(object as u64) {
        found.retain(count);
    }
    Ok(())
}

pub unsafe fn hipGraphRetainUserObject(
    graph: hipGraph_t,
    object: hipUserObject_t,
    count: c_uint,
    flags: c_uint,
) -> Status {
    let count = counted(count)?;
    if object.is_null() || (flags != 0 && flags != MOVE) {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let graph = runtime.graphs.graph(graph)?;
    let Some(found) = runtime.graphs.user_objects.get(object as u64) else { return Ok(()) };
    if flags != MOVE {
        found.retain(count);
    }
    graph.with_objects(|it| it.add(Arc::clone(&found), count));
    Ok(())
}

pub unsafe fn hipGraphReleaseUserObject(graph: hipGraph_t, object: hipUserObject_t, count: c_uint) -> Status {
    let count = counted(count)?;
    if object.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let graph = runtime.graphs.graph(graph)?;
    let Some(found) = runtime.graphs.user_objects.get(object as u64) else { return Ok(()) };
    let taken = graph.with_objects(|it| it.take(found.id, count));
    found.release(&runtime.graphs.user_objects, taken);
    Ok(())
}
