//! Copies, fills and value waits through AMD's runtime: one call per region, or one call per row where the runtime has no other.

use std::ffi::c_void;

use backend::{Comparison, DeviceError, Region, ValueWait};
use hip_api::types::*;

use crate::error::call;
use crate::functions::Functions;

/// Copies a region in stream order. Both regions have been checked.
pub(crate) fn copy(
    functions: &Functions,
    to: &Region,
    from: &Region,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> Result<(), DeviceError> {
    match (to.flat_bytes(), from.flat_bytes()) {
        (Some(0), _) => Ok(()),
        (Some(bytes), Some(_)) => {
            let (to, from) = (to.address as *mut c_void, from.address as *const c_void);
            call!(functions, hipMemcpyAsync(to, from, bytes as usize, kind, stream))
        }
        _ => copy_pitched(functions, to, from, kind, stream),
    }
}

/// Like [`copy`], but always through the calls for pitched memory, even if the regions are flat. Neither may be empty.
pub(crate) fn copy_pitched(
    functions: &Functions,
    to: &Region,
    from: &Region,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> Result<(), DeviceError> {
    let extent = &to.extent;
    if extent.depth == 1 {
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
        srcPtr: pitched(from),
        dstArray: std::ptr::null_mut(),
        dstPos: hipPos { x: 0, y: 0, z: 0 },
        dstPtr: pitched(to),
        extent: extent_of(to),
        kind,
    };
    call!(functions, hipMemcpy3DAsync(&raw const parameters, stream))
}

/// Fills a region in stream order with the low `element` bytes of `value`. The command has been checked.
pub(crate) fn fill(
    functions: &Functions,
    to: &Region,
    value: u32,
    element: u32,
    stream: hipStream_t,
) -> Result<(), DeviceError> {
    let fill = |address: u64, bytes: u64| {
        let (to, count) = (address as hipDeviceptr_t, (bytes / u64::from(element)) as usize);
        match element {
            1 => call!(functions, hipMemsetD8Async(to, value as u8, count, stream)),
            2 => call!(functions, hipMemsetD16Async(to, value as u16, count, stream)),
            _ => call!(functions, hipMemsetD32Async(to, value as c_int, count, stream)),
        }
    };
    match to.flat_bytes() {
        Some(0) => Ok(()),
        Some(bytes) => fill(to.address, bytes),
        None if element == 1 => {
            let value = value as u8 as c_int;
            call!(functions, hipMemset3DAsync(pitched(to), value, extent_of(to), stream))
        }
        None => to.row_addresses().try_for_each(|row| fill(row, to.extent.width)),
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

/// The pitch as the runtime accepts it. That of a single row may be below the width, which the runtime rejects.
fn pitch(region: &Region) -> usize {
    region.pitch.max(region.extent.width) as usize
}

fn pitched(region: &Region) -> hipPitchedPtr {
    hipPitchedPtr {
        ptr: region.address as *mut c_void,
        pitch: pitch(region),
        xsize: region.extent.width as usize,
        ysize: region.rows.max(region.extent.height) as usize,
    }
}

fn extent_of(region: &Region) -> hipExtent {
    let extent = &region.extent;
    hipExtent { width: extent.width as usize, height: extent.height as usize, depth: extent.depth as usize }
}
