//! Data movement: padding, concatenation, gather, scatter, folding.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::program::{Code, Instruction, Program};

use crate::element::{Element, Number, with_element};
use crate::kernels::BLOCK;
use crate::map::map;
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::{Walk, gather, gather_bytes};

/// Elements that a task moves, approximately.
const SHARE: usize = 16_384;

/// Runs an expression with an unsigned type of `bytes` bytes, for pure copies.
macro_rules! with_bytes {
    ($bytes:expr, $T:ident => $body:expr) => {
        match $bytes {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
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
    map(threads, &constant(value, output.dtype), &[], std::slice::from_ref(output))?;
    if input.elements() == 0 {
        return Ok(());
    }
    let strides = &output.layout.strides;
    let first: isize = before.iter().zip(strides).map(|(&n, &stride)| n as isize * stride).sum();
    let (from, target) = (input.walk(), Walk::new(inside, strides));
    let bytes = input.dtype.bytes();
    let (base, to) = (Shared::new(input.start::<u8>()), Shared::new(output.start::<u8>()));
    let elements = input.elements();
    threads.each(elements.div_ceil(SHARE), elements, |task| {
        let mut position = task * SHARE;
        let end = elements.min(position + SHARE);
        target.runs(position, end - position, |offset, stride, length| {
            // A strided row is copied element by element.
            let (rows, length) = if stride == 1 { (1, length) } else { (length, 1) };
            for row in 0..rows {
                // SAFETY: the padded input is within the output, as was checked, and so are its rows; views are within their
                // buffers.
                unsafe {
                    let at = (first + offset + row as isize * stride) as usize;
                    let to = to.get().add(at * bytes);
                    gather_bytes(bytes, base.get().cast_const(), &from, position, length, to);
                }
                position += length;
            }
        });
    });
    Ok(())
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

/// Checks that indices can be used along an axis of a tensor of another shape.
fn check_indices(axis: usize, of: &View, indices: &View) -> Result<(), DeviceError> {
    let (shape, wanted) = (of.shape(), indices.shape());
    let fits = indices.dtype == DType::I64
        && axis < shape.len()
        && wanted.len() == shape.len()
        && (0..shape.len()).all(|other| other == axis || wanted[other] <= shape[other]);
    if fits { Ok(()) } else { Err(wrong("the shape or type of the indices does not match the tensor")) }
}

/// Returns the walk over positions of `indices` in another tensor, with stride zero along the axis; and the stride and length
/// along it.
fn beside(axis: usize, of: &View, indices: &View) -> (Walk, isize, usize) {
    let mut strides = of.layout.strides.clone();
    let stride = std::mem::replace(&mut strides[axis], 0);
    (Walk::new(indices.shape(), &strides), stride, of.shape()[axis])
}

pub fn gather_indices(
    threads: &Threads,
    axis: usize,
    input: &View,
    indices: &View,
    output: &View,
) -> Result<(), DeviceError> {
    check_indices(axis, input, indices)?;
    if output.shape() != indices.shape() || output.dtype != input.dtype {
        return Err(wrong("a gather's output must have the shape of the indices and the type of the input"));
    }
    let (walk, stride, length) = beside(axis, input, indices);
    let elements = output.elements();
    let index_walk = indices.walk();
    let index_base = Shared::new(indices.start::<i64>());
    with_bytes!(input.dtype.bytes(), T => {
        let (from, to) = (Shared::new(input.start::<T>()), Shared::new(output.start::<T>()));
        threads.each(elements.div_ceil(SHARE), elements * 2, |task| {
            let mut wanted = [0_i64; BLOCK];
            let end = elements.min((task + 1) * SHARE);
            for start in (task * SHARE..end).step_by(BLOCK) {
                let count = BLOCK.min(end - start);
                // SAFETY: the view of indices is within its buffer; there is space for a block.
                unsafe { gather(index_base.get().cast_const(), &index_walk, start, count, wanted.as_mut_ptr()) };
                let mut at = 0;
                walk.runs(start, count, |offset, step, run| {
                    for n in 0..run {
                        let index = wanted[at + n];
                        // SAFETY: an index below the length stays within the view; the output has an element for each index.
                        unsafe {
                            *to.get().add(start + at + n) = if (0..length as i64).contains(&index) {
                                *from.get().offset(offset + n as isize * step + index as isize * stride)
                            } else {
                                0
                            };
                        }
                    }
                    at += run;
                });
            }
        });
    });
    Ok(())
}

/// Scatters in order of position, and so in order along the axis: the same bits every time. Halves are accumulated in f32 and
/// rounded at the end.
pub fn scatter(
    threads: &Threads,
    axis: usize,
    add: bool,
    inputs: [&View; 3],
    output: &View,
) -> Result<(), DeviceError> {
    let [input, indices, values] = inputs;
    check_indices(axis, output, indices)?;
    let fits = input.shape() == output.shape()
        && input.dtype == output.dtype
        && values.dtype == output.dtype
        && values.shape() == indices.shape();
    if !fits {
        return Err(wrong("a scatter's source must have the shape of the indices and the type of the input"));
    }
    with_element!(output.dtype, T => scatter_of::<T>(threads, axis, add, inputs, output));
    Ok(())
}

fn scatter_of<T: Element>(threads: &Threads, axis: usize, add: bool, inputs: [&View; 3], output: &View) {
    let [input, indices, values] = inputs;
    let elements = output.elements();
    let mut held: Vec<T> = vec![T::narrow(T::Wide::ZERO); elements];
    // SAFETY: the view is within its buffer, and there is space for all of it.
    unsafe { gather(input.start::<T>().cast_const(), &input.walk(), 0, elements, held.as_mut_ptr()) };
    let mut sums: Vec<T::Wide> = held.into_iter().map(T::widen).collect();
    let (walk, stride, length) = beside(axis, output, indices);
    // Rows before the axis are independent of each other.
    let outer: usize = indices.shape()[..axis].iter().product();
    let whole = indices.elements();
    let share = whole.checked_div(outer).unwrap_or(0);
    let (index_walk, value_walk) = (indices.walk(), values.walk());
    let (index_base, value_base) = (Shared::new(indices.start::<i64>()), Shared::new(values.start::<T>()));
    let target = Shared::new(sums.as_mut_ptr());
    threads.each(outer, whole * 3, |row| {
        let (mut wanted, mut given) = ([0_i64; BLOCK], vec![T::narrow(T::Wide::ZERO); BLOCK]);
        let end = (row + 1) * share;
        for start in (row * share..end).step_by(BLOCK) {
            let count = BLOCK.min(end - start);
            // SAFETY: views are within their buffers; there is space for a block of each.
            unsafe {
                gather(index_base.get().cast_const(), &index_walk, start, count, wanted.as_mut_ptr());
                gather(value_base.get().cast_const(), &value_walk, start, count, given.as_mut_ptr());
            }
            let mut at = 0;
            walk.runs(start, count, |offset, step, run| {
                for n in 0..run {
                    let index = wanted[at + n];
                    if (0..length as i64).contains(&index) {
                        // SAFETY: an index below the length stays within the row of this task, and `sums` has as many elements as
                        // the output.
                        unsafe {
                            let place =
                                target.get().offset(offset + n as isize * step + index as isize * stride);
                            let value = given[at + n].widen();
                            *place = if add { (*place).add(value) } else { value };
                        }
                    }
                }
                at += run;
            });
        }
    });
    let to = output.start::<T>();
    for (n, &sum) in sums.iter().enumerate() {
        // SAFETY: there is one sum for each element of the output.
        unsafe { *to.add(n) = T::narrow(sum) };
    }
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
