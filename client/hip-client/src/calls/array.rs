//! Arrays are images, which these GPUs have not: none is ever made, and so none can be given back.

use hip_api::types::*;

use super::Status;

/// A handle that no array ever had, as AMD's runtime says it.
pub unsafe fn hipArrayDestroy(array: hipArray_t) -> Status {
    Err(if array.is_null() { hipErrorInvalidValue } else { hipErrorContextIsDestroyed })
}

pub unsafe fn hipFreeArray(array: hipArray_t) -> Status {
    // SAFETY: a handle that is not followed.
    unsafe { hipArrayDestroy(array) }
}

pub unsafe fn hipMipmappedArrayDestroy(_array: hipMipmappedArray_t) -> Status {
    Err(hipErrorInvalidValue)
}

pub unsafe fn hipFreeMipmappedArray(_array: hipMipmappedArray_t) -> Status {
    Err(hipErrorInvalidValue)
}
