//! Elementwise launches: programs over whole tensors.

use smallvec::SmallVec;
use tensor_core::device::{Memory, Row};
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::program::Program;

use crate::kernels::BLOCK;
use crate::memory::{CpuMemory, memory};
use crate::plan::{Feed, Frame, Plan};
use crate::plan_cache;
use crate::threads::{Shared, Threads};
use crate::transpose;
use crate::view::{View, wrong};
use crate::walk::Walk;

/// The most blocks of one task.
const BLOCKS: usize = 32;

pub fn map(
    threads: &Threads,
    program: &Program,
    inputs: &[View],
    outputs: &[View],
) -> Result<(), DeviceError> {
    let Some(first) = outputs.first() else { return Ok(()) };
    let shape = first.shape();
    if inputs.iter().chain(outputs).any(|view| view.shape() != shape) {
        return Err(wrong("the operands of a map have different shapes"));
    }
    check_axes(program, shape.len())?;
    if let ([input], [output]) = (inputs, outputs)
        && input.dtype == output.dtype
        && *program == Program::identity(input.dtype)
        && !input.walk().is_constant()
    {
        // SAFETY: the views are within their buffers and have one shape; the output is contiguous and does not overlap the input.
        unsafe { transpose::copy(threads, input, output.start()) };
        return Ok(());
    }
    let types: SmallVec<[DType; 8]> = inputs.iter().map(|view| view.dtype).collect();
    let answers: SmallVec<[DType; 8]> = outputs.iter().map(|view| view.dtype).collect();
    let plan = plan_cache::plan(program, &types, Some(&answers), threads.level())
        .map_err(DeviceError::Unsupported)?;
    let feeds =
        inputs.iter().map(|view| Feed::Memory(view.start::<u8>().cast_const(), view.walk())).collect();
    let targets: SmallVec<[(Shared<u8>, usize); 4]> =
        outputs.iter().map(|view| (Shared::new(view.start()), view.dtype.bytes())).collect();
    // SAFETY: views are within their buffers for every position of their common shape; outputs are contiguous and do not overlap
    // inputs.
    unsafe { run(threads, &plan, &Feeds(feeds), &targets, shape, first.elements()) };
    Ok(())
}

/// Runs a program over whole buffers: see [`tensor_core::device::Device::run_rows`].
pub fn rows(
    threads: &Threads,
    program: &Program,
    inputs: &[Row],
    output: &CpuMemory,
    dtype: DType,
    elements: usize,
) -> Result<(), DeviceError> {
    check_axes(program, 0)?;
    let mut types: SmallVec<[DType; 8]> = SmallVec::new();
    let mut feeds = Feeds(SmallVec::new());
    for input in inputs {
        let memory = memory(&input.buffer)?;
        if memory.bytes() / input.dtype.bytes() < elements {
            return Err(wrong("a row exceeds its buffer"));
        }
        types.push(input.dtype);
        feeds.0.push(Feed::Row(memory.start().cast_const()));
    }
    let plan = plan_cache::plan(program, &types, Some(&[dtype]), threads.level())
        .map_err(DeviceError::Unsupported)?;
    let target = [(Shared::new(output.start()), dtype.bytes())];
    // SAFETY: the rows have `elements` elements, the output was allocated for as many, and no other thread has it yet.
    unsafe { run(threads, &plan, &feeds, &target, &[], elements) };
    Ok(())
}

/// Checks that a program only uses indices of existing axes.
pub fn check_axes(program: &Program, rank: usize) -> Result<(), DeviceError> {
    let beyond = |instruction: &tensor_core::program::Instruction| matches!(instruction.code, tensor_core::program::Code::Index(axis) if usize::from(axis) >= rank);
    match program.instructions.iter().any(beyond) {
        true => Err(wrong("a program uses the index along an axis that does not exist")),
        false => Ok(()),
    }
}

/// Feeds shared by tasks.
pub struct Feeds(pub SmallVec<[Feed; 3]>);

// SAFETY: the memory they point to is only read while tasks run.
unsafe impl Send for Feeds {}
// SAFETY: as above.
unsafe impl Sync for Feeds {}

/// The walk of the index along an axis: stride one there and zero elsewhere.
pub fn index_walk(shape: &[usize], axis: usize) -> Walk {
    let strides: Vec<isize> = (0..shape.len()).map(|other| isize::from(other == axis)).collect();
    Walk::new(shape, &strides)
}

/// Runs a plan over all positions of a shape.
///
/// # Safety
/// Feeds are readable and targets (with the bytes of their elements) writable for all `elements` positions; targets overlap
/// neither each other nor feeds.
pub unsafe fn run(
    threads: &Threads,
    plan: &Plan,
    feeds: &Feeds,
    targets: &[(Shared<u8>, usize)],
    shape: &[usize],
    elements: usize,
) {
    let cost = plan.cost(elements);
    let share = threads.share(elements, cost, BLOCK * BLOCKS).next_multiple_of(BLOCK);
    threads.each(elements.div_ceil(share), cost, |task| {
        // SAFETY: guaranteed by the caller.
        let mut frame = unsafe { Frame::new(plan, &feeds.0, &|axis| index_walk(shape, axis)) };
        let mut outputs: SmallVec<[*mut u8; 4]> = SmallVec::from_elem(std::ptr::null_mut(), targets.len());
        let end = elements.min((task + 1) * share);
        for start in (task * share..end).step_by(BLOCK) {
            for (output, (target, bytes)) in outputs.iter_mut().zip(targets) {
                // SAFETY: the position is within the target.
                *output = unsafe { target.get().add(start * bytes) };
            }
            // SAFETY: guaranteed by the caller; tasks write disjoint positions.
            unsafe { frame.run(start, BLOCK.min(end - start), std::ptr::null(), &outputs) };
        }
    });
}
