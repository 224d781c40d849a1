//! Gather and scatter by indices along an axis, and selection by a mask.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;

use crate::contract::fetch;
use crate::element::{Element, Flag, Number, with_bytes, with_element};
use crate::fault;
use crate::kernels::BLOCK;
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::{Walk, gather, row};

/// Elements that a task moves, approximately.
const SHARE: usize = 16_384;

/// What is done with indices before they are used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Check {
    /// Whether negative ones count from the end.
    pub wraps: bool,
    /// What a bad index is reported with; `None`: bad ones are ignored.
    pub bound: Option<i64>,
}

impl Check {
    /// Returns the index if it is below the length.
    #[inline(always)]
    fn resolve(self, index: i64, length: usize) -> Option<usize> {
        let index = if self.wraps && index < 0 { index + length as i64 } else { index };
        if (index as u64) < length as u64 {
            return Some(index as usize);
        }
        if let Some(bound) = self.bound {
            fault::within(index, bound);
        }
        None
    }
}

/// Indices along an axis, the tensor that they index, and another one of the indices' shape.
struct Shape {
    outer: usize,
    /// The number of indices along the axis.
    wanted: usize,
    inner: usize,
    /// The length of the indexed tensor along the axis.
    length: usize,
    /// Whether all elements after the axis have the same index.
    by_rows: bool,
}

impl Shape {
    fn of(axis: usize, indexed: &View, indices: &View) -> Result<Shape, DeviceError> {
        let (shape, wanted) = (indexed.shape(), indices.shape());
        let fits = indices.dtype == DType::I64
            && axis < shape.len()
            && wanted.len() == shape.len()
            && (0..shape.len()).all(|other| other == axis || wanted[other] <= shape[other]);
        if !fits {
            return Err(wrong("the shape or type of the indices does not match the tensor"));
        }
        Ok(Shape {
            outer: wanted[..axis].iter().product(),
            wanted: wanted[axis],
            inner: wanted[axis + 1..].iter().product(),
            length: shape[axis],
            by_rows: (axis + 1..shape.len())
                .all(|other| wanted[other] == 1 || indices.layout.strides[other] == 0),
        })
    }
}

/// The walks over the positions of indices on the axes before and after an axis of a view, and the stride along it.
fn around(axis: usize, view: &View, indices: &View) -> (Walk, Walk, isize) {
    let (shape, strides) = (indices.shape(), &view.layout.strides);
    let before = Walk::new(&shape[..axis], &strides[..axis]);
    (before, Walk::new(&shape[axis + 1..], &strides[axis + 1..]), strides[axis])
}

/// Whether all indices are below a length.
#[inline(always)]
fn are_within(indices: &[i64], length: usize) -> bool {
    let last = (length as i64).wrapping_sub(1);
    // The sign of a number that is negative if an index is out of bounds.
    indices.iter().fold(0, |sign, &index| sign | index | last.wrapping_sub(index)) >= 0
}

pub fn gather_indices(
    threads: &Threads,
    axis: usize,
    check: Check,
    input: &View,
    indices: &View,
    output: &View,
) -> Result<(), DeviceError> {
    let shape = Shape::of(axis, input, indices)?;
    if output.shape() != indices.shape() || output.dtype != input.dtype {
        return Err(wrong("a gather's output must have the shape of the indices and the type of the input"));
    }
    with_bytes!(input.dtype.bytes(), T => gather_of::<T>(threads, axis, check, &shape, input, indices, output));
    Ok(())
}

fn gather_of<T: Copy + Default>(
    threads: &Threads,
    axis: usize,
    check: Check,
    shape: &Shape,
    input: &View,
    indices: &View,
    output: &View,
) {
    let &Shape { outer, wanted, inner, length, by_rows } = shape;
    let (before, after, stride) = around(axis, input, indices);
    let rows = if by_rows { 1 } else { inner };
    // Indices are read as [outer, wanted, rows].
    let order: Vec<usize> = (0..if by_rows { axis + 1 } else { indices.shape().len() }).collect();
    let index_walk = indices.walk_of(&order);
    let offsets = if by_rows { Vec::new() } else { after.offsets(inner) };
    let index_base = Shared::new(indices.start::<i64>());
    let (from, to) = (Shared::new(input.start::<T>()), Shared::new(output.start::<T>()));
    let all = outer * wanted * rows;
    let width = inner / rows.max(1);
    let share = (SHARE / width.max(1)).max(1);
    threads.each(all.div_ceil(share), all * width, |task| {
        let mut held = [0_i64; BLOCK];
        let end = all.min((task + 1) * share);
        let mut start = task * share;
        while start < end {
            let outside = start / (wanted * rows);
            // SAFETY: the index of the outer axes exists.
            let base = unsafe { from.get().offset(before.offset(outside)).cast_const() };
            let count = BLOCK.min(end - start).min((outside + 1) * wanted * rows - start);
            // SAFETY: the view of indices is within its buffer, which no step writes while this one runs.
            let indices = unsafe { row(index_base.get(), &index_walk, start, count, &mut held) };
            // SAFETY: the output has `width` elements for each index.
            let to = unsafe { to.get().add(start * width) };
            if width == 1 && by_rows && are_within(indices, length) {
                for (n, &index) in indices.iter().enumerate() {
                    // SAFETY: as below.
                    unsafe { *to.add(n) = *base.offset((index as isize).wrapping_mul(stride)) };
                }
                start += count;
                continue;
            }
            let mut beside = start % rows;
            for (n, &index) in indices.iter().enumerate() {
                let index = check.resolve(index, length);
                let column = beside;
                beside = if beside + 1 == rows { 0 } else { beside + 1 };
                // SAFETY: an index below the length stays within the view, and there is space in the output as above.
                unsafe {
                    let to = to.add(n * width);
                    match index {
                        None => (0..width).for_each(|n| *to.add(n) = T::default()),
                        Some(index) if !by_rows => {
                            *to = *base.offset(index as isize * stride + offsets[column]);
                        }
                        Some(index) if width == 1 => *to = *base.offset(index as isize * stride),
                        Some(index) => gather(base.offset(index as isize * stride), &after, 0, width, to),
                    }
                }
            }
            start += count;
        }
    });
}

/// Scatters in order along the axis: the same bits every time. Halves are accumulated in f32 and rounded at the end. Without an
/// input, into zeros.
pub fn scatter(
    threads: &Threads,
    axis: usize,
    add: bool,
    check: Check,
    inputs: &[View],
    output: &View,
) -> Result<(), DeviceError> {
    let (input, indices, values) = match inputs {
        [indices, values] => (None, indices, values),
        [input, indices, values] => (Some(input), indices, values),
        _ => return Err(wrong("a scatter has two or three inputs")),
    };
    let shape = Shape::of(axis, output, indices)?;
    let fits = input.is_none_or(|input| input.shape() == output.shape() && input.dtype == output.dtype)
        && values.dtype == output.dtype
        && values.shape() == indices.shape();
    if !fits {
        return Err(wrong("a scatter's source must have the shape of the indices and the type of the input"));
    }
    with_element!(output.dtype, T => scatter_of::<T>(threads, axis, add, check, &shape, input, indices, values, output));
    Ok(())
}

/// The planes of the output that a task of a scatter computes. Many values may go to a small plane, as in a histogram.
fn planes_of_task(elements: usize, values: usize) -> usize {
    (SHARE / elements.saturating_add(values).max(1)).max(1)
}

#[expect(clippy::too_many_arguments, reason = "one scatter has this many parameters")]
fn scatter_of<T: Element>(
    threads: &Threads,
    axis: usize,
    add: bool,
    check: Check,
    shape: &Shape,
    input: Option<&View>,
    indices: &View,
    values: &View,
    output: &View,
) {
    let &Shape { wanted, inner: reached, length, .. } = shape;
    let (whole, corner) = (output.shape(), indices.shape());
    // Fewer indices than elements on other axes reach a corner of the output.
    let by_rows = shape.by_rows && whole[axis + 1..] == corner[axis + 1..];
    let outer: usize = whole[..axis].iter().product();
    let inner: usize = whole[axis + 1..].iter().product();
    let plane = length * inner;
    let rows = if by_rows { 1 } else { reached };
    let columns = Walk::new(&corner[axis + 1..], &Layout::contiguous(&whole[axis + 1..]).strides);
    let columns = if by_rows { vec![0] } else { columns.offsets(reached) };
    let order: Vec<usize> = (0..if by_rows { axis + 1 } else { indices.shape().len() }).collect();
    let (index_walk, value_walk) = (indices.walk_of(&order), values.walk());
    let (index_base, value_base) = (Shared::new(indices.start::<i64>()), Shared::new(values.start::<T>()));
    let input = input.map(|input| (Shared::new(input.start::<T>()), input.walk()));
    let to = Shared::new(output.start::<T>());
    // Sums of types that are their own accumulators are in the output itself.
    let in_place = std::any::TypeId::of::<T>() == std::any::TypeId::of::<T::Wide>();
    let cost = outer * (plane + wanted * inner * 2);
    let width = if by_rows { inner } else { 1 };
    let share = planes_of_task(plane, wanted * inner);
    // Planes before the axis are independent of each other.
    threads.each(outer.div_ceil(share), cost, |task| {
        // Not for each plane: clearing them would take as long as a small one.
        let mut held = [0_i64; BLOCK];
        let [mut given, mut line] = [BLOCK, width].map(|count| vec![T::narrow(T::Wide::ZERO); count]);
        for number in task * share..outer.min((task + 1) * share) {
            // SAFETY: the output has this plane, which no other task writes; the view of the input is within its buffer.
            let out = unsafe {
                let out = to.get().add(number * plane);
                match &input {
                    Some((from, walk)) => gather(from.get().cast_const(), walk, number * plane, plane, out),
                    None => (0..plane).for_each(|n| *out.add(n) = T::narrow(T::Wide::ZERO)),
                }
                std::slice::from_raw_parts_mut(out, plane)
            };
            let mut wide: Vec<T::Wide> = Vec::new();
            let sums: &mut [T::Wide] = if in_place {
                // SAFETY: the types are the same.
                unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), plane) }
            } else {
                wide.extend(out.iter().map(|one| one.widen()));
                &mut wide
            };
            let Some(begun) = plane_of(number, &whole[..axis], &corner[..axis]) else {
                if !in_place {
                    out.iter_mut().zip(&wide).for_each(|(to, &sum)| *to = T::narrow(sum));
                }
                continue;
            };
            let begun = begun * wanted * rows;
            for start in (0..wanted * rows).step_by(BLOCK) {
                let count = BLOCK.min(wanted * rows - start);
                // SAFETY: views are within their buffers, which no step writes while this one runs.
                let (indices, values) = unsafe {
                    let position = begun + start;
                    let indices = row(index_base.get(), &index_walk, position, count, &mut held);
                    let values = match width {
                        1 => row(value_base.get(), &value_walk, position, count, &mut given),
                        _ => &[],
                    };
                    (indices, values)
                };
                // The next block: the processor's own prefetching ends with a page.
                fetch(indices.as_ptr_range().end, count);
                fetch(values.as_ptr_range().end, values.len());
                if width == 1 && by_rows && are_within(indices, length) {
                    for (&index, value) in indices.iter().zip(values) {
                        // SAFETY: a plane has this many sums if the elements after the axis are one.
                        let sum = unsafe { sums.get_unchecked_mut(index as usize) };
                        *sum = if add { sum.add(value.widen()) } else { value.widen() };
                    }
                    continue;
                }
                let mut beside = start % rows.max(1);
                for (n, &index) in indices.iter().enumerate() {
                    let index = check.resolve(index, length);
                    let Some(index) = index else {
                        beside = if beside + 1 == rows { 0 } else { beside + 1 };
                        continue;
                    };
                    if width == 1 {
                        let sum = &mut sums[index * inner + columns[beside] as usize];
                        let value = values[n].widen();
                        *sum = if add { sum.add(value) } else { value };
                        beside = if beside + 1 == rows { 0 } else { beside + 1 };
                        continue;
                    }
                    let first = (begun + start + n) * width;
                    // SAFETY: as above.
                    let values = unsafe { row(value_base.get(), &value_walk, first, width, &mut line) };
                    let sums = &mut sums[index * width..(index + 1) * width];
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = if add { sum.add(value.widen()) } else { value.widen() };
                    }
                }
            }
            if !in_place {
                out.iter_mut().zip(&wide).for_each(|(to, &sum)| *to = T::narrow(sum));
            }
        }
    });
}

/// The number of a plane of a shape among those of its corner, if it is one.
fn plane_of(mut number: usize, shape: &[usize], corner: &[usize]) -> Option<usize> {
    let (mut found, mut size) = (0, 1);
    for (&length, &reached) in shape.iter().zip(corner).rev() {
        let at = number % length;
        if at >= reached {
            return None;
        }
        found += at * size;
        size *= reached;
        number /= length;
    }
    Some(found)
}

/// The elements where the mask is true, in row-major order: as many as the output is long.
pub fn compress(input: &View, mask: &View, output: &View) -> Result<(), DeviceError> {
    if input.shape() != mask.shape() || mask.dtype != DType::Bool || input.dtype != output.dtype {
        return Err(wrong("a mask must be of type bool and have the shape of what it selects from"));
    }
    with_bytes!(input.dtype.bytes(), T => compress_of::<T>(input, mask, output))
}

fn compress_of<T: Copy + Default>(input: &View, mask: &View, output: &View) -> Result<(), DeviceError> {
    let (elements, wanted) = (input.elements(), output.elements());
    let (from, walk) = (input.start::<T>().cast_const(), input.walk());
    let (flags, flag_walk) = (mask.start::<Flag>().cast_const(), mask.walk());
    let to = output.start::<T>();
    let (mut values, mut chosen) = ([T::default(); BLOCK], [Flag(0); BLOCK]);
    let mut found = 0;
    for start in (0..elements).step_by(BLOCK) {
        let count = BLOCK.min(elements - start);
        // SAFETY: the views are within their buffers, and there is space for a block.
        unsafe {
            gather(from, &walk, start, count, values.as_mut_ptr());
            gather(flags, &flag_walk, start, count, chosen.as_mut_ptr());
        }
        let here = chosen[..count].iter().filter(|flag| flag.0 != 0).count();
        if found + here > wanted {
            return Err(wrong("a mask selects more elements than its output has"));
        }
        let mut kept = [T::default(); BLOCK];
        let mut at = 0;
        for (value, flag) in values[..count].iter().zip(&chosen) {
            // Without a branch: an element that is not wanted is overwritten by the next.
            kept[at.min(BLOCK - 1)] = *value;
            at += usize::from(flag.0 != 0);
        }
        // SAFETY: there are `here` elements, for which the output has space, as was checked.
        unsafe { std::ptr::copy_nonoverlapping(kept.as_ptr(), to.add(found), here) };
        found += here;
    }
    if found == wanted { Ok(()) } else { Err(wrong("a mask selects fewer elements than its output has")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_with_many_values_are_tasks_of_their_own() {
        assert_eq!(planes_of_task(16, 100_000), 1);
        assert_eq!(planes_of_task(100_000, 1), 1);
        assert_eq!(planes_of_task(7, 1), SHARE / 8);
        assert_eq!((planes_of_task(0, 0), planes_of_task(usize::MAX, 9)), (SHARE, 1));
    }
}
