//! Memory fills: posted, in stream order.

use std::ffi::{c_int, c_uint, c_void};

use hip_api::types::*;

use super::Status;
use crate::graph::node::{Fill, Work};
use crate::state::memory::Place;
use crate::state::runtime::{Runtime, runtime};
use crate::state::stream::StreamRef;
use crate::state::streams;

/// Fills `count` elements of `width` bytes.
fn fill(
    runtime: &Runtime,
    at: StreamRef,
    destination: *mut c_void,
    value: u32,
    width: u32,
    count: usize,
) -> Status {
    if count == 0 {
        return Ok(());
    }
    let bytes = (count as u64).checked_mul(u64::from(width)).ok_or(hipErrorInvalidValue)?;
    if destination.is_null() || !(destination as u64).is_multiple_of(u64::from(width)) {
        return Err(hipErrorInvalidValue);
    }
    let (view, place) = runtime.locate(destination as u64, bytes)?;
    let kept = runtime
        .record(at, || Ok(Region::flat(destination, bytes as usize, bytes as usize, 1).node(value, width)));
    if let Some(kept) = kept {
        return kept;
    }
    match place {
        Place::Device => {
            let count = count as u64;
            runtime.post(&wire::Fill { stream: at.id, destination: view, value, width, count }, &[])
        }
        Place::Host => fill_host(runtime, at, destination, value, width, count),
    }
}

/// Fills pinned host memory in this process, after synchronizing with the stream.
fn fill_host(
    runtime: &Runtime,
    at: StreamRef,
    to: *mut c_void,
    value: u32,
    width: u32,
    count: usize,
) -> Status {
    let bytes = count * width as usize;
    let known = runtime.memory.find(to as u64).is_some_and(|a| a.end() >= to as u64 + bytes as u64);
    if !known {
        return Err(hipErrorInvalidValue);
    }
    runtime.call(&wire::SynchronizeStream { stream: at.id })?;
    let pattern = value.to_le_bytes();
    // SAFETY: the range lies inside pinned memory that this library allocated or the program registered.
    let slice = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
    for element in slice.chunks_exact_mut(width as usize) {
        element.copy_from_slice(&pattern[..width as usize]);
    }
    Ok(())
}

/// Rows to fill: `pitch` bytes from row to row, `rows` rows from slice to slice.
#[derive(Clone, Copy)]
struct Region {
    address: usize,
    pitch: usize,
    rows: usize,
    /// In bytes, rows and slices.
    extent: hipExtent,
}

impl Region {
    /// One slice.
    fn flat(to: *mut c_void, pitch: usize, width: usize, height: usize) -> Region {
        Region { address: to as usize, pitch, rows: height, extent: hipExtent { width, height, depth: 1 } }
    }

    /// Bytes from the start of the first row to the end of the last row of a non-empty box.
    fn span(&self) -> Option<u64> {
        let rows = self.rows.checked_mul(self.extent.depth - 1)?.checked_add(self.extent.height - 1)?;
        rows.checked_mul(self.pitch)?.checked_add(self.extent.width).map(|bytes| bytes as u64)
    }

    /// As a graph node, with elements of `element` bytes.
    fn node(&self, value: u32, element: u32) -> Work {
        let parameters = hipMemsetParams {
            dst: self.address as *mut c_void,
            elementSize: element,
            height: self.extent.height,
            pitch: self.pitch,
            value,
            width: self.extent.width / element as usize,
        };
        Work::Fill(Fill { parameters, depth: self.extent.depth, rows: self.rows })
    }
}

/// Fills a box with elements of `element` bytes.
fn fill_box(runtime: &Runtime, at: StreamRef, region: Region, value: u32, element: u32) -> Status {
    let Region { address, pitch, rows, extent } = region;
    let hipExtent { width, height, depth } = extent;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    let one_row = height == 1 && depth == 1;
    let aligned = |value: usize| value.is_multiple_of(element as usize);
    if address == 0 || pitch < width || rows < height || !aligned(address) || !(one_row || aligned(pitch)) {
        return Err(hipErrorInvalidValue);
    }
    let (view, place) = runtime.locate(address as u64, region.span().ok_or(hipErrorInvalidValue)?)?;
    let kept = runtime.record(at, || Ok(region.node(value, element)));
    if let Some(kept) = kept {
        return kept;
    }
    let (width, height) = (width as u64, height as u64);
    match place {
        Place::Device if depth == 1 && element == 1 => {
            let pitch = pitch as u64;
            runtime
                .post(&wire::FillRect { stream: at.id, destination: view, pitch, value, width, height }, &[])
        }
        Place::Device => {
            let operation = wire::FillBox {
                stream: at.id,
                destination: view,
                pitch: pitch as u64,
                rows: rows as u64,
                value,
                element,
                width,
                height,
                depth: depth as u64,
            };
            runtime.post(&operation, &[])
        }
        Place::Host => {
            for row in (0..depth).flat_map(|z| (0..extent.height).map(move |y| z * rows + y)) {
                let start = (address + row * pitch) as *mut c_void;
                fill_host(runtime, at, start, value, element, extent.width / element as usize)?;
            }
            Ok(())
        }
    }
}

/// hipMemset writes only the low byte.
fn byte(value: c_int) -> u32 {
    value as u32 & 0xff
}

/// Waits for a fill of host memory, which the program may read when the call returns.
fn filled(runtime: &Runtime, at: StreamRef, destination: *mut c_void) -> Status {
    if runtime.connection.mirrors().any() && runtime.memory.is_host(destination as u64) {
        runtime.call(&wire::SynchronizeStream { stream: at.id })?;
    }
    Ok(())
}

/// Declares the synchronous and asynchronous forms of one width. The synchronous form is posted too: it is ordered with
/// everything on the device that could observe it, and waits only if the program itself could.
macro_rules! fills {
    ($($sync:ident $later:ident ($value:ident: $ty:ty) = $pattern:expr, $width:literal, $pointer:ty;)*) => { $(
        pub unsafe fn $sync(destination: $pointer, $value: $ty, count: usize) -> Status {
            let runtime = runtime()?;
            runtime.captures.refuse_any(hipErrorStreamCaptureImplicit)?;
            let at = runtime.resolve(std::ptr::null_mut())?;
            fill(runtime, at, destination, $pattern, $width, count)?;
            filled(runtime, at, destination)
        }

        pub unsafe fn $later(destination: $pointer, $value: $ty, count: usize, on: hipStream_t) -> Status {
            let runtime = runtime()?;
            fill(runtime, runtime.resolve(on)?, destination, $pattern, $width, count)
        }
    )* };
}

fills! {
    hipMemset hipMemsetAsync (value: c_int) = byte(value), 1, *mut c_void;
    hipMemsetD8 hipMemsetD8Async (value: u8) = u32::from(value), 1, hipDeviceptr_t;
    hipMemsetD16 hipMemsetD16Async (value: u16) = u32::from(value), 2, hipDeviceptr_t;
    hipMemsetD32 hipMemsetD32Async (value: c_int) = value as u32, 4, hipDeviceptr_t;
}

pub unsafe fn hipMemset_spt(destination: *mut c_void, value: c_int, bytes: usize) -> Status {
    let runtime = runtime()?;
    runtime.captures.refuse_any(hipErrorStreamCaptureImplicit)?;
    let at = runtime.resolve(hipStreamPerThread)?;
    fill(runtime, at, destination, byte(value), 1, bytes)?;
    filled(runtime, at, destination)
}

pub unsafe fn hipMemsetAsync_spt(
    destination: *mut c_void,
    value: c_int,
    bytes: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { hipMemsetAsync(destination, value, bytes, streams::spt(on)) }
}

/// Fills a box for a caller that may read it when the call returns.
fn fill_box_now(on: hipStream_t, region: Region, value: u32, element: u32) -> Status {
    let runtime = runtime()?;
    runtime.captures.refuse_any(hipErrorStreamCaptureImplicit)?;
    let at = runtime.resolve(on)?;
    fill_box(runtime, at, region, value, element)?;
    filled(runtime, at, region.address as *mut c_void)
}

/// Declares the forms of a fill of rows or boxes: synchronous on the null stream, and asynchronous on any.
macro_rules! region_fills {
    ($($sync:ident $later:ident ($($arg:ident: $ty:ty),*) = $region:expr, $pattern:expr, $element:literal;)*) => { $(
        pub unsafe fn $sync($($arg: $ty),*) -> Status {
            fill_box_now(std::ptr::null_mut(), $region?, $pattern, $element)
        }

        pub unsafe fn $later($($arg: $ty,)* on: hipStream_t) -> Status {
            let runtime = runtime()?;
            fill_box(runtime, runtime.resolve(on)?, $region?, $pattern, $element)
        }
    )* };
}

/// Rows of whole elements.
fn rows_of(
    to: hipDeviceptr_t,
    pitch: usize,
    width: usize,
    height: usize,
    element: usize,
) -> Result<Region, hipError_t> {
    let width = width.checked_mul(element).ok_or(hipErrorInvalidValue)?;
    Ok(Region::flat(to, pitch, width, height))
}

/// A box inside a pitched allocation.
fn box_of(to: hipPitchedPtr, extent: hipExtent) -> Result<Region, hipError_t> {
    let rows = if to.ysize == 0 { extent.height } else { to.ysize };
    // A single slice has no distance to the next.
    let rows = if extent.depth == 1 { extent.height } else { rows };
    Ok(Region { address: to.ptr as usize, pitch: to.pitch, rows, extent })
}

region_fills! {
    hipMemset2D hipMemset2DAsync (to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize)
        = rows_of(to, pitch, width, height, 1), byte(value), 1;
    hipMemset3D hipMemset3DAsync (to: hipPitchedPtr, value: c_int, extent: hipExtent)
        = box_of(to, extent), byte(value), 1;
    hipMemsetD2D8 hipMemsetD2D8Async (to: hipDeviceptr_t, pitch: usize, value: u8, width: usize, height: usize)
        = rows_of(to, pitch, width, height, 1), u32::from(value), 1;
    hipMemsetD2D16 hipMemsetD2D16Async (to: hipDeviceptr_t, pitch: usize, value: u16, width: usize, height: usize)
        = rows_of(to, pitch, width, height, 2), u32::from(value), 2;
    hipMemsetD2D32 hipMemsetD2D32Async (to: hipDeviceptr_t, pitch: usize, value: c_uint, width: usize, height: usize)
        = rows_of(to, pitch, width, height, 4), value, 4;
}

pub unsafe fn hipMemset2D_spt(
    to: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> Status {
    fill_box_now(hipStreamPerThread, rows_of(to, pitch, width, height, 1)?, byte(value), 1)
}

pub unsafe fn hipMemset2DAsync_spt(
    to: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { hipMemset2DAsync(to, pitch, value, width, height, streams::spt(on)) }
}

pub unsafe fn hipMemset3D_spt(to: hipPitchedPtr, value: c_int, extent: hipExtent) -> Status {
    fill_box_now(hipStreamPerThread, box_of(to, extent)?, byte(value), 1)
}

pub unsafe fn hipMemset3DAsync_spt(
    to: hipPitchedPtr,
    value: c_int,
    extent: hipExtent,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { hipMemset3DAsync(to, value, extent, streams::spt(on)) }
}
