//! Arrays are images, which these GPUs do not support: no array is ever created, so destroying one always fails.

use hip_api::types::*;

use super::Status;

/// Returns the errors of AMD's runtime for an invalid handle.
pub unsafe fn hipArrayDestroy(array: hipArray_t) -> Status {
    Err(if array.is_null() { hipErrorInvalidValue } else { hipErrorContextIsDestroyed })
}

pub unsafe fn hipFreeArray(array: hipArray_t) -> Status {
    // SAFETY: the handle is not dereferenced.
    unsafe { hipArrayDestroy(array) }
}

pub unsafe fn hipMipmappedArrayDestroy(_array: hipMipmappedArray_t) -> Status {
    Err(hipErrorInvalidValue)
}

pub unsafe fn hipFreeMipmappedArray(_array: hipMipmappedArray_t) -> Status {
    Err(hipErrorInvalidValue)
}
