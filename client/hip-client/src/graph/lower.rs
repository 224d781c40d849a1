//! Lowers graph nodes to steps of the worker and actions of this process.
//!
//! Operations on device memory become steps. Program memory is local: a step that accesses it has a [`Side`], which the
//! executable graph stores and every launch uses.

use std::ffi::c_void;
use std::sync::Arc;

use hip_api::types::*;
use wire::{Bytes, GraphStep};

use super::node::{Copy, Fill, Host, Work as NodeWork};
use crate::calls::copy::check_kind;
use crate::graph::capture::Work;
use crate::state::memory::Place;
use crate::state::runtime::Runtime;

/// An action of this process when its turn in the graph comes, with an otherwise idle stream to use.
#[derive(Clone)]
pub struct Deed(pub Work);

impl std::fmt::Debug for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deed")
    }
}

/// Rows of bytes, `pitch` apart, in slices `slice` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub address: u64,
    pub pitch: u64,
    pub slice: u64,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

/// The client's part of a step.
#[derive(Clone, Debug)]
pub enum Side {
    /// A function of the program.
    Call(Host),
    /// Host bytes that are sent with the launch and written to a block of the device.
    Source {
        from: Block,
        to: Block,
    },
    /// Like `Source`, but read when the copy's turn comes, because an earlier node may write them.
    SourceLater {
        from: Block,
        to: Block,
    },
    /// The destination of bytes from the device.
    Target(Block),
    Deed(Deed),
}

/// A lowered node. Slots count from 0; the executable graph assigns the numbers on the wire.
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    pub steps: Vec<GraphStep>,
    pub sides: Vec<Side>,
}

/// Writes to program memory by earlier nodes, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// A host function or action runs, which may write anything.
    pub turns: bool,
    pub targets: Vec<Block>,
}

impl Past {
    fn may_write(&self, block: &Block) -> bool {
        self.turns || self.targets.iter().any(|target| target.overlaps(block))
    }

    pub fn note(&mut self, lowered: &Lowered) {
        for side in &lowered.sides {
            match side {
                Side::Call(_) | Side::Deed(_) => self.turns = true,
                Side::Target(block) => self.targets.push(*block),
                Side::Source { .. } | Side::SourceLater { .. } => {}
            }
        }
    }
}

impl Block {
    /// One row.
    pub fn row(address: u64, bytes: u64) -> Block {
        Block { address, pitch: bytes, slice: bytes, width: bytes, height: 1, depth: 1 }
    }

    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Bytes from the first to the end of the last.
    pub fn span(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        let rows = self.pitch.checked_mul(self.height - 1)?;
        self.slice.checked_mul(self.depth - 1)?.checked_add(rows)?.checked_add(self.width)
    }

    pub fn bytes(&self) -> u64 {
        self.width * self.height * self.depth
    }

    fn overlaps(&self, other: &Block) -> bool {
        let end = |block: &Block| block.address.saturating_add(block.span().unwrap_or(u64::MAX));
        self.address < end(other) && other.address < end(self)
    }

    /// Whether it is contiguous.
    pub fn is_flat(&self) -> bool {
        (self.height == 1 || self.pitch == self.width)
            && (self.depth == 1 || self.slice == self.width * self.height)
    }

    /// Whether consecutive slices have the same distance as rows, so that all rows form one slice.
    fn is_rows(&self) -> bool {
        self.depth == 1 || self.slice == self.pitch * self.height
    }

    fn row_addresses(self) -> impl Iterator<Item = u64> {
        (0..self.depth)
            .flat_map(move |z| (0..self.height).map(move |y| self.address + z * self.slice + y * self.pitch))
    }

    /// Splits both into blocks with one slice each, as few as possible.
    fn slices(to: Block, from: Block) -> Vec<(Block, Block)> {
        if to.is_rows() && from.is_rows() {
            let flat = |it: Block| Block { height: it.height * it.depth, depth: 1, ..it };
            return vec![(flat(to), flat(from))];
        }
        let slice = |it: Block, z: u64| Block { address: it.address + z * it.slice, depth: 1, ..it };
        (0..to.depth).map(|z| (slice(to, z), slice(from, z))).collect()
    }

    /// Appends the rows, packed.
    ///
    /// # Safety
    /// Every row is readable memory of the program.
    pub unsafe fn gather(&self, into: &mut Vec<u8>) {
        for row in self.row_addresses() {
            // SAFETY: guaranteed by the caller.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(row as *const u8, self.width as usize)
            });
        }
    }

    /// Fills the rows from packed ones.
    ///
    /// # Safety
    /// Every row is writable memory of the program.
    pub unsafe fn scatter(&self, packed: &[u8]) {
        for (row, bytes) in self.row_addresses().zip(packed.chunks_exact(self.width.max(1) as usize)) {
            // SAFETY: guaranteed by the caller.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), row as *mut u8, bytes.len()) };
        }
    }
}

/// Lowers a node, given the writes of earlier nodes.
pub fn lower(runtime: &Runtime, work: &NodeWork, past: &Past) -> Result<Lowered, hipError_t> {
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
            lower_copy(runtime, to, from, copy.kind(), past)?
        }
        NodeWork::Fill(fill) => lower_fill(runtime, fill)?,
        NodeWork::Host(host) => turn(Side::Call(*host)),
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

fn turn(side: Side) -> Lowered {
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
    check_kind(kind, at.1, out_of.1, runtime, to.address, from.address)?;
    Ok([at, out_of])
}

fn lower_copy(
    runtime: &Runtime,
    to: Block,
    from: Block,
    kind: hipMemcpyKind,
    past: &Past,
) -> Result<Lowered, hipError_t> {
    let mut lowered = Lowered::default();
    if to.is_empty() {
        return Ok(lowered);
    }
    let [(to, to_place), (from, from_place)] = places(runtime, &to, &from, kind)?;
    let places = (to_place, from_place);
    if let (Place::Host, Place::Host) = places {
        return Ok(turn(Side::Deed(Deed(Arc::new(move |_, _| {
            for (row, source) in to.row_addresses().zip(from.row_addresses()) {
                // SAFETY: the program guarantees every row of both sides whenever the graph runs; they may overlap.
                unsafe { std::ptr::copy(source as *const u8, row as *mut u8, to.width as usize) };
            }
            Ok(())
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
            (Place::Device, Place::Host) if past.may_write(&from) => {
                lowered.steps.push(GraphStep::Host { slot });
                lowered.sides.push(Side::SourceLater { from, to });
            }
            (Place::Device, Place::Host) => {
                let (destination, pitch) = (to.address, to.pitch);
                lowered.steps.push(GraphStep::Write { slot, destination, pitch, width, height });
                lowered.sides.push(Side::Source { from, to });
            }
            (Place::Host, _) => {
                let (source, pitch) = (from.address, from.pitch);
                lowered.steps.push(GraphStep::Read { slot, source, pitch, width, height });
                lowered.sides.push(Side::Target(to));
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
        return Ok(turn(Side::Deed(Deed(Arc::new(move |_, _| {
            let pattern = &value.to_le_bytes()[..element as usize];
            let row = pattern.repeat((block.width / u64::from(element)) as usize);
            // SAFETY: pinned memory that the program keeps for the graph; it was looked up when the node was created.
            block.row_addresses().for_each(|at| unsafe { Block::row(at, block.width).scatter(&row) });
            Ok(())
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
