//! Lowers graph nodes to steps of the worker and actions of this process.
//!
//! Operations on device memory become steps. Program memory is local: a step that accesses it has a [`HostSide`], which the
//! executable graph stores and every launch uses.

use std::ffi::c_void;
use std::sync::Arc;

use hip_api::types::*;
use wire::{Bytes, GraphStep};

use super::block::Block;
use super::lowered::{EarlierWrites, HostAction, HostSide, Lowered};
use super::node::{Copy, Fill, Host, Work as NodeWork};
use crate::state::memory::Place;
use crate::state::runtime::Runtime;

/// Lowers a node, given the writes of earlier nodes.
pub fn lower(runtime: &Runtime, work: &NodeWork, earlier: &EarlierWrites) -> Result<Lowered, hipError_t> {
    let one = |step| Lowered { steps: vec![step], sides: Vec::new() };
    Ok(match work {
        NodeWork::Kernel(kernel) => {
            let cooperative = u32::from(launch_attribute(kernel, hipLaunchAttributeCooperative.0));
            let arguments = Bytes(kernel.arguments.bytes());
            runtime.expose_in(&arguments.0)?;
            one(GraphStep::Launch {
                function: kernel.launch.function,
                grid: kernel.launch.grid,
                block: kernel.launch.block,
                shared_bytes: kernel.launch.shared_bytes,
                flags: kernel.launch.flags | cooperative,
                start_event: kernel.launch.start_event,
                stop_event: kernel.launch.stop_event,
                arguments,
            })
        }
        NodeWork::Copy(copy) => {
            let (to, from) = blocks(copy)?;
            lower_copy(runtime, to, from, copy.kind(), earlier)?
        }
        NodeWork::Fill(fill) => lower_fill(runtime, fill)?,
        NodeWork::Host(host) => turn(HostSide::Call(*host)),
        NodeWork::WaitEvent(event) => one(GraphStep::WaitEvent { event: event.id }),
        NodeWork::RecordEvent(event) => one(GraphStep::RecordEvent { event: event.id }),
        NodeWork::Child(_) | NodeWork::Empty | NodeWork::Allocate(_) | NodeWork::Free(_) => {
            Lowered::default()
        }
    })
}

fn launch_attribute(kernel: &super::node::Kernel, attribute: u32) -> bool {
    // SAFETY: the union member that belongs to the attribute; every member is plain integers.
    kernel.attributes.get(&attribute).is_some_and(|value| unsafe { value.cooperative } != 0)
}

fn turn(side: HostSide) -> Lowered {
    Lowered { steps: vec![GraphStep::Host { slot: 0 }], sides: vec![side] }
}

/// Destination and source of a copy.
pub fn blocks(copy: &Copy) -> Result<(Block, Block), hipError_t> {
    match copy {
        Copy::Flat { to, from, bytes, .. } => {
            Ok((Block::row(*to, *bytes as u64), Block::row(*from, *bytes as u64)))
        }
        Copy::Rows { to, from, .. } => Ok((*to, *from)),
        Copy::Box(it) => {
            // Arrays have no linear device address.
            if !it.srcArray.is_null() || !it.dstArray.is_null() {
                return Err(hipErrorNotSupported);
            }
            let side = |pointer: hipPitchedPtr, at: hipPos| {
                linear(pointer.ptr as u64, pointer.pitch, pointer.ysize, [at.x, at.y, at.z], it.extent)
            };
            Ok((side(it.dstPtr, it.dstPos)?, side(it.srcPtr, it.srcPos)?))
        }
        Copy::Driver(it) => {
            let extent = hipExtent { width: it.WidthInBytes, height: it.Height, depth: it.Depth };
            let pick = |memory: hipMemoryType, host: u64, device: u64| match memory {
                hipMemoryTypeHost => Ok(host),
                hipMemoryTypeDevice | hipMemoryTypeUnified | hipMemoryTypeManaged => Ok(device),
                _ => Err(hipErrorNotSupported),
            };
            let to = pick(it.dstMemoryType, it.dstHost as u64, it.dstDevice as u64)?;
            let from = pick(it.srcMemoryType, it.srcHost as u64, it.srcDevice as u64)?;
            let at = [it.dstXInBytes, it.dstY, it.dstZ];
            let to = linear(to, it.dstPitch, it.dstHeight, at, extent)?;
            let at = [it.srcXInBytes, it.srcY, it.srcZ];
            Ok((to, linear(from, it.srcPitch, it.srcHeight, at, extent)?))
        }
    }
}

/// A box inside pitched memory. A pitch or height of 0 means the box's own.
fn linear(
    address: u64,
    pitch: usize,
    rows: usize,
    at: [usize; 3],
    extent: hipExtent,
) -> Result<Block, hipError_t> {
    if address == 0 {
        return Err(hipErrorInvalidValue);
    }
    let pitch = if pitch == 0 { extent.width + at[0] } else { pitch };
    let rows = if rows == 0 { extent.height + at[1] } else { rows };
    let many = extent.height > 1 || extent.depth > 1;
    if many && pitch < extent.width {
        return Err(hipErrorInvalidValue);
    }
    let slice = pitch.checked_mul(rows).ok_or(hipErrorInvalidValue)?;
    let offset = at[2].checked_mul(slice).zip(at[1].checked_mul(pitch));
    let offset = offset.and_then(|(z, y)| z.checked_add(y)?.checked_add(at[0]));
    let address = offset.and_then(|offset| address.checked_add(offset as u64));
    Ok(Block {
        address: address.ok_or(hipErrorInvalidValue)?,
        pitch: pitch as u64,
        slice: slice as u64,
        width: extent.width as u64,
        height: extent.height as u64,
        depth: extent.depth as u64,
    })
}

/// Where a block is; its address becomes the device address if it is device memory.
fn locate(runtime: &Runtime, block: &Block) -> Result<(Block, Place), hipError_t> {
    let (address, place) = runtime.locate(block.address, block.span().ok_or(hipErrorInvalidValue)?)?;
    Ok((Block { address, ..*block }, place))
}

/// Where both sides of a copy are, if the copy is valid.
pub fn places(
    runtime: &Runtime,
    to: &Block,
    from: &Block,
    kind: hipMemcpyKind,
) -> Result<[(Block, Place); 2], hipError_t> {
    let (at, out_of) = (locate(runtime, to)?, locate(runtime, from)?);
    runtime.check_kind(kind, at.1, out_of.1, to.address, from.address)?;
    Ok([at, out_of])
}

fn lower_copy(
    runtime: &Runtime,
    to: Block,
    from: Block,
    kind: hipMemcpyKind,
    earlier: &EarlierWrites,
) -> Result<Lowered, hipError_t> {
    let mut lowered = Lowered::default();
    if to.is_empty() {
        return Ok(lowered);
    }
    let [(to, to_place), (from, from_place)] = places(runtime, &to, &from, kind)?;
    let places = (to_place, from_place);
    if let (Place::Host, Place::Host) = places {
        return Ok(turn(HostSide::Action(HostAction(Arc::new(move || {
            // SAFETY: the program guarantees every row of both sides whenever the graph runs.
            unsafe { to.copy_from(&from) };
        })))));
    }
    for (to, from) in Block::slices(to, from) {
        let slot = lowered.sides.len() as u32;
        let (width, height) = (to.width, to.height);
        match places {
            (Place::Device, Place::Device) if height == 1 || (to.is_flat() && from.is_flat()) => {
                let (destination, source) = (to.address, from.address);
                lowered.steps.push(GraphStep::Copy { destination, source, bytes: width * height });
            }
            (Place::Device, Place::Device) => lowered.steps.push(GraphStep::CopyRect {
                destination: to.address,
                destination_pitch: to.pitch,
                source: from.address,
                source_pitch: from.pitch,
                width,
                height,
            }),
            (Place::Device, Place::Host) if earlier.may_write(&from) => {
                lowered.steps.push(GraphStep::Host { slot });
                lowered.sides.push(HostSide::SourceLater { from, to });
            }
            (Place::Device, Place::Host) => {
                let (destination, pitch) = (to.address, to.pitch);
                lowered.steps.push(GraphStep::Write { slot, destination, pitch, width, height });
                lowered.sides.push(HostSide::Source { from, to });
            }
            (Place::Host, _) => {
                let (source, pitch) = (from.address, from.pitch);
                lowered.steps.push(GraphStep::Read { slot, source, pitch, width, height });
                lowered.sides.push(HostSide::Target(to));
            }
        }
    }
    Ok(lowered)
}

/// The rows that a fill writes; the width in its parameters is in elements.
pub fn filled(fill: &Fill) -> Result<Block, hipError_t> {
    let it = &fill.parameters;
    let width = (it.width as u64).checked_mul(u64::from(it.elementSize)).ok_or(hipErrorInvalidValue)?;
    let pitch = if it.height > 1 || fill.depth > 1 { it.pitch as u64 } else { width };
    let slice = pitch.checked_mul(fill.rows as u64).ok_or(hipErrorInvalidValue)?;
    let (height, depth) = (it.height as u64, fill.depth as u64);
    Ok(Block { address: it.dst as u64, pitch, slice, width, height, depth })
}

fn lower_fill(runtime: &Runtime, fill: &Fill) -> Result<Lowered, hipError_t> {
    let (block, place) = locate(runtime, &filled(fill)?)?;
    let element = fill.parameters.elementSize;
    let value = fill.parameters.value & (u32::MAX >> (32 - 8 * element));
    if let Place::Host = place {
        return Ok(turn(HostSide::Action(HostAction(Arc::new(move || {
            let pattern = &value.to_le_bytes()[..element as usize];
            let row = pattern.repeat((block.width / u64::from(element)) as usize);
            // SAFETY: pinned memory that the program keeps for the graph; it was looked up when the node was created.
            block.row_addresses().for_each(|at| unsafe { Block::row(at, block.width).scatter(&row) });
        })))));
    }
    let mut lowered = Lowered::default();
    for (rows, _) in Block::slices(block, block) {
        fill_rows(rows, value, element, &mut lowered);
    }
    Ok(lowered)
}

/// Fills rows of one slice.
fn fill_rows(rows: Block, value: u32, element: u32, lowered: &mut Lowered) {
    let fill = |count: u64| GraphStep::Fill {
        destination: rows.address,
        value,
        width: element,
        count: count / u64::from(element),
    };
    let bytes = value.to_le_bytes();
    if rows.is_flat() {
        lowered.steps.push(fill(rows.bytes()));
    } else if bytes[..element as usize].iter().all(|byte| *byte == bytes[0]) {
        let value = u32::from(bytes[0]);
        let (destination, pitch) = (rows.address, rows.pitch);
        let (width, height) = (rows.width, rows.height);
        lowered.steps.push(GraphStep::FillRect { destination, pitch, value, width, height });
    } else {
        // Fill the first row, then copy, doubling the number of filled rows each time.
        lowered.steps.push(fill(rows.width));
        let mut done = 1;
        while done < rows.height {
            let height = done.min(rows.height - done);
            lowered.steps.push(GraphStep::CopyRect {
                destination: rows.address + done * rows.pitch,
                destination_pitch: rows.pitch,
                source: rows.address,
                source_pitch: rows.pitch,
                width: rows.width,
                height,
            });
            done += height;
        }
    }
}

/// Calls the program's function.
///
/// # Safety
/// The program passed the function to be called here.
pub unsafe fn call(host: &Host) {
    // SAFETY: guaranteed by the caller.
    unsafe { (host.function)(host.data as *mut c_void) }
}
