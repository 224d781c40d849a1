//! Box copies, box fills and value waits through AMD's runtime: 2D or 3D calls, or one call per row where the runtime has neither.

use std::ffi::c_void;

use backend::{Comparison, DeviceError, Extent, Pitched, ValueWait};
use hip_api::types::*;

use crate::error::call;
use crate::functions::Functions;

/// Location of a box without gaps between its rows.
pub(crate) fn packed(address: u64, extent: &Extent) -> Pitched {
    Pitched { address, pitch: extent.width, rows: extent.height }
}

/// Copies a box in stream order. The spans of both sides have been checked.
pub(crate) fn copy(
    functions: &Functions,
    to: &Pitched,
    from: &Pitched,
    extent: &Extent,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> Result<(), DeviceError> {
    if extent.is_empty() {
        return Ok(());
    }
    if extent.depth == 1 {
        // The pitch of a single row may be 0 here, but the runtime rejects a pitch below the width.
        let pitch = |it: &Pitched| it.pitch.max(extent.width) as usize;
        return call!(
            functions,
            hipMemcpy2DAsync(
                to.address as *mut c_void,
                pitch(to),
                from.address as *const c_void,
                pitch(from),
                extent.width as usize,
                extent.height as usize,
                kind,
                stream
            )
        );
    }
    let parameters = hipMemcpy3DParms {
        srcArray: std::ptr::null_mut(),
        srcPos: hipPos { x: 0, y: 0, z: 0 },
        srcPtr: pitched(from, extent),
        dstArray: std::ptr::null_mut(),
        dstPos: hipPos { x: 0, y: 0, z: 0 },
        dstPtr: pitched(to, extent),
        extent: extent_of(extent),
        kind,
    };
    call!(functions, hipMemcpy3DAsync(&raw const parameters, stream))
}

/// Fills a box in stream order. The span has been checked.
pub(crate) fn fill(
    functions: &Functions,
    to: &Pitched,
    extent: &Extent,
    value: u32,
    width: u32,
    stream: hipStream_t,
) -> Result<(), DeviceError> {
    if !extent.width.is_multiple_of(u64::from(width.max(1))) {
        return Err(DeviceError::invalid_value("the row width is not a multiple of the element width"));
    }
    if extent.is_empty() {
        return Ok(());
    }
    let count = (extent.width / u64::from(width.max(1))) as usize;
    match width {
        1 => {
            let value = value as u8 as c_int;
            call!(functions, hipMemset3DAsync(pitched(to, extent), value, extent_of(extent), stream))
        }
        2 => to.rows_of(*extent).try_for_each(|row| {
            call!(functions, hipMemsetD16Async(row as hipDeviceptr_t, value as u16, count, stream))
        }),
        4 => to.rows_of(*extent).try_for_each(|row| {
            call!(functions, hipMemsetD32Async(row as hipDeviceptr_t, value as c_int, count, stream))
        }),
        _ => Err(DeviceError::invalid_value(format!("invalid fill width {width}"))),
    }
}

/// Queues a wait for a value in memory.
pub(crate) fn wait(functions: &Functions, it: &ValueWait, stream: hipStream_t) -> Result<(), DeviceError> {
    let flags = match it.comparison {
        Comparison::AtLeast => hipStreamWaitValueGte,
        Comparison::Equal => hipStreamWaitValueEq,
        Comparison::And => hipStreamWaitValueAnd,
        Comparison::Nor => hipStreamWaitValueNor,
    };
    let at = it.address as *mut c_void;
    if it.wide {
        return call!(functions, hipStreamWaitValue64(stream, at, it.value, flags, it.mask));
    }
    call!(functions, hipStreamWaitValue32(stream, at, it.value as u32, flags, it.mask as u32))
}

fn pitched(it: &Pitched, extent: &Extent) -> hipPitchedPtr {
    hipPitchedPtr {
        ptr: it.address as *mut c_void,
        pitch: it.pitch.max(extent.width) as usize,
        xsize: extent.width as usize,
        ysize: it.rows.max(extent.height) as usize,
    }
}

fn extent_of(extent: &Extent) -> hipExtent {
    hipExtent { width: extent.width as usize, height: extent.height as usize, depth: extent.depth as usize }
}
