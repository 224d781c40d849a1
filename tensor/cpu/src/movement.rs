//! Data movement: padding, concatenation, folding.

use smallvec::SmallVec;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::program::{Code, Instruction, Program};

use crate::element::{Element, Number, with_bytes, with_element};
use crate::map::map;
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::{Walk, gather_bytes};

/// Elements that a task moves, approximately.
const SHARE: usize = 16_384;
/// Elements that are collected before they are written to places apart.
const HELD: usize = 256;

/// Writes elements of `bytes` bytes (1, 2, 4, 8 or 16) `stride` apart.
///
/// # Safety
/// There are `count` elements, aligned places for them, and both do not overlap.
unsafe fn strew_bytes(bytes: usize, from: *const u8, to: *mut u8, stride: isize, count: usize) {
    // SAFETY: guaranteed by the caller, for the type of this size.
    unsafe {
        match bytes {
            1 => strew(from, to, stride, count),
            2 => strew(from.cast::<u16>(), to.cast(), stride, count),
            4 => strew(from.cast::<u32>(), to.cast(), stride, count),
            8 => strew(from.cast::<u64>(), to.cast(), stride, count),
            _ => strew(from.cast::<[u64; 2]>(), to.cast(), stride, count),
        }
    }
}

/// # Safety
/// Like [`strew_bytes`].
unsafe fn strew<T: Copy>(from: *const T, to: *mut T, stride: isize, count: usize) {
    if stride == 1 {
        // SAFETY: guaranteed by the caller.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, count) };
    }
    for n in 0..count {
        // SAFETY: guaranteed by the caller.
        unsafe { *to.wrapping_offset((n as isize).wrapping_mul(stride)) = *from.add(n) };
    }
}

fn constant(value: Scalar, dtype: DType) -> Program {
    Program { instructions: vec![Instruction { code: Code::Constant(value), dtype }], results: vec![0] }
}

pub fn pad(
    threads: &Threads,
    before: &[usize],
    value: Scalar,
    input: &View,
    output: &View,
) -> Result<(), DeviceError> {
    let (inside, outside) = (input.shape(), output.shape());
    let fits = inside.len() == outside.len()
        && before.len() == inside.len()
        && input.dtype == output.dtype
        && (0..inside.len()).all(|axis| before[axis].saturating_add(inside[axis]) <= outside[axis]);
    if !fits {
        return Err(wrong("the padding does not match its input"));
    }
    let is_zero = match value {
        Scalar::Int(number) => number == 0,
        Scalar::Float(number) => number.to_bits() == 0,
        _ => false,
    };
    if is_zero && !inside.is_empty() && output.elements() > 0 {
        with_bytes!(input.dtype.bytes(), T => pad_with_zeros::<T>(threads, before, input, output));
        return Ok(());
    }
    map(threads, &constant(value, output.dtype), &[], std::slice::from_ref(output))?;
    if input.elements() == 0 {
        return Ok(());
    }
    let strides = &output.layout.strides;
    let first: isize = before.iter().zip(strides).map(|(&n, &stride)| n as isize * stride).sum();
    // SAFETY: the padded input is within the output, as was checked.
    unsafe { place(threads, input, output, first, &Walk::new(inside, strides)) };
    Ok(())
}

/// Pads a tensor of at least one axis with zeros, row by row, so that memory is written only once. Several threads share long rows.
fn pad_with_zeros<T: Copy + Default>(threads: &Threads, before: &[usize], input: &View, output: &View) {
    let (inside, outside, strides) = (input.shape(), output.shape(), &input.layout.strides);
    let last = inside.len() - 1;
    let (long, width, lead, stride) = (outside[last], inside[last], before[last], strides[last]);
    let rows: usize = outside[..last].iter().product();
    let (from, to) = (Shared::new(input.start::<T>()), Shared::new(output.start::<T>()));
    let (share, parts) = ((SHARE / long).max(1), long.div_ceil(SHARE));
    threads.each(rows.div_ceil(share) * parts, rows.saturating_mul(long), |task| {
        let (block, part) = (task / parts, task % parts);
        let own = block * share..rows.min((block + 1) * share);
        let columns = part * SHARE..long.min((part + 1) * SHARE);
        // Those that are elements of the input, if the row is inside.
        let [first, end] = [lead, lead + width].map(|column| column.clamp(columns.start, columns.end));
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, last);
        let mut rest = own.start;
        for axis in (0..last).rev() {
            index[axis] = rest % outside[axis];
            rest /= outside[axis];
        }
        for row in own {
            // SAFETY: these are columns of a row of the output, which no other task writes.
            let to = unsafe {
                std::slice::from_raw_parts_mut(to.get().add(row * long + columns.start), columns.len())
            };
            let mut offset = 0_isize;
            let mut is_inside = true;
            for axis in 0..last {
                let place = index[axis].wrapping_sub(before[axis]);
                is_inside &= place < inside[axis];
                offset = offset.wrapping_add((place as isize).wrapping_mul(strides[axis]));
            }
            if is_inside {
                let (front, rest) = to.split_at_mut(first - columns.start);
                let (to, back) = rest.split_at_mut(end - first);
                front.fill(T::default());
                back.fill(T::default());
                let skipped = (first as isize - lead as isize).wrapping_mul(stride);
                let from = from.get().cast_const().wrapping_offset(offset.wrapping_add(skipped));
                // SAFETY: the index of the row is inside the input, whose view is within its buffer, and so are these columns.
                unsafe {
                    match stride {
                        1 => std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()),
                        _ => to
                            .iter_mut()
                            .enumerate()
                            .for_each(|(n, to)| *to = *from.offset(n as isize * stride)),
                    }
                }
            } else {
                to.fill(T::default());
            }
            for axis in (0..last).rev() {
                index[axis] += 1;
                if index[axis] < outside[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    });
}

/// Copies elements to a layout.
pub fn write(threads: &Threads, input: &View, output: &View) -> Result<(), DeviceError> {
    if input.shape() != output.shape() || input.dtype != output.dtype || output.layout.overlaps() {
        return Err(wrong("the elements of a write do not match their places"));
    }
    // SAFETY: the walk is that of the output, which is within its buffer.
    unsafe { place(threads, input, output, 0, &output.walk()) };
    Ok(())
}

/// Copies the input to the offsets of a walk, from `first` on.
///
/// # Safety
/// Every offset of the walk, counted from `first`, is within the output, and no two positions have the same. The input does not
/// overlap them.
unsafe fn place(threads: &Threads, input: &View, output: &View, first: isize, target: &Walk) {
    let from = input.walk();
    let is_row = from.is_contiguous();
    let bytes = input.dtype.bytes();
    let (base, to) = (Shared::new(input.start::<u8>()), Shared::new(output.start::<u8>()));
    let elements = input.elements();
    threads.each(elements.div_ceil(SHARE), elements, |task| {
        let mut position = task * SHARE;
        let end = elements.min(position + SHARE);
        // Not for each run: clearing it would take longer than the copy of a short one.
        let mut held = [[0_u64; 2]; HELD];
        target.runs(position, end - position, |offset, stride, length| {
            // SAFETY: the caller guarantees that these offsets are within the output; views are within their buffers.
            let to = unsafe { to.get().offset((first + offset) * bytes as isize) };
            let base = base.get().cast_const();
            if is_row {
                let base = base.wrapping_add(position * bytes);
                // SAFETY: as above.
                unsafe { strew_bytes(bytes, base, to, stride, length) };
                position += length;
                return;
            }
            if stride == 1 {
                // SAFETY: as above.
                unsafe { gather_bytes(bytes, base, &from, position, length, to) };
                position += length;
                return;
            }
            for done in (0..length).step_by(HELD) {
                let count = HELD.min(length - done);
                let held = held.as_mut_ptr().cast::<u8>();
                // SAFETY: as above, and there is space for as many elements of any size.
                unsafe {
                    gather_bytes(bytes, base, &from, position, count, held);
                    let to = to.offset(done as isize * stride * bytes as isize);
                    strew_bytes(bytes, held, to, stride, count);
                }
                position += count;
            }
        });
    });
}

pub fn concat(threads: &Threads, axis: usize, inputs: &[View], output: &View) -> Result<(), DeviceError> {
    let shape = output.shape();
    let fits = axis < shape.len()
        && inputs.iter().all(|view| {
            view.dtype == output.dtype
                && view.shape().len() == shape.len()
                && (0..shape.len()).all(|other| other == axis || view.shape()[other] == shape[other])
        })
        && inputs.iter().map(|view| view.shape()[axis]).sum::<usize>() == shape[axis];
    if !fits {
        return Err(wrong("the shapes of the parts do not match along the axis"));
    }
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let bytes = output.dtype.bytes();
    let to = Shared::new(output.start::<u8>());
    let mut begun = 0;
    for input in inputs {
        let chunk = input.shape()[axis] * inner;
        let whole = shape[axis] * inner;
        let (walk, base) = (input.walk(), Shared::new(input.start::<u8>()));
        let share = (SHARE / chunk.max(1)).max(1);
        threads.each(outer.div_ceil(share), outer * chunk, |task| {
            for row in task * share..outer.min((task + 1) * share) {
                // SAFETY: the views are within their buffers; the chunks of each input have disjoint positions in the output.
                unsafe {
                    let to = to.get().add((row * whole + begun) * bytes);
                    gather_bytes(bytes, base.get().cast_const(), &walk, row * chunk, chunk, to);
                }
            }
        });
        begun += chunk;
    }
    Ok(())
}

/// A fold: kernel, stride and dilation along each folded axis.
pub struct Fold<'a> {
    pub kernel: &'a [usize],
    pub stride: &'a [usize],
    pub dilation: &'a [usize],
}

impl Fold<'_> {
    pub fn run(&self, threads: &Threads, input: &View, output: &View) -> Result<(), DeviceError> {
        let (folded, shape, from) = (self.kernel.len(), output.shape(), input.shape());
        let outer = shape
            .len()
            .checked_sub(folded)
            .ok_or_else(|| wrong("a fold needs at least as many output axes as it folds"))?;
        let fits = self.stride.len() == folded
            && self.dilation.len() == folded
            && from.len() == outer + 2 * folded
            && from[..outer] == shape[..outer]
            && from[outer + folded..] == *self.kernel
            && input.dtype == output.dtype
            && (0..folded).all(|axis| {
                let windows = from[outer + axis] as u128;
                let reach = windows.saturating_sub(1) * self.stride[axis] as u128
                    + (self.kernel[axis] as u128).saturating_sub(1) * self.dilation[axis] as u128;
                windows == 0 || self.kernel[axis] == 0 || reach < shape[outer + axis] as u128
            });
        if !fits {
            return Err(wrong("the windows of a fold do not match its output"));
        }
        with_element!(output.dtype, T => self.of::<T>(threads, outer, input, output));
        Ok(())
    }

    fn of<T: Element>(&self, threads: &Threads, outer: usize, input: &View, output: &View) {
        let folded = self.kernel.len();
        let (shape, strides) = (&output.layout.shape, &output.layout.strides);
        let plane: usize = shape[outer..].iter().product();
        let count: usize = shape[..outer].iter().product();
        let (in_shape, in_strides) = (input.shape(), &input.layout.strides);
        let planes = Walk::new(&in_shape[..outer], &in_strides[..outer]);
        let windows = Walk::new(&in_shape[outer..outer + folded], &in_strides[outer..outer + folded]);
        let window_count: usize = in_shape[outer..outer + folded].iter().product();
        let kernel_offsets =
            Walk::new(self.kernel, &in_strides[outer + folded..]).offsets(self.kernel.iter().product());
        // Output offsets of windows and of kernel elements.
        let steps = |by: &[usize]| -> Vec<isize> {
            (0..folded).map(|axis| by[axis] as isize * strides[outer + axis]).collect()
        };
        let window_places =
            Walk::new(&in_shape[outer..outer + folded], &steps(self.stride)).offsets(window_count);
        let window_offsets = windows.offsets(window_count);
        let kernel_places = Walk::new(self.kernel, &steps(self.dilation)).offsets(kernel_offsets.len());
        let (from, to) = (Shared::new(input.start::<T>()), Shared::new(output.start::<T>()));
        let share = (SHARE / plane.max(1)).max(1);
        threads.each(count.div_ceil(share), count * window_count * kernel_offsets.len() * 2, |task| {
            let mut sums = vec![T::Wide::ZERO; plane];
            for number in task * share..count.min((task + 1) * share) {
                sums.fill(T::Wide::ZERO);
                let base = planes.offset(number);
                for (&offset, &place) in kernel_offsets.iter().zip(&kernel_places) {
                    for (&window, &at) in window_offsets.iter().zip(&window_places) {
                        // SAFETY: the view is within its buffer.
                        let value = unsafe { *from.get().offset(base + offset + window) };
                        let sum = &mut sums[(place + at) as usize];
                        *sum = sum.add(value.widen());
                    }
                }
                for (n, &sum) in sums.iter().enumerate() {
                    // SAFETY: planes of the output are adjacent, and this is one of its elements.
                    unsafe { *to.get().add(number * plane + n) = T::narrow(sum) };
                }
            }
        });
    }
}
