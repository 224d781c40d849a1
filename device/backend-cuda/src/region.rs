//! Copies and fills of regions: flat ones with the driver's plain calls, others with its calls for pitched memory.

use std::ffi::c_void;

use backend::{DeviceError, Region};

use crate::error::call;
use crate::functions::Functions;
use crate::types::*;

/// Largest pitch that the driver accepts.
const MOST_PITCH: u64 = i32::MAX as u64;

/// Where one side of a copy lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Device memory.
    Device,
    /// Pinned host memory.
    Host,
}

/// Copies between regions of the same extent, in stream order. The command has been checked.
pub(crate) fn copy(
    functions: &Functions,
    (to, to_side): (&Region, Side),
    (from, from_side): (&Region, Side),
    stream: CuStream,
) -> Result<(), DeviceError> {
    let flat = |to: u64, from: u64, bytes: u64| {
        let bytes = bytes as usize;
        match (to_side, from_side) {
            (Side::Device, Side::Host) => {
                call!(functions, cuMemcpyHtoDAsync_v2(to, from as *const c_void, bytes, stream))
            }
            (Side::Host, _) => call!(functions, cuMemcpyDtoHAsync_v2(to as *mut c_void, from, bytes, stream)),
            (Side::Device, Side::Device) => call!(functions, cuMemcpyAsync(to, from, bytes, stream)),
        }
    };
    match (to.flat_bytes(), from.flat_bytes()) {
        (Some(0), _) => Ok(()),
        (Some(bytes), Some(_)) => flat(to.address, from.address, bytes),
        _ if pitch(to) > MOST_PITCH || pitch(from) > MOST_PITCH => {
            let rows = to.row_addresses().zip(from.row_addresses());
            rows.into_iter().try_for_each(|(to_row, from_row)| flat(to_row, from_row, to.extent.width))
        }
        _ => {
            let extent = &to.extent;
            let parameters = Copy3d {
                from: side(from, from_side),
                to: side(to, to_side),
                width: extent.width as usize,
                height: extent.height as usize,
                depth: extent.depth as usize,
            };
            call!(functions, cuMemcpy3DAsync_v2(&raw const parameters, stream))
        }
    }
}

/// Fills a region in stream order with the low `element` bytes of `value`. The command has been checked.
pub(crate) fn fill(
    functions: &Functions,
    to: &Region,
    value: u32,
    element: u32,
    stream: CuStream,
) -> Result<(), DeviceError> {
    let flat = |address: u64, bytes: u64| {
        let count = (bytes / u64::from(element)) as usize;
        match element {
            2 if address.is_multiple_of(2) => {
                call!(functions, cuMemsetD16Async(address, value as u16, count, stream))
            }
            4 if address.is_multiple_of(4) => {
                call!(functions, cuMemsetD32Async(address, value, count, stream))
            }
            1 => call!(functions, cuMemsetD8Async(address, value as u8, count, stream)),
            _ => fill_unaligned(functions, address, bytes, value, element, stream),
        }
    };
    match to.flat_bytes() {
        Some(0) => Ok(()),
        Some(bytes) => flat(to.address, bytes),
        None if pitch(to) > MOST_PITCH
            || !to.address.is_multiple_of(u64::from(element))
            || !to.pitch.is_multiple_of(u64::from(element)) =>
        {
            to.row_addresses().try_for_each(|row| flat(row, to.extent.width))
        }
        None => (0..to.extent.depth).try_for_each(|slice| {
            let address = to.address + slice * to.rows * to.pitch;
            let pitch = pitch(to) as usize;
            let (width, height) =
                ((to.extent.width / u64::from(element)) as usize, to.extent.height as usize);
            match element {
                1 => call!(functions, cuMemsetD2D8Async(address, pitch, value as u8, width, height, stream)),
                2 => {
                    call!(functions, cuMemsetD2D16Async(address, pitch, value as u16, width, height, stream))
                }
                _ => call!(functions, cuMemsetD2D32Async(address, pitch, value, width, height, stream)),
            }
        }),
    }
}

/// Fills an address that is no multiple of the element, which the driver refuses: every byte of the element as a column.
fn fill_unaligned(
    functions: &Functions,
    address: u64,
    bytes: u64,
    value: u32,
    element: u32,
    stream: CuStream,
) -> Result<(), DeviceError> {
    let (pitch, height) = (element as usize, (bytes / u64::from(element)) as usize);
    (0..u64::from(element)).zip(value.to_le_bytes()).try_for_each(|(at, byte)| {
        call!(functions, cuMemsetD2D8Async(address + at, pitch, byte, 1, height, stream))
    })
}

/// The pitch as the driver accepts it. That of a single row may be below the width, which the driver rejects.
fn pitch(region: &Region) -> u64 {
    region.pitch.max(region.extent.width)
}

fn side(region: &Region, side: Side) -> CopySide {
    let null = std::ptr::null_mut();
    CopySide {
        x: 0,
        y: 0,
        z: 0,
        level: 0,
        kind: if side == Side::Host { MEMORY_HOST } else { MEMORY_DEVICE },
        host: if side == Side::Host { region.address as *mut c_void } else { null },
        device: if side == Side::Device { region.address } else { 0 },
        array: null,
        reserved: null,
        pitch: pitch(region) as usize,
        height: region.rows.max(region.extent.height) as usize,
    }
}
