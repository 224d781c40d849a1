//! Batched copies in one call. Each is posted; the first invalid one ends the batch, and its index is returned.

use std::ffi::c_void;

use hip_api::types::*;

use super::copy::{Until, copy};
use super::copy_box::{Side, copy_box};
use super::{Status, set_if_wanted};
use crate::state::runtime::runtime;

/// Attributes are hints (where memory lies, when a source may be read): reading every source during the call satisfies
/// all.
pub unsafe fn hipMemcpyBatchAsync(
    to: *mut *mut c_void,
    from: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    _attributes: *mut hipMemcpyAttributes,
    _attribute_indices: *mut usize,
    _attribute_count: usize,
    failed: *mut usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's out-pointer, which may be null.
    unsafe { set_if_wanted(failed, usize::MAX) };
    if to.is_null() || from.is_null() || sizes.is_null() || count == 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    for index in 0..count {
        // SAFETY: the caller's arrays of `count` entries.
        let (to, from, bytes) = unsafe { (*to.add(index), *from.add(index), *sizes.add(index)) };
        let done = copy(runtime, to, from, bytes, hipMemcpyDefault, at, Until::Queued);
        // SAFETY: the caller's out-pointer, which may be null.
        done.inspect_err(|_| unsafe { set_if_wanted(failed, index) })?;
    }
    Ok(())
}

pub unsafe fn hipMemcpy3DBatchAsync(
    count: usize,
    operations: *mut hipMemcpy3DBatchOp,
    failed: *mut usize,
    flags: u64,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's out-pointer, which may be null.
    unsafe { set_if_wanted(failed, usize::MAX) };
    if count == 0 || operations.is_null() || flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    for index in 0..count {
        // SAFETY: the caller's array of `count` entries.
        let it = unsafe { *operations.add(index) };
        let done = side(&it.dst, &it.extent).and_then(|to| {
            let from = side(&it.src, &it.extent)?;
            copy_box(runtime, to, from, it.extent, hipMemcpyDefault, at, Until::Queued)
        });
        // SAFETY: the caller's out-pointer, which may be null.
        done.inspect_err(|_| unsafe { set_if_wanted(failed, index) })?;
    }
    Ok(())
}

/// One side of a batched copy. For pointers elements are bytes; a length of 0 means that of the copy.
fn side(operand: &hipMemcpy3DOperand, extent: &hipExtent) -> Result<Side, hipError_t> {
    if operand.r#type == hipMemcpyOperandTypeArray {
        return Err(hipErrorInvalidHandle);
    }
    if operand.r#type != hipMemcpyOperandTypePointer {
        return Err(hipErrorInvalidValue);
    }
    let [address, pitch, rows, _] = operand.op;
    let or = |given: usize, own: usize| if given == 0 { own } else { given };
    Ok(Side { address: address as u64, pitch: or(pitch, extent.width), rows: or(rows, extent.height) })
}
