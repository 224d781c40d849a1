//! Filling memory: posted, in stream order.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hip_api::types::*;

use super::Status;
use super::stream::{self, StreamRef};
use crate::memory::Place;
use crate::runtime::{Runtime, runtime};

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
    let place = runtime.memory.place(destination as u64, bytes)?;
    let kept = runtime.captures.keep(at, || {
        let destination = destination as usize;
        Arc::new(move |runtime, at| fill(runtime, at, destination as *mut c_void, value, width, count))
    });
    if let Some(kept) = kept {
        return kept;
    }
    match place {
        Place::Device => {
            let count = count as u64;
            runtime.post(
                &wire::Fill { stream: at.id, destination: destination as u64, value, width, count },
                &[],
            )
        }
        Place::Host => fill_host(runtime, at, destination, value, width, count),
    }
}

/// Pinned host memory is on this side: it is filled here, once the stream has come so far.
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

fn fill_rect(
    runtime: &Runtime,
    at: StreamRef,
    destination: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> Status {
    if width == 0 || height == 0 {
        return Ok(());
    }
    if destination.is_null() || pitch < width {
        return Err(hipErrorInvalidValue);
    }
    let bytes =
        pitch.checked_mul(height - 1).and_then(|b| b.checked_add(width)).ok_or(hipErrorInvalidValue)?;
    let place = runtime.memory.place(destination as u64, bytes as u64)?;
    let kept = runtime.captures.keep(at, || {
        let to = destination as usize;
        Arc::new(move |runtime, at| fill_rect(runtime, at, to as *mut c_void, pitch, value, width, height))
    });
    if let Some(kept) = kept {
        return kept;
    }
    match place {
        Place::Device => {
            let operation = wire::FillRect {
                stream: at.id,
                destination: destination as u64,
                pitch: pitch as u64,
                value: value as u32 & 0xff,
                width: width as u64,
                height: height as u64,
            };
            runtime.post(&operation, &[])
        }
        Place::Host => {
            for row in 0..height {
                let start = destination.wrapping_byte_add(row * pitch);
                fill_host(runtime, at, start, byte(value), 1, width)?;
            }
            Ok(())
        }
    }
}

/// The low byte is what hipMemset writes.
fn byte(value: c_int) -> u32 {
    value as u32 & 0xff
}

/// Declares the synchronous and asynchronous forms of one width. The synchronous form is posted as well: it is ordered with
/// everything that could see it, so there is nothing to wait for.
macro_rules! fills {
    ($($sync:ident $later:ident ($value:ident: $ty:ty) = $pattern:expr, $width:literal, $pointer:ty;)*) => { $(
        pub unsafe fn $sync(destination: $pointer, $value: $ty, count: usize) -> Status {
            let runtime = runtime()?;
            fill(runtime, stream::resolve(runtime, std::ptr::null_mut())?, destination, $pattern, $width, count)
        }

        pub unsafe fn $later(destination: $pointer, $value: $ty, count: usize, on: hipStream_t) -> Status {
            let runtime = runtime()?;
            fill(runtime, stream::resolve(runtime, on)?, destination, $pattern, $width, count)
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
    // SAFETY: the caller's pointer.
    unsafe { hipMemsetAsync(destination, value, bytes, hipStreamPerThread) }
}

pub unsafe fn hipMemsetAsync_spt(
    destination: *mut c_void,
    value: c_int,
    bytes: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { hipMemsetAsync(destination, value, bytes, stream::spt(on)) }
}

pub unsafe fn hipMemset2D(
    destination: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { hipMemset2DAsync(destination, pitch, value, width, height, std::ptr::null_mut()) }
}

pub unsafe fn hipMemset2DAsync(
    destination: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    on: hipStream_t,
) -> Status {
    let runtime = runtime()?;
    fill_rect(runtime, stream::resolve(runtime, on)?, destination, pitch, value, width, height)
}

pub unsafe fn hipMemset2D_spt(
    destination: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { hipMemset2DAsync(destination, pitch, value, width, height, hipStreamPerThread) }
}

pub unsafe fn hipMemset2DAsync_spt(
    destination: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { hipMemset2DAsync(destination, pitch, value, width, height, stream::spt(on)) }
}
