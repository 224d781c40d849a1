//! Contractions whose right operand is padded with zeros that are not in memory.
//!
//! For each element of the operand, a kernel computes an offset in the memory of the unpadded tensor, and a mark that says whether
//! the element is in that memory or is a zero. A mark has one field of bits for each padded axis. The field holds the coordinate in the
//! unpadded tensor, which is negative before its first element, plus a power of two. So its highest bit is set if the coordinate is at
//! least zero, and it stays set when the length is subtracted if the coordinate is beyond the end. Both offsets and marks are sums
//! over the axes of the operand: a kernel adds those of the column and of the depth, and tests all padded axes of the sum at once.

use smallvec::SmallVec;
use tensor_core::layout::{Layout, Strides};
use tensor_core::step::{Padding, Step, Work};

/// The bits of a mark; one less than an index has, so that marks are positive.
const BITS: u32 = 31;

/// How a contraction reads its padded right operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folded {
    /// The strides of the operand's axes in the memory of the unpadded tensor.
    pub strides: Strides,
    /// The differences of marks along the operand's axes.
    pub marks: Strides,
    /// The offset of the operand's first element from the first element of the unpadded tensor.
    pub shift: isize,
    /// The mark of the operand's first element.
    pub first: isize,
    /// The lengths of the unpadded tensor along the padded axes, in the fields of a mark.
    pub lengths: u32,
    /// The highest bit of each field.
    pub limits: u32,
}

impl Folded {
    /// Returns how the padded operand of a step is read; `None` if it has none, or its zeros must be written to memory.
    pub(crate) fn of_step(step: &Step) -> Option<Folded> {
        match &step.work {
            Work::Contract { padding: Some(padding), .. } => Folded::of(padding, &step.inputs[1].layout),
            _ => None,
        }
    }

    /// Returns how an operand with this layout in a padded tensor is read; `None` if its zeros must be written to memory.
    pub(crate) fn of(padding: &Padding, layout: &Layout) -> Option<Folded> {
        let Padding { within, before, shape } = padding;
        if layout.elements() == 0 || within.elements() == 0 || layout.strides.iter().any(|&stride| stride < 0)
        {
            return None;
        }
        let whole = Layout::contiguous(shape);
        // Coordinates in the padded tensor of an offset in it.
        let coordinates = |mut offset: usize| -> SmallVec<[usize; 6]> {
            let along = |&stride: &isize| {
                let coordinate = offset / stride.unsigned_abs();
                offset %= stride.unsigned_abs();
                coordinate
            };
            whole.strides.iter().map(along).collect()
        };
        let first = coordinates(layout.offset);
        let steps: Vec<_> = layout.strides.iter().map(|stride| coordinates(stride.unsigned_abs())).collect();
        let mut it = Folded {
            strides: Strides::from_elem(0, steps.len()),
            marks: Strides::from_elem(0, steps.len()),
            shift: 0,
            first: 0,
            lengths: 0,
            limits: 0,
        };
        let mut used = 0;
        for axis in 0..shape.len() {
            // Steps add up to coordinates only if none of them is carried over to the next axis.
            let along = layout.shape.iter().zip(&steps);
            let last: usize = along.map(|(length, step)| (length - 1).saturating_mul(step[axis])).sum();
            if first[axis].saturating_add(last) >= shape[axis] {
                return None;
            }
            let from = first[axis] as isize - before[axis] as isize;
            it.shift += from * within.strides[axis];
            for (stride, step) in it.strides.iter_mut().zip(&steps) {
                *stride += step[axis] as isize * within.strides[axis];
            }
            if within.shape[axis] == shape[axis] {
                continue;
            }
            let width = usize::BITS - (shape[axis] - 1).leading_zeros();
            if used + width + 1 > BITS {
                return None;
            }
            it.first += ((1 << width) + from) << used;
            for (mark, step) in it.marks.iter_mut().zip(&steps) {
                *mark += (step[axis] as isize) << used;
            }
            it.lengths |= (within.shape[axis] as u32) << used;
            it.limits |= 1 << (used + width);
            used += width + 1;
        }
        Some(it)
    }

    /// A bound of the distance in memory between any element of the operand and the first element of the unpadded tensor.
    pub(crate) fn reach(&self, layout: &Layout) -> usize {
        let along = layout.shape.iter().zip(&self.strides);
        let reach: usize = along.map(|(length, stride)| (length - 1) * stride.unsigned_abs()).sum();
        reach + self.shift.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padding(within: Layout, before: &[usize], after: &[usize]) -> Padding {
        let shape = within.shape.iter().zip(before).zip(after).map(|((n, before), after)| n + before + after);
        Padding { before: before.into(), shape: shape.collect(), within }
    }

    /// Calls `visit` with every index of a shape.
    fn each(shape: &[usize], visit: &mut dyn FnMut(&[usize])) {
        let mut index = vec![0; shape.len()];
        for _ in 0..shape.iter().product::<usize>() {
            visit(&index);
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                if index[axis] < shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }

    /// Compares every element with the one of a padded copy; returns how many are zeros.
    fn zeros(padding: &Padding, layout: &Layout) -> usize {
        let folded = Folded::of(padding, layout).unwrap();
        let whole = Layout::contiguous(&padding.shape);
        let mut zeros = 0;
        each(&layout.shape, &mut |index| {
            let sum = |first: isize, steps: &Strides| {
                index.iter().zip(steps).fold(first, |sum, (&i, step)| sum + i as isize * step)
            };
            let mut rest = sum(layout.offset as isize, &layout.strides) as usize;
            let (mut inside, mut expected) = (true, 0);
            for (axis, stride) in whole.strides.iter().enumerate() {
                let at = (rest / *stride as usize) as isize - padding.before[axis] as isize;
                rest %= *stride as usize;
                inside &= (0..padding.within.shape[axis] as isize).contains(&at);
                expected += at * padding.within.strides[axis];
            }
            let mark = u32::try_from(sum(folded.first, &folded.marks)).unwrap();
            let marked = mark & !mark.wrapping_sub(folded.lengths) & folded.limits == folded.limits;
            assert_eq!(marked, inside, "{index:?} of {layout:?} in {padding:?}");
            let offset = sum(folded.shift, &folded.strides);
            if inside {
                assert_eq!(offset, expected, "{index:?} of {layout:?} in {padding:?}");
            } else {
                zeros += 1;
            }
            assert!(offset.unsigned_abs() <= folded.reach(layout));
        });
        zeros
    }

    /// Windows over the last axes of a padded tensor.
    fn windows(shape: &[usize], kernel: &[usize], stride: usize, dilation: usize) -> Layout {
        let whole = Layout::contiguous(shape);
        let outer = shape.len() - kernel.len();
        let mut layout =
            Layout { shape: shape[..outer].into(), strides: whole.strides[..outer].into(), offset: 0 };
        for (axis, &taps) in kernel.iter().enumerate() {
            layout.shape.push((shape[outer + axis] - (taps - 1) * dilation - 1) / stride + 1);
            layout.strides.push(whole.strides[outer + axis] * stride as isize);
        }
        for (axis, &taps) in kernel.iter().enumerate() {
            layout.shape.push(taps);
            layout.strides.push(whole.strides[outer + axis] * dilation as isize);
        }
        layout
    }

    #[test]
    fn every_element_is_that_of_a_padded_copy_or_a_zero_outside() {
        for (stride, dilation) in [(1, 1), (2, 1), (1, 2), (3, 2)] {
            for (before, after) in
                [([0, 0, 1, 1], [0, 0, 1, 1]), ([0, 0, 2, 0], [0, 0, 0, 3]), ([1, 2, 3, 4], [4, 3, 2, 1])]
            {
                let one = padding(Layout::contiguous(&[2, 3, 5, 7]), &before, &after);
                assert!(zeros(&one, &windows(&one.shape, &[2, 3], stride, dilation)) > 0);
                let turned =
                    padding(Layout::contiguous(&[7, 5, 3, 2]).permute(&[3, 2, 1, 0]), &before, &after);
                zeros(&turned, &windows(&turned.shape, &[2, 3], stride, dilation));
            }
        }
        let line = padding(Layout::contiguous(&[1, 1, 9]), &[0, 0, 3], &[0, 0, 3]);
        assert_eq!(zeros(&line, &windows(&line.shape, &[4], 1, 1)), 12);
    }

    #[test]
    fn what_crosses_axes_or_has_no_place_in_a_mark_needs_its_zeros_in_memory() {
        let one = padding(Layout::contiguous(&[2, 3, 5, 7]), &[0, 0, 1, 1], &[0, 0, 1, 1]);
        let across = Layout::contiguous(&[2, 3, 63]);
        assert_eq!(Folded::of(&one, &across), None, "rows and columns as one axis");
        let backwards = Layout::contiguous(&one.shape).slice(3, 8, 9, -1);
        assert_eq!(Folded::of(&one, &backwards), None);
        let empty = padding(Layout::contiguous(&[2, 0]), &[1, 1], &[1, 1]);
        assert_eq!(Folded::of(&empty, &Layout::contiguous(&empty.shape)), None);
        let large = padding(Layout::contiguous(&[1 << 20, 1 << 20]), &[1, 1], &[1, 1]);
        assert_eq!(Folded::of(&large, &Layout::contiguous(&large.shape)), None);
        let long = padding(Layout::contiguous(&[3, 1 << 28]), &[0, 5], &[0, 5]);
        assert!(Folded::of(&long, &Layout::contiguous(&long.shape)).is_some());
    }
}
