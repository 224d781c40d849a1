//! Copies of rectangles and boxes: one message each, regardless of the number of rows.
//!
//! The array members of HIP's structs are refused: devices without image instructions have no arrays.

use std::ffi::c_void;

use hip_api::types::*;

use super::Status;
use super::copy::{Until, end_write, is_ours, must_wait, wait_if};
use crate::graph::block::Block;
use crate::graph::node::{Copy, Work};
use crate::process::soname;
use crate::state::memory::Place;
use crate::state::runtime::{Runtime, runtime};
use crate::state::stream::StreamRef;

/// One side of a copy: rows `pitch` bytes apart, slices `rows` rows apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub address: u64,
    pub pitch: usize,
    pub rows: usize,
}

impl Side {
    /// One slice.
    fn flat(address: u64, pitch: usize, height: usize) -> Side {
        Side { address, pitch, rows: height }
    }

    /// The side starting at a position inside it.
    fn at(self, position: hipPos) -> Option<Side> {
        let rows = position.z.checked_mul(self.rows)?.checked_add(position.y)?;
        let offset = rows.checked_mul(self.pitch)?.checked_add(position.x)?;
        Some(Side { address: self.address.checked_add(offset as u64)?, ..self })
    }

    /// Bytes from the start of the first row to the end of the last row of a non-empty box.
    fn span(&self, extent: &hipExtent) -> Option<u64> {
        let rows = self.rows.checked_mul(extent.depth - 1)?.checked_add(extent.height - 1)?;
        rows.checked_mul(self.pitch)?.checked_add(extent.width).map(|bytes| bytes as u64)
    }

    /// As a block of a graph node.
    fn block(&self, extent: &hipExtent) -> Block {
        Block {
            address: self.address,
            pitch: self.pitch as u64,
            slice: (self.pitch as u64).saturating_mul(self.rows as u64),
            width: extent.width as u64,
            height: extent.height as u64,
            depth: extent.depth as u64,
        }
    }
}

/// Copies a box. `extent` is in bytes, rows and slices.
pub(super) fn copy_box(
    runtime: &Runtime,
    to: Side,
    from: Side,
    extent: hipExtent,
    kind: hipMemcpyKind,
    at: StreamRef,
    until: Until,
) -> Status {
    let hipExtent { width, height, depth } = extent;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    if to.address == 0 || from.address == 0 {
        return Err(hipErrorInvalidValue);
    }
    if to.pitch < width || from.pitch < width {
        return Err(hipErrorInvalidPitchValue);
    }
    if to.rows < height || from.rows < height {
        return Err(hipErrorInvalidValue);
    }
    let to_bytes = to.span(&extent).ok_or(hipErrorInvalidValue)?;
    let from_bytes = from.span(&extent).ok_or(hipErrorInvalidValue)?;
    let (to_view, to_place) = runtime.locate(to.address, to_bytes)?;
    let (from_view, from_place) = runtime.locate(from.address, from_bytes)?;
    runtime.check_kind(kind, to_place, from_place, to.address, from.address)?;
    if until == Until::Done {
        runtime.captures.refuse_any(hipErrorStreamCaptureImplicit)?;
    }
    let kept = runtime
        .record(at, || Ok(Work::Copy(Copy::Rows { to: to.block(&extent), from: from.block(&extent), kind })));
    if let Some(kept) = kept {
        return kept;
    }
    let (to_host, from_host) = (runtime.memory.is_host(to.address), runtime.memory.is_host(from.address));
    let (to_place, from_place) = match to_host && from_host && is_ours(kind, to_place, from_place) {
        true => (Place::Host, Place::Host),
        false => (to_place, from_place),
    };
    let (to_device, from_device) = (Side { address: to_view, ..to }, Side { address: from_view, ..from });
    match (to_place, from_place) {
        (Place::Device, Place::Device) => {
            copy_on_device(runtime, to_device, from_device, extent, at)?;
            wait_if(runtime, at, until == Until::Done && (to_host || from_host))
        }
        (Place::Device, Place::Host) => {
            let write = move |runtime: &Runtime, stream| write_box(runtime, to_device, from, extent, stream);
            if must_wait(runtime, from.address, at, until)? {
                runtime.when_due(at, write)
            } else {
                write(runtime, at.id)?;
                end_write(runtime, at, until)
            }
        }
        (Place::Host, Place::Device) => read_box(runtime, to, from_device, extent, at),
        (Place::Host, Place::Host) => {
            runtime.call(&wire::SynchronizeStream { stream: at.id })?;
            // SAFETY: the program guarantees every row of both sides.
            unsafe { to.block(&extent).copy_from(&from.block(&extent)) };
            Ok(())
        }
    }
}

fn copy_on_device(runtime: &Runtime, to: Side, from: Side, extent: hipExtent, at: StreamRef) -> Status {
    let hipExtent { width, height, depth } = extent;
    if depth == 1 {
        let operation = wire::CopyRect {
            stream: at.id,
            destination: to.address,
            destination_pitch: to.pitch as u64,
            source: from.address,
            source_pitch: from.pitch as u64,
            width: width as u64,
            height: height as u64,
        };
        return runtime.post(&operation, &[]);
    }
    let operation = wire::CopyBox {
        stream: at.id,
        destination: to.address,
        destination_pitch: to.pitch as u64,
        destination_rows: to.rows as u64,
        source: from.address,
        source_pitch: from.pitch as u64,
        source_rows: from.rows as u64,
        width: width as u64,
        height: height as u64,
        depth: depth as u64,
    };
    runtime.post(&operation, &[])
}

fn write_box(runtime: &Runtime, to: Side, from: Side, extent: hipExtent, stream: u64) -> Status {
    let hipExtent { width, height, depth } = extent;
    let mut body = Vec::with_capacity(packed(extent)?);
    // SAFETY: the program guarantees every row of the source.
    unsafe { from.block(&extent).gather(&mut body) };
    let (destination, pitch) = (to.address, to.pitch as u64);
    if depth == 1 {
        let (width, height) = (width as u64, height as u64);
        return runtime.send(&wire::WriteRect { stream, destination, pitch, width, height }, &body);
    }
    let operation = wire::WriteBox {
        stream,
        destination,
        pitch,
        rows: to.rows as u64,
        width: width as u64,
        height: height as u64,
        depth: depth as u64,
    };
    runtime.send(&operation, &body)
}

fn read_box(runtime: &Runtime, to: Side, from: Side, extent: hipExtent, at: StreamRef) -> Status {
    let hipExtent { width, height, depth } = extent;
    let mut body = vec![0; packed(extent)?];
    let (source, pitch) = (from.address, from.pitch as u64);
    if depth == 1 {
        let (width, height) = (width as u64, height as u64);
        runtime.call_into(&wire::ReadRect { stream: at.id, source, pitch, width, height }, &mut body)?;
    } else {
        let operation = wire::ReadBox {
            stream: at.id,
            source,
            pitch,
            rows: from.rows as u64,
            width: width as u64,
            height: height as u64,
            depth: depth as u64,
        };
        runtime.call_into(&operation, &mut body)?;
    }
    // SAFETY: the program guarantees every row of the destination.
    unsafe { to.block(&extent).scatter(&body) };
    Ok(())
}

/// Bytes of a box without padding.
fn packed(extent: hipExtent) -> Result<usize, hipError_t> {
    let rows = extent.height.checked_mul(extent.depth).ok_or(hipErrorInvalidValue)?;
    rows.checked_mul(extent.width).ok_or(hipErrorInvalidValue)
}

copies! {
    hipMemcpy2D hipMemcpy2D_spt hipMemcpy2DAsync hipMemcpy2DAsync_spt
        = copy_2d(
            to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
            kind: hipMemcpyKind);
    hipMemcpy3D hipMemcpy3D_spt hipMemcpy3DAsync hipMemcpy3DAsync_spt
        = copy_3d(parameters: *const hipMemcpy3DParms);
}

unsafe fn copy_2d(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: hipMemcpyKind,
    on: hipStream_t,
    until: Until,
) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    let to = Side::flat(to as u64, to_pitch, height);
    let from = Side::flat(from as u64, from_pitch, height);
    copy_box(runtime, to, from, hipExtent { width, height, depth: 1 }, kind, at, until)
}

unsafe fn copy_3d(parameters: *const hipMemcpy3DParms, on: hipStream_t, until: Until) -> Status {
    if parameters.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    // SAFETY: the caller's struct, not null.
    let p = unsafe { *parameters };
    let to = pitched_side(p.dstArray, p.dstPtr, p.dstPos, &p.extent)?;
    let from = pitched_side(p.srcArray, p.srcPtr, p.srcPos, &p.extent)?;
    copy_box(runtime, to, from, p.extent, p.kind, at, until)
}

/// One side of a box copy: exactly one of array and pointer must be set, and the box must fit the pitch.
fn pitched_side(
    array: hipArray_t,
    pointer: hipPitchedPtr,
    position: hipPos,
    extent: &hipExtent,
) -> Result<Side, hipError_t> {
    /// Upper limit of pitches, as in AMD's runtime.
    const MAX_PITCH: usize = i32::MAX as usize;
    if array.is_null() == pointer.ptr.is_null() {
        return Err(hipErrorInvalidValue);
    }
    if !array.is_null() {
        return Err(hipErrorInvalidHandle);
    }
    if pointer.pitch < pointer.xsize {
        return Err(hipErrorInvalidPitchValue);
    }
    let fits = extent.width.checked_add(position.x).is_some_and(|end| end <= pointer.pitch);
    if pointer.pitch >= MAX_PITCH || !fits {
        return Err(hipErrorInvalidValue);
    }
    let rows = if pointer.ysize == 0 { extent.height } else { pointer.ysize };
    let side = Side { address: pointer.ptr as u64, pitch: pointer.pitch, rows };
    side.at(position).ok_or(hipErrorInvalidValue)
}

pub unsafe fn hipMemcpy3DPeer(parameters: *mut hipMemcpy3DPeerParms) -> Status {
    // SAFETY: the caller's struct and the ranges it names.
    unsafe { hipMemcpy3DPeerAsync(parameters, std::ptr::null_mut()) }
}

/// Addresses are the same on every device of a worker, so a peer copy is an ordinary copy.
pub unsafe fn hipMemcpy3DPeerAsync(parameters: *mut hipMemcpy3DPeerParms, on: hipStream_t) -> Status {
    if parameters.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    // SAFETY: the caller's struct, not null.
    let p = unsafe { *parameters };
    runtime.device(p.dstDevice)?;
    runtime.device(p.srcDevice)?;
    let to = pitched_side(p.dstArray, p.dstPtr, p.dstPos, &p.extent)?;
    let from = pitched_side(p.srcArray, p.srcPtr, p.srcPos, &p.extent)?;
    copy_box(runtime, to, from, p.extent, hipMemcpyDeviceToDevice, at, Until::Queued)
}

pub unsafe fn hipMemcpyParam2D(parameters: *const hip_Memcpy2D) -> Status {
    // SAFETY: the caller's struct and the ranges it names.
    unsafe { copy_param_2d(parameters, std::ptr::null_mut(), Until::Done) }
}

pub unsafe fn hipDrvMemcpy2DUnaligned(parameters: *const hip_Memcpy2D) -> Status {
    // SAFETY: the caller's struct and the ranges it names.
    unsafe { copy_param_2d(parameters, std::ptr::null_mut(), Until::Done) }
}

pub unsafe fn hipMemcpyParam2DAsync(parameters: *const hip_Memcpy2D, on: hipStream_t) -> Status {
    // SAFETY: the caller's struct and the ranges it names.
    unsafe { copy_param_2d(parameters, on, Until::Queued) }
}

pub unsafe fn hipDrvMemcpy3D(parameters: *const HIP_MEMCPY3D) -> Status {
    // SAFETY: the caller's struct and the ranges it names.
    unsafe { copy_param_3d(parameters, std::ptr::null_mut(), Until::Done) }
}

pub unsafe fn hipDrvMemcpy3DAsync(parameters: *const HIP_MEMCPY3D, on: hipStream_t) -> Status {
    // SAFETY: the caller's struct and the ranges it names.
    unsafe { copy_param_3d(parameters, on, Until::Queued) }
}

unsafe fn copy_param_2d(parameters: *const hip_Memcpy2D, on: hipStream_t, until: Until) -> Status {
    if parameters.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's struct, not null.
    let p = unsafe { *parameters };
    let flat = HIP_MEMCPY3D {
        srcXInBytes: p.srcXInBytes,
        srcY: p.srcY,
        srcMemoryType: p.srcMemoryType,
        srcHost: p.srcHost,
        srcDevice: p.srcDevice,
        srcArray: p.srcArray,
        srcPitch: if p.srcPitch == 0 { p.srcXInBytes.saturating_add(p.WidthInBytes) } else { p.srcPitch },
        dstXInBytes: p.dstXInBytes,
        dstY: p.dstY,
        dstMemoryType: p.dstMemoryType,
        dstHost: p.dstHost,
        dstDevice: p.dstDevice,
        dstArray: p.dstArray,
        dstPitch: if p.dstPitch == 0 { p.dstXInBytes.saturating_add(p.WidthInBytes) } else { p.dstPitch },
        WidthInBytes: p.WidthInBytes,
        Height: p.Height,
        Depth: 1,
        ..HIP_MEMCPY3D::default()
    };
    driver_copy(&flat, on, until)
}

unsafe fn copy_param_3d(parameters: *const HIP_MEMCPY3D, on: hipStream_t, until: Until) -> Status {
    if parameters.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's struct, not null, with the layout of its HIP version.
    let p = unsafe {
        if soname::hip_major() < 6 { parameters.cast::<Memcpy3dOfHip5>().read().widen() } else { *parameters }
    };
    driver_copy(&p, on, until)
}

/// A driver-style copy of a rectangle or a box.
fn driver_copy(p: &HIP_MEMCPY3D, on: hipStream_t, until: Until) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    let extent = hipExtent { width: p.WidthInBytes, height: p.Height, depth: p.Depth };
    if extent.width == 0 || extent.height == 0 || extent.depth == 0 {
        return Ok(());
    }
    let side = |memory: hipMemoryType, host: *const c_void, device: hipDeviceptr_t, pitch, rows, position| {
        let memory = if soname::hip_major() < 6 { memory.from_soname_5() } else { memory };
        let base = match memory {
            hipMemoryTypeHost => host as u64,
            hipMemoryTypeDevice | hipMemoryTypeUnified | hipMemoryTypeManaged => device as u64,
            hipMemoryTypeArray => return Err(hipErrorInvalidHandle),
            _ => return Err(hipErrorInvalidValue),
        };
        if base == 0 {
            return Err(hipErrorInvalidValue);
        }
        let pitch = if pitch == 0 { extent.width } else { pitch };
        let rows = if rows == 0 { extent.height } else { rows };
        if pitch < extent.width {
            return Err(hipErrorInvalidValue);
        }
        Side { address: base, pitch, rows }.at(position).ok_or(hipErrorInvalidValue)
    };
    let position = hipPos { x: p.srcXInBytes, y: p.srcY, z: p.srcZ };
    let from = side(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcPitch, p.srcHeight, position)?;
    let position = hipPos { x: p.dstXInBytes, y: p.dstY, z: p.dstZ };
    let to = side(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstPitch, p.dstHeight, position)?;
    copy_box(runtime, to, from, extent, hipMemcpyDefault, at, until)
}

/// [`HIP_MEMCPY3D`] in the layout of HIP 5.
#[repr(C)]
struct Memcpy3dOfHip5 {
    src_position: [u32; 4],
    src_memory_type: hipMemoryType,
    src_host: *const c_void,
    src_device: hipDeviceptr_t,
    src_array: hipArray_t,
    src_pitch_and_height: [u32; 2],
    dst_position: [u32; 4],
    dst_memory_type: hipMemoryType,
    dst_host: *mut c_void,
    dst_device: hipDeviceptr_t,
    dst_array: hipArray_t,
    dst_pitch_and_height: [u32; 2],
    extent: [u32; 3],
}

impl Memcpy3dOfHip5 {
    fn widen(self) -> HIP_MEMCPY3D {
        let [srcXInBytes, srcY, srcZ, srcLOD] = self.src_position.map(|it| it as usize);
        let [dstXInBytes, dstY, dstZ, dstLOD] = self.dst_position.map(|it| it as usize);
        let [srcPitch, srcHeight] = self.src_pitch_and_height.map(|it| it as usize);
        let [dstPitch, dstHeight] = self.dst_pitch_and_height.map(|it| it as usize);
        let [WidthInBytes, Height, Depth] = self.extent.map(|it| it as usize);
        HIP_MEMCPY3D {
            srcXInBytes,
            srcY,
            srcZ,
            srcLOD,
            srcMemoryType: self.src_memory_type,
            srcHost: self.src_host,
            srcDevice: self.src_device,
            srcArray: self.src_array,
            srcPitch,
            srcHeight,
            dstXInBytes,
            dstY,
            dstZ,
            dstLOD,
            dstMemoryType: self.dst_memory_type,
            dstHost: self.dst_host,
            dstDevice: self.dst_device,
            dstArray: self.dst_array,
            dstPitch,
            dstHeight,
            WidthInBytes,
            Height,
            Depth,
        }
    }
}
