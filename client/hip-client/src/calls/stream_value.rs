//! Values in memory that streams write and wait for: posted, in stream order.
//!
//! The device polls the value in device memory. Host memory is on the client, so a stream can write a value there but not
//! wait for one; such a wait is refused instead of hanging.

use std::ffi::{c_uint, c_void};

use hip_api::types::*;

use super::Status;
use crate::state::memory::Place;
use crate::state::runtime::{Runtime, runtime};
use crate::state::stream::StreamRef;
use crate::telemetry::report;

/// Bytes of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Word = 4,
    Long = 8,
}

fn check(runtime: &Runtime, pointer: *mut c_void, width: Width) -> Result<(u64, Place), hipError_t> {
    let address = pointer as u64;
    if pointer.is_null() || !address.is_multiple_of(width as u64) {
        return Err(hipErrorInvalidValue);
    }
    let (view, place) = runtime.locate(address, width as u64)?;
    // A stream must not access host memory that is not pinned.
    match place {
        Place::Host if runtime.memory.find(address).is_none() => Err(hipErrorInvalidValue),
        place => Ok((view, place)),
    }
}

fn write(runtime: &Runtime, at: StreamRef, pointer: *mut c_void, value: u64, width: Width) -> Status {
    let (destination, place) = check(runtime, pointer, width)?;
    runtime.captures.refuse(at)?;
    let bytes = value.to_le_bytes();
    match place {
        Place::Device => runtime.write(at.id, destination, &bytes[..width as usize]),
        Place::Host => runtime.host_function(at.id, move |_| {
            // SAFETY: pinned memory, which the program keeps until it has synchronized; aligned, as checked.
            unsafe {
                match width {
                    Width::Word => (destination as *mut u32).write_volatile(value as u32),
                    Width::Long => (destination as *mut u64).write_volatile(value),
                }
            }
        }),
    }
}

fn wait(
    runtime: &Runtime,
    at: StreamRef,
    pointer: *mut c_void,
    value: u64,
    mask: u64,
    flags: c_uint,
    width: Width,
) -> Status {
    if flags > hipStreamWaitValueNor {
        return Err(hipErrorInvalidValue);
    }
    let (address, place) = check(runtime, pointer, width)?;
    runtime.captures.refuse(at)?;
    match place {
        // Later host writes to mirrored memory are sent with new work, and none is sent while the stream waits: a
        // deadlock.
        Place::Device if !runtime.memory.is_host(pointer as u64) => {
            let width = width as u32;
            runtime
                .post(&wire::WaitValue { stream: at.id, address, value, mask, width, comparison: flags }, &[])
        }
        _ => {
            report::debug(format_args!("a stream of a remote device cannot wait for a value in host memory"));
            Err(hipErrorNotSupported)
        }
    }
}

pub unsafe fn hipStreamWriteValue32(
    on: hipStream_t,
    pointer: *mut c_void,
    value: u32,
    _flags: c_uint,
) -> Status {
    let runtime = runtime()?;
    write(runtime, runtime.resolve(on)?, pointer, u64::from(value), Width::Word)
}

pub unsafe fn hipStreamWriteValue64(
    on: hipStream_t,
    pointer: *mut c_void,
    value: u64,
    _flags: c_uint,
) -> Status {
    let runtime = runtime()?;
    write(runtime, runtime.resolve(on)?, pointer, value, Width::Long)
}

pub unsafe fn hipStreamWaitValue32(
    on: hipStream_t,
    pointer: *mut c_void,
    value: u32,
    flags: c_uint,
    mask: u32,
) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    wait(runtime, at, pointer, u64::from(value), u64::from(mask), flags, Width::Word)
}

pub unsafe fn hipStreamWaitValue64(
    on: hipStream_t,
    pointer: *mut c_void,
    value: u64,
    flags: c_uint,
    mask: u64,
) -> Status {
    let runtime = runtime()?;
    wait(runtime, runtime.resolve(on)?, pointer, value, mask, flags, Width::Long)
}

/// Limit of operations in a batch.
const MOST_OPERATIONS: c_uint = 256;

pub unsafe fn hipStreamBatchMemOp(
    on: hipStream_t,
    count: c_uint,
    operations: *mut hipStreamBatchMemOpParams,
    flags: c_uint,
) -> Status {
    if operations.is_null() || count == 0 || count > MOST_OPERATIONS || flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    for index in 0..count as usize {
        // SAFETY: the caller's array of `count` entries.
        let it = unsafe { *operations.add(index) };
        let address = it.address as *mut c_void;
        match it.operation {
            hipStreamMemOpWriteValue32 => {
                write(runtime, at, address, u64::from(it.value as u32), Width::Word)?;
            }
            hipStreamMemOpWriteValue64 => write(runtime, at, address, it.value, Width::Long)?,
            hipStreamMemOpWaitValue32 => {
                let (value, mask) = (u64::from(it.value as u32), u64::from(u32::MAX));
                wait(runtime, at, address, value, mask, it.flags, Width::Word)?;
            }
            hipStreamMemOpWaitValue64 => {
                wait(runtime, at, address, it.value, u64::MAX, it.flags, Width::Long)?;
            }
            // AMD's runtime does not support barriers and flushes either.
            _ => return Err(hipErrorInvalidValue),
        }
    }
    Ok(())
}
